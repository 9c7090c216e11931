//! Bodies that are sent twice, and replies that are kept.
#![allow(clippy::unwrap_used)]

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Empty, Full};
use proptest::prelude::*;
use quell::http::{LONGEST_KEPT, Pool, Replay, ReplayBody, ReplayError, ReplyBody};

/// What a scripted body does when it is polled.
#[derive(Debug, Clone)]
enum Does {
    Waits,
    Gives(Bytes),
    Ends(HeaderMap),
    Breaks,
}

#[derive(Debug, Default)]
struct Scripted {
    script: VecDeque<Does>,
    length: SizeHint,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Does>) -> Self {
        Self { script: script.into_iter().collect(), length: SizeHint::new() }
    }

    fn of(pieces: &[&'static str]) -> Self {
        Self::new(pieces.iter().map(|piece| Does::Gives(Bytes::from_static(piece.as_bytes()))))
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match self.script.pop_front() {
            None => None,
            Some(Does::Waits) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Does::Gives(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Does::Ends(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Does::Breaks) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.length
    }
}

type Given<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

fn poll<B: Body + Unpin>(body: &mut B) -> Poll<Given<B>> {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Bytes, trailers and how it ended.
fn read<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
) -> (Vec<u8>, Option<HeaderMap>, Result<(), B::Error>) {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    loop {
        match poll(&mut body) {
            Poll::Pending => {}
            Poll::Ready(None) => return (bytes, trailers, Ok(())),
            Poll::Ready(Some(Err(error))) => return (bytes, trailers, Err(error)),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
}

fn bytes<B: Body<Data = Bytes> + Unpin>(body: B) -> Vec<u8> {
    let (bytes, _, end) = read(body);
    assert!(end.is_ok());
    bytes
}

fn error<B>(body: ReplayBody<B>) -> ReplayError
where
    ReplayBody<B>: Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Unpin,
{
    *read(body).2.unwrap_err().downcast().unwrap()
}

fn keep<B: Body + Unpin>(body: ReplyBody<B>, pool: &Pool) -> Result<ReplyBody<B>, ReplyBody<B>> {
    let mut keep = pin!(body.keep(pool));
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(kept) = keep.as_mut().poll(&mut cx) {
            return kept;
        }
    }
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())])
}

#[test]
fn every_attempt_gets_the_same_bytes_and_trailers() {
    let pool = Pool::new(1 << 20);
    let script = [
        Does::Gives("or".into()),
        Does::Waits,
        Does::Gives(Bytes::new()),
        Does::Gives("der".into()),
        Does::Ends(trailers()),
    ];
    let replay = Replay::new(Scripted::new(script), &pool, true);
    assert!(!replay.is_whole(), "nobody has read it");
    for _ in 0..3 {
        let (bytes, ended, end) = read(replay.open());
        assert_eq!((&bytes[..], ended, end.is_ok()), (&b"order"[..], Some(trailers()), true));
    }
    assert!(replay.is_replayable() && replay.is_whole() && !replay.has_failed());
    drop(replay);
    assert_eq!(pool.used(), 0);
}

#[test]
fn nothing_is_read_before_somebody_asks_for_it() {
    let pool = Pool::new(1 << 20);
    let replay = Replay::new(Scripted::of(&["a", "b"]), &pool, true);
    let mut first = replay.open();
    assert_eq!(pool.used(), 0);
    assert!(poll(&mut first).is_ready());
    assert_eq!(pool.used(), 1);
}

/// H3, H9.
#[test]
fn a_body_that_outgrows_its_cap_or_the_pool_is_sent_once_in_full_and_never_again() {
    for (pool, length) in [(1 << 20, LONGEST_KEPT + 1), (100, 101)] {
        let pool = Pool::new(pool);
        let body = Scripted::new((0..length).map(|_| Does::Gives("x".into())));
        let replay = Replay::new(body, &pool, true);
        let mut first = replay.open();
        for _ in 0..length - 1 {
            assert!(poll(&mut first).is_ready());
        }
        assert!(replay.is_replayable());
        assert_eq!(bytes(first).len(), 1);
        assert!(!replay.is_replayable() && !replay.has_failed());
        assert_eq!(pool.used(), 0, "what can no longer be used is given back at once");
        assert_eq!(error(replay.open()), ReplayError::NotKept);
    }
}

/// H3.
#[test]
fn a_body_that_is_not_kept_can_still_be_sent_if_nobody_has_read_it() {
    let mut long = Scripted::of(&["all"]);
    long.length = SizeHint::with_exact(LONGEST_KEPT as u64 + 1);
    for (body, keep) in [(Scripted::of(&["all"]), false), (long, true)] {
        let replay = Replay::new(body, Pool::global(), keep);
        drop(replay.open());
        assert!(replay.is_replayable() && !replay.is_whole());
        assert_eq!(bytes(replay.open()), b"all");
        assert!(!replay.is_replayable());
        assert_eq!(error(replay.open()), ReplayError::NotKept);
    }
}

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_new_attempt_cuts_off_the_one_before_and_wakes_it() {
    let script = [Does::Gives("a".into()), Does::Waits, Does::Gives("b".into())];
    let replay = Replay::new(Scripted::new(script), Pool::global(), true);
    let mut first = replay.open();
    assert!(poll(&mut first).is_ready());
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    assert!(Pin::new(&mut first).poll_frame(&mut Context::from_waker(&waker)).is_pending());
    let before = woken.0.load(Ordering::Relaxed);
    let second = replay.open();
    assert_eq!(woken.0.load(Ordering::Relaxed), before + 1);
    assert!(!first.is_end_stream());
    assert_eq!(error(first), ReplayError::CutOff);
    assert_eq!(bytes(second), b"ab");
}

/// A hedge goes out beside an attempt that may still be sending what is kept.
#[test]
fn an_attempt_that_needs_only_what_is_kept_is_not_cut_off() {
    let replay = Replay::new(Scripted::of(&["a", "b"]), Pool::global(), true);
    assert_eq!(bytes(replay.open()), b"ab");
    let (second, third) = (replay.open(), replay.open());
    assert_eq!((bytes(third), bytes(second)), (b"ab".to_vec(), b"ab".to_vec()));
}

#[test]
fn a_body_that_breaks_is_told_apart_and_is_not_replayed() {
    let pool = Pool::new(1 << 20);
    let replay = Replay::new(Scripted::new([Does::Gives("a".into()), Does::Breaks]), &pool, true);
    let broken = read(replay.open()).2.unwrap_err();
    assert_eq!(broken.downcast::<io::Error>().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    assert!(replay.has_failed() && !replay.is_replayable());
    assert_eq!(pool.used(), 0);
    assert!(read(replay.open()).2.is_err());
}

#[test]
fn an_empty_body_takes_no_memory_and_is_always_replayable() {
    let allocated = allocation_counter::measure(|| {
        let replay = Replay::new(Empty::<Bytes>::new(), Pool::global(), true);
        let body = replay.open();
        assert!(body.is_end_stream() && replay.is_replayable() && replay.is_whole());
        assert_eq!(body.size_hint().exact(), Some(0));
    });
    // The first use of the process's pool makes it.
    assert!(allocated.count_total <= 1, "{allocated:?}");
    let again = allocation_counter::measure(|| {
        drop(Replay::new(Empty::<Bytes>::new(), Pool::global(), true).open());
    });
    assert_eq!(again.count_total, 0);
}

#[test]
fn a_reply_that_passes_takes_no_memory() {
    let reply = Full::new(Bytes::from_static(b"fine"));
    let allocated = allocation_counter::measure(|| {
        let mut passing = ReplyBody::passing(reply);
        assert_eq!(passing.size_hint().exact(), Some(4));
        assert!(poll(&mut passing).is_ready() && passing.is_end_stream());
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn frames_are_shared_and_not_copied() {
    let sent = Bytes::from(vec![7; 1_000]);
    let replay = Replay::new(Full::new(sent.clone()), Pool::global(), true);
    for _ in 0..2 {
        let Poll::Ready(Some(Ok(frame))) = poll(&mut replay.open()) else { panic!() };
        assert_eq!(frame.into_data().unwrap().as_ptr(), sent.as_ptr());
    }
}

#[test]
fn data_that_is_not_in_one_piece_is_replayed_too() {
    let chained = || Full::new(Buf::chain(&b"or"[..], &b"der"[..]));
    let replay = Replay::new(chained(), Pool::global(), true);
    assert_eq!(
        (bytes(replay.open()), bytes(replay.open())),
        (b"order".to_vec(), b"order".to_vec())
    );
    assert_eq!(bytes(ReplyBody::passing(chained())), b"order");
}

#[test]
fn lengths_are_exact_where_they_are_known() {
    let replay = Replay::new(Full::new(Bytes::from_static(b"order")), Pool::global(), true);
    let mut body = replay.open();
    assert_eq!(body.size_hint().exact(), Some(5));
    assert!(poll(&mut body).is_ready());
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
    assert_eq!(replay.open().size_hint().exact(), Some(5));

    let replay = Replay::new(Scripted::of(&["or", "der"]), Pool::global(), true);
    let mut body = replay.open();
    assert_eq!(body.size_hint().exact(), None);
    while !matches!(poll(&mut body), Poll::Ready(None)) {}
    assert_eq!(replay.open().size_hint().exact(), Some(5), "all of it came by");
}

#[test]
fn bodies_can_be_sent_between_threads_and_show_nobody_what_is_in_them() {
    fn check<T: Send + Unpin>(_: &T) {}
    let replay = Replay::new(Full::new(Bytes::from_static(b"secret")), Pool::global(), true);
    let reply = ReplyBody::passing(Full::new(Bytes::from_static(b"secret")));
    check(&replay);
    check(&replay.open());
    check(&reply);
    let shown = format!("{replay:?} {:?} {reply:?} {:?}", replay.open(), Pool::global());
    assert!(!shown.contains("secret"), "{shown}");
    let keep = reply.keep(Pool::global());
    check(&keep);
    assert!(!format!("{keep:?}").contains("secret"));
}

#[test]
fn a_short_reply_is_kept_whole_with_its_trailers() {
    let pool = Pool::new(1 << 20);
    let script = [
        Does::Waits,
        Does::Gives("too ".into()),
        Does::Gives("busy".into()),
        Does::Ends(trailers()),
    ];
    let kept = keep(ReplyBody::passing(Scripted::new(script)), &pool).unwrap();
    assert_eq!(kept.size_hint().exact(), Some(8));
    assert!(pool.used() > 8 && !kept.is_end_stream());
    let (bytes, ended, end) = read(kept);
    assert_eq!((&bytes[..], ended, end.is_ok()), (&b"too busy"[..], Some(trailers()), true));
    assert_eq!(pool.used(), 0);
}

/// H9: it is delivered instead of kept, and not a byte is missing.
#[test]
fn a_reply_that_is_too_long_gives_what_was_read_and_then_the_rest() {
    for (pool, length) in [(1 << 20, LONGEST_KEPT + 500), (100, 1_000)] {
        let pool = Pool::new(pool);
        let sent: Vec<u8> = (0..length).map(|n| n as u8).collect();
        let script = sent.chunks(7).map(|piece| Does::Gives(Bytes::copy_from_slice(piece)));
        let script = script.chain([Does::Ends(trailers())]);
        let long = keep(ReplyBody::passing(Scripted::new(script)), &pool).unwrap_err();
        let (bytes, ended, end) = read(long);
        assert_eq!((bytes, ended, end.is_ok()), (sent, Some(trailers()), true));
        assert_eq!(pool.used(), 0);
    }
    let mut known = Scripted::of(&["all"]);
    known.length = SizeHint::with_exact(1 << 20);
    assert_eq!(bytes(keep(ReplyBody::passing(known), Pool::global()).unwrap_err()), b"all");
}

#[test]
fn a_reply_that_breaks_while_it_is_kept_breaks_at_the_same_place_for_its_reader() {
    let script = [Does::Gives("too ".into()), Does::Breaks];
    let kept = keep(ReplyBody::passing(Scripted::new(script)), Pool::global()).unwrap();
    assert_eq!((kept.size_hint().exact(), kept.is_end_stream()), (None, false));
    let (bytes, _, end) = read(kept);
    assert_eq!((&bytes[..], end.unwrap_err().kind()), (&b"too "[..], io::ErrorKind::UnexpectedEof));
}

#[test]
fn whoever_gives_up_keeping_gets_what_was_read_and_then_the_rest() {
    let script = [Does::Gives("too ".into()), Does::Waits, Does::Gives("busy".into())];
    let mut keep = ReplyBody::passing(Scripted::new(script)).keep(Pool::global());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut keep).poll(&mut cx).is_pending());
    assert_eq!(bytes(keep.give_up()), b"too busy");
}

#[test]
fn endless_empty_frames_are_not_read_for_ever() {
    struct Endless;
    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
        }
    }
    assert!(keep(ReplyBody::passing(Endless), Pool::global()).is_err());
}

fn any_script() -> impl Strategy<Value = Vec<Does>> {
    let does = prop_oneof![
        1 => Just(Does::Waits),
        3 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Does::Gives(bytes.into())),
    ];
    let ends = prop_oneof![Just(None), Just(Some(Does::Ends(trailers())))];
    (prop::collection::vec(does, 0..100), ends)
        .prop_map(|(script, ends)| script.into_iter().chain(ends).collect())
}

fn all_bytes(script: &[Does]) -> Vec<u8> {
    let pieces = script.iter().filter_map(|does| match does {
        Does::Gives(bytes) => Some(bytes),
        _ => None,
    });
    pieces.flatten().copied().collect()
}

proptest! {
    /// H3: however it is split into frames, and whenever attempts are cut off.
    #[test]
    fn whatever_cuts_attempts_off_the_last_one_sends_all_of_it_or_an_error(
        script in any_script(),
        cuts in prop::collection::vec(0_usize..60, 0..5),
        room in 0_usize..3_000,
    ) {
        let pool = Pool::new(room);
        let sent = all_bytes(&script);
        let ended = script.iter().any(|does| matches!(does, Does::Ends(_)));
        let replay = Replay::new(Scripted::new(script), &pool, true);
        for polls in cuts {
            let mut attempt = replay.open();
            for _ in 0..polls {
                let _ = poll(&mut attempt);
            }
        }
        let promised = replay.is_replayable();
        let (bytes, trailers, end) = read(replay.open());
        prop_assert_eq!(end.is_ok(), promised);
        if promised {
            prop_assert_eq!((bytes, trailers.is_some()), (sent, ended));
        }
        prop_assert!(pool.used() <= room);
        drop(replay);
        prop_assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_reply_loses_nothing_however_long_it_was_tried_to_keep(
        script in any_script(),
        polls in 0_usize..40,
        room in 0_usize..3_000,
    ) {
        let pool = Pool::new(room);
        let sent = all_bytes(&script);
        let ended = script.iter().any(|does| matches!(does, Does::Ends(_)));
        let mut keep = ReplyBody::passing(Scripted::new(script)).keep(&pool);
        let mut body = None;
        for _ in 0..polls {
            if let Poll::Ready(kept) = Pin::new(&mut keep).poll(&mut Context::from_waker(Waker::noop())) {
                body = Some(kept.unwrap_or_else(|long| long));
                break;
            }
        }
        let body = body.unwrap_or_else(|| keep.give_up());
        prop_assert!(body.size_hint().lower() <= sent.len() as u64);
        let (bytes, trailers, end) = read(body);
        prop_assert_eq!((bytes, trailers.is_some(), end.is_ok()), (sent, ended, true));
        prop_assert_eq!(pool.used(), 0);
    }
}

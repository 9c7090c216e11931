//! Replay: request bodies that can be sent twice, as long as they are short.
//!
//! **Why.** A retry needs the whole body again, and a body can be read only once. Keeping every body would let callers
//! fill our memory; keeping none would forbid retries of all that have one.
//!
//! **How.** While the first attempt reads the body, its frames are kept, up to 64 KiB and within a [`Pool`]. Nothing is
//! read ahead, and nothing is copied where frames are [`Bytes`]. A later attempt gets what was kept and then whatever has
//! not come yet. A body that outgrows its cap or the pool streams on, once: it is not failed, it only can no longer be
//! repeated, and [`Replay::is_replayable`] says so.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use bytes::Bytes;
//! use http_body_util::{BodyExt, Full};
//! use quell::http::{Pool, Replay};
//!
//! let replay = Replay::new(Full::new(Bytes::from("order 7")), Pool::global(), true);
//! for _attempt in 1..=3 {
//!     let sent = replay.open().collect().await.unwrap().to_bytes();
//!     assert_eq!(sent, "order 7");
//!     assert!(replay.is_replayable());
//! }
//!
//! let once = Replay::new(Full::new(Bytes::from("order 8")), Pool::global(), false);
//! assert!(once.is_replayable()); // nobody has begun to read it
//! once.open().collect().await.unwrap();
//! assert!(!once.is_replayable());
//! assert!(once.open().collect().await.is_err()); // never an empty body in its place
//! # });
//! ```

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pool::{Kept, LONGEST_KEPT, Pool, in_one_piece, weight, without_its_bytes};
use crate::sync::Mutex;

type BoxError = Box<dyn Error + Send + Sync>;

/// A request's body, from which every attempt takes its own. See [`Replay::new`].
pub struct Replay<B>(Option<Arc<Mutex<Stream<B>>>>);

/// The body of one attempt. See [`Replay::open`].
pub struct ReplayBody<B> {
    /// `None` is an empty body.
    stream: Option<Arc<Mutex<Stream<B>>>>,
    turn: u64,
    /// How far it has read.
    at: usize,
}

/// Why the body of an attempt ended early, where it was not the body's own error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A later attempt reads the body now, and this one has not got all of it.
    #[error("another attempt reads the body now")]
    CutOff,
    /// What an earlier attempt read was not kept.
    #[error("the body was sent once and was not kept")]
    NotKept,
    /// It broke off while an earlier attempt read it.
    #[error("the body broke off")]
    Broken,
}

struct Stream<B> {
    /// `None` once it is over.
    rest: Option<B>,
    kept: Option<Kept>,
    /// How far it was read, by anybody.
    read: usize,
    begun: bool,
    failed: bool,
    /// The latest attempt; only that one reads on, those before it get what is kept.
    turn: u64,
    /// Of the whole body.
    length: SizeHint,
    /// Who waits for the next frame, and who for the last one.
    waiting: Option<Waker>,
    watching: Option<Waker>,
}

impl<B: Body> Replay<B> {
    /// Takes a body, of which nothing is read yet. `keep` says whether there may be a second attempt at all; what is
    /// known to be too long is not kept either. An empty body takes no memory.
    pub fn new(body: B, pool: &Pool, keep: bool) -> Self {
        if body.is_end_stream() {
            return Self(None);
        }
        let length = body.size_hint();
        let keep = keep && length.lower() <= LONGEST_KEPT as u64;
        Self(Some(Arc::new(Mutex::new(Stream {
            rest: Some(body),
            kept: keep.then(|| Kept::new(pool)),
            read: 0,
            begun: false,
            failed: false,
            turn: 0,
            length,
            waiting: None,
            watching: None,
        }))))
    }

    /// A body that was read whole before: every attempt gets all of it.
    #[cfg(feature = "keys")]
    pub fn whole(body: super::keyed::Whole) -> Self {
        let super::keyed::Whole { bytes, reserved } = body;
        if bytes.is_empty() {
            return Self(None);
        }
        let read = bytes.len();
        Self(Some(Arc::new(Mutex::new(Stream {
            rest: None,
            kept: Some(Kept::whole(bytes, reserved)),
            read,
            begun: true,
            failed: false,
            turn: 0,
            length: SizeHint::with_exact(read as u64),
            waiting: None,
            watching: None,
        }))))
    }

    /// The body from its beginning, for a new attempt. From now on earlier attempts get what is kept and no more, so
    /// one that is still reading ends with [`ReplayError::CutOff`]. One that has read all notices nothing.
    pub fn open(&self) -> ReplayBody<B> {
        let Some(shared) = &self.0 else {
            return ReplayBody { stream: None, turn: 0, at: 0 };
        };
        let mut stream = shared.lock();
        stream.turn += 1;
        let (turn, cut_off) = (stream.turn, stream.waiting.take());
        drop(stream);
        if let Some(waiting) = cut_off {
            waiting.wake(); // or it would wait for ever, and hold on to its connection
        }
        ReplayBody { stream: Some(Arc::clone(shared)), turn, at: 0 }
    }

    /// Whether another attempt would get all of it. Say so to the policies when an attempt has ended: a retry of what
    /// cannot be replayed is refused with a reason, and not made with half a body.
    pub fn is_replayable(&self) -> bool {
        self.look(true, |stream| !stream.failed && (stream.kept.is_some() || !stream.begun))
    }

    /// Whether all of it was read and kept, so that another attempt can have it without taking it from this one.
    pub fn is_whole(&self) -> bool {
        self.look(true, |stream| stream.rest.is_none() && stream.kept.is_some() && !stream.failed)
    }

    /// How much of it was read so far, by anybody.
    pub fn taken(&self) -> usize {
        self.0.as_ref().map_or(0, |stream| stream.lock().read)
    }

    /// Whether nothing more of it is to come: all of it was read by some attempt, or it broke off.
    pub fn is_over(&self) -> bool {
        self.look(true, |stream| stream.rest.is_none())
    }

    /// [`Replay::is_over`] for whoever polls: it may be read on another task.
    pub fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let Some(shared) = &self.0 else { return Poll::Ready(()) };
        let mut stream = shared.lock();
        if stream.rest.is_none() {
            return Poll::Ready(());
        }
        if !stream.watching.as_ref().is_some_and(|watching| watching.will_wake(cx.waker())) {
            stream.watching = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Whether an attempt waits for whoever gives it.
    pub fn is_awaited(&self) -> bool {
        self.look(false, |stream| stream.waiting.is_some())
    }

    /// Whether the body itself broke off: then the attempt's failure is the caller's and not the upstream's.
    pub fn has_failed(&self) -> bool {
        self.look(false, |stream| stream.failed)
    }

    fn look(&self, empty: bool, ask: impl FnOnce(&Stream<B>) -> bool) -> bool {
        self.0.as_ref().map_or(empty, |stream| ask(&stream.lock()))
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match &this.stream {
            None => Poll::Ready(None),
            Some(stream) => {
                let mut stream = stream.lock();
                let polled = stream.poll(this.turn, &mut this.at, cx);
                let is_over = stream.rest.is_none();
                let watching = stream.watching.take_if(|_| is_over);
                drop(stream);
                if let Some(watching) = watching {
                    watching.wake();
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.as_ref().is_none_or(|stream| {
            let stream = stream.lock();
            stream.rest.is_none() && !stream.failed && self.at == stream.read
        })
    }

    fn size_hint(&self) -> SizeHint {
        match &self.stream {
            None => SizeHint::with_exact(0),
            Some(stream) => stream.lock().left(self.at),
        }
    }
}

impl<B> Stream<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll(
        &mut self,
        turn: u64,
        at: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.kept.as_ref().and_then(|kept| kept.next(at)) {
            return Poll::Ready(Some(Ok(frame)));
        }
        let stop = |why: ReplayError| Poll::Ready(Some(Err(why.into())));
        if turn != self.turn && (*at < self.read || self.rest.is_some()) {
            return stop(ReplayError::CutOff);
        }
        match &mut self.rest {
            _ if *at < self.read => stop(ReplayError::NotKept),
            None if self.failed => stop(ReplayError::Broken),
            None => Poll::Ready(None),
            Some(rest) => {
                let polled = Pin::new(rest).poll_frame(cx);
                self.waiting = polled.is_pending().then(|| cx.waker().clone());
                self.take(at, std::task::ready!(polled))
            }
        }
    }

    /// What the body itself has just given.
    fn take(
        &mut self,
        at: &mut usize,
        given: Option<Result<Frame<B::Data>, B::Error>>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.begun = true;
        let frame = match given {
            Some(Ok(frame)) => in_one_piece(frame),
            Some(Err(error)) => {
                (self.failed, self.rest, self.kept) = (true, None, None);
                return Poll::Ready(Some(Err(error.into())));
            }
            None => {
                self.rest = None;
                return Poll::Ready(None);
            }
        };
        if self.kept.as_mut().is_some_and(|kept| !kept.push(&frame)) {
            self.kept = None;
        }
        *at += weight(&frame);
        self.read = *at;
        if self.rest.as_ref().is_some_and(Body::is_end_stream) {
            self.rest = None;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn left(&self, at: usize) -> SizeHint {
        if let (None, Some(kept)) = (&self.rest, &self.kept) {
            return SizeHint::with_exact(kept.left(at) as u64);
        }
        let at = at as u64;
        let mut left = SizeHint::new();
        left.set_lower(self.length.lower().saturating_sub(at));
        if let Some(upper) = self.length.upper() {
            left.set_upper(upper.saturating_sub(at));
        }
        left
    }
}

without_its_bytes!(Replay ReplayBody);

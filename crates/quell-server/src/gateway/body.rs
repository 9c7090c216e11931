//! Bodies on their way through: the caller's, the upstream's, and what the caller gets.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use quell::http::ReplyBody;
use thiserror::Error;
use tokio::time::{Instant, Sleep};

use super::access::Line;
use super::lane::{Streaming, Taken};
use super::watch::{Busy, PACE, Watch};
use super::wire::{self, Upload};

/// The longest that a reply's body on an HTTP/2 stream may stand still.
const STILL: Duration = Duration::from_secs(300);

/// Why a body ended early.
#[derive(Debug, Error)]
pub(super) enum BodyError {
    #[error(transparent)]
    Stream(#[from] hyper::Error),
    #[error(transparent)]
    Wire(#[from] wire::Broken),
    #[error("the body stood still for too long")]
    Still,
}

/// Who notices that a body stands still: the connection's watch where a connection has one request at a time, a timer
/// of its own where there are many. What only those have is boxed here: bodies are moved often.
#[derive(Debug)]
pub(super) enum Minder {
    Reply(Rc<Watch>),
    Upload(Rc<Watch>),
    Stream(Box<Timer>),
}

/// A timer that runs while a body is waited for.
#[derive(Debug)]
pub(super) struct Timer {
    running: Option<(Instant, Pin<Box<Sleep>>)>,
    /// How long the body may stand still from now on.
    left: Duration,
    /// How far it may fall behind its pace, if it has to keep one: then what comes gives it only as much time as that much
    /// may take.
    grace: Option<Duration>,
}

impl Timer {
    fn poll(&mut self, came: Poll<usize>, cx: &mut Context<'_>) -> Poll<()> {
        let Poll::Ready(bytes) = came else {
            let running = self
                .running
                .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(self.left))));
            return running.1.as_mut().poll(cx);
        };
        if let (Some((since, _)), Some(grace)) = (self.running.take(), self.grace) {
            let earned = Duration::from_secs_f64(bytes as f64 / f64::from(PACE));
            self.left = (self.left.saturating_sub(since.elapsed()) + earned).min(grace);
        }
        Poll::Pending
    }
}

impl Minder {
    /// Of a reply's body.
    pub(super) fn of(busy: &Busy, is_stream: bool) -> Self {
        let timer = Timer { running: None, left: STILL, grace: None };
        if is_stream { Self::Stream(Box::new(timer)) } else { Self::Reply(Rc::clone(busy.watch())) }
    }

    /// Of a caller's body, which has to come at a pace.
    pub(super) fn of_upload(busy: &Busy, is_stream: bool) -> Self {
        let watch = busy.watch();
        if is_stream {
            let pause = watch.pause();
            Self::Stream(Box::new(Timer { running: None, left: pause, grace: Some(pause) }))
        } else {
            Self::Upload(Rc::clone(watch))
        }
    }

    /// Looks at a body once more.
    fn poll<E: Into<BodyError>>(
        &mut self,
        polled: Poll<Option<Result<Frame<Bytes>, E>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Self::Reply(watch) => watch.reading(polled.is_pending()),
            Self::Upload(watch) => watch.uploading(polled.is_pending()),
            Self::Stream(timer) => {
                let bytes = |frame: &Frame<Bytes>| frame.data_ref().map_or(0, Bytes::len);
                let came = match &polled {
                    Poll::Ready(Some(Ok(frame))) => Poll::Ready(bytes(frame)),
                    Poll::Ready(_) => Poll::Ready(0),
                    Poll::Pending => Poll::Pending,
                };
                if timer.poll(came, cx).is_ready() {
                    return Poll::Ready(Some(Err(BodyError::Still)));
                }
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(E::into)))
    }
}

/// A caller's body, as it comes.
#[derive(Debug)]
pub(super) enum Uploaded {
    /// By HTTP/1.
    Wire(Upload),
    /// By HTTP/2.
    Stream(Box<Incoming>),
}

/// A caller's body.
#[derive(Debug)]
pub(super) struct FromCaller {
    body: Uploaded,
    minder: Minder,
}

impl FromCaller {
    pub(super) fn new(body: Uploaded, minder: Minder) -> Self {
        Self { body, minder }
    }

    /// Whether all of it has come, as far as that can be seen.
    pub(super) fn is_here(&self) -> bool {
        match &self.body {
            Uploaded::Wire(body) => body.is_here(),
            Uploaded::Stream(body) => body.is_end_stream(),
        }
    }
}

impl HttpBody for FromCaller {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { body, minder } = self.get_mut();
        match body {
            Uploaded::Wire(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                minder.poll(polled, cx)
            }
            Uploaded::Stream(body) => {
                let polled = Pin::new(body).poll_frame(cx);
                minder.poll(polled, cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Uploaded::Wire(body) => body.is_end_stream(),
            Uploaded::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Uploaded::Wire(body) => body.size_hint(),
            Uploaded::Stream(body) => body.size_hint(),
        }
    }
}

impl Drop for FromCaller {
    fn drop(&mut self) {
        if let Minder::Upload(watch) = &self.minder {
            watch.body_dropped();
        }
    }
}

/// A reply's body on its connection, which is given back at the end, and closed or reset if it is dropped before.
#[derive(Debug)]
pub(super) struct FromUpstream {
    conn: Option<(Taken, Streaming)>,
    /// Of an HTTP/2 connection; an HTTP/1 connection is its own.
    stream: Option<Box<Incoming>>,
    minder: Minder,
    /// How a stream broke off that seemed to be over.
    broken: Option<hyper::Error>,
    is_over: bool,
}

impl FromUpstream {
    pub(super) fn new(
        stream: Option<Box<Incoming>>,
        conn: Taken,
        open: Streaming,
        minder: Minder,
    ) -> Self {
        let conn = Some((conn, open));
        let mut body = Self { conn, stream, minder, broken: None, is_over: false };
        body.give_back_if_over();
        body
    }

    /// That an HTTP/2 stream is over does not say that its body is whole: a reset ends it, too, and only reading tells which.
    fn give_back_if_over(&mut self) {
        match (&mut self.stream, &self.conn) {
            (None, Some((conn, _))) if conn.is_over() => {}
            (Some(stream), _) if stream.is_end_stream() => {
                // It waits for nothing: all there is to read is how it ended.
                let mut cx = Context::from_waker(Waker::noop());
                match Pin::new(stream).poll_frame(&mut cx) {
                    Poll::Ready(None) => {}
                    Poll::Ready(Some(Err(error))) => {
                        (self.broken, self.conn) = (Some(error), None);
                        return;
                    }
                    Poll::Ready(Some(Ok(_))) | Poll::Pending => return,
                }
            }
            _ => return,
        }
        self.give_back();
    }

    fn give_back(&mut self) {
        self.is_over = true;
        if let Some((conn, _)) = self.conn.take() {
            conn.give_back();
        }
    }
}

impl HttpBody for FromUpstream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error.into())));
        }
        let polled = match (&mut this.stream, &mut this.conn) {
            (Some(stream), _) => {
                let polled = Pin::new(stream).poll_frame(cx);
                this.minder.poll(polled, cx)
            }
            (None, Some((conn, _))) => {
                let polled = conn.poll_frame(cx);
                this.minder.poll(polled, cx)
            }
            (None, None) => Poll::Ready(None),
        };
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => this.give_back(),
            Poll::Ready(Some(Ok(_))) => this.give_back_if_over(),
            Poll::Ready(Some(Err(_))) => this.conn = None,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.stream, &self.conn) {
            (Some(stream), _) => stream.size_hint(),
            (None, Some((conn, _))) => {
                conn.length().map_or_else(SizeHint::new, SizeHint::with_exact)
            }
            (None, None) if self.is_over => SizeHint::with_exact(0),
            (None, None) => SizeHint::new(), // it broke off
        }
    }
}

/// What a caller gets. Its request counts as under way until this is dropped.
#[derive(Debug)]
pub(super) struct Body {
    body: ReplyBody<FromUpstream>,
    is_own: bool,
    busy: Busy,
    /// Where what is given is noted. It is written when this is dropped.
    line: Option<Box<Line>>,
}

impl Body {
    pub(super) fn new(body: ReplyBody<FromUpstream>, busy: Busy) -> Self {
        Self { body, is_own: false, busy, line: None }
    }

    /// Notes here what is given of it.
    pub(super) fn noted(self, line: Box<Line>) -> Self {
        if self.body.is_end_stream() {
            line.whole();
        }
        Self { line: Some(line), ..self }
    }

    /// Whether the request has not come to its end, so that nothing can follow it on its connection.
    pub(super) fn is_ahead_of_its_request(&self) -> bool {
        self.busy.watch().is_in_body()
    }

    /// Lets go of the body, and says that the request is still under way.
    pub(super) fn into_busy(self) -> Busy {
        self.busy
    }

    /// One of our own.
    pub(super) fn own(bytes: Bytes, busy: Busy) -> Self {
        Self { body: ReplyBody::own(bytes), is_own: true, busy, line: None }
    }

    /// Whether it is.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { body, line, .. } = self.get_mut();
        let polled = Pin::new(&mut *body).poll_frame(cx);
        if let (Some(line), Poll::Ready(frame)) = (line, &polled) {
            if let Some(Ok(frame)) = frame {
                frame.data_ref().into_iter().for_each(|bytes| line.passed(bytes));
                frame.trailers_ref().into_iter().for_each(|trailers| line.trailers(trailers));
            }
            if body.is_end_stream() && !matches!(frame, Some(Err(_))) {
                line.whole();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    /// Comes with so many bytes whenever a while has passed, and tells how long that is borne.
    async fn borne(bytes: usize, every: Duration) -> Option<Duration> {
        let mut timer = Timer { running: None, left: GRACE, grace: Some(GRACE) };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            let waited = std::future::poll_fn(|cx| timer.poll(Poll::Pending, cx));
            if tokio::time::timeout(every, waited).await.is_ok() {
                return Some(begun.elapsed());
            }
            let mut cx = Context::from_waker(Waker::noop());
            assert!(timer.poll(Poll::Ready(bytes), &mut cx).is_pending());
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_at_its_pace_is_waited_for_and_a_slower_one_is_not() {
        let second = Duration::from_secs(1);
        assert_eq!(borne(1_024, second).await, None);
        assert_eq!(borne(4_096, second * 4).await, None);
        let half = borne(512, second).await.unwrap();
        assert!((second * 9..second * 11).contains(&half), "{half:?}");
        assert_eq!(borne(0, second * 100).await, Some(GRACE));
    }
}

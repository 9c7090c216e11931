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
use tokio::time::Sleep;

use super::access::Line;
use super::lane::{Streaming, Taken};
use super::watch::{Busy, Watch};

/// The longest that a body of an HTTP/2 stream may stand still.
const STILL: Duration = Duration::from_secs(300);

/// Why a body ended early.
#[derive(Debug, Error)]
pub(super) enum BodyError {
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    #[error("the body stood still for too long")]
    Still,
}

/// Who notices that a body stands still: the connection's watch where a connection has one request at a time, a timer
/// of its own where there are many.
#[derive(Debug)]
pub(super) enum Minder {
    Connection(Rc<Watch>),
    Stream(Option<Pin<Box<Sleep>>>),
}

impl Minder {
    pub(super) fn of(busy: &Busy, is_stream: bool) -> Self {
        if is_stream { Self::Stream(None) } else { Self::Connection(Rc::clone(busy.watch())) }
    }

    /// Looks at a caller's body once more, which has to come at a pace.
    fn poll_upload(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = self.poll(body, cx);
        if let Self::Connection(watch) = self {
            watch.uploading(polled.is_pending());
        }
        polled
    }

    /// Looks at a body once more.
    fn poll<B: HttpBody<Data = Bytes, Error = hyper::Error> + Unpin>(
        &mut self,
        body: &mut B,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(body).poll_frame(cx);
        match self {
            Self::Connection(watch) => watch.reading(polled.is_pending()),
            Self::Stream(timer) if polled.is_ready() => *timer = None,
            Self::Stream(timer) => {
                let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(STILL)));
                if timer.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Err(BodyError::Still)));
                }
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(BodyError::from)))
    }
}

/// A caller's body.
#[derive(Debug)]
pub(super) struct FromCaller {
    body: Incoming,
    minder: Minder,
}

impl FromCaller {
    pub(super) fn new(body: Incoming, minder: Minder) -> Self {
        Self { body, minder }
    }
}

impl HttpBody for FromCaller {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        this.minder.poll_upload(&mut this.body, cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for FromCaller {
    fn drop(&mut self) {
        if let Minder::Connection(watch) = &self.minder {
            watch.body_dropped();
        }
    }
}

/// A reply's body on its connection, which is given back at the end, and closed or reset if it is dropped before.
///
/// That an HTTP/2 stream is over does not say that its body is whole: a reset ends it, too, and only reading tells which.
#[derive(Debug)]
pub(super) struct FromUpstream {
    body: Incoming,
    conn: Option<(Taken, Streaming)>,
    minder: Minder,
    is_h2: bool,
    /// How a stream broke off that seemed to be over.
    broken: Option<hyper::Error>,
    is_over: bool,
}

impl FromUpstream {
    pub(super) fn new(body: Incoming, conn: Taken, open: Streaming, minder: Minder) -> Self {
        let is_h2 = conn.is_h2();
        let conn = Some((conn, open));
        let mut body = Self { body, conn, minder, is_h2, broken: None, is_over: false };
        body.give_back_if_over();
        body
    }

    fn give_back_if_over(&mut self) {
        if !self.body.is_end_stream() {
            return;
        }
        if self.is_h2 {
            // It waits for nothing: all there is to read is how it ended.
            let mut cx = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.body).poll_frame(&mut cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(Err(error))) => {
                    (self.broken, self.conn) = (Some(error), None);
                    return;
                }
                Poll::Ready(Some(Ok(_))) | Poll::Pending => return,
            }
        }
        self.is_over = true;
        self.give_back();
    }

    fn give_back(&mut self) {
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
        let polled = this.minder.poll(&mut this.body, cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => {
                this.is_over = true;
                this.give_back();
            }
            Poll::Ready(Some(Ok(_))) => this.give_back_if_over(),
            Poll::Ready(Some(Err(_))) => this.conn = None,
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

//! Reply bodies: passed on as they come, or kept whole while a call sleeps.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::per_core::Core;
use super::pool::Conn;
use super::replay::{CAP, Memory, Reserved};
use super::watch::{Busy, Watch};

/// What a caller gets. The connection counts as busy until it is dropped.
#[derive(Debug)]
pub(super) struct Body {
    kind: Kind,
    _busy: Busy,
}

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Stream(ReplyBody),
}

impl Body {
    pub(super) fn whole(bytes: Bytes, busy: Busy) -> Self {
        Self { kind: Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), _busy: busy }
    }

    pub(super) fn stream(reply: ReplyBody, busy: Busy) -> Self {
        Self { kind: Kind::Stream(reply), _busy: busy }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().kind {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(reply) => reply.poll_data(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Stream(reply) => reply.ahead.is_none() && reply.rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(reply) => reply.size_hint(),
        }
    }
}

/// A reply's body on its connection, which goes back to the pool at the end, and is closed if it is dropped before.
#[derive(Debug)]
pub(super) struct ReplyBody {
    /// What was read in the hope to keep it all.
    ahead: Option<Bytes>,
    rest: Incoming,
    conn: Option<Conn>,
    core: Rc<Core>,
    watch: Rc<Watch>,
}

/// A body that could not be kept.
pub(super) enum NotKept {
    /// It is too long, or too slow: here it is again.
    Long(ReplyBody),
    /// It broke off.
    Broken(hyper::Error),
}

impl ReplyBody {
    pub(super) fn new(rest: Incoming, conn: Conn, core: Rc<Core>, watch: Rc<Watch>) -> Self {
        let mut body = Self { ahead: None, rest, conn: Some(conn), core, watch };
        body.end();
        body
    }

    /// Reads it whole, if it is short.
    pub(super) async fn keep(
        mut self,
        memory: &Arc<Memory>,
        by: impl Future<Output = ()>,
    ) -> Result<(Bytes, Reserved), NotKept> {
        let mut reserved = Reserved::none(memory);
        if self.rest.size_hint().lower() > CAP as u64 {
            return Err(NotKept::Long(self));
        }
        let mut kept = Vec::new();
        let mut by = std::pin::pin!(by);
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.rest.frame() => frame,
                () = &mut by => return Err(NotKept::Long(self.with_ahead(kept))),
            };
            match frame {
                None => break,
                Some(Err(error)) => return Err(NotKept::Broken(error)),
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    let fits = reserved.grow(bytes.len());
                    kept.extend_from_slice(&bytes);
                    if !fits {
                        return Err(NotKept::Long(self.with_ahead(kept)));
                    }
                }
            }
        }
        self.finish();
        Ok((kept.into(), reserved))
    }

    fn with_ahead(mut self, kept: Vec<u8>) -> Self {
        self.ahead = Some(Bytes::from(kept)).filter(|bytes| !bytes.is_empty());
        self.end();
        self
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(Some(Ok(ahead)));
        }
        loop {
            let polled = Pin::new(&mut self.rest).poll_frame(cx);
            self.watch.reading(polled.is_pending());
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.conn = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    self.end();
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.as_ref().map_or(0, Bytes::len) as u64;
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }

    /// Gives the connection back if it is known that nothing more is to come.
    fn end(&mut self) {
        if self.rest.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.core.keep(conn);
        }
    }
}

/// A failed reply in the form in which it is kept while the call sleeps.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) status: http::StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
    pub(super) _reserved: Reserved,
}

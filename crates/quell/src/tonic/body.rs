//! Body: a reply of which the first frame was looked at.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use ::http::HeaderMap;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// The body of a gRPC reply, of which the first frame was looked at. It gives that frame and then the rest.
pub struct Body<R: HttpBody> {
    first: Option<Result<Frame<R::Data>, R::Error>>,
    /// `None` once it is known to be over.
    rest: Option<R>,
}

impl<R: HttpBody> Body<R> {
    /// One at which nobody has looked.
    pub(super) fn passing(rest: R) -> Self {
        Self { first: None, rest: Some(rest) }
    }

    /// One whose first frame was read.
    pub(super) fn read(first: Option<Result<Frame<R::Data>, R::Error>>, rest: R) -> Self {
        let over = !matches!(&first, Some(Ok(frame)) if frame.is_data());
        Self { first, rest: (!over).then_some(rest) }
    }

    /// An empty one.
    pub(super) fn over() -> Self {
        Self { first: None, rest: None }
    }

    /// The same as far as it was read: what was looked at is all that is wanted of a reply that failed.
    pub(super) fn without_rest(self) -> Self {
        Self { rest: None, ..self }
    }

    /// The trailers, if there is nothing before them.
    pub(super) fn trailers(&self) -> Option<&HeaderMap> {
        self.first.as_ref()?.as_ref().ok()?.trailers_ref()
    }

    /// Whether it broke off before its first frame.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.first, Some(Err(_)))
    }

    /// Whether it ended without a frame.
    pub(super) fn is_over(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }
}

impl<R> HttpBody for Body<R>
where
    R: HttpBody<Data = Bytes> + Unpin,
    R::Error: Unpin,
{
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let Self { first, rest } = self.get_mut();
        match (first.take(), rest) {
            (Some(first), _) => Poll::Ready(Some(first)),
            (None, Some(rest)) => Pin::new(rest).poll_frame(cx),
            (None, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint);
        let first = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref());
        let ahead = first.map_or(0, Bytes::len) as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint
    }
}

/// What is in a body is nobody's business.
impl<R: HttpBody> fmt::Debug for Body<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

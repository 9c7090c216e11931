//! Peeked: the body of a reply of which the first frame was looked at.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::http::{
    ReplyBody,
    pool::{in_one_piece, without_its_bytes},
};

pin_project! {
    /// The body of a gRPC reply, of which the first frame was looked at. It gives that frame and then the rest.
    pub struct Peeked<B: Body> {
        first: Option<Result<Frame<B::Data>, B::Error>>,
        // `None` once it is known to be over.
        #[pin]
        rest: Option<B>,
    }
}

impl<B: Body> Peeked<B> {
    /// One at which nobody has looked.
    pub(crate) fn passing(rest: B) -> Self {
        Self { first: None, rest: Some(rest) }
    }

    /// One whose first frame was read.
    pub(crate) fn read(first: Option<Result<Frame<B::Data>, B::Error>>, rest: B) -> Self {
        let over = !matches!(&first, Some(Ok(frame)) if frame.is_data());
        Self { first, rest: (!over).then_some(rest) }
    }

    /// An empty one.
    pub(crate) fn over() -> Self {
        Self { first: None, rest: None }
    }

    /// The same as far as it was read: what was looked at is all that is wanted of a reply that failed. The rest is dropped.
    #[must_use]
    pub fn without_rest(self) -> Self {
        Self { rest: None, ..self }
    }

    /// Itself, or how it broke off before its first frame.
    pub fn unbroken(mut self) -> Result<Self, B::Error> {
        match self.first.take() {
            Some(Err(error)) => Err(error),
            first => Ok(Self { first, ..self }),
        }
    }

    /// The trailers, if there is nothing before them.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.first.as_ref()?.as_ref().ok()?.trailers_ref()
    }

    /// Whether it broke off before its first frame.
    pub fn is_broken(&self) -> bool {
        matches!(self.first, Some(Err(_)))
    }

    /// Whether it ended without a frame.
    pub fn is_over(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }
}

impl<B: Body> Body for Peeked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match (this.first.take(), this.rest.as_pin_mut()) {
            (Some(first), _) => Poll::Ready(Some(first)),
            (None, Some(rest)) => rest.poll_frame(cx),
            (None, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let first = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref());
        let ahead = first.map_or(0, Buf::remaining) as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint
    }
}

/// The same body in the form in which failed replies are kept while a call sleeps, trailers and all.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use http::{HeaderMap, StatusCode};
/// use http_body_util::{BodyExt, Full};
/// use quell::{Clock, http::{Pool, ReplyBody, grpc}};
///
/// let body = Full::new(bytes::Bytes::from("a message"));
/// let peeked = grpc::peek(StatusCode::OK, &HeaderMap::new(), body, Clock::system()).await;
/// let kept = ReplyBody::from(peeked).keep(Pool::global()).await.unwrap();
/// assert_eq!(kept.collect().await.unwrap().to_bytes(), "a message");
/// # });
/// ```
impl<B: Body> From<Peeked<B>> for ReplyBody<B> {
    fn from(peeked: Peeked<B>) -> Self {
        let Peeked { first, rest } = peeked;
        Self::begun(first.map(|first| first.map(in_one_piece)), rest)
    }
}

without_its_bytes!(Peeked);

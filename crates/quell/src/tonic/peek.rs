//! Peek: looks at the first frame of a reply before it is judged.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ::http::{Request, Response, response::Parts};
use bytes::Bytes;
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;

use super::{Body, BoxError};
use crate::{Clock, http::grpc};

/// A service whose replies are looked at: gRPC's status is behind them. It is what [`Service`](super::Service) puts
/// around a channel.
#[derive(Debug, Clone)]
pub struct Peek<S> {
    service: S,
    clock: Clock,
}

impl<S> Peek<S> {
    pub(super) fn new(service: S, clock: Clock) -> Self {
        Self { service, clock }
    }
}

impl<S, R> tower_service::Service<Request<::tonic::body::Body>> for Peek<S>
where
    S: tower_service::Service<Request<::tonic::body::Body>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Unpin,
{
    type Response = Response<Body<R>>;
    type Error = BoxError;
    type Future = PeekFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<::tonic::body::Body>) -> Self::Future {
        PeekFuture {
            calling: self.service.call(request),
            clock: self.clock.clone(),
            head: None,
            peeking: None,
        }
    }
}

pin_project! {
    /// An attempt, up to the first frame of its reply.
    pub struct PeekFuture<F, R> {
        #[pin]
        calling: F,
        clock: Clock,
        // The reply that is being looked at.
        head: Option<Parts>,
        #[pin]
        peeking: Option<grpc::Peek<R>>,
    }
}

impl<F, R, E> Future for PeekFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: HttpBody<Data = Bytes> + Unpin,
    E: Into<BoxError>,
{
    type Output = Result<Response<Body<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(peeking) = this.peeking.as_mut().as_pin_mut() {
                let body = ready!(peeking.poll(cx));
                return Poll::Ready(Ok(match this.head.take() {
                    Some(head) => Response::from_parts(head, body),
                    None => Response::new(body), // cannot be: both were set together
                }));
            }
            let (head, body) =
                ready!(this.calling.as_mut().poll(cx)).map_err(Into::into)?.into_parts();
            let peeking = grpc::peek(head.status, &head.headers, body, this.clock.clone());
            *this.head = Some(head);
            this.peeking.set(Some(peeking));
        }
    }
}

//! Peek: looks at the first frame of a reply before it is judged.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::http::{Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;
use quell_core::Time;

use super::{Body, BoxError, status::GRPC_STATUS};
use crate::{Clock, clock::Timer};

/// A reply that says nothing for so long is a stream, and is passed on.
const PATIENCE: Duration = Duration::from_millis(100);

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
            reply: None,
            clock: self.clock.clone(),
            until: Time::ZERO,
            timer: Timer::default(),
        }
    }
}

pin_project! {
    /// An attempt, up to the first frame of its reply.
    pub struct PeekFuture<F, R> {
        #[pin]
        calling: F,
        // The reply that is being looked at.
        reply: Option<Response<R>>,
        clock: Clock,
        until: Time,
        #[pin]
        timer: Timer,
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
        let this = self.project();
        let mut reply = match this.reply.take() {
            Some(reply) => reply,
            None => {
                let reply = ready!(this.calling.poll(cx)).map_err(Into::into)?;
                if is_told(&reply) {
                    return Poll::Ready(Ok(reply.map(Body::passing)));
                }
                *this.until = this.clock.now() + PATIENCE;
                reply
            }
        };
        Poll::Ready(Ok(match Pin::new(reply.body_mut()).poll_frame(cx) {
            Poll::Ready(first) => reply.map(|rest| Body::read(first, rest)),
            Poll::Pending if this.timer.poll_until(cx, this.clock, *this.until).is_ready() => {
                reply.map(Body::passing)
            }
            Poll::Pending => {
                *this.reply = Some(reply);
                return Poll::Pending;
            }
        }))
    }
}

/// Whether the head of a reply says all: its status, or that it is not gRPC.
fn is_told<R>(reply: &Response<R>) -> bool {
    reply.status() != StatusCode::OK || reply.headers().contains_key(GRPC_STATUS)
}

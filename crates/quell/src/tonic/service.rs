//! Layer and Service: the engine around a channel.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

use ::http::{Request, Response};
use ::tonic::{Code, Status, TimeoutExpired, metadata::MetadataValue};
use bytes::Bytes;
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;

use super::{Body, BoxError, Grpc, Peek, failure::is_due_to};
use crate::{
    CallError, Cause, Quell,
    context::Context,
    http::grpc::{self, Codes, TIMEOUT},
    tower::{QuellLayer, QuellService},
};

/// A layer for gRPC clients: see the [module](super).
pub fn layer(quell: Quell) -> Layer {
    Layer { quell, grpc: Grpc::default() }
}

/// Puts the engine around a channel. Made by [`layer`].
#[derive(Debug, Clone)]
pub struct Layer {
    quell: Quell,
    grpc: Grpc,
}

impl Layer {
    /// Which codes are worth another attempt; `UNAVAILABLE` and `RESOURCE_EXHAUSTED` unless said. What they say of the
    /// server's health does not depend on it.
    ///
    /// ```
    /// use quell::Quell;
    /// use tonic::Code;
    ///
    /// let ledger = Quell::upstream("ledger").idempotent().build()?;
    /// let layer = quell::tonic::layer(ledger).retry_on(&[Code::Unavailable, Code::Aborted]);
    /// # let _ = layer;
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    #[must_use]
    pub fn retry_on(self, codes: &[Code]) -> Self {
        let codes = Codes::of(codes.iter().map(|code| grpc::Code::new(*code as u8)));
        Self { grpc: Grpc { codes, ..self.grpc }, ..self }
    }

    /// Sends requests without `quell-…` metadata: for servers that are not ours.
    #[must_use]
    pub fn unmarked(self) -> Self {
        Self { grpc: Grpc { stamps: false, ..self.grpc }, ..self }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, service: S) -> Service<S> {
        let peek = Peek::new(service, self.quell.shared().clock().clone());
        Service { inner: QuellLayer::with(self.quell.clone(), self.grpc).layer(peek) }
    }
}

/// A channel with the engine around it, for a generated client. Clones share the upstream's budget, breaker and limit.
#[derive(Debug, Clone)]
pub struct Service<S> {
    inner: QuellService<Peek<S>, Grpc>,
}

impl<S> Service<S> {
    /// What is shared with all clones.
    pub fn quell(&self) -> &Quell {
        self.inner.quell()
    }
}

impl<S, R> tower_service::Service<Request<::tonic::body::Body>> for Service<S>
where
    S: tower_service::Service<Request<::tonic::body::Body>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Unpin,
{
    type Response = Response<Body<R>>;
    type Error = Status;
    type Future =
        ResponseFuture<crate::tower::ResponseFuture<Peek<S>, Grpc, Request<::tonic::body::Body>>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Status>> {
        self.inner.poll_ready(cx).map_err(status)
    }

    fn call(&mut self, request: Request<::tonic::body::Body>) -> Self::Future {
        let clock = self.quell().shared().clock();
        let told = request.headers().contains_key(TIMEOUT);
        let told = told.then(|| Context::from_headers(request.headers(), clock, true).deadline());
        let calling = match told.flatten() {
            None => self.inner.call(request),
            Some(by) => {
                let context = Context::current().unwrap_or_default().with_deadline(by);
                context.enter(|| self.inner.call(request))
            }
        };
        ResponseFuture { calling }
    }
}

pin_project! {
    /// A call on its way. Dropping it gives back all that the call holds.
    #[must_use = "nothing is sent before it is polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        calling: F,
    }
}

impl<F, T> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, CallError<(), BoxError>>>,
{
    type Output = Result<T, Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        self.project().calling.poll(cx).map_err(status)
    }
}

/// What a client is told where no server answered: the code that the last error stands for, how often it was tried and
/// why no more.
#[cold]
fn status(error: CallError<(), BoxError>) -> Status {
    let (message, reason) = (error.to_string(), error.reason());
    let Cause::Error(cause) = error.into_parts().cause else {
        return Status::new(Code::from_i32(reason.grpc_code().into()), message);
    };
    let timed_out = is_due_to::<TimeoutExpired>(&*cause);
    let cause = Status::from_error(cause);
    let code = if timed_out { Code::DeadlineExceeded } else { cause.code() };
    let mut status = Status::with_metadata(code, message, cause.metadata().clone());
    status.metadata_mut().insert("quell-stop", MetadataValue::from_static(reason.as_str()));
    status.set_source(Arc::new(cause));
    status
}

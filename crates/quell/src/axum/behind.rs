//! Behind: a service behind a layer that answers in its own time.

use std::{
    convert::Infallible,
    future::Future,
    mem,
    task::{Context, Poll},
};

use axum_core::{extract::Request, response::Response};
use tower_service::Service;

use crate::store::Answer;

/// What a layer does with a request and the service behind it.
pub(super) trait Front: Clone + Send + Sync + 'static {
    /// Answers the request, by the service or in its place.
    fn serve<S>(&self, service: S, request: Request) -> impl Future<Output = Response> + Send
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send,
        S::Future: Send;
}

/// A service behind one of the layers of this module.
#[derive(Debug, Clone)]
pub struct Behind<L, S> {
    layer: L,
    service: S,
}

impl<L: Clone, S> Behind<L, S> {
    pub(super) fn new(layer: &L, service: S) -> Self {
        Self { layer: layer.clone(), service }
    }
}

impl<L, S> Service<Request> for Behind<L, S>
where
    L: Front,
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answer<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The one that said it was ready goes, and a new one takes its place.
        let next = self.service.clone();
        let ready = mem::replace(&mut self.service, next);
        let layer = self.layer.clone();
        Box::pin(async move { Ok(layer.serve(ready, request).await) })
    }
}

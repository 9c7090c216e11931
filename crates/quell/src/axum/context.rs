//! Context: what a request brings, for the calls that its handler makes.
//!
//! **Why.** A handler that calls others has to pass on how much time is left, how many retries the chain may still make
//! and the key by which the request is known again. Passed by hand it is forgotten in the one place that matters. So the
//! layer reads it once, and every call that is made while the handler runs picks it up by itself.
//!
//! **How.** [`ContextLayer`] runs the handler in a [`Context`]: calls through [`Quell`](crate::Quell), the
//! [tower layer](crate::tower) and the reqwest client end by its deadline, draw on its credit, carry its key and count
//! among its tenant's. The reply says how many sends it took and hands back what is left of the credit. Work that the
//! handler spawns is on its own: take [`Context::current`] along and [`scope`](Context::scope) it.
//!
//! ```
//! use axum::{Router, routing::get};
//! use quell::{Quell, axum::ContextLayer, context::Context};
//!
//! let stock = Quell::upstream("stock").idempotent().build()?;
//! let count = async move |context: Context| {
//!     // Ends by the caller's deadline, and retries only as the chain allows.
//!     let pens = stock.call(async |_| Ok::<_, std::io::Error>(7)).await;
//!     pens.map(|pens| format!("{pens} pens for {:?}", context.tenant()))
//! };
//! let app: Router = Router::new().route("/pens", get(count)).layer(ContextLayer::new());
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::{convert::Infallible, fmt, sync::Arc};

use axum_core::{
    body::Body,
    extract::{FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, request::Parts};
use tower_layer::Layer;
use tower_service::Service;

use super::behind::{Behind, Front};
use crate::{
    CallError, Clock,
    context::Context,
    http::headers::{ATTEMPTS, CREDIT},
};

type Trusted = dyn Fn(&Parts) -> bool + Send + Sync;
type TenantOf = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// Runs handlers in the [`Context`] of their request. See the [module](self).
#[derive(Clone, Default)]
pub struct ContextLayer {
    clock: Clock,
    trusted: Option<Arc<Trusted>>,
    tenant_of: Option<Arc<TenantOf>>,
}

impl ContextLayer {
    /// Nobody is trusted: what strangers say can only tighten. There are no tenants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Who is believed when it says how many retries the chain may still make: hops of ours, told by an address or a
    /// header that strangers cannot send.
    pub fn trusted(mut self, trusted: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.trusted = Some(Arc::new(trusted));
        self
    }

    /// On whose behalf a request is made.
    pub fn tenant(mut self, of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.tenant_of = Some(Arc::new(of));
        self
    }

    /// Another clock, for tests: the one of the handles that are called.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    fn read(&self, parts: &Parts) -> Context {
        let trusted = self.trusted.as_ref().is_some_and(|trusted| trusted(parts));
        let context = Context::from_headers(&parts.headers, &self.clock, trusted);
        match self.tenant_of.as_ref().and_then(|tenant_of| tenant_of(parts)) {
            Some(tenant) => context.with_tenant(&tenant),
            None => context,
        }
    }
}

impl Front for ContextLayer {
    async fn serve<S>(&self, mut handler: S, request: Request) -> Response
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send,
        S::Future: Send,
    {
        let (mut parts, body) = request.into_parts();
        let context = self.read(&parts);
        parts.extensions.insert(context.clone());
        let call = context.enter(|| handler.call(Request::from_parts(parts, body)));
        let Ok(mut response) = context.scope(call).await;
        let (sends, left) = context.answer();
        let headers = response.headers_mut();
        headers.insert(ATTEMPTS, HeaderValue::from(sends.get()));
        if context.credit().is_some() {
            headers.insert(CREDIT, HeaderValue::from(left.get()));
        }
        response
    }
}

impl<S> Layer<S> for ContextLayer {
    type Service = Behind<Self, S>;

    fn layer(&self, service: S) -> Behind<Self, S> {
        Behind::new(self, service)
    }
}

impl fmt::Debug for ContextLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextLayer").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// The context that the layer put the handler into; an empty one without the layer.
impl<S: Sync> FromRequestParts<S> for Context {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// A reply that tells the caller why, and not to make the retries that were refused here: see
/// [`CallError::to_response`].
impl<T, E> IntoResponse for CallError<T, E> {
    fn into_response(self) -> Response {
        self.to_response().map(Body::from)
    }
}

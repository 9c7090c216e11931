//! RateLimit: so many requests per second for each caller, and a refusal that says when to come back.
//!
//! **Why.** One noisy caller must not use up what all others share. And a refusal must be worth something to whoever
//! is refused: a client that is told neither that it was limited nor when to return comes back at once.
//!
//! **How.** [`RateLimit::new`] describes a limit, [`Builder::build`] checks it, and the result is a layer for an axum router.
//! Requests are told apart by [address](Builder::by_ip), by [header](Builder::by_header) or by [anything](Builder::by);
//! unless said, they are not. What is refused gets status 429, a [body](self#the-refusal) that never changes,
//! `Retry-After` and the `RateLimit` fields; what passes gets the `RateLimit` fields too.
//!
//! ```
//! use axum::{Router, routing::get};
//! use quell::axum::RateLimit;
//!
//! let limit = RateLimit::new("default").per_second(10.0).burst(20).by_header("x-api-key").build()?;
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit.clone());
//! assert_eq!(limit.status("some-key").tokens, 20);
//! # Ok::<_, quell::axum::rate_limit::Invalid>(())
//! ```
//!
//! # The refusal
//!
//! | field | value |
//! |---|---|
//! | status | 429 |
//! | `Retry-After` | whole seconds, rounded up and spread: never before the same request would pass |
//! | `RateLimit` | `"default";r=0;t=5`: what is left, and in how many seconds there is more |
//! | `RateLimit-Policy` | `"default";q=100;w=60`: the bucket's size, and the seconds in which it fills up |
//! | `quell-stop` | `rate_limited` |
//! | `Content-Type` | `application/json` |
//! | body | `{"error":"Rate limit exceeded","code":"RATE_LIMITED"}` |
//!
//! The two `RateLimit` fields are those of draft-ietf-httpapi-ratelimit-headers-10. With [`Builder::legacy_headers`] there
//! are also `X-RateLimit-Limit` (the bucket's size), `X-RateLimit-Remaining` and `X-RateLimit-Reset` (Unix seconds). When
//! a request is refused, `t` and `X-RateLimit-Reset` name the instant of `Retry-After`; else that at which the
//! bucket is full again. A request that costs more than the bucket holds will never pass: it gets
//! `quell-retry: no` instead of `Retry-After`.

use std::{
    convert::Infallible,
    fmt,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use axum_core::{extract::Request, response::Response};
use http::{HeaderName, request::Parts};
use quell_core::{Reason, limiter};
use tower_layer::Layer;
use tower_service::Service;

use super::{limiting::Limiting, respond::refusal};
use crate::{
    Clock,
    http::{
        quota::{self, Passed, Quota, network},
        whole::Whole,
    },
    key,
};

type KeyOf = dyn Fn(&Parts) -> Option<Vec<u8>> + Send + Sync;
type CostOf = dyn Fn(&Parts) -> u32 + Send + Sync;

/// A rate limit in front of handlers. Clones share everything. See the [module](self).
#[derive(Clone)]
pub struct RateLimit(Arc<Shared>);

struct Shared {
    key_of: Option<Box<KeyOf>>,
    cost_of: Option<Box<CostOf>>,
    quota: Quota,
}

/// What there is to know of one key now.
///
/// ```
/// use quell::axum::RateLimit;
///
/// let limit = RateLimit::new("api").per_second(2.0).burst(5).by_header("x-api-key").build()?;
/// let status = limit.status("shop");
/// assert_eq!((status.key.as_str(), status.tokens, status.capacity), ("shop", 5, 5));
/// assert_eq!(status.refill_per_second, 2.0);
/// # Ok::<_, quell::axum::rate_limit::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// As it was asked for.
    pub key: String,
    /// Whole tokens that it could take now.
    pub tokens: u32,
    /// Tokens its bucket can hold.
    pub capacity: u32,
    /// Tokens that come back per second.
    pub refill_per_second: f64,
}

/// Why a [`Builder`] makes no rate limit. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// See [`quota::Invalid`].
    #[error(transparent)]
    Quota(#[from] quota::Invalid),
    /// There can be no such header.
    #[error("rate_limit.by_header is {0:?}: write the name of a header, such as \"x-api-key\"")]
    Header(String),
}

/// A rate limit as it is described. See the [module](self).
#[must_use = "nothing is made before `build`"]
pub struct Builder {
    name: String,
    spec: limiter::Spec,
    keys: usize,
    key_of: Option<Box<KeyOf>>,
    cost_of: Option<Box<CostOf>>,
    wrong_header: Option<String>,
    legacy: bool,
    on_pass: bool,
    clock: Clock,
    seed: u64,
}

impl RateLimit {
    /// Begins to describe a limit; its name stands in the `RateLimit` fields.
    #[allow(clippy::new_ret_no_self, reason = "what is described has to be checked first")]
    pub fn new(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            spec: limiter::Spec { per_second: 100.0, burst: 100 },
            keys: 10_000,
            key_of: None,
            cost_of: None,
            wrong_header: None,
            legacy: false,
            on_pass: true,
            clock: Clock::system(),
            seed: key::seed(),
        }
    }

    /// What there is to know of a key now: a header's value, an address as it is written, or whatever [`Builder::by`]
    /// gives. Takes nothing.
    pub fn status(&self, key: impl AsRef<[u8]>) -> Status {
        let key = key.as_ref();
        let limiter::Status { tokens, capacity, per_second, .. } = self.0.quota.status(Some(key));
        let key = String::from_utf8_lossy(key).into_owned();
        Status { key, tokens, capacity, refill_per_second: per_second }
    }

    /// How many keys have a bucket of their own, and how often a request had to do with the one that all others share.
    pub fn keys(&self) -> (usize, u64) {
        self.0.quota.keys()
    }

    /// Lets the request pass and says what to add to its reply, or answers in its place.
    fn admit(&self, parts: &Parts) -> Result<Passed, Box<Response>> {
        let Shared { key_of, cost_of, quota } = &*self.0;
        let key = key_of.as_ref().and_then(|key_of| key_of(parts));
        let cost = cost_of.as_ref().map_or(1, |cost_of| cost_of(parts));
        quota.take(key.as_deref(), cost).map_err(|limited| {
            let mut response = refusal(Reason::RateLimited, limited.wait.map(Whole::of));
            limited.write(response.headers_mut());
            Box::new(response)
        })
    }
}

impl Builder {
    /// Tokens that come back per second; 100 unless said. A request costs one.
    pub fn per_second(mut self, per_second: f64) -> Self {
        self.spec.per_second = per_second;
        self
    }

    /// Tokens a bucket can hold; 100 unless said. It starts full.
    pub fn burst(mut self, burst: u32) -> Self {
        self.spec.burst = burst;
        self
    }

    /// How many keys have a bucket of their own; 10,000 unless said. When none of them is full again, new keys share one.
    pub fn keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// A bucket for each address. Where a request comes from is for the closure to say, because only you know whether
    /// there is a proxy of yours in front; without one it is axum's `ConnectInfo`:
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use axum::extract::ConnectInfo;
    /// use quell::axum::RateLimit;
    ///
    /// let limit = RateLimit::new("default").by_ip(|parts| {
    ///     parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip())
    /// });
    /// # limit.build().unwrap();
    /// ```
    ///
    /// An IPv6 network of 64 bits counts as one address, as it usually belongs to one customer, under the name of its
    /// first address (`2001:db8::`).
    pub fn by_ip(self, ip: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.by(move |parts| ip(parts).map(|ip| network(ip).to_string()))
    }

    /// A bucket for each value of this header. Requests without it share one.
    pub fn by_header(mut self, name: &str) -> Self {
        match HeaderName::try_from(name) {
            Ok(name) => self.by(move |parts| parts.headers.get(&name).cloned()),
            Err(_) => {
                self.wrong_header = Some(name.to_owned());
                self
            }
        }
    }

    /// A bucket for each key that the closure gives; requests for which it gives none share one.
    pub fn by<K: AsRef<[u8]>>(
        mut self,
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        self.key_of = Some(Box::new(move |parts| key(parts).map(|key| key.as_ref().to_vec())));
        self
    }

    /// What a request costs, if not one token.
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        self.cost_of = Some(Box::new(cost));
        self
    }

    /// Whether replies also carry `X-RateLimit-Limit`, `-Remaining` and `-Reset`; not unless said.
    pub fn legacy_headers(mut self, legacy: bool) -> Self {
        self.legacy = legacy;
        self
    }

    /// Whether replies to what passed carry the fields as well; so they do unless said.
    pub fn headers_on_pass(mut self, on_pass: bool) -> Self {
        self.on_pass = on_pass;
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where chance starts, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks what was written.
    pub fn build(self) -> Result<RateLimit, Invalid> {
        if let Some(name) = self.wrong_header {
            return Err(Invalid::Header(name));
        }
        let quota = Quota::new(&self.name, self.spec, self.keys, self.clock)?
            .legacy_headers(self.legacy)
            .headers_on_pass(self.on_pass)
            .seed(self.seed);
        Ok(RateLimit(Arc::new(Shared { key_of: self.key_of, cost_of: self.cost_of, quota })))
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { limit: self.clone(), inner }
    }
}

/// A service behind a [`RateLimit`].
#[derive(Debug, Clone)]
pub struct Limited<S> {
    limit: RateLimit,
    inner: S,
}

impl<S> Service<Request> for Limited<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Limiting<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (parts, body) = request.into_parts();
        match self.limit.admit(&parts) {
            Ok(passed) => {
                let inner = self.inner.call(Request::from_parts(parts, body));
                Self::Future::passed(inner, passed)
            }
            Err(response) => Self::Future::refused(*response),
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("quota", &self.0.quota).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, spec, keys, .. } = self;
        let mut shown = f.debug_struct("Builder");
        shown.field("name", name).field("spec", spec).field("keys", keys).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let wrong = [
            RateLimit::new(""),
            RateLimit::new("say \"hello\""),
            RateLimit::new("x".repeat(65)),
            RateLimit::new("a").burst(0),
            RateLimit::new("a").per_second(f64::NAN),
            RateLimit::new("a").keys(0),
            RateLimit::new("a").by_header("not a header"),
        ];
        for builder in wrong {
            let message = builder.build().unwrap_err().to_string();
            assert!(message.starts_with("rate_limit.") && message.contains("write"), "{message}");
        }
    }
}

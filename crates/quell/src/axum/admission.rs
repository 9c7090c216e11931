//! Admission: as many requests at once as the handlers can answer while their callers wait, and a short queue.
//!
//! **Why.** A server that takes all that comes answers nobody in time once it is overloaded: it works for callers who have
//! left, and they come back. What heals it at once is to have no more under way than can be answered in time, to
//! let a short burst wait for a moment, and to refuse the rest right away.
//!
//! **How.** [`Admission::new`] describes the limit, [`Builder::build`] checks it, and the result is a layer for a whole router or
//! for one route. A request holds a slot until its handler has given the response's head; what streams after that
//! holds none. A caller who leaves gives its slot back, since dropping a handler ends its work, and teaches
//! how long callers wait. There are no retries here, and no breaker: a handler that fails is asked again by whoever comes.
//!
//! ```
//! use std::time::Duration;
//! use axum::{Router, routing::get};
//! use quell::{Limit, axum::Admission};
//!
//! let admission = Admission::new("api")
//!     .in_flight(Limit::Adaptive { ceiling: 512 })
//!     .queue(32)
//!     .timeout(Duration::from_secs(10))
//!     .build()?;
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(admission.clone());
//! assert_eq!(admission.snapshot().in_flight, 0);
//! # Ok::<_, quell::Invalid>(())
//! ```
//!
//! # The refusal
//!
//! The status is that of the [`Reason`], 503 or 504; `quell-stop` has its word and the body a sentence and a code, such as
//! `{"error":"Too many requests are under way","code":"QUEUE_FULL"}`. `Retry-After` stands on every 503. A caller who
//! says in `quell-deadline-ms` or `grpc-timeout` how long it will wait is refused as soon as its answer could not come in time.

use std::{
    convert::Infallible,
    fmt,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_core::{extract::Request, response::Response};
use http::request::Parts;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use quell_core::{
    Arrival, Outcome, Policy, Priority, Reason, Rng, Snapshot, Time, breaker, budget,
    in_flight::Limit,
    mode::Mode,
    spec::{Invalid, PolicySpec, UpstreamSpec},
};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    behind::{Behind, Front},
    respond::refusal,
};
use crate::{
    Clock, Upstream,
    classes::caller_key,
    http::{Shape, classify, whole::Whole},
    levers::route_key,
    observe::Observe,
    run::{self, Done, End, Sender, Try},
    upstream::Host,
};

type PriorityOf = dyn Fn(&Parts) -> Priority + Send + Sync;
type CallerOf = dyn Fn(&Parts) -> Option<u64> + Send + Sync;
type ClassOf = dyn Fn(&Parts) -> Option<&str> + Send + Sync;

/// An in-flight limit with a queue in front of handlers. Clones share everything. See the [module](self).
#[derive(Clone)]
pub struct Admission(Arc<Shared>);

struct Shared {
    upstream: Upstream,
    policy: Policy,
    of: Of,
    /// For the spread of `Retry-After`.
    rng: Mutex<Rng>,
}

/// Admission as it is described. See the [module](self).
#[must_use = "nothing is made before `build`"]
pub struct Builder {
    name: String,
    spec: UpstreamSpec,
    timeout: Duration,
    of: Of,
    host: Host,
}

/// What somebody knows of a request.
#[derive(Default)]
struct Of {
    priority: Option<Box<PriorityOf>>,
    caller: Option<Box<CallerOf>>,
    class: Option<Box<ClassOf>>,
}

impl Admission {
    /// Begins to describe a limit; its name is what observers are told.
    #[allow(clippy::new_ret_no_self, reason = "what is described has to be checked first")]
    pub fn new(name: impl Into<String>) -> Builder {
        let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
        let budget = budget::Spec::None;
        let spec = UpstreamSpec { breaker, budget, ejection: None, ..UpstreamSpec::gateway() };
        let timeout = Duration::from_secs(30);
        Builder { name: name.into(), spec, timeout, of: Of::default(), host: Host::default() }
    }

    /// How it looks now.
    pub fn snapshot(&self) -> Snapshot {
        self.0.upstream.snapshot()
    }

    /// What all clones share, to be told another spec while it runs.
    pub fn shared(&self) -> &Upstream {
        &self.0.upstream
    }

    fn answer(&self, done: Done<Response, Infallible>) -> Response {
        match done.end {
            End::Reply(response) => response,
            End::TimedOut { .. } => refusal(Reason::Deadline, self.wait(None)),
            End::Refused { .. } | End::Kept(_) => {
                refusal(done.reason.unwrap_or(Reason::Shed), self.wait(done.retry_at))
            }
        }
    }

    fn wait(&self, retry_at: Option<Time>) -> Option<Whole> {
        let now = self.0.upstream.clock().now();
        let wait = retry_at.map_or(Duration::ZERO, |at| at.since(now));
        Some(Whole::of(wait).jittered(&mut self.0.rng.lock()))
    }
}

/// A handler as a [`Sender`] that sends once.
struct Handler<'a, S> {
    once: Option<(S, Request)>,
    clock: &'a Clock,
}

impl<S> Sender for Handler<'_, S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Reply = Response;
    type Kept = Infallible;
    type Attempt = Once<S::Future>;
    type Keeping = Ready<Result<Infallible, Response>>;

    fn send(&mut self, _: &Try) -> Self::Attempt {
        let call = self.once.take().map(|(mut handler, request)| handler.call(request));
        Once { call }
    }

    /// When a handler is dropped its work ends with it, so no ghost has to stand for it.
    fn is_sent(&self, _: &Self::Attempt) -> bool {
        false
    }

    fn classify(&mut self, reply: &Response) -> Outcome {
        classify(reply.status(), reply.headers(), self.clock.unix_now())
    }

    fn is_repeatable(&self) -> bool {
        false
    }

    fn keep(&mut self, reply: Response, _: &Outcome, _: Time) -> Self::Keeping {
        ready(Err(reply))
    }
}

pin_project! {
    /// The one attempt that there is.
    struct Once<F> {
        #[pin]
        call: Option<F>,
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Once<F> {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        match self.project().call.as_pin_mut() {
            Some(call) => call.poll(cx).map(|Ok(response)| response),
            None => Poll::Pending, // the policy makes no second one
        }
    }
}

impl Builder {
    /// How much may be under way; as much as the handlers can answer while callers wait, up to 4,096, unless said.
    pub fn in_flight(mut self, limit: Limit) -> Self {
        self.spec.in_flight = limit;
        self
    }

    /// How many may wait for a slot; 64 unless said.
    pub fn queue(mut self, most: usize) -> Self {
        self.spec.queue = most;
        self
    }

    /// How long they may wait; half as long as callers do, less the time an answer takes, unless said.
    pub fn queue_wait(mut self, longest: Duration) -> Self {
        self.spec.queue_wait = Some(longest);
        self
    }

    /// How long a request may take to the response's head, its wait included; 30 s unless said. Then its handler is dropped
    /// and the caller gets a 504.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Who goes first under pressure, and who is shed first.
    ///
    /// ```
    /// use quell::axum::{Admission, Priority};
    ///
    /// let admission = Admission::new("api").priority(|parts| match parts.uri.path() {
    ///     "/pay" => Priority::Critical,
    ///     "/suggestions" => Priority::Sheddable,
    ///     _ => Priority::Default,
    /// });
    /// # admission.build().unwrap();
    /// ```
    pub fn priority(mut self, of: impl Fn(&Parts) -> Priority + Send + Sync + 'static) -> Self {
        self.of.priority = Some(Box::new(of));
        self
    }

    /// Whose request it is, so that under pressure callers share fairly: what [`caller_at`] or [`caller_key`] gives. Unless
    /// said, or where it says nothing, the tenant of a [`ContextLayer`](super::ContextLayer) around this one.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use axum::extract::ConnectInfo;
    /// use quell::{axum::Admission, classes::caller_at};
    ///
    /// let admission = Admission::new("api").caller(|parts| {
    ///     parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| caller_at(from.0.ip()))
    /// });
    /// # admission.build().unwrap();
    /// ```
    ///
    /// [`caller_at`]: crate::classes::caller_at
    pub fn caller(mut self, of: impl Fn(&Parts) -> Option<u64> + Send + Sync + 'static) -> Self {
        self.of.caller = Some(Box::new(of));
        self
    }

    /// Which [kind](crate::classes) of request it is, by a name that only a few share with it. Unless said, or where it says
    /// nothing, the method and the [shape](crate::http::Shape) of the path. axum knows it better, once a route is chosen:
    ///
    /// hand over its `MatchedPath`, if axum has the feature `matched-path`.
    ///
    /// ```
    /// use quell::axum::Admission;
    ///
    /// let admission = Admission::new("api")
    ///     .class(|parts| parts.headers.get("x-operation").and_then(|name| name.to_str().ok()));
    /// # admission.build().unwrap();
    /// ```
    pub fn class(mut self, of: impl Fn(&Parts) -> Option<&str> + Send + Sync + 'static) -> Self {
        self.of.class = Some(Box::new(of));
        self
    }

    /// Whether refusals are obeyed, or only counted to try a limit out.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.spec.modes.in_flight = mode;
        self
    }

    /// Somebody who is told what happens.
    pub fn observe(mut self, observer: impl Observe + 'static) -> Self {
        self.host.observer = Some(Arc::new(observer));
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.host.clock = clock;
        self
    }

    /// Where chance starts, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.host.seed = seed;
        self
    }

    /// Checks what was written.
    pub fn build(self) -> Result<Admission, Invalid> {
        let Self { name, spec, timeout, of, host } = self;
        let policy = Policy::new(PolicySpec {
            attempts: 1,
            timeout,
            per_try_timeout: Some(timeout),
            ..PolicySpec::library()
        })?;
        let rng = Mutex::new(Rng::stream(host.seed, 0, 1));
        let upstream = Upstream::new(name, spec, policy.per_try(), host)?;
        Ok(Admission(Arc::new(Shared { upstream, policy, of, rng })))
    }
}

impl Of {
    /// Routes of one path differ by their methods.
    fn class(&self, parts: &Parts, upstream: &Upstream) -> u64 {
        let Parts { method, uri, .. } = parts;
        match self.class.as_ref().and_then(|class_of| class_of(parts)) {
            Some(name) => {
                let key = route_key(method.as_str()).rotate_left(1) ^ route_key(name);
                upstream.class(key, || format!("{method} {name}"))
            }
            None => {
                let shape = Shape::new(method, uri.path());
                upstream.class(shape.key(0), || shape.to_string())
            }
        }
    }

    fn caller(&self, parts: &Parts) -> u64 {
        let told = self.caller.as_ref().and_then(|caller_of| caller_of(parts));
        let context = || parts.extensions.get::<crate::context::Context>();
        let tenant = || context()?.tenant().map(|tenant| caller_key(tenant.as_bytes()));
        told.or_else(tenant).unwrap_or(0)
    }
}

impl Front for Admission {
    async fn serve<S>(&self, handler: S, request: Request) -> Response
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send,
        S::Future: Send,
    {
        let Shared { upstream, policy, of, .. } = &*self.0;
        let clock = upstream.clock();
        let mut arrival = Arrival::new();
        let told = crate::context::Context::from_headers(request.headers(), clock, false);
        if let Some(deadline) = told.deadline() {
            arrival.leaves_by(deadline);
        }
        let (parts, body) = request.into_parts();
        if let Some(priority_of) = &of.priority {
            arrival.priority = priority_of(&parts);
        }
        arrival.class = of.class(&parts, upstream);
        arrival.caller = of.caller(&parts);
        let guard = upstream.begin_for(policy, arrival);
        let request = Request::from_parts(parts, body);
        let handler = Handler { once: Some((handler, request)), clock };
        self.answer(run::drive(guard, handler).await)
    }
}

impl<S> Layer<S> for Admission {
    type Service = Behind<Self, S>;

    fn layer(&self, service: S) -> Behind<Self, S> {
        Behind::new(self, service)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("upstream", &self.0.upstream).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, spec, timeout, .. } = self;
        let mut shown = f.debug_struct("Builder");
        shown.field("name", name).field("spec", spec).field("timeout", timeout);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let wrong = [
            Admission::new("a").in_flight(Limit::Fixed(0)),
            Admission::new("a").timeout(Duration::ZERO),
            Admission::new("a").queue_wait(Duration::ZERO),
        ];
        for builder in wrong {
            let message = builder.build().unwrap_err().to_string();
            assert!(message.contains("write"), "{message}");
        }
    }
}

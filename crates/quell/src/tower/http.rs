//! Http: requests with bodies, statuses and headers.

use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

use ::http::{Request, Response, request, response};
use bytes::Bytes;
use http_body::Body;
use pin_project_lite::pin_project;
use quell_core::{
    Delivery, Failure, Fault, Outcome, Time,
    credit::{Retries, Sends},
};

use super::protocol::{About, Ended, Inbound, Outbound, Refused};
use crate::{
    Clock, Rules, Upstream,
    clock::Sleep,
    http::{
        IDEMPOTENCY_KEY, Keep, Pool, Replay, ReplayBody, ReplyBody, delivery, hop, is_repeatable,
    },
    run::Try,
};

/// HTTP requests with a body that is kept for a retry while it streams, up to 64 KiB.
///
/// Statuses, hints and the safety of methods are read as [`quell::http`](crate::http) says; every attempt carries its
/// number, the time it has and the chain's credit. What the service below gets is a `Request<ReplayBody<B>>`, what the
/// caller gets a `Response<ReplyBody<R>>`: the last reply as it is, status and body unchanged. Unless the first attempt
/// succeeded, the reply's extensions have an [`Ended`] that says what it took and why there was no further attempt.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use quell::{Clock, Quell, tower::{Http, QuellLayer}};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// let stock = Quell::upstream("stock").clock(Clock::tokio()).build()?;
/// let flaky = service_fn(|request: Request<_>| async move {
///     let first = request.headers()["quell-attempt"] == "1";
///     Response::builder().status(if first { 503 } else { 200 }).body(Full::<Bytes>::default())
/// });
/// let service = QuellLayer::with(stock, Http::new()).layer(flaky);
/// let reply = service.oneshot(Request::get("/pens").body(Full::<Bytes>::default())?).await?;
/// assert_eq!(reply.status(), 200);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
///
/// hyper-util's client sends a request again by itself when a kept connection turns out to be closed, which no budget
/// sees: build it with `retry_canceled_requests(false)`.
#[derive(Clone)]
pub struct Http<D = Chain> {
    shared: Arc<Shared>,
    deliveries: D,
}

#[derive(Debug, Clone)]
struct Shared {
    pool: Pool,
    stamps: bool,
    replies: bool,
}

/// Finds out by an error's chain of sources whether a request was sent: see [`http::delivery`](crate::http::delivery).
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain;

/// The same for boxed errors.
#[derive(Debug, Clone, Copy, Default)]
pub struct BoxedChain;

/// Says whether a request that ended in an error was sent.
pub trait Deliveries<E>: Clone {
    /// What is known.
    fn of(&self, error: &E) -> Delivery;
}

impl<E: Error + 'static> Deliveries<E> for Chain {
    fn of(&self, error: &E) -> Delivery {
        delivery(error)
    }
}

impl Deliveries<Box<dyn Error + Send + Sync>> for BoxedChain {
    fn of(&self, error: &Box<dyn Error + Send + Sync>) -> Delivery {
        delivery(&**error)
    }
}

impl<E, F: Fn(&E) -> Delivery + Clone> Deliveries<E> for F {
    fn of(&self, error: &E) -> Delivery {
        self(error)
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Http {
    /// For services whose error is an [`Error`].
    pub fn new() -> Self {
        Self::by(Chain)
    }
}

impl Http<BoxedChain> {
    /// For services whose error is boxed.
    pub fn boxed() -> Self {
        Self::by(BoxedChain)
    }
}

impl<D> Http<D> {
    /// For services of whose errors somebody knows more: says whether a request was sent.
    ///
    /// ```
    /// use hyper_util::client::legacy;
    /// use quell::{Delivery, tower::Http};
    ///
    /// let http = Http::by(|error: &legacy::Error| match error.is_connect() {
    ///     true => Delivery::NeverSent, // so even a POST may go out again
    ///     false => Delivery::Unknown,
    /// });
    /// # let _ = http;
    /// ```
    pub fn by(deliveries: D) -> Self {
        let shared = Shared { pool: Pool::global().clone(), stamps: true, replies: false };
        Self { shared: Arc::new(shared), deliveries }
    }

    /// Where the bodies are kept; in the process's pool of 64 MiB unless said.
    pub fn pool(mut self, pool: Pool) -> Self {
        Arc::make_mut(&mut self.shared).pool = pool;
        self
    }

    /// Sends requests as they are, without `quell-…` headers: for upstreams that mind.
    pub fn unmarked(mut self) -> Self {
        Arc::make_mut(&mut self.shared).stamps = false;
        self
    }

    /// Refusals and timeouts become replies with the status of their reason, which tell whoever asked not to retry.
    /// Otherwise they are errors.
    pub fn refusals_as_replies(mut self) -> Self {
        Arc::make_mut(&mut self.shared).replies = true;
        self
    }
}

impl<D> fmt::Debug for Http<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// One call's request.
pub struct Source<B> {
    parts: request::Parts,
    body: Replay<B>,
    repeatable: bool,
}

impl<B: Body, D: Clone> Outbound<Request<B>> for Http<D> {
    type Source = Source<B>;
    type Outgoing = Request<ReplayBody<B>>;

    fn about(&self, request: &Request<B>, upstream: &Upstream) -> About {
        About::http(request.method(), request.uri().path(), request.headers(), upstream)
    }

    fn source(&self, request: Request<B>, rules: &Rules) -> Source<B> {
        let (mut parts, body) = request.into_parts();
        if !is_repeatable(&parts.method, &parts.headers)
            && let Some(key) = hop::key(rules)
        {
            parts.headers.insert(IDEMPOTENCY_KEY, key);
        }
        let repeatable = rules.unsafe_methods.repeats(&parts.method, &parts.headers);
        let body = Replay::new(body, &self.shared.pool, repeatable || rules.idempotent);
        Source { parts, body, repeatable }
    }

    fn next(&self, source: &mut Source<B>, attempt: &Try) -> Option<Self::Outgoing> {
        let mut parts = source.parts.clone();
        if self.shared.stamps {
            hop::stamp(&mut parts.headers, attempt);
        }
        Some(Request::from_parts(parts, source.body.open()))
    }

    fn is_repeatable(&self, source: &Source<B>) -> bool {
        source.repeatable
    }

    fn is_replayable(&self, source: &Source<B>) -> bool {
        source.body.is_replayable()
    }

    fn is_whole(&self, source: &Source<B>) -> bool {
        source.body.is_whole()
    }

    fn is_broken(&self, source: &Source<B>) -> bool {
        source.body.has_failed()
    }

    fn is_chained(&self) -> bool {
        self.shared.stamps
    }
}

impl<R, E, D> Inbound<Response<R>, E> for Http<D>
where
    R: Body + Unpin,
    R::Error: Unpin,
    D: Deliveries<E>,
{
    type Answer = Response<ReplyBody<R>>;
    type Keeping = KeepReply<R, E>;

    fn answer(&self, reply: Response<R>) -> Self::Answer {
        reply.map(ReplyBody::passing)
    }

    fn classify(&self, result: &Result<Self::Answer, E>, clock: &Clock, rules: &Rules) -> Outcome {
        match result {
            Ok(reply) if reply.status().is_success() => Outcome::Success, // needs no date
            Ok(reply) => {
                let unix_now = clock.unix_now();
                rules.statuses.classify(reply.status(), reply.headers(), unix_now)
            }
            Err(error) => Outcome::Failed(match self.deliveries.of(error) {
                Delivery::NeverSent => Failure::of(Fault::Connect),
                delivery => Failure { delivery, ..Failure::of(Fault::Server) },
            }),
        }
    }

    fn told(&self, answer: &Self::Answer) -> Option<(Sends, Retries)> {
        hop::told(answer.headers())
    }

    fn keep(&self, result: Result<Self::Answer, E>, clock: &Clock, by: Time) -> Self::Keeping {
        let state = match result {
            Ok(reply) => {
                let (parts, body) = reply.into_parts();
                let reply = Some((parts, body.keep(&self.shared.pool)));
                KeepState::Reading { reply, by: clock.sleep_until(by) }
            }
            Err(error) => KeepState::Error { error: Some(error) },
        };
        KeepReply { state }
    }

    fn mark(&self, answer: &mut Self::Answer, ended: Ended) {
        answer.extensions_mut().insert(ended);
    }

    fn refuse(&self, refused: &Refused) -> Option<Self::Answer> {
        let refused = self.shared.replies.then(|| refused.reply())?;
        Some(refused.map(ReplyBody::own))
    }
}

impl Refused {
    /// A reply that says why, and whether to come back: `quell-stop`, `quell-retry`, `Retry-After`.
    ///
    /// ```
    /// use quell::{Reason, tower::Refused};
    ///
    /// let reply = Refused { reason: Reason::BudgetEmpty, attempts: 1, retry_in: None }.reply();
    /// assert_eq!(reply.status(), 504); // it was sent, and nothing came back
    /// assert_eq!(reply.headers()["quell-retry"], "no");
    /// assert_eq!(reply.body(), r#"{"error":"no further attempt was made","code":"BUDGET_EMPTY"}"#);
    /// ```
    pub fn reply(&self) -> Response<Bytes> {
        let Self { reason, attempts, retry_in } = *self;
        let status = if attempts > 0 && reason.status() == 503 { 504 } else { reason.status() };
        crate::http::refusal(status, reason, attempts, retry_in)
    }
}

pin_project! {
    /// Reads a failed reply whole, as long as its attempt may take.
    pub struct KeepReply<R: Body, E> {
        #[pin]
        state: KeepState<R, E>,
    }
}

pin_project! {
    #[project = Kept]
    enum KeepState<R: Body, E> {
        Reading { reply: Option<(response::Parts, Keep<R>)>, #[pin] by: Sleep },
        Error { error: Option<E> },
    }
}

impl<R, E> Future for KeepReply<R, E>
where
    R: Body + Unpin,
    R::Error: Unpin,
{
    type Output = Result<Result<Response<ReplyBody<R>>, E>, Result<Response<ReplyBody<R>>, E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Kept::Error { error } => match error.take() {
                Some(error) => Poll::Ready(Ok(Err(error))),
                None => Poll::Pending,
            },
            Kept::Reading { reply, by } => {
                let Some((_, keep)) = reply else { return Poll::Pending };
                let kept = match Pin::new(keep).poll(cx) {
                    Poll::Ready(kept) => Some(kept),
                    Poll::Pending if by.poll(cx).is_pending() => return Poll::Pending,
                    Poll::Pending => None, // it takes too long: what was read, and then the rest
                };
                let Some((parts, keep)) = reply.take() else { return Poll::Pending };
                let whole = |body| Ok(Response::from_parts(parts, body));
                Poll::Ready(match kept {
                    Some(Ok(body)) => Ok(whole(body)),
                    Some(Err(body)) => Err(whole(body)),
                    None => Err(whole(keep.give_up())),
                })
            }
        }
    }
}

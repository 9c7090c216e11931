//! Reqwest: requests and replies of reqwest, as a protocol of the tower layer.

use std::{future::Future, pin::Pin};

use ::reqwest::{Body, Request, Response, ResponseBuilderExt as _};
use quell_core::{
    Outcome, Time,
    credit::{Retries, Sends},
};

use super::classify;
use crate::{
    Clock, Rules, Upstream,
    context::Context,
    http::{IDEMPOTENCY_KEY, Pool, Replay, ReplyBody, hop, is_repeatable},
    run::Try,
    tower::{About, Ended, Inbound, Outbound},
};

/// Requests and replies of reqwest, for a [`QuellLayer`](crate::tower::QuellLayer) around its client or around layers
/// that stand in front of it. [`Client`](super::Client) is this with a familiar face.
///
/// ```
/// use quell::{Clock, Quell, reqwest::Reqwest, tower::QuellLayer};
/// use reqwest::{Request, Response};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// // In earnest: reqwest::Client::builder().retry(reqwest::retry::never()).build()
/// let client = service_fn(|request: Request| async move {
///     let status = if request.headers()["quell-attempt"] == "1" { 503 } else { 200 };
///     let reply = http::Response::builder().status(status).body("");
///     Ok::<Response, reqwest::Error>(reply.unwrap().into())
/// });
/// let stock = Quell::upstream("stock").clock(Clock::tokio()).build()?;
/// let service = QuellLayer::with(stock, Reqwest::new()).layer(client);
/// let request = Request::new(http::Method::GET, "http://stock.internal/".parse()?);
/// assert_eq!(service.oneshot(request).await?.status(), 200);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Reqwest {
    stamps: bool,
}

impl Default for Reqwest {
    fn default() -> Self {
        Self::new()
    }
}

impl Reqwest {
    /// Every attempt carries its number, the time it has and the chain's credit.
    pub fn new() -> Self {
        Self { stamps: true }
    }

    /// Sends requests as they are, without `quell-…` headers: for upstreams that are not ours.
    pub fn unmarked() -> Self {
        Self { stamps: false }
    }
}

/// One call's request.
#[derive(Debug)]
pub struct Source {
    request: Request,
    /// A body that reqwest cannot clone. It stands apart, for of the request itself there is a copy for every attempt.
    stream: Option<Replay<Body>>,
    repeatable: bool,
    /// When nobody waits any more, not even for the rest of the reply.
    by: Option<Time>,
}

impl Outbound<Request> for Reqwest {
    type Source = Source;
    type Outgoing = Request;

    fn about(&self, request: &Request, upstream: &Upstream) -> About {
        About::http(request.method(), request.url().path(), request.headers(), upstream)
    }

    fn source(&self, mut request: Request, rules: &Rules) -> Source {
        if !is_repeatable(request.method(), request.headers())
            && let Some(key) = hop::key(rules)
        {
            request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        }
        let repeatable = rules.unsafe_methods.repeats(request.method(), request.headers());
        let streams = request.body().is_some_and(|body| body.as_bytes().is_none());
        let body = if streams { request.body_mut().take() } else { None };
        let keep = repeatable || rules.idempotent;
        let stream = body.map(|body| Replay::new(body, Pool::global(), keep));
        let by = Context::current().and_then(|context| context.deadline());
        Source { request, stream, repeatable, by }
    }

    fn next(&self, source: &mut Source, attempt: &Try) -> Option<Request> {
        let mut request = source.request.try_clone()?; // its body, if it has one, is bytes
        if let Some(stream) = &source.stream {
            *request.body_mut() = Some(Body::wrap(stream.open()));
        }
        if let Some(by) = source.by {
            // reqwest's own timeout begins with each attempt and ends with the body; the caller's does not begin anew.
            let left = by.since(attempt.started);
            let own = request.timeout_mut();
            *own = Some(own.map_or(left, |own| own.min(left)));
        }
        if self.stamps {
            hop::stamp(request.headers_mut(), attempt);
        }
        Some(request)
    }

    fn is_repeatable(&self, source: &Source) -> bool {
        source.repeatable
    }

    fn is_replayable(&self, source: &Source) -> bool {
        source.stream.as_ref().is_none_or(Replay::is_replayable)
    }

    fn is_whole(&self, source: &Source) -> bool {
        source.stream.as_ref().is_none_or(Replay::is_whole)
    }

    fn is_broken(&self, source: &Source) -> bool {
        source.stream.as_ref().is_some_and(Replay::has_failed)
    }

    fn is_chained(&self) -> bool {
        self.stamps
    }
}

type Reply = Result<Response, ::reqwest::Error>;

impl Inbound<Response, ::reqwest::Error> for Reqwest {
    type Answer = Response;
    type Keeping = Pin<Box<dyn Future<Output = Result<Reply, Reply>> + Send>>;

    fn answer(&self, reply: Response) -> Response {
        reply
    }

    fn classify(&self, result: &Reply, clock: &Clock, rules: &Rules) -> Outcome {
        classify(result, clock, &rules.statuses)
    }

    fn told(&self, reply: &Response) -> Option<(Sends, Retries)> {
        hop::told(reply.headers())
    }

    fn keep(&self, result: Reply, clock: &Clock, by: Time) -> Self::Keeping {
        let clock = clock.clone();
        Box::pin(async move {
            let reply = match result {
                Ok(reply) => reply,
                Err(error) => return Ok(Err(error)),
            };
            let url = reply.url().clone();
            let (mut parts, body) = ::http::Response::from(reply).into_parts();
            if let Ok(with_url) = ::http::Response::builder().url(url).body(()) {
                parts.extensions.extend(with_url.into_parts().0.extensions);
            }
            let whole = |body: ReplyBody<Body>| {
                Ok(Response::from(::http::Response::from_parts(parts, Body::wrap(body))))
            };
            let mut keep = ReplyBody::passing(body).keep(Pool::global());
            match clock.timeout_at(by, &mut keep).await {
                Some(Ok(body)) => Ok(whole(body)),
                Some(Err(body)) => Err(whole(body)),
                None => Err(whole(keep.give_up())), // what was read, and then the rest
            }
        })
    }
    fn mark(&self, reply: &mut Response, ended: Ended) {
        reply.extensions_mut().insert(ended);
    }
}

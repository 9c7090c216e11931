//! Grpc: requests and replies of gRPC, as a protocol of the tower layer.

use std::future::{Ready, ready};

use ::http::{Request, Response, request};
use http_body::Body as HttpBody;
use quell_core::{
    Outcome, Time,
    credit::{Retries, Sends},
};

use super::{Body, BoxError, failure::failure};
use crate::{
    Clock, Rules, Upstream,
    context::Context,
    http::{
        IDEMPOTENCY_KEY, Pool, Replay, credential,
        grpc::{self, Code, Codes},
        hop, is_repeatable,
    },
    levers::route_key,
    run::Try,
    tower::{About, Ended, Inbound, Outbound, Refused},
};

/// Requests and replies of gRPC: what [`Service`](super::Service) goes by. See the [module](super).
#[derive(Debug, Clone, Copy)]
pub struct Grpc {
    pub(super) codes: Codes,
    pub(super) stamps: bool,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { codes: Codes::default(), stamps: true }
    }
}

/// One call's request.
#[derive(Debug)]
pub struct Source {
    parts: request::Parts,
    body: Replay<::tonic::body::Body>,
    repeatable: bool,
    /// When nobody waits any more, not even for the rest of the reply.
    by: Option<Time>,
}

impl Outbound<Request<::tonic::body::Body>> for Grpc {
    type Source = Source;
    type Outgoing = Request<::tonic::body::Body>;

    fn about(&self, request: &Request<::tonic::body::Body>, upstream: &Upstream) -> About {
        let method = request.uri().path();
        let class = upstream.class(route_key(method), || method.to_owned());
        About { class, credential: credential(request.headers()) }
    }

    fn source(&self, request: Request<::tonic::body::Body>, rules: &Rules) -> Source {
        let (mut parts, body) = request.into_parts();
        if !is_repeatable(&parts.method, &parts.headers)
            && let Some(key) = hop::key(rules)
        {
            parts.headers.insert(IDEMPOTENCY_KEY, key);
        }
        let repeatable = rules.unsafe_methods.repeats(&parts.method, &parts.headers);
        let body = Replay::new(body, Pool::global(), repeatable || rules.idempotent);
        let by = Context::current().and_then(|context| context.deadline());
        Source { parts, body, repeatable, by }
    }

    fn next(&self, source: &mut Source, attempt: &Try) -> Option<Self::Outgoing> {
        let mut parts = source.parts.clone();
        if self.stamps {
            hop::stamp(&mut parts.headers, attempt);
        }
        let left = source.by.map(|by| by.since(attempt.started));
        grpc::stamp(&mut parts.headers, attempt.number, left);
        Some(Request::from_parts(parts, ::tonic::body::Body::new(source.body.open())))
    }

    fn is_repeatable(&self, source: &Source) -> bool {
        source.repeatable
    }

    fn is_replayable(&self, source: &Source) -> bool {
        source.body.is_replayable()
    }

    fn is_whole(&self, source: &Source) -> bool {
        source.body.is_whole()
    }

    fn is_broken(&self, source: &Source) -> bool {
        source.body.has_failed()
    }

    fn is_chained(&self) -> bool {
        self.stamps
    }
}

type Reply<R> = Result<Response<Body<R>>, BoxError>;

impl<R: HttpBody> Inbound<Response<Body<R>>, BoxError> for Grpc {
    type Answer = Response<Body<R>>;
    type Keeping = Ready<Result<Reply<R>, Reply<R>>>;

    fn answer(&self, reply: Response<Body<R>>) -> Self::Answer {
        reply
    }

    fn classify(&self, result: &Reply<R>, clock: &Clock, _: &Rules) -> Outcome {
        match result {
            Ok(reply) => {
                let (status, headers) = (reply.status(), reply.headers());
                self.codes.classify(status, headers, reply.body(), clock.unix_now())
            }
            Err(error) => Outcome::Failed(failure(&**error)),
        }
    }

    fn told(&self, reply: &Self::Answer) -> Option<(Sends, Retries)> {
        hop::told(reply.headers())
    }

    fn keep(&self, result: Reply<R>, _: &Clock, _: Time) -> Self::Keeping {
        ready(Ok(result.map(|reply| reply.map(Body::without_rest))))
    }

    fn mark(&self, reply: &mut Self::Answer, ended: Ended) {
        reply.extensions_mut().insert(ended);
    }

    fn refuse(&self, refused: &Refused) -> Option<Self::Answer> {
        let Refused { reason, attempts, retry_in } = *refused;
        // Whoever was asked and said nothing was too slow, whatever forbade to ask again.
        let code = match Code::new(reason.grpc_code()) {
            Code::UNAVAILABLE if attempts > 0 => Code::DEADLINE_EXCEEDED,
            code => code,
        };
        Some(grpc::refusal(code, reason, attempts, retry_in).map(|()| Body::over()))
    }
}

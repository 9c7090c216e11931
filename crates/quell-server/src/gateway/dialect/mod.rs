//! Dialect: what differs between the protocols that pass through the gateway.
//!
//! **Why.** The way of a request is the same for all of them: admitted, sent, judged, perhaps sent again, answered. What differs
//! is small and spread along that way: what an attempt carries, how much of a reply has to be seen before it can be judged,
//! and in which words a refusal is understood. Here it is in one place, so that another protocol is a file beside the others
//! and a line in each verb.
//!
//! **How.** A request's dialect is known from its head. `open` takes what the dialect has to know of the request, `stamp`
//! writes what an attempt carries, `look` sees as much of a reply as it takes to judge it, and `refuse` says a refusal of
//! ours in the dialect's own words.

mod grpc;

use http::{HeaderMap, Method, Response, StatusCode};
use quell::Clock;
use quell::core::{Outcome, Time};

use self::grpc::Grpc;
use super::body::{Body, FromUpstream};
use super::counters::Told;
use super::forward::{Failed, Reply};
use super::route::Route;

/// Which protocol a request speaks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dialect {
    /// A reply's status says what became of it.
    Http,
    /// The status comes in trailers, after the reply.
    Grpc(Grpc),
}

impl Dialect {
    /// That of a request with these fields.
    pub(super) fn of(route: Option<&Route>, headers: &HeaderMap) -> Self {
        match grpc::is_spoken(route, headers) {
            true => Self::Grpc(Grpc::default()),
            false => Self::Http,
        }
    }

    /// Whether its requests may have idempotency keys.
    pub(super) fn has_keys(self) -> bool {
        matches!(self, Self::Http)
    }

    /// Whether a request is at work from its first message on, and not only once all of it is here.
    pub(super) fn streams(self) -> bool {
        matches!(self, Self::Grpc(_))
    }

    /// The class of a request on this route.
    pub(super) fn class(self, route: &Route, method: &Method, path: &str) -> u64 {
        match self {
            Self::Http => route.class_by_shape(method, path),
            Self::Grpc(_) => route.class_by_path(path),
        }
    }

    /// Takes from the request's fields what the dialect has to know. Its caller will have gone by then, if it said so.
    pub(super) fn open(self, route: &Route, headers: &mut HeaderMap, by: Option<Time>) -> Self {
        match self {
            Self::Http => self,
            Self::Grpc(_) => Self::Grpc(Grpc::open(route, headers, by)),
        }
    }

    /// Whether attempts carry anything of their own.
    pub(super) fn stamps(self) -> bool {
        matches!(self, Self::Grpc(_))
    }

    /// Writes what an attempt carries beside what every attempt carries.
    pub(super) fn stamp(self, headers: &mut HeaderMap, attempt: u32, now: Time) {
        if let Self::Grpc(grpc) = self {
            grpc.stamp(headers, attempt, now);
        }
    }

    /// Sees as much of a reply as it takes to judge it. One that breaks off before is none.
    pub(super) async fn look(
        self,
        reply: Response<FromUpstream>,
        clock: &Clock,
    ) -> Result<Reply, Failed> {
        match self {
            Self::Http => Ok(Reply::new(reply)),
            // Boxed, or every request's future would have room for it.
            Self::Grpc(grpc) => Box::pin(grpc.look(reply, clock)).await,
        }
    }

    /// What a reply came to.
    pub(super) fn judge(reply: &Reply, route: &Route) -> Outcome {
        match reply.judged() {
            Some(outcome) => outcome,
            None if reply.status().as_u16() < 300 => Outcome::Success, // needs no date
            None => {
                let unix_now = route.backend.upstream.clock().unix_now();
                route.statuses.classify(reply.status(), reply.headers(), unix_now)
            }
        }
    }

    /// A refusal of ours in the dialect's own words. What upstreams said stays as it is.
    pub(super) fn refuse(self, response: Response<Body>, told: Told) -> Response<Body> {
        match self {
            Self::Grpc(_) if response.body().is_own() && response.status().as_u16() >= 400 => {
                grpc::refuse(response, told)
            }
            _ => response,
        }
    }
}

/// The status that a judged reply has, or the one that means the same as what it came to.
pub(super) fn status(reply: &Reply) -> StatusCode {
    match reply.judged() {
        Some(Outcome::Failed(failure)) => {
            let code = failure.code.and_then(|code| StatusCode::from_u16(code).ok());
            code.unwrap_or(reply.status())
        }
        _ => reply.status(),
    }
}

//! gRPC: what differs about calls whose status comes after their reply.
//!
//! **Why.** A gRPC reply is an HTTP 200 whatever became of the call, and its callers look for a status where HTTP has none.
//! Judged by its head, every failure would be a success; refused with a 503, a caller would only learn that something in
//! between does not speak its language.
//!
//! **How.** A call is gRPC by its content type or by its route. Its replies are looked at up to the first message, the
//! trailers or a tenth of a second, and carry what that came to; its attempts say how many came before and what is left of
//! the caller's time; and refusals of ours become trailers at the very end, whoever made them. Everything else, trailers too,
//! passes as in any other call. A static `fallback` is HTTP and stays it.

use crate::config::RouteProtocol;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Response, StatusCode};
use quell::Clock;
use quell::core::{Reason, Time};
use quell::http::grpc::{self, Code, Codes};

use crate::gateway::body::{Body, FromUpstream};
use crate::gateway::counters::Told;
use crate::gateway::forward::{Failed, Reply};
use crate::gateway::route::Route;

/// What is known of a gRPC call.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::gateway) struct Grpc {
    /// When its caller will have gone, if it said so in gRPC's own way: only then those below are told.
    by: Option<Time>,
    /// Which codes are worth another attempt.
    codes: Codes,
}

/// Whether a request is gRPC's.
pub(super) fn is_spoken(route: Option<&Route>, headers: &HeaderMap) -> bool {
    route.is_some_and(|route| route.written.protocol == RouteProtocol::Grpc)
        || grpc::is_grpc(headers)
}

impl Grpc {
    /// A call whose caller will have gone by then. Where a policy does not retry a 503 or a 429, it does not retry the code
    /// that means the same; the other codes are nobody's to retry who does not know what the method does.
    /// How many attempts came before is ours to say.
    pub(super) fn open(route: &Route, headers: &mut HeaderMap, by: Option<Time>) -> Self {
        grpc::stamp(headers, 1, None);
        let usual = [Code::UNAVAILABLE, Code::RESOURCE_EXHAUSTED].into_iter();
        let codes = usual.filter(|code| route.statuses.contains(code.like().as_u16()));
        let by = by.filter(|_| headers.contains_key(grpc::TIMEOUT));
        Self { by, codes: Codes::of(codes) }
    }

    /// Writes what an attempt carries beside what every one does.
    pub(super) fn stamp(self, headers: &mut HeaderMap, attempt: u32, now: Time) {
        grpc::stamp(headers, attempt, self.by.map(|by| by.since(now)));
    }

    /// A reply with what it came to. One that breaks off before it has said anything is none.
    pub(super) async fn look(
        self,
        reply: Response<FromUpstream>,
        clock: &Clock,
    ) -> Result<Reply, Failed> {
        let (parts, body) = reply.into_parts();
        let body = grpc::peek(parts.status, &parts.headers, body, clock.clone()).await;
        let body = body.unbroken().map_err(|error| Failed::Broken(error.into()))?;
        let (status, headers) = (parts.status, &parts.headers);
        let outcome = self.codes.classify(status, headers, &body, clock.unix_now());
        Ok(Reply::judged_as(outcome, Response::from_parts(parts, body.into())))
    }
}

/// A refusal of ours as gRPC's callers read it: nothing but trailers, in the head of a 200.
pub(super) fn refuse(response: Response<Body>, told: Told) -> Response<Body> {
    let status = response.status();
    let (mut parts, body) = response.into_parts();
    let usual = status.canonical_reason().unwrap_or_default();
    let message = told.reason.map_or(usual, |reason| reason.as_str());
    parts.status = StatusCode::OK;
    parts.headers.remove(CONTENT_LENGTH);
    grpc::say(&mut parts.headers, code(status, told.reason), message, told.word);
    Response::from_parts(parts, Body::own(Default::default(), body.into_busy()))
}

/// The code of a refusal: that of its reason, unless its status says better what happened.
fn code(status: StatusCode, reason: Option<Reason>) -> Code {
    match reason {
        Some(reason) if reason.status() == status.as_u16() => Code::new(reason.grpc_code()),
        _ if status == StatusCode::GATEWAY_TIMEOUT => Code::DEADLINE_EXCEEDED,
        _ => Code::of_status(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusals_code_is_its_reasons_unless_its_status_says_better_what_happened() {
        for reason in Reason::ALL {
            let status = StatusCode::from_u16(reason.status()).unwrap();
            assert_eq!(code(status, Some(*reason)).get(), reason.grpc_code(), "{reason}");
        }
        let spent = Some(Reason::AttemptsSpent);
        assert_eq!(code(StatusCode::BAD_GATEWAY, spent), Code::UNAVAILABLE);
        assert_eq!(code(StatusCode::GATEWAY_TIMEOUT, spent), Code::DEADLINE_EXCEEDED);
        assert_eq!(code(StatusCode::BAD_REQUEST, None), Code::INTERNAL);
    }
}

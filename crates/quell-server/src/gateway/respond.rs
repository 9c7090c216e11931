//! Respond: the upstream's reply with its status and body unchanged, or one of our own that says why.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use quell::core::credit::Sends;
use quell::core::{Outcome, Reason, Time};
use quell::http::headers::{Answer, answer};
use quell::http::{Word, reasoned, refusal};
use quell::run::{Done, End};

use super::body::Body;
use super::counters::{Pending, Verdict};
use super::dialect;
use super::forward::{Failed, Reply, Switched};
use super::gate::Malformed;
use super::route::Route;
use super::watch::Busy;

/// The longest that a caller is told to stay away for because the breaker is open.
const LONGEST_OPEN: Duration = Duration::from_secs(10);
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// A call that came to its end.
pub(super) type Ended = Done<Result<Reply, Failed>, Result<Reply, Failed>>;

/// The reply to a call that came to its end, and the upstream's connection if that switches protocols. `has_credit` says whether
/// the caller lent us some.
pub(super) fn reply(
    route: &Route,
    done: Ended,
    now: Time,
    has_credit: bool,
    busy: Busy,
    counted: &mut Pending<'_>,
) -> (Response<Body>, Option<Switched>) {
    let Done { end, outcome, reason, attempts, retry_at, credit, .. } = done;
    if let Some(reason) = reason {
        match end {
            End::Refused { earlier: None } if attempts == 0 => counted.counters.refuse(reason),
            _ => counted.counters.deny(reason),
        }
    }
    counted.reason = reason;
    // A breaker that people hold open may be let go of at any time.
    let most = if reason == Some(Reason::BreakerOpen) { LONGEST_OPEN } else { Duration::MAX };
    let wait = retry_at.map(|at| at.since(now).min(most));
    let is_streaming = matches!(end, End::Reply(Ok(_)));
    let mut switched = None;
    let (verdict, mut response, is_ours) = match end {
        End::Reply(Ok(reply)) | End::Kept(Ok(reply)) => {
            let verdict = match reason {
                None => Verdict::Success,
                Some(_) if dialect::status(&reply).is_client_error() => Verdict::Rejected,
                Some(_) => Verdict::Failed,
            };
            let (response, connection) = reply.into_response();
            switched = connection;
            (verdict, response.map(|body| Body::new(body, busy)), false)
        }
        End::Reply(Err(Failed::Caller)) | End::Kept(Err(Failed::Caller)) => {
            (Verdict::Abandoned, broke_off(busy), true)
        }
        End::Reply(Err(failed)) | End::Kept(Err(failed)) => {
            let response = match failed {
                Failed::Connect(_) => own(502, "no connection to the upstream", "CONNECT", busy),
                _ => broken(busy),
            };
            (Verdict::Failed, response, true)
        }
        End::TimedOut { .. } if outcome == Outcome::Abandoned => {
            let response = own(408, "the request's body did not come in time", "BODY", busy);
            (Verdict::Abandoned, response, true)
        }
        End::TimedOut { .. } => {
            (Verdict::Failed, own(504, "the upstream did not reply in time", "TIMEOUT", busy), true)
        }
        End::Refused { .. } => {
            let reason = reason.unwrap_or(Reason::Shed);
            let response = reasoned(reason.status(), reason, attempts);
            (Verdict::Refused, response.map(|bytes| Body::own(bytes, busy)), true)
        }
    };
    counted.verdict = verdict;
    if let (Some(reason), Some(fallback)) = (reason, &route.written.fallback)
        && verdict != Verdict::Abandoned
        && reason.allows_fallback()
    {
        response = instead(response, fallback);
    }
    let sends = credit.map_or(Sends::new(attempts), |credit| credit.sends());
    let credit = credit.filter(|_| has_credit).map(|credit| credit.returned());
    let word = reason.and_then(|reason| Word::on(reason, wait));
    counted.word = word;
    let stop = counted.told().reason;
    answer(response.headers_mut(), Answer { sends, stop, credit, word, is_ours });
    if !is_streaming {
        farewell_if_unread(&mut response);
    }
    (response, switched)
}

/// What the route gives in place of what there is not. The connection of a reply that it replaces is let go.
fn instead(response: Response<Body>, fallback: &crate::config::Fallback) -> Response<Body> {
    let (_, body) = response.into_parts();
    let body = Body::own(Bytes::from(fallback.body.clone()), body.into_busy());
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(fallback.status).unwrap_or_default();
    if let Ok(kind) = HeaderValue::from_str(&fallback.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// The reply to a request that goes no further than the gate. Its body's end is not to be trusted.
pub(super) fn malformed(malformed: Malformed, busy: Busy) -> Response<Body> {
    let Malformed { status, code, error } = malformed;
    let mut response = own(status.as_u16(), error, code, busy);
    answer(response.headers_mut(), Answer::after(Sends::default()));
    response.headers_mut().insert(CONNECTION, CLOSE);
    response
}

/// A refusal before there is a call.
pub(super) fn refused(
    reason: Reason,
    wait: Option<Duration>,
    busy: Busy,
    counted: &mut Pending<'_>,
) -> Response<Body> {
    counted.refuse(reason, wait);
    let mut response =
        refusal(reason.status(), reason, 0, wait).map(|bytes| Body::own(bytes, busy));
    farewell_if_unread(&mut response);
    response
}

/// Nobody reads the rest of this request, so none can follow it: its caller should know before it sends one.
fn farewell_if_unread(response: &mut Response<Body>) {
    if response.body().is_ahead_of_its_request() {
        farewell(response);
    }
}

/// The reply in place of one that broke off before any of it went out.
pub(super) fn broken(busy: Busy) -> Response<Body> {
    own(502, "the upstream broke off before it replied", "BROKEN", busy)
}

/// The reply to a request whose body broke off.
pub(super) fn broke_off(busy: Busy) -> Response<Body> {
    own(400, "the request's body broke off", "BODY", busy)
}

/// The reply to a request whose body is longer than what is read for a key. Its rest is not waited for.
pub(super) fn too_long(busy: Busy) -> Response<Body> {
    let error = "a body with an Idempotency-Key may have 1 MiB";
    let mut response = own(413, error, "BODY_TOO_LARGE", busy);
    answer(response.headers_mut(), Answer::after(Sends::default()));
    response
}

/// Asks an HTTP/1 caller to come back on another connection, as this one is about to be closed.
pub(super) fn farewell(response: &mut Response<Body>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
}

fn own(status: u16, error: &str, code: &str, busy: Busy) -> Response<Body> {
    quell::http::own(status, error, code).map(|bytes| Body::own(bytes, busy))
}

//! Respond: the upstream's reply with its status and body unchanged, or one of our own that says why.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use quell::core::{Reason, Time, credit::Sends};
use quell::http::headers::{Answer, answer, retry_after};
use quell::run::{Done, End};

use super::body::Body;
use super::counters::{Pending, Verdict};
use super::forward::{Failed, Kept, Reply};
use super::gate::Malformed;
use super::per_core::Core;
use super::watch::Busy;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The reply to a call that came to its end.
pub(super) fn reply(
    done: Done<Result<Reply, Failed>, Kept>,
    now: Time,
    busy: Busy,
    counted: &mut Pending<'_>,
) -> Response<Body> {
    let Done { end, reason, attempts, retry_at, .. } = done;
    if let Some(reason) = reason {
        match end {
            End::Refused { earlier: None } => counted.counters.refuse(reason),
            _ => counted.counters.deny(reason),
        }
    }
    let mut response = match end {
        End::Reply(Ok(Reply { status, headers, body })) => {
            counted.verdict = match reason {
                None => Verdict::Success,
                Some(_) if status.is_client_error() => Verdict::Rejected,
                Some(_) => Verdict::Failed,
            };
            with(status, headers, Body::stream(body, busy))
        }
        End::Kept(Kept::Whole(whole)) => {
            counted.verdict = Verdict::Failed;
            with(whole.status, whole.headers, Body::whole(whole.bytes, busy))
        }
        End::Reply(Err(failed)) | End::Kept(Kept::Failed(failed)) => {
            let (status, code, error) = match failed {
                Failed::Connect(_) => (502, "connect", "no connection to the upstream"),
                Failed::Broken(_) => (502, "broken", "the upstream broke off before it replied"),
                Failed::Caller => (400, "body", "the request's body broke off"),
            };
            counted.verdict = if status == 400 { Verdict::Abandoned } else { Verdict::Failed };
            own(status, code, error, busy)
        }
        End::TimedOut { .. } => {
            counted.verdict = Verdict::Failed;
            own(504, "timeout", "the upstream did not reply in time", busy)
        }
        End::Refused { .. } => {
            counted.verdict = Verdict::Refused;
            refusal(reason.unwrap_or(Reason::Shed), retry_at, now, busy)
        }
    };
    answer(response.headers_mut(), Answer { stop: reason, ..Answer::after(Sends::new(attempts)) });
    response
}

/// The reply to a request that goes no further than the gate. Its body's end is not to be trusted.
pub(super) fn malformed(malformed: Malformed, busy: Busy) -> Response<Body> {
    let Malformed { status, code, error } = malformed;
    let mut response = own(status.as_u16(), code, error, busy);
    answer(response.headers_mut(), Answer::after(Sends::default()));
    response.headers_mut().insert(CONNECTION, CLOSE);
    response
}

/// Asks the caller to come back on another connection, if this one is about to be closed.
pub(super) fn farewell(core: &Core, response: &mut Response<Body>) {
    if core.draining.get() {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn refusal(reason: Reason, retry_at: Option<Time>, now: Time, busy: Busy) -> Response<Body> {
    let mut response = own(reason.status(), reason.as_str(), "refused by quell", busy);
    if reason.sends_retry_after() {
        let wait = retry_at.map_or(Duration::ZERO, |at| at.since(now));
        response.headers_mut().insert(RETRY_AFTER, retry_after(wait));
    }
    response
}

fn own(status: u16, code: &str, error: &str, busy: Busy) -> Response<Body> {
    let mut text = String::with_capacity(96);
    // Writing to a string cannot fail, and both parts are ours and need no escapes.
    let _ = write!(text, "{{\"error\":\"{error}\",\"code\":\"{code}\"}}");
    let mut response = Response::new(Body::whole(Bytes::from(text), busy));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

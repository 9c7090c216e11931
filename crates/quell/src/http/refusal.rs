//! Refusals: replies of our own, which say why and whether to come back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use quell_core::{Reason, credit::Sends};

use super::headers::{self, Answer};

/// Most replies of ours have no more fields.
const FIELDS: usize = 6;

/// A reply of our own: the status, `quell-stop` with the reason, `quell-retry` and `Retry-After` as far as there is a
/// word to say, `quell-attempts`, and a short JSON body with the reason in capitals. Nothing of the request or of an
/// upstream's error is in it.
///
/// ```
/// use quell::{Reason, http::refusal};
///
/// let reply = refusal(503, Reason::BudgetEmpty, 1, None);
/// assert_eq!(&reply.headers()["quell-retry"], "no");
/// assert_eq!(reply.body(), r#"{"error":"no further attempt was made","code":"BUDGET_EMPTY"}"#);
/// ```
pub fn refusal(
    status: u16,
    reason: Reason,
    attempts: u32,
    retry_in: Option<Duration>,
) -> Response<Bytes> {
    let mut response = reasoned(status, reason, attempts);
    let answer = Answer::stopped(Sends::new(attempts), reason, retry_in, true);
    headers::answer(response.headers_mut(), answer);
    response
}

/// A [`refusal`] that does not say yet whether to come back, for whoever [says more](headers::answer).
///
/// ```
/// use quell::{Reason, http::reasoned};
///
/// let reply = reasoned(429, Reason::RateLimited, 0);
/// assert_eq!(reply.body(), r#"{"error":"Rate limit exceeded","code":"RATE_LIMITED"}"#);
/// assert!(!reply.headers().contains_key("quell-stop"));
/// ```
pub fn reasoned(status: u16, reason: Reason, attempts: u32) -> Response<Bytes> {
    let error = match attempts {
        _ if reason == Reason::RateLimited => "Rate limit exceeded",
        0 => "the call was refused",
        _ => "no further attempt was made",
    };
    own(status, error, &reason.as_str().to_ascii_uppercase())
}

/// A reply whose body is a sentence and a code, our own words: neither needs escapes.
///
/// ```
/// let reply = quell::http::own(502, "no connection to the upstream", "CONNECT");
/// assert_eq!(reply.body(), r#"{"error":"no connection to the upstream","code":"CONNECT"}"#);
/// ```
pub fn own(status: u16, error: &str, code: &str) -> Response<Bytes> {
    let body = [r#"{"error":""#, error, r#"","code":""#, code, r#""}"#].concat();
    let mut response = Response::new(Bytes::from(body));
    *response.headers_mut() = HeaderMap::with_capacity(FIELDS);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

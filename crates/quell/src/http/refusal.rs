//! Refusals: replies of our own, which say why and whether to come back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use quell_core::{Reason, credit::Sends};

use super::headers::{self, Answer};

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
    let error = match attempts {
        _ if reason == Reason::RateLimited => "Rate limit exceeded",
        0 => "the call was refused",
        _ => "no further attempt was made",
    };
    let mut response = own(status, error, &reason.as_str().to_ascii_uppercase());
    let answer = Answer::stopped(Sends::new(attempts), reason, retry_in, true);
    headers::answer(response.headers_mut(), answer);
    response
}

/// A reply whose body is a sentence and a code, our own words: neither needs escapes.
///
/// ```
/// let reply = quell::http::own(502, "no connection to the upstream", "CONNECT");
/// assert_eq!(reply.body(), r#"{"error":"no connection to the upstream","code":"CONNECT"}"#);
/// ```
pub fn own(status: u16, error: &str, code: &str) -> Response<Bytes> {
    let mut response =
        Response::new(Bytes::from(format!(r#"{{"error":"{error}","code":"{code}"}}"#)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

//! Respond: replies of our own, each with its reason in words, in a code and in a header.

use ::http::{HeaderValue, header::RETRY_AFTER};
use axum_core::{body::Body, response::Response};
use quell_core::Reason;

use crate::http::{
    self,
    headers::{RETRY, STOP},
    whole::Whole,
};

/// What the caller should do, where `Retry-After` cannot say it.
const NO: HeaderValue = HeaderValue::from_static("no");

/// The reply to a request that goes no further. `wait` is how long until the same request may pass; `None` is never.
pub(super) fn refusal(reason: Reason, wait: Option<Whole>) -> Response {
    let mut response = own(reason.status(), error(reason), &reason.as_str().to_ascii_uppercase());
    let headers = response.headers_mut();
    headers.insert(STOP, HeaderValue::from_static(reason.as_str()));
    match wait {
        Some(Whole(seconds)) if reason.sends_retry_after() => {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        Some(_) => {}
        None => {
            headers.insert(RETRY, NO);
        }
    }
    response
}

/// A reply with a body that is a sentence and a code.
pub(super) fn own(status: u16, error: &str, code: &str) -> Response {
    http::refusal::own(status, error, code).map(Body::from)
}

fn error(reason: Reason) -> &'static str {
    match reason {
        Reason::RateLimited => "Rate limit exceeded",
        Reason::InFlightFull | Reason::QueueFull => "Too many requests are under way",
        Reason::QueueWait => "Waited too long for a turn",
        Reason::DeadlineMargin => "Too little time was left to answer in",
        Reason::Shed => "Dropped in favour of more important requests",
        Reason::Deadline => "No answer in time",
        Reason::KeyMissing => {
            "An Idempotency-Key header of 1 to 255 visible characters is required"
        }
        Reason::KeyInFlight => "A request with this Idempotency-Key is under way or was answered",
        Reason::KeyMismatch => "This Idempotency-Key was used with another request",
        Reason::StoreDown => "Idempotency keys cannot be checked now",
        _ => "Refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_waiting_does_not_help_says_so_instead_of_when() {
        let never = refusal(Reason::RateLimited, None);
        assert_eq!(never.headers().get(RETRY), Some(&NO));
        assert_eq!(never.headers().get(RETRY_AFTER), None);
        let mismatch = refusal(Reason::KeyMismatch, Some(Whole(1)));
        assert_eq!(mismatch.headers().get(RETRY_AFTER), None, "422 does not get better by waiting");
    }
}

//! Respond: replies of our own, each with its reason in words, in a code and in a header.

use std::time::Duration;

use ::http::{HeaderValue, header::RETRY_AFTER};
use axum_core::{body::Body, response::Response};
use quell_core::{Reason, Rng};

use crate::http::{
    self,
    headers::{RETRY, STOP, whole_seconds},
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

/// A wait in whole seconds, as `Retry-After` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole(pub(super) u64);

impl Whole {
    /// Rounded up, and at least one: never earlier than promised.
    pub(super) fn of(wait: Duration) -> Self {
        Self(whole_seconds(wait))
    }

    /// Up to half as much again, and at least up to one second more: those who were refused together do not come back together.
    pub(super) fn jittered(self, rng: &mut Rng) -> Self {
        let spread = self.0.div_ceil(2);
        Self(self.0.saturating_add(rng.below(spread.saturating_add(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_rounded_up_and_at_least_one() {
        let cases = [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (1_999, 2), (2_000, 2)];
        for (ms, seconds) in cases {
            assert_eq!(Whole::of(Duration::from_millis(ms)), Whole(seconds), "{ms} ms");
        }
        assert_eq!(Whole::of(Duration::MAX), Whole(u64::MAX));
    }

    #[test]
    fn jitter_is_never_early_and_spreads_over_half_the_wait() {
        let mut rng = Rng::new(1);
        for seconds in [1, 2, 10, 60] {
            let drawn: Vec<_> = (0..1_000).map(|_| Whole(seconds).jittered(&mut rng).0).collect();
            assert_eq!(drawn.iter().min(), Some(&seconds));
            assert_eq!(drawn.iter().max(), Some(&(seconds + seconds.div_ceil(2))));
        }
        assert_eq!(Whole(u64::MAX).jittered(&mut rng), Whole(u64::MAX));
    }

    #[test]
    fn a_refusal_that_waiting_does_not_help_says_so_instead_of_when() {
        let never = refusal(Reason::RateLimited, None);
        assert_eq!(never.headers().get(RETRY), Some(&NO));
        assert_eq!(never.headers().get(RETRY_AFTER), None);
        let mismatch = refusal(Reason::KeyMismatch, Some(Whole(1)));
        assert_eq!(mismatch.headers().get(RETRY_AFTER), None, "422 does not get better by waiting");
    }
}

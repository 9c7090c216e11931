//! Statuses: which replies are failures, of what kind, and which are worth another attempt.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use quell_core::{Delivery, Failure, Fault, Outcome};

use super::{Word, hint};

/// Which statuses are worth another attempt. What they say of the upstream's health does not depend on it.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use quell::http::Statuses;
///
/// let llm = Statuses::of(&[429, 500, 503, 529]);
/// let overloaded = StatusCode::from_u16(529)?;
/// let classify = |statuses: &Statuses| statuses.classify(overloaded, &HeaderMap::new(), Default::default());
/// assert!(classify(&llm).is_retryable() && !classify(&llm).is_bad());
/// assert!(!classify(&Statuses::default()).is_retryable());
/// # Ok::<_, http::status::InvalidStatusCode>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statuses([u64; 16]);

impl Default for Statuses {
    /// 408, 425, 429, 500, 502, 503 and 504.
    fn default() -> Self {
        Self::of(&[408, 425, 429, 500, 502, 503, 504])
    }
}

impl Statuses {
    /// These statuses; numbers that are no status are ignored.
    pub const fn of(codes: &[u16]) -> Self {
        let (mut bits, mut i) = ([0; 16], 0);
        while i < codes.len() {
            if codes[i] < 1_000 {
                bits[codes[i] as usize / 64] |= 1 << (codes[i] % 64);
            }
            i += 1;
        }
        Self(bits)
    }

    /// Whether this one is among them.
    pub const fn contains(&self, code: u16) -> bool {
        code < 1_000 && self.0[code as usize / 64] & (1 << (code % 64)) != 0
    }

    /// What a reply with this status and these headers comes to; `unix_now` is for dates in the headers.
    pub fn classify(&self, status: StatusCode, headers: &HeaderMap, unix_now: Duration) -> Outcome {
        let code = status.as_u16();
        if code < 400 {
            return Outcome::Success;
        }
        let retryable = self.contains(code);
        let hint = if retryable || matches!(code, 429 | 503 | 529) {
            hint(headers, unix_now)
        } else {
            None // a gone resource's word must not hold back everybody's retries
        };
        let (fault, bad) = match code {
            429 | 529 => (Fault::Overload, false),
            503 if hint.is_some() => (Fault::Overload, false),
            501 | 505 => (Fault::Fatal, true),
            408 => (Fault::Timeout, false),
            400..=499 if retryable => (Fault::Server, false),
            400..=499 => (Fault::Fatal, false),
            _ => (Fault::Server, true),
        };
        let delivery = match code {
            502..=504 => Delivery::Unknown, // often said by somebody in between
            _ => Delivery::Processed,
        };
        let failure =
            Failure { code: Some(code), delivery, hint, retryable, bad, ..Failure::of(fault) };
        Outcome::Failed(match Word::read(headers) {
            Some(Word::No) => failure.forbidden(),
            Some(Word::After(_)) | None => failure,
        })
    }
}

/// [`Statuses::classify`] with the usual statuses.
pub fn classify(status: StatusCode, headers: &HeaderMap, unix_now: Duration) -> Outcome {
    const USUAL: Statuses = Statuses::of(&[408, 425, 429, 500, 502, 503, 504]);
    USUAL.classify(status, headers, unix_now)
}

#[cfg(test)]
mod tests {
    use quell_core::Reason;

    use super::*;

    fn outcome(code: u16, hint: Option<&'static str>) -> Outcome {
        let mut headers = HeaderMap::new();
        if let Some(hint) = hint {
            headers.insert("retry-after", hint.parse().unwrap());
        }
        classify(StatusCode::from_u16(code).unwrap(), &headers, Duration::ZERO)
    }

    /// H7 among others: the whole table.
    #[test]
    fn every_status_means_what_the_table_says() {
        for code in 100..=999 {
            let (retryable, bad) = match code {
                100..400 => {
                    assert_eq!(outcome(code, None), Outcome::Success);
                    continue;
                }
                408 | 425 | 429 => (true, false),
                500 | 502 | 503 | 504 => (true, true),
                529 => (false, false),
                400..500 => (false, false),
                _ => (false, true), // 501, 505 and whatever else there is
            };
            let got = outcome(code, None);
            assert_eq!((got.is_retryable(), got.is_bad()), (retryable, bad), "{code}");
            let served = matches!(code, 400..500) && ![408, 425, 429].contains(&code);
            assert_eq!(got.is_served(), served, "{code}");
        }
    }

    #[test]
    fn a_503_with_a_hint_is_overload_and_does_not_trip_the_breaker() {
        assert!(outcome(503, None).is_bad());
        assert!(!outcome(503, Some("1")).is_bad());
        assert!(outcome(503, Some("soon")).is_bad());
        assert!(outcome(500, Some("1")).is_bad());
    }

    #[test]
    fn a_fatal_replys_hint_holds_nobody_back() {
        let Outcome::Failed(failure) = outcome(404, Some("60")) else { panic!() };
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn a_server_that_says_not_to_retry_is_not_retried_and_its_health_is_judged_as_ever() {
        for (name, value) in [("quell-retry", "no"), ("x-should-retry", "false")] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let told =
                |code| classify(StatusCode::from_u16(code).unwrap(), &headers, Duration::ZERO);
            let Outcome::Failed(failure) = told(503) else { panic!() };
            assert_eq!(failure.allows_another(), Err(Reason::ToldNotTo));
            assert!(failure.bad);
            let Outcome::Failed(failure) = told(404) else { panic!() };
            assert_eq!(failure.allows_another(), Err(Reason::NotRetryable));
            assert_eq!(told(200), Outcome::Success);
        }
    }

    #[test]
    fn no_reply_counts_as_never_sent() {
        for code in 400..=999 {
            let Outcome::Failed(failure) = outcome(code, None) else { panic!() };
            assert_ne!(failure.delivery, Delivery::NeverSent);
        }
    }

    #[test]
    fn a_list_holds_what_was_written_and_nothing_else() {
        let statuses = Statuses::of(&[100, 429, 999, 1_000, u16::MAX]);
        let held: Vec<_> = (0..=u16::MAX).filter(|&code| statuses.contains(code)).collect();
        assert_eq!(held, [100, 429, 999]);
    }
}

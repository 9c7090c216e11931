//! Words: what a server says outright about another attempt.

use std::{fmt, time::Duration};

use http::{HeaderMap, header::AsHeaderName};
use quell_core::Reason;

use super::{grpc, headers, when};

/// What the caller is to do about another attempt: the value of `quell-retry`.
///
/// The providers' own `x-should-retry: false` is the same as `no`. Its `true` is not listened to, for a server's word
/// may only stop a retry, never cause one.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::Word;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("quell-retry", HeaderValue::from_static("after=3"));
/// assert_eq!(Word::read(&headers), Some(Word::After(Duration::from_secs(3))));
/// headers.insert("x-should-retry", HeaderValue::from_static("false"));
/// assert_eq!(Word::read(&headers), Some(Word::No));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Not again.
    No,
    /// Not before.
    After(Duration),
}

impl Word {
    /// What a reply says. The strictest of several counts, and what cannot be read was not said.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let ours = texts(headers, headers::RETRY).filter_map(Self::parse);
        let providers = texts(headers, "x-should-retry")
            .filter_map(|text| text.eq_ignore_ascii_case("false").then_some(Self::No));
        ours.chain(providers).max_by_key(|word| match word {
            Self::No => Duration::MAX,
            Self::After(wait) => *wait,
        })
    }

    /// What a reply should say if there was no further attempt here for this reason, and the caller may come back
    /// after `wait`. Whoever stopped because retries are spent, useless or forbidden says so to its caller, or the
    /// caller would make the retries that were refused here. Where the caller can do what we could not (it has more
    /// time, the whole body, or credit), it is told nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use quell::{Reason, http::Word};
    ///
    /// assert_eq!(Word::on(Reason::BudgetEmpty, None), Some(Word::No));
    /// let open = Word::on(Reason::BreakerOpen, Some(Duration::from_millis(1_200)));
    /// assert_eq!(open.map(|word| word.to_string()).as_deref(), Some("after=2"));
    /// assert_eq!(Word::on(Reason::NotReplayable, None), None);
    /// ```
    pub fn on(reason: Reason, wait: Option<Duration>) -> Option<Self> {
        use Reason::*;
        match reason {
            BudgetEmpty | AttemptsSpent | CreditSpent | ToldNotTo | NotRetryable | NotSafe
            | KeyMissing | KeyMismatch | CostCeiling | Unauthorized | NoRoute => Some(Self::No),
            BreakerOpen | ProbeLimit | InFlightFull | QueueFull | QueueWait | DeadlineMargin
            | RateLimited | NotBefore | Shed | KeyInFlight | StoreDown | PoolFull | Draining => {
                Some(Self::After(wait.unwrap_or_default()))
            }
            HintTooLong => wait.map(Self::After), // the upstream's own word, passed on
            Interior | Deadline | NotReplayable | RetriesOff | NoEndpoint | ClientGone => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("no") {
            return Some(Self::No);
        }
        text.strip_prefix("after=").and_then(when::seconds).map(Self::After)
    }
}

impl fmt::Display for Word {
    /// As it stands in the header: whole seconds, rounded up and at least one, so never earlier than meant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("no"),
            Self::After(wait) => write!(f, "after={}", headers::whole_seconds(*wait)),
        }
    }
}

/// What a gRPC server says about another attempt, by `grpc-retry-pushback-ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushback {
    /// After exactly this long.
    After(Duration),
    /// Not again: it is negative, or cannot be read.
    Stop,
}

/// The pushback in a gRPC reply's headers or trailers, if there is one. gRPC wants garbage to be a stop: a server that
/// pushes back is in trouble, whatever else it meant.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::{Pushback, grpc_pushback};
///
/// let mut trailers = HeaderMap::new();
/// assert_eq!(grpc_pushback(&trailers), None);
/// trailers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("250"));
/// assert_eq!(grpc_pushback(&trailers), Some(Pushback::After(Duration::from_millis(250))));
/// trailers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("-1"));
/// assert_eq!(grpc_pushback(&trailers), Some(Pushback::Stop));
/// ```
pub fn grpc_pushback(headers: &HeaderMap) -> Option<Pushback> {
    let mut values = headers.get_all(grpc::PUSHBACK).into_iter();
    let only = (values.next()?, values.next());
    let (value, None) = only else { return Some(Pushback::Stop) };
    let millis = value.to_str().ok().and_then(when::number).filter(|ms| *ms <= i32::MAX as u64);
    Some(millis.map_or(Pushback::Stop, |ms| Pushback::After(Duration::from_millis(ms))))
}

/// The values of a field that are text, without the blanks around them.
pub(crate) fn texts(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).map(str::trim)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(fields: &[(&'static str, &'static str)]) -> Option<Word> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        Word::read(&headers)
    }

    #[test]
    fn whoever_may_not_be_asked_again_is_told_so_and_whoever_may_is_told_when() {
        for reason in Reason::ALL {
            let no = "budget_empty attempts_spent credit_spent told_not_to not_retryable not_safe key_missing \
                      key_mismatch cost_ceiling unauthorized no_route";
            let silent = "interior deadline not_replayable retries_off no_endpoint client_gone";
            let among = |words: &str| words.split_whitespace().any(|word| word == reason.as_str());
            let wait = Some(Duration::from_secs(7));
            let expected = match () {
                () if among(no) => Some(Word::No),
                () if among(silent) => None,
                () => Some(Word::After(Duration::from_secs(7))),
            };
            assert_eq!(Word::on(*reason, wait), expected, "{reason}");
        }
        assert_eq!(Word::on(Reason::HintTooLong, None), None);
    }

    #[test]
    fn the_strictest_word_counts_and_garbage_was_not_said() {
        let after = |seconds| Some(Word::After(Duration::from_secs(seconds)));
        assert_eq!(word(&[("quell-retry", " NO ")]), Some(Word::No));
        assert_eq!(word(&[("quell-retry", "after=2"), ("quell-retry", "after=7")]), after(7));
        assert_eq!(word(&[("quell-retry", "after=2"), ("quell-retry", "no")]), Some(Word::No));
        assert_eq!(word(&[("quell-retry", "after=2"), ("x-should-retry", "true")]), after(2));
        assert_eq!(word(&[("quell-retry", "after=99999999999999999999999")]), after(u64::MAX));
        for garbage in ["", "yes", "after", "after=", "after=-1", "after=1.5", "no, after=1"] {
            assert_eq!(word(&[("quell-retry", garbage), ("x-should-retry", garbage)]), None);
        }
    }

    #[test]
    fn a_word_that_is_written_and_read_is_never_earlier() {
        for ms in [0, 1, 999, 1_000, 1_001, 59_001] {
            let meant = Duration::from_millis(ms);
            let read = Word::parse(&Word::After(meant).to_string());
            assert!(
                matches!(read, Some(Word::After(wait)) if wait >= meant.max(Duration::from_secs(1)))
            );
        }
        assert_eq!(Word::parse(&Word::No.to_string()), Some(Word::No));
    }

    /// Where our own refusal has a `Retry-After`, the word agrees with it.
    #[test]
    fn refusals_that_say_when_to_come_back_say_so_in_both_ways() {
        for &reason in Reason::ALL {
            if let Some(Word::After(_)) = Word::on(reason, None) {
                assert!(reason.sends_retry_after(), "{reason}");
            }
        }
        let spent = [Reason::BudgetEmpty, Reason::AttemptsSpent, Reason::CreditSpent];
        assert!(spent.iter().all(|&reason| Word::on(reason, None) == Some(Word::No)));
    }

    /// H2.
    #[test]
    fn a_negative_or_unreadable_pushback_is_a_stop() {
        let pushback = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = http::HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.append("grpc-retry-pushback-ms", value);
            }
            grpc_pushback(&headers)
        };
        assert_eq!(pushback(&[]), None);
        assert_eq!(pushback(&["0"]), Some(Pushback::After(Duration::ZERO)));
        assert_eq!(pushback(&["1500"]), Some(Pushback::After(Duration::from_millis(1_500))));
        for garbage in
            ["", "-1", "-0", "+1", "1.5", " 1", "soon", "2147483648", "9999999999999999999999", "é"]
        {
            assert_eq!(pushback(&[garbage]), Some(Pushback::Stop), "{garbage:?}");
        }
        assert_eq!(pushback(&["1", "1"]), Some(Pushback::Stop));
    }

    proptest! {
        #[test]
        fn no_bytes_break_a_word_or_a_pushback(bytes: Vec<u8>) {
            if let Ok(value) = http::HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                for name in ["quell-retry", "x-should-retry", "grpc-retry-pushback-ms"] {
                    headers.append(name, value.clone());
                }
                let _ = (Word::read(&headers), grpc_pushback(&headers));
            }
        }
    }
}

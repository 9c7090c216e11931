//! Hints: the upstream's own word on when to come back.

use std::time::Duration;

use http::HeaderMap;

use super::{Word, when, word::texts};

const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// What is left of a quota, and in how long it is whole again (OpenAI).
const QUOTAS: [(&str, &str); 2] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
];

/// What is left of a quota, and when it is whole again (Anthropic).
const DATED_QUOTAS: [(&str, &str); 4] = [
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
];

/// How long the upstream asks to be left alone. The longest of all that it says wins: no retry may fire before a hint.
/// A date in the past is no wait at all, an absurd number is for ever (which a policy's cap turns into a stop), and what
/// cannot be read was not said.
///
/// | field | form |
/// |---|---|
/// | `Retry-After` | seconds, or a date in any of HTTP's three forms |
/// | `retry-after-ms`, `x-ms-retry-after-ms` | milliseconds |
/// | `quell-retry: after=<s>` | seconds |
/// | `x-ratelimit-reset-{requests,tokens}` | OpenAI's: `1s`, `6m0s`, `20ms` |
/// | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-reset` | a date as in RFC 3339 |
///
/// The providers send their resets with every reply, and most of them are about quotas that are far from spent. So a
/// reset counts only where the quota's `remaining` is 0, or is not said: then nothing but waiting helps.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.append("retry-after", HeaderValue::from_static("Thu, 01 Jan 1970 00:01:30 GMT"));
/// headers.append("retry-after-ms", HeaderValue::from_static("1500"));
/// let unix_now = Duration::from_secs(60);
/// assert_eq!(quell::http::hint(&headers, unix_now), Some(Duration::from_secs(30)));
///
/// headers.append("x-ratelimit-reset-tokens", HeaderValue::from_static("6m0s"));
/// headers.append("x-ratelimit-remaining-tokens", HeaderValue::from_static("149984"));
/// assert_eq!(quell::http::hint(&headers, unix_now), Some(Duration::from_secs(30)));
/// headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
/// assert_eq!(quell::http::hint(&headers, unix_now), Some(Duration::from_secs(360)));
/// ```
pub fn hint(headers: &HeaderMap, unix_now: Duration) -> Option<Duration> {
    let whole = texts(headers, "retry-after")
        .filter_map(|text| when::seconds(text).or_else(|| when::http_date(text, unix_now)));
    let finer = MILLISECONDS.into_iter().flat_map(|name| texts(headers, name));
    let word = Word::read(headers).and_then(|word| match word {
        Word::After(wait) => Some(wait),
        Word::No => None, // not about time
    });
    let resets = spent(headers, &QUOTAS).filter_map(when::units);
    let dated = spent(headers, &DATED_QUOTAS).filter_map(|text| when::rfc3339(text, unix_now));
    whole.chain(finer.filter_map(when::milliseconds)).chain(word).chain(resets).chain(dated).max()
}

/// The resets of quotas of which nothing is left, as far as is said.
fn spent<'a>(
    headers: &'a HeaderMap,
    quotas: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = &'a str> {
    let is_spent = |remaining| {
        let least = texts(headers, remaining).filter_map(when::number).min();
        least.is_none_or(|least| least == 0)
    };
    let spent = quotas.iter().filter(move |(remaining, _)| is_spent(*remaining));
    spent.flat_map(|(_, reset)| texts(headers, *reset))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 6 November 1994, 08:49:37 GMT: the date that HTTP's own specification uses.
    const WRITTEN: Duration = Duration::from_secs(784_111_777);

    fn hint_of(fields: &[(&'static str, &str)], unix_now: Duration) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        hint(&headers, unix_now)
    }

    fn after(text: &str) -> Option<Duration> {
        hint_of(&[("retry-after", text)], WRITTEN - Duration::from_secs(30))
    }

    /// H1.
    #[test]
    fn seconds_and_all_three_forms_of_dates_are_understood() {
        let thirty = Some(Duration::from_secs(30));
        assert_eq!(after("30"), thirty);
        assert_eq!(after(" 30 "), thirty);
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), thirty);
        assert_eq!(after("Sunday, 06-Nov-94 08:49:37 GMT"), thirty);
        assert_eq!(after("Sun Nov  6 08:49:37 1994"), thirty);
    }

    #[test]
    fn a_date_in_the_past_is_no_wait() {
        assert_eq!(after("Sun, 06 Nov 1994 08:49:06 GMT"), Some(Duration::ZERO));
        assert_eq!(after("0"), Some(Duration::ZERO));
    }

    #[test]
    fn garbage_and_negative_numbers_were_not_said() {
        let garbage = ["", "-1", "+1", "1.5", "soon", "0x10", "1e3", "١", "NaN", "1 2"];
        for text in garbage {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", http::HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(hint(&headers, WRITTEN), None, "{text:?}");
        }
        for text in ["", "-1", "inf", ".", "1.", "1.x", ".5"] {
            assert_eq!(hint_of(&[("retry-after-ms", text)], WRITTEN), None, "{text:?}");
        }
    }

    #[test]
    fn absurd_numbers_are_for_ever() {
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert!(after("Fri, 31 Dec 9999 23:59:59 GMT") > Some(Duration::from_secs(86_400 * 365)));
        let absurd = hint_of(&[("retry-after-ms", "99999999999999999999999.9")], WRITTEN);
        assert_eq!(absurd, Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn of_several_hints_the_longest_holds() {
        let fields = [
            ("retry-after", "2"),
            ("retry-after", "9"),
            ("retry-after", "x"),
            ("retry-after", "3"),
        ];
        assert_eq!(hint_of(&fields, WRITTEN), Some(Duration::from_secs(9)));
        let fields = [("retry-after", "1"), ("retry-after-ms", "1500.2")];
        assert_eq!(hint_of(&fields, WRITTEN), Some(Duration::from_millis(1_501)));
        assert_eq!(
            hint_of(&[("x-ms-retry-after-ms", "7")], WRITTEN),
            Some(Duration::from_millis(7))
        );
    }

    /// H1.
    #[test]
    fn a_providers_reset_counts_only_where_its_quota_is_spent() {
        let seconds = |n| Some(Duration::from_secs(n));
        let reset = ("x-ratelimit-reset-requests", "6m0s");
        assert_eq!(hint_of(&[reset], WRITTEN), seconds(360));
        let left = |left| [reset, ("x-ratelimit-remaining-requests", left)];
        assert_eq!(hint_of(&left("0"), WRITTEN), seconds(360));
        assert_eq!(hint_of(&left("1"), WRITTEN), None);
        assert_eq!(hint_of(&left("some"), WRITTEN), seconds(360));
        let other = [reset, ("x-ratelimit-remaining-tokens", "7")];
        assert_eq!(hint_of(&other, WRITTEN), seconds(360));

        let now = WRITTEN - Duration::from_secs(30);
        for kind in ["requests", "tokens", "input-tokens", "output-tokens"] {
            let name = |end: &str| {
                http::HeaderName::try_from(format!("anthropic-ratelimit-{kind}-{end}")).unwrap()
            };
            let mut headers = HeaderMap::new();
            headers.insert(name("reset"), "1994-11-06T08:49:37Z".parse().unwrap());
            assert_eq!(hint(&headers, now), seconds(30), "{kind}");
            headers.insert(name("remaining"), "0".parse().unwrap());
            assert_eq!(hint(&headers, now), seconds(30), "{kind}");
            headers.insert(name("remaining"), "12".parse().unwrap());
            assert_eq!(hint(&headers, now), None, "{kind}");
        }
    }

    #[test]
    fn our_own_word_on_time_is_a_hint_and_no_is_not() {
        assert_eq!(hint_of(&[("quell-retry", "after=4")], WRITTEN), Some(Duration::from_secs(4)));
        let fields = [("quell-retry", "no"), ("retry-after", "2")];
        assert_eq!(hint_of(&fields, WRITTEN), Some(Duration::from_secs(2)));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>, now: u64) {
            if let Ok(value) = http::HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                let resets = QUOTAS.iter().chain(&DATED_QUOTAS).flat_map(|(left, reset)| [*left, *reset]);
                for name in ["retry-after", "retry-after-ms", "quell-retry"].into_iter().chain(resets) {
                    headers.append(name, value.clone());
                }
                let _ = hint(&headers, Duration::from_secs(now));
            }
        }
    }
}

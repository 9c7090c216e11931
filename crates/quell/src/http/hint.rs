//! Hints: the upstream's own word on when to come back.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;

const MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// How long the upstream asks to be left alone, by `Retry-After` (seconds, or a date in any of HTTP's three forms)
/// or by one of the headers in milliseconds. The longest wins: no retry may fire before a hint. A date in the past
/// is no wait at all, an absurd number is for ever (which a policy's cap turns into a stop), and what cannot be
/// read was not said.
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
/// ```
pub fn hint(headers: &HeaderMap, unix_now: Duration) -> Option<Duration> {
    let values = |name| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    let whole = values("retry-after").filter_map(|text| retry_after(text.trim(), unix_now));
    let finer = MILLISECONDS.into_iter().flat_map(values).filter_map(|t| milliseconds(t.trim()));
    whole.chain(finer).max()
}

fn retry_after(text: &str, unix_now: Duration) -> Option<Duration> {
    if let Some(seconds) = number(text) {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since_1970.saturating_sub(unix_now))
}

/// Some servers write fractions of a millisecond; a part of one is waited in full.
fn milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let partly = number(fraction)? > 0;
    Some(Duration::from_millis(number(whole)?.saturating_add(u64::from(partly))))
}

/// Digits only, however many: too many are the largest number.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
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

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>, now: u64) {
            if let Ok(value) = http::HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.append("retry-after", value.clone());
                headers.append("retry-after-ms", value);
                let _ = hint(&headers, Duration::from_secs(now));
            }
        }
    }
}

//! Values: lengths of time, rates and sizes as people write them, and the nearest word to one that is not known.
//!
//! **Why.** A number without a unit is a guess: 30 seconds to one reader, 30 milliseconds to the next. So everything
//! that has a unit is written with it, and means the same in every file and flag.
//!
//! ```
//! use std::time::Duration;
//! use quell_config::value;
//!
//! assert_eq!(value::duration("1200ms"), Some(Duration::from_millis(1_200)));
//! assert_eq!(value::duration("4"), None);
//! assert_eq!(value::rate("600/m"), Some(10.0));
//! assert_eq!(value::size("64KiB"), Some(65_536));
//! assert_eq!(value::nearest("attemps", ["timeout", "attempts"]), Some("attempts"));
//! ```

use std::{fmt, time::Duration};

/// The longest that can be written: a thousand years.
const LONGEST: Duration = Duration::from_secs(1_000 * 366 * 86_400);
/// More text than this is no value.
const LONGEST_TEXT: usize = 64;

/// A length of time: `4s`, `1200ms`, `1m 30s`, `24h`.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.len() > LONGEST_TEXT || text == "0" {
        return None; // the one number that humantime takes without a unit
    }
    humantime::parse_duration(text).ok().filter(|duration| *duration <= LONGEST)
}

/// So many per second: `300/s`, `600/m`, `5/h`.
pub fn rate(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once('/')?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Some(decimal(number)? / seconds)
}

/// So many bytes: `512B`, `64KiB`, `1MiB`, `2GiB`, and `kB`, `MB`, `GB` for thousands.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let bytes = match unit.trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(bytes)
}

/// Digits, and perhaps a fraction: no sign, exponent, infinity or not-a-number.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'_'));
    (plain && text.len() <= LONGEST_TEXT).then(|| text.replace('_', "").parse().ok())?
}

/// The word that somebody who wrote this may have meant.
pub fn nearest<'a>(written: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.to_ascii_lowercase().replace('-', "_");
    let wrong = plain(&written.chars().take(LONGEST_TEXT).collect::<String>());
    let distance = |word: &str| strsim::damerau_levenshtein(&wrong, &plain(word));
    let (distance, word) = words.into_iter().map(|word| (distance(word), word)).min()?;
    let most = (word.len().max(wrong.len()) / 3).clamp(1, 3);
    (distance <= most).then_some(word)
}

/// A length of time in the largest unit that holds it whole, so that reading it back gives the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written(pub Duration);

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 6] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let nanos = self.0.as_nanos();
        let whole = UNITS.iter().find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit));
        let (unit, name) = whole.unwrap_or(&(1, "s"));
        f.pad(&format!("{}{name}", nanos / unit))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        let cases = [
            ("4s", Some(4_000)),
            (" 1200ms ", Some(1_200)),
            ("1m 30s", Some(90_000)),
            ("24h", Some(86_400_000)),
            ("0s", Some(0)),
            ("0", None),
            ("4", None),
            ("-4s", None),
            ("", None),
            ("s", None),
            ("4 parsecs", None),
            ("99999999999999999999s", None),
            ("2000y", None),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn a_rate_is_a_number_per_time() {
        let cases = [
            ("10000/s", Some(10_000.0)),
            ("10_000 / s", Some(10_000.0)),
            ("0.5/s", Some(0.5)),
            ("600/m", Some(10.0)),
            ("36/h", Some(0.01)),
            ("300", None),
            ("/s", None),
            ("-1/s", None),
            ("1e9/s", None),
            ("inf/s", None),
            ("1/x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(rate(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_size_has_a_unit() {
        let cases = [
            ("0B", Some(0)),
            ("64KiB", Some(65_536)),
            ("1 MiB", Some(1 << 20)),
            ("2GB", Some(2_000_000_000)),
            ("64", None),
            ("KiB", None),
            ("1.5MiB", None),
            ("64kib", None),
            ("99999999999GiB", None),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_near_word_is_found_and_a_far_one_is_not() {
        let words = ["attempts", "timeout", "per_try_timeout", "backoff", "retry_on"];
        for (written, expected) in [
            ("attemps", Some("attempts")),
            ("Attempts", Some("attempts")),
            ("per-try-timeout", Some("per_try_timeout")),
            ("timeuot", Some("timeout")),
            ("retries", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(written, words), expected, "{written:?}");
        }
        assert_eq!(nearest("x", []), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(nanos in 0..=u64::MAX) {
            let length = Duration::from_nanos(nanos);
            prop_assert_eq!(duration(&Written(length).to_string()), Some(length));
        }

        #[test]
        fn no_text_breaks_it(text: String) {
            let _ = (duration(&text), rate(&text), size(&text), nearest(&text, ["attempts"]));
        }
    }
}

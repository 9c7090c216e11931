//! Timeout: how gRPC writes the time that a caller will wait.

use std::time::Duration;

use http::HeaderValue;

use crate::http::when;

/// A time as the value of `grpc-timeout`: eight digits at most, in the finest unit that has room for it. It is rounded
/// down, so it is never more than is left.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(quell::http::grpc::timeout(Duration::from_millis(1_500)), "1500000u");
/// ```
pub fn timeout(left: Duration) -> HeaderValue {
    const ROOM: u128 = 100_000_000;
    let nanos = left.as_nanos();
    let units = [('n', 1), ('u', 1_000), ('m', 1_000_000), ('S', 1_000_000_000)];
    let fits = units.iter().find(|(_, size)| nanos / size < ROOM);
    let text = match fits {
        Some((unit, size)) => format!("{}{unit}", nanos / size),
        None => format!("{}S", ROOM - 1), // three years
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0n")) // digits and a letter always are one
}

/// Up to eight digits and a unit.
pub(in crate::http) fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount = when::number(digits).filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3_600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_eight_digits_at_most_and_is_never_more_than_is_left() {
        for (left, text) in [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_secs(2), "2000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout(left), text, "{left:?}");
            assert!(read(text).is_some_and(|told| told <= left), "{left:?}");
        }
    }
}

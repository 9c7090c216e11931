//! When: the ways in which servers write a moment or a stretch of time.
//!
//! What cannot be read was not said, what lies in the past is no wait, and what no clock will live to see is for ever.
//! A part of a unit is waited in full: nobody comes back early.

use std::time::{Duration, UNIX_EPOCH};

const NANOS: u128 = 1_000_000_000;

/// Digits only, however many: too many are the largest number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

/// Whole seconds.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_secs)
}

/// Milliseconds, of which some servers write fractions.
pub(super) fn milliseconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let partly = number(fraction)? > 0;
    Some(Duration::from_millis(number(whole)?.saturating_add(u64::from(partly))))
}

/// From now until a date in one of HTTP's three forms.
pub(super) fn http_date(text: &str, unix_now: Duration) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    let since_1970 = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since_1970.saturating_sub(unix_now))
}

/// Numbers with their units, as Go prints durations: `1s`, `6m0s`, `1.5s`, `20ms`. A bare number has no unit, so it
/// says nothing.
pub(super) fn units(text: &str) -> Option<Duration> {
    let (mut rest, mut sum) = (text, 0_u128);
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at(end);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let unit = match unit {
            "h" => 3_600 * NANOS,
            "m" => 60 * NANOS,
            "s" => NANOS,
            "ms" => 1_000_000,
            "us" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
        sum = sum.saturating_add(u128::from(number(whole)?) * unit + part(fraction, unit)?);
        if next.is_empty() {
            return Some(nanos(sum));
        }
        rest = next;
    }
}

/// From now until a date as in RFC 3339, such as `2025-01-31T09:30:00Z` or `2025-01-31T10:30:00.25+01:00`.
pub(super) fn rfc3339(text: &str, unix_now: Duration) -> Option<Duration> {
    let (date, time) = text.split_at_checked(10)?;
    let (year, month, day) = (digits(date, 0, 4)?, digits(date, 5, 2)?, digits(date, 8, 2)?);
    let (clock, rest) = time.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let (hour, minute, second) = (digits(clock, 0, 2)?, digits(clock, 3, 2)?, digits(clock, 6, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let apart = [date.as_bytes()[4], date.as_bytes()[7], clock.as_bytes()[2], clock.as_bytes()[5]];
    let is_date = (1..=12).contains(&month) && (1..=days).contains(&day);
    if apart != *b"--::" || !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            (part(&rest[..end], NANOS)?, &rest[end..])
        }
        None => (0, rest),
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = u64::try_from(seconds - offset(zone)?).unwrap_or(0); // before 1970 is long ago
    let at = Duration::from_secs(seconds).saturating_add(nanos(fraction));
    Some(at.saturating_sub(unix_now))
}

/// Seconds by which a zone's clocks are ahead.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, clock) = match zone.strip_prefix('+') {
        Some(clock) => (1, clock),
        None => (-1, zone.strip_prefix('-')?),
    };
    let (hours, minutes) = (digits(clock, 0, 2)?, digits(clock, 3, 2)?);
    let readable = clock.len() == 5 && clock.as_bytes()[2] == b':' && hours < 24 && minutes < 60;
    readable.then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Counted in years that begin in March, so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    days + day_of_year - 719_468
}

/// So many digits at this place, and nothing else.
fn digits(text: &str, at: usize, length: usize) -> Option<i64> {
    i64::try_from(number(text.get(at..at + length)?)?).ok()
}

/// The digits after a point, as a part of so many nanoseconds.
fn part(digits: &str, unit: u128) -> Option<u128> {
    const MOST: usize = 18;
    number(digits)?;
    let (read, beyond) = digits.split_at(digits.len().min(MOST));
    let more = u128::from(beyond.bytes().any(|digit| digit != b'0'));
    Some((u128::from(number(read)?) * unit).div_ceil(10_u128.pow(read.len() as u32)) + more)
}

/// More than fit into 64 bits, which are centuries, are for ever.
fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "when_tests.rs"]
mod tests;

//! Time: an instant that is handed in, never asked for.
//!
//! **Why.** A policy that reads a clock cannot be replayed. Every decision here takes `now` as an
//! argument, so the simulator runs the very code that runs in production, and tests need no sleep.
//!
//! **How.** [`Time`] is nanoseconds on a monotonic clock whose zero means nothing. Subtraction saturates
//! at zero and addition at [`Time::MAX`]: a clock that steps back, or `Duration::MAX`, breaks nothing.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::Time;
//!
//! let start = Time::ZERO + Duration::from_secs(5);
//! assert_eq!((start + Duration::from_secs(1)).since(start), Duration::from_secs(1));
//! assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
//! assert_eq!(start + Duration::MAX, Time::MAX);
//! ```
//!
//! What leaves the process (due times, leases in a store) is a [`Stamp`]: Unix milliseconds, which others can read and
//! which may step. Nothing inside the process is decided by it, and only hosts' clocks convert between the two.

use core::{ops::Add, time::Duration};

/// Monotonic nanoseconds since an origin that only the host's clock knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Never: later than every instant a clock can show.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The instant so many nanoseconds later, for arithmetic on the hot path.
    pub(crate) const fn plus(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Whether more than so many nanoseconds have passed since then, or the clock was set back: worth a closer look.
    #[inline]
    pub(crate) const fn is_past(self, since: Self, nanos: u64) -> bool {
        self.0.wrapping_sub(since.0) > nanos
    }

    /// [`Time::since`] as a bare number, for arithmetic on the hot path.
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

/// Unix milliseconds: an instant that other processes understand. It may step, so it saturates as [`Time`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// The beginning of 1970.
    pub const ZERO: Self = Self(0);
    /// Never.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `millis` after the beginning of 1970.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the beginning of 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Stamp {
    type Output = Self;

    /// Rounds up to whole milliseconds: what is due is never early.
    fn add(self, by: Duration) -> Self {
        let millis = by.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

/// Whole nanoseconds of a duration, saturating: 584 years are for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_saturates_when_the_clock_steps_back() {
        let late = Time::from_nanos(10);
        assert_eq!(Time::ZERO.since(late), Duration::ZERO);
    }

    #[test]
    fn duration_max_is_never_and_not_a_panic() {
        assert_eq!(Time::from_nanos(7) + Duration::MAX, Time::MAX);
        assert_eq!(Time::MAX + Duration::MAX, Time::MAX);
    }

    /// T1, T2.
    #[test]
    fn a_stamp_survives_steps_and_rounds_up() {
        let stamp = Stamp::from_millis(5);
        assert_eq!(Stamp::ZERO.since(stamp), Duration::ZERO);
        assert_eq!(stamp + Duration::from_nanos(1), Stamp::from_millis(6));
        assert_eq!(stamp + Duration::MAX, Stamp::MAX);
    }
}

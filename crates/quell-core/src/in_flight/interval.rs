//! Interval: what came back in a stretch of time, summed up in logarithms.

use super::{
    Load,
    logs::{log2, natural},
};
use crate::Time;

/// An interval that is not over yet.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Interval {
    since: Time,
    answers: u32,
    bound: u32,
    left: u32,
    used: u64,
    logs: u64,
    squares: u64,
}

/// What an interval came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Answers, and callers who left.
    pub(super) n: f64,
    /// Mean of the logarithms of how long they took.
    pub(super) u: f64,
    /// Their variance.
    pub(super) var: f64,
    /// How many were under way when they came, on average.
    pub(super) used: f64,
    /// The share behind which somebody waited.
    pub(super) bound: f64,
    /// The share who left.
    pub(super) left: f64,
}

impl Interval {
    pub(super) fn since(now: Time) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// One that took so many nanoseconds, of a kind whose logarithms are to be moved so far.
    #[inline]
    pub(super) fn add(&mut self, nanos: u64, offset: i64, load: Load) {
        let log = u64::from(log2(nanos)).saturating_add_signed(offset);
        self.answers += 1;
        self.bound += u32::from(load.queued);
        self.used += u64::from(load.under_way);
        self.logs += log;
        self.squares = self.squares.saturating_add(log * log);
    }

    /// The same for a caller who left: an answer would have taken longer.
    #[cold]
    pub(super) fn add_left(&mut self, nanos: u64, offset: i64, load: Load) {
        self.left += 1;
        self.add(nanos, offset, load);
    }

    #[inline]
    pub(super) fn answers(&self) -> u32 {
        self.answers
    }

    pub(super) fn lasted(&self, now: Time) -> u64 {
        now.nanos_since(self.since)
    }

    pub(super) fn seen(&self) -> Seen {
        let n = f64::from(self.answers.max(1));
        let (mean, square) = (self.logs as f64 / n, self.squares as f64 / n);
        Seen {
            n,
            u: natural(mean),
            var: natural(natural(square - mean * mean)).max(0.0),
            used: self.used as f64 / n,
            bound: f64::from(self.bound) / n,
            left: f64::from(self.left) / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variance_are_those_of_the_logarithms() {
        let mut interval = Interval::since(Time::ZERO);
        for (nanos, left) in [(1_000_000, false), (2_000_000, false), (4_000_000, true)] {
            match left {
                true => interval.add_left(nanos, 0, Load { under_way: 8, queued: false }),
                false => interval.add(nanos, 0, Load { under_way: 5, queued: true }),
            }
        }
        let Seen { n, u, var, used, bound, left } = interval.seen();
        assert_eq!((n, used), (3.0, 6.0));
        assert!((u - 2_000_000f64.ln()).abs() < 0.01, "{u}");
        let ln_2 = core::f64::consts::LN_2;
        assert!((var - 2.0 * ln_2 * ln_2 / 3.0).abs() < 0.01, "{var}");
        assert!((bound - 2.0 / 3.0).abs() < 1e-9 && (left - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn sums_do_not_overflow() {
        let mut interval = Interval::since(Time::ZERO);
        for _ in 0..100_000 {
            interval.add(u64::MAX, 0, Load { under_way: u32::MAX, queued: true });
        }
        let seen = interval.seen();
        assert_eq!((interval.answers(), seen.used), (100_000, f64::from(u32::MAX)));
        assert!((seen.u - 44.36).abs() < 0.01 && seen.var < 0.001, "{seen:?}");
    }
}

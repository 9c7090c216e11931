//! Interval: what came back in a stretch of time, summed up in logarithms.

use quell_core::Time;

use super::{
    Load,
    logs::{log2, natural},
};

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

    /// One that took so many nanoseconds.
    #[inline]
    pub(super) fn add(&mut self, nanos: u64, load: Load) {
        let log = u64::from(log2(nanos));
        self.answers += 1;
        self.bound += u32::from(load.queued);
        self.used += u64::from(load.under_way);
        self.logs += log;
        self.squares = self.squares.saturating_add(log * log);
    }

    /// The same for a caller who left: an answer would have taken longer.
    #[cold]
    pub(super) fn add_left(&mut self, nanos: u64, load: Load) {
        self.left += 1;
        self.add(nanos, load);
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

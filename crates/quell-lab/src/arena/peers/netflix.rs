//! Netflix's limits: `AIMDLimit`, `VegasLimit` and `Gradient2Limit` of <https://github.com/Netflix/concurrency-limits>, with the
//! defaults of their builders.
//!
//! The library tells a limit of every call that succeeded, and of those that were dropped: rejected by a limit elsewhere or timed out.
//! Calls that failed before their latency meant anything are to be ignored. So an answer is a sample, a caller who left a sent call
//! or an attempt that timed out is a drop, and an error is nothing. A drop's latency is the caller's age, its wait for a slot
//! included.

use core::time::Duration;

use quell_core::{Rng, Time};

use super::super::{Answered, Control};

/// What a limit is told of one call.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Sample {
    now: Time,
    /// In nanoseconds, at least one.
    took: f64,
    in_flight: u32,
    dropped: bool,
}

/// A limit as that library has them.
pub(in super::super) trait Limit: core::fmt::Debug {
    fn sample(&mut self, sample: &Sample);
    fn limit(&self) -> u32;
}

/// Tells a limit what it would be told there.
#[derive(Debug)]
pub(in super::super) struct Netflix<L> {
    limit: L,
    in_flight: u32,
}

impl<L: Limit> Netflix<L> {
    pub(in super::super) fn new(limit: L) -> Self {
        Self { limit, in_flight: 0 }
    }

    fn sample(&mut self, now: Time, took: Duration, dropped: bool) {
        let took = (took.as_nanos() as f64).max(1.0);
        self.limit.sample(&Sample { now, took, in_flight: self.in_flight, dropped });
    }
}

impl<L: Limit> Control for Netflix<L> {
    fn answered(&mut self, seen: &Answered) {
        self.in_flight = seen.in_flight;
        if seen.good {
            self.sample(seen.now, seen.took, false);
        }
    }
    fn left(&mut self, now: Time, age: Duration, sent: bool) {
        if sent {
            self.sample(now, age, true);
        }
    }
    fn limit(&self) -> u32 {
        self.limit.limit()
    }
}

/// Additive increase, multiplicative decrease: one more per answer while at least half is in use, a tenth less for every drop
/// and every answer that took over five seconds. From 20, which is also the least, to 200.
#[derive(Debug)]
pub(in super::super) struct Aimd(u32);

impl Default for Aimd {
    fn default() -> Self {
        Self(20)
    }
}

impl Limit for Aimd {
    fn sample(&mut self, sample: &Sample) {
        if sample.dropped || sample.took > 5e9 {
            self.0 = (f64::from(self.0) * 0.9) as u32;
        } else if sample.in_flight * 2 >= self.0 {
            self.0 += 1;
        }
        self.0 = self.0.clamp(20, 200);
    }
    fn limit(&self) -> u32 {
        self.0
    }
}

/// Vegas: how many wait at the service is guessed from how much longer than the least latency an answer took, `L·(1 − least ÷ took)`.
/// With `l` the whole part of the limit's decimal logarithm, at least 1: up by `6 l` while no more than `l` wait, up by `l` below
/// `3 l`, down by `l` above `6 l` or for a drop; from 20, between 1 and 1,000. After about 30 · L calls the least latency is
/// taken anew from one call.
#[derive(Debug)]
pub(in super::super) struct Vegas {
    limit: u32,
    /// Zero if nothing is known.
    least: f64,
    calls: u32,
    /// From 0.5 to 1, so that several of them do not look anew at the same time.
    jitter: f64,
    rng: Rng,
}

impl Vegas {
    pub(in super::super) fn new(mut rng: Rng) -> Self {
        let jitter = 0.5 + rng.unit() / 2.0;
        Self { limit: 20, least: 0.0, calls: 0, jitter, rng }
    }
}

impl Limit for Vegas {
    fn sample(&mut self, sample: &Sample) {
        let limit = f64::from(self.limit);
        self.calls += 1;
        if self.jitter * 30.0 * limit <= f64::from(self.calls) {
            (self.calls, self.least) = (0, sample.took);
            self.jitter = 0.5 + self.rng.unit() / 2.0;
            return;
        }
        if self.least == 0.0 || sample.took < self.least {
            self.least = sample.took;
            return;
        }
        let log = self.limit.checked_ilog10().unwrap_or(0).max(1);
        let waiting = (limit * (1.0 - self.least / sample.took)).ceil() as u32;
        let changed = if sample.dropped {
            self.limit.saturating_sub(log)
        } else if sample.in_flight * 2 < self.limit {
            self.limit
        } else if waiting <= log {
            self.limit + 6 * log
        } else if waiting < 3 * log {
            self.limit + log
        } else if waiting > 6 * log {
            self.limit.saturating_sub(log)
        } else {
            self.limit
        };
        self.limit = changed.clamp(1, 1000);
    }
    fn limit(&self) -> u32 {
        self.limit
    }
}

/// Gradient2: a slow average of latency (600 calls; the plain mean of the first ten) against the latest, `g = 1.5 × slow ÷ latest` between
/// 0.5 and 1; a fifth of the way to `L·g + 4` per call while at least half is in use. Between 20, where it starts, and 200. An
/// average of more than twice the latest loses a twentieth. Drops are calls like any other.
#[derive(Debug)]
pub(in super::super) struct Gradient2 {
    limit: f64,
    slow: f64,
    first: u32,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self { limit: 20.0, slow: 0.0, first: 0 }
    }
}

impl Limit for Gradient2 {
    fn sample(&mut self, sample: &Sample) {
        self.first = (self.first + 1).min(11);
        let weight = if self.first <= 10 { 1.0 / f64::from(self.first) } else { 2.0 / 601.0 };
        self.slow += (sample.took - self.slow) * weight;
        let ratio = self.slow / sample.took;
        if ratio > 2.0 {
            self.slow *= 0.95;
        }
        if f64::from(sample.in_flight) < self.limit / 2.0 {
            return;
        }
        let aim = self.limit * (1.5 * ratio).clamp(0.5, 1.0) + 4.0;
        self.limit = (0.8 * self.limit + 0.2 * aim).clamp(20.0, 200.0);
    }
    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

/// The same library's `WindowedLimit`, by which its own examples have Gradient2: once a second the limit below is told of one call,
/// which took the mean of all, with the most that were under way; dropped if any was. Windows of fewer than ten calls
/// are forgotten, and calls below 100 µs are not looked at.
#[derive(Debug)]
pub(in super::super) struct Windowed<L> {
    limit: L,
    over_at: Time,
    calls: u32,
    took: f64,
    most: u32,
    dropped: bool,
}

impl<L: Limit> Windowed<L> {
    pub(in super::super) fn new(limit: L) -> Self {
        Self { limit, over_at: Time::ZERO, calls: 0, took: 0.0, most: 0, dropped: false }
    }
}

impl<L: Limit> Limit for Windowed<L> {
    fn sample(&mut self, sample: &Sample) {
        if sample.took < 1e5 {
            return;
        }
        self.calls += 1;
        self.took += sample.took;
        self.most = self.most.max(sample.in_flight);
        self.dropped |= sample.dropped;
        if sample.now <= self.over_at {
            return;
        }
        let took = self.took / f64::from(self.calls);
        let (in_flight, dropped, enough) = (self.most, self.dropped, self.calls >= 10);
        (self.calls, self.took, self.most, self.dropped) = (0, 0.0, 0, false);
        self.over_at = sample.now + Duration::from_secs(1);
        if enough {
            self.limit.sample(&Sample { now: sample.now, took, in_flight, dropped });
        }
    }
    fn limit(&self) -> u32 {
        self.limit.limit()
    }
}

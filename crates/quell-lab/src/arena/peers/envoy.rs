//! Envoy's adaptive concurrency: the gradient controller of <https://www.envoyproxy.io>
//! (`envoy.filters.http.adaptive_concurrency`), with its defaults, and the intervals of its documentation's example: those have none.
//!
//! Every minute (and up to 15 % later, by chance) only three calls at a time are let through until 50 of them are answered: their
//! median is the least latency. Otherwise, every 100 ms in which something was answered, with the median of that time
//! `g = 1.25 × least ÷ median` between 0.5 and 2, and the limit becomes `L·g + √(L·g)`, between 3 and 1,000, without its fraction. Left at 3
//! for five such intervals in a row, it looks for the least latency again. Errors are answers; calls whose caller left are not.
//! Timers are looked at whenever anything happens, which in these worlds is every few milliseconds.

use core::time::Duration;

use quell_core::{Rng, Time};

use super::super::{Answered, Control};

const LEAST: u32 = 3;
const MOST: u32 = 1000;
const PROBES: usize = 50;
const INTERVAL: Duration = Duration::from_millis(100);
const PROBE_EVERY: Duration = Duration::from_secs(60);

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Envoy {
    limit: u32,
    /// The limit to return to, while the least latency is looked for.
    before: Option<u32>,
    least: f64,
    /// Latencies of the open interval, in seconds.
    samples: Vec<f64>,
    update_at: Time,
    probe_at: Time,
    /// Answers to calls that were sent before the last look do not count.
    since: Time,
    /// Intervals in a row that left the limit at its least.
    at_least: u32,
    rng: Rng,
}

impl Envoy {
    pub(in super::super) fn new(rng: Rng) -> Self {
        Self {
            limit: LEAST,
            before: Some(LEAST),
            least: 0.0,
            samples: vec![],
            update_at: Time::ZERO,
            probe_at: Time::ZERO,
            since: Time::ZERO,
            at_least: 0,
            rng,
        }
    }

    /// All timers that are due.
    fn passes(&mut self, now: Time) {
        while self.before.is_none() && now >= self.update_at.min(self.probe_at) {
            if self.probe_at <= self.update_at {
                self.probes(self.probe_at);
            } else {
                self.updates();
            }
        }
    }

    fn probes(&mut self, now: Time) {
        self.before = Some(self.limit);
        (self.limit, self.since, self.at_least) = (LEAST, now, 0);
        self.samples.clear();
    }

    fn probed(&mut self, now: Time, before: u32) {
        self.least = self.median();
        (self.limit, self.before) = (before, None);
        let later = PROBE_EVERY.mul_f64(0.15 * self.rng.unit());
        self.probe_at = now + PROBE_EVERY + later;
        self.update_at = now + INTERVAL;
    }

    fn updates(&mut self) {
        let now = self.update_at;
        self.update_at = now + INTERVAL;
        if self.samples.is_empty() {
            return;
        }
        let gradient = (1.25 * self.least / self.median().max(1e-9)).clamp(0.5, 2.0);
        let limit = f64::from(self.limit) * gradient;
        let limit = ((limit + limit.sqrt()) as u32).clamp(LEAST, MOST);
        let stays = (self.limit, limit) == (LEAST, LEAST);
        self.at_least = if stays { self.at_least + 1 } else { 0 };
        self.limit = limit;
        if self.at_least >= 5 {
            self.probes(now);
        }
    }

    fn median(&mut self) -> f64 {
        self.samples.sort_by(f64::total_cmp);
        let median = self.samples[self.samples.len() / 2];
        self.samples.clear();
        median
    }
}

impl Control for Envoy {
    fn answered(&mut self, seen: &Answered) {
        self.passes(seen.now);
        if seen.sent_at < self.since {
            return;
        }
        self.samples.push(seen.took.as_secs_f64());
        if let Some(before) = self.before
            && self.samples.len() >= PROBES
        {
            self.probed(seen.now, before);
        }
    }
    fn left(&mut self, now: Time, _: Duration, _: bool) {
        self.passes(now);
    }
    fn pressed(&mut self, now: Time) {
        self.passes(now);
    }
    fn limit(&self) -> u32 {
        self.limit
    }
}

//! InFlight: how much may be under way at once, found by watching.
//!
//! **Why.** A storm lives on queued work whose callers have left. A limit below what the upstream can finish
//! within its callers' patience starves it, and nothing else heals a stalled service at once. Nobody
//! knows the right number, and a wrong one written by hand never heals or refuses healthy traffic, so
//! the limit is told neither the upstream's capacity, nor its service time, nor how long callers wait.
//!
//! **How.** `limit = clamp(min(rate · T/2, 8 · rate · base), 8, ceiling)`. Served replies fill buckets that
//! close at half a second *and* twenty replies (fewer make the estimate far too high at low traffic); over
//! the last ten seconds of buckets, `rate` is the highest bucket's replies per second and `base` the
//! lowest bucket's mean time to the response head. `T` is the callers' [patience](crate::patience), never
//! under three times `base` nor under 50 ms. Time in which nothing is served does not pass: a limit that decays during an
//! outage would delay the recovery by minutes.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, in_flight::{InFlight, Limit}};
//!
//! let mut limit = InFlight::new(Limit::Adaptive { ceiling: 4096 }, Duration::from_secs(5))?;
//! for i in 0..2_000 {
//!     limit.served(Time::ZERO + Duration::from_millis(i), Duration::from_millis(20));
//! }
//! assert!((159..=170).contains(&limit.limit())); // 8 × 1,000/s × 20 ms
//! # Ok::<_, quell_core::in_flight::Invalid>(())
//! ```

use core::time::Duration;

use crate::{
    Time,
    pace::{Known, Pace},
    patience::Patience,
    time::nanos,
};

/// The least that may be under way, and all that may be when callers leave and nothing is known.
const LEAST: u32 = 8;
/// The least patience that is believed, and the least while nothing is known of the service.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
/// What may be under way while nothing is known and nobody complains.
const UNKNOWN: u32 = 512;
/// An in-flight limit as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    Off,
    /// This many.
    Fixed(u32),
    /// As many as the upstream can serve while its callers wait.
    Adaptive {
        /// Never more than this many.
        ceiling: u32,
    },
}

/// Why a [`Limit`] is not one. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Everything would be refused.
    #[error(
        "in_flight.limit is 0, so every call would be refused: write at least 1, or \"adaptive\""
    )]
    Fixed,
    /// The limit could not even reach its minimum.
    #[error("in_flight.ceiling is {0}: write at least 8, such as 4096")]
    Ceiling(u32),
}

/// See the [module](self).
#[derive(Debug)]
pub struct InFlight {
    kind: Limit,
    limit: u32,
    per_try: Duration,
    left: Patience,
    /// `T`, as of the last decision.
    patience: Duration,
    /// The same, as every answer is compared with it.
    patience_nanos: u64,
    pace: Pace,
}

impl InFlight {
    /// A limit for calls whose attempts may take `per_try` each.
    pub fn new(kind: Limit, per_try: Duration) -> Result<Self, Invalid> {
        let limit = match kind {
            Limit::Fixed(0) => return Err(Invalid::Fixed),
            Limit::Adaptive { ceiling } if ceiling < LEAST => {
                return Err(Invalid::Ceiling(ceiling));
            }
            Limit::Off => u32::MAX,
            Limit::Fixed(n) => n,
            Limit::Adaptive { ceiling } => UNKNOWN.min(ceiling),
        };
        Ok(Self {
            kind,
            limit,
            per_try,
            left: Patience::default(),
            patience: per_try,
            patience_nanos: nanos(per_try),
            pace: Pace::default(),
        })
    }

    /// Takes on the kind and timeout of one just made and keeps all that was learned: patience, rate and base are watched
    /// under every kind. What is under way beyond the new limit drains.
    pub fn adopt(&mut self, fresh: &Self) {
        (self.kind, self.limit, self.per_try) = (fresh.kind, fresh.limit, fresh.per_try);
        self.decide();
    }

    /// This many from now on, whatever was written: for incidents, and for whoever decides elsewhere.
    pub fn set(&mut self, limit: u32) {
        let limit = limit.max(1);
        (self.kind, self.limit) = (Limit::Fixed(limit), limit);
    }

    /// How many may be under way now.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// What was learned of the upstream, once enough was served.
    pub fn known(&self) -> Option<Known> {
        self.pace.known()
    }

    /// `T`: how long callers wait for an answer.
    #[inline]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether an answer came to a caller who was believed to have left.
    #[inline]
    pub fn is_late(&self, now: Time, since: Time) -> bool {
        now.nanos_since(since) > self.patience_nanos
    }

    /// The upstream did its work: `took` passed until its response head. True if that moved the estimates.
    #[inline]
    pub fn served(&mut self, now: Time, took: Duration) -> bool {
        let moved = self.pace.served(now, took);
        if moved {
            self.decide();
        }
        moved
    }

    /// A caller left at this age without an answer, or took one at this age that was later than expected.
    #[cold]
    pub fn learn_patience(&mut self, age: Duration) {
        self.left.learn(age);
        self.decide();
    }

    fn decide(&mut self) {
        let waits = self.left.learned().map_or(self.per_try, |left| left.min(self.per_try));
        // Whoever leaves sooner than that says nothing of how long an answer may take.
        let least = self
            .pace
            .known()
            .map_or(UNKNOWN_PATIENCE, |known| (known.base * 3).max(LEAST_PATIENCE));
        self.patience = waits.max(least);
        self.patience_nanos = nanos(self.patience);
        let Limit::Adaptive { ceiling } = self.kind else { return };
        self.limit = match (self.pace.known(), self.left.learned()) {
            (Some(Known { rate, base }), _) => {
                let patient = rate * self.patience.as_secs_f64() / 2.0;
                let crowded = 8.0 * rate * base.as_secs_f64();
                (patient.min(crowded) as u32).clamp(LEAST, ceiling)
            }
            (None, Some(_)) => LEAST,
            (None, None) => UNKNOWN.min(ceiling),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_TRY: Duration = Duration::from_secs(5);

    fn adaptive() -> InFlight {
        InFlight::new(Limit::Adaptive { ceiling: 4096 }, PER_TRY).unwrap()
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// Serves `rate` per second from `from` to `to` (ms), `took` (ms) each.
    fn serve(limit: &mut InFlight, from: u64, to: u64, rate: u64, took: u64) {
        for i in 0..(to - from) * rate / 1_000 {
            limit.served(at(from + i * 1_000 / rate), Duration::from_millis(took));
        }
    }

    fn leave(limit: &mut InFlight, times: u32, age: u64) {
        for _ in 0..times {
            limit.learn_patience(Duration::from_millis(age));
        }
    }

    /// P6.
    #[test]
    fn the_limit_follows_the_callers_patience_and_not_the_proxys_timeout() {
        let mut limit = adaptive();
        serve(&mut limit, 0, 5_000, 300, 100);
        assert!((235..=250).contains(&limit.limit()), "8 × 300/s × 0.1 s, got {}", limit.limit());
        leave(&mut limit, 20, 1_000);
        assert!((145..=155).contains(&limit.limit()), "300/s × 1 s / 2, got {}", limit.limit());
    }

    /// P8.
    #[test]
    fn the_limit_does_not_decay_while_nothing_is_served() {
        let mut limit = adaptive();
        serve(&mut limit, 0, 20_000, 300, 100);
        let before = limit.limit();
        let after_outage = 20_000 + 1_800_000;
        let lowest = (0..30_000).map(|i| {
            limit.served(at(after_outage + i * 10 / 3), Duration::from_millis(100));
            limit.limit()
        });
        let lowest = lowest.min().unwrap();
        assert!(lowest + 10 >= before, "{before}, then as low as {lowest}");
    }

    /// P10, second half: patience never goes below three service times.
    #[test]
    fn health_checks_that_hang_up_do_not_throttle_a_healthy_service() {
        let mut limit = adaptive();
        serve(&mut limit, 0, 5_000, 300, 100);
        leave(&mut limit, 200, 5);
        assert_eq!(limit.patience(), Duration::from_millis(300));
        assert!(limit.limit() >= 43, "got {}", limit.limit());
    }

    /// P11, first half.
    #[test]
    fn with_nothing_learned_and_callers_leaving_only_a_few_are_under_way() {
        let mut limit = adaptive();
        assert_eq!(limit.limit(), UNKNOWN);
        leave(&mut limit, 20, 1_000);
        assert_eq!(limit.limit(), LEAST);
        serve(&mut limit, 10_000, 12_000, 80, 100);
        assert!(limit.limit() > LEAST);
    }

    #[test]
    fn hasty_callers_do_not_bring_patience_to_nothing() {
        let mut limit = adaptive();
        leave(&mut limit, 200, 0);
        assert_eq!(limit.patience(), UNKNOWN_PATIENCE);
        serve(&mut limit, 0, 5_000, 300, 1);
        assert_eq!(limit.patience(), LEAST_PATIENCE);
    }

    #[test]
    fn an_upstream_that_becomes_slower_but_larger_is_let_through_within_the_memory() {
        let mut limit = adaptive();
        serve(&mut limit, 0, 10_000, 300, 100);
        serve(&mut limit, 10_000, 21_500, 300, 2_000);
        assert!(limit.limit() >= 600, "in flight at 300/s × 2 s, got {}", limit.limit());
    }

    #[test]
    fn fixed_and_off_learn_nothing() {
        for (kind, expected) in [(Limit::Fixed(7), 7), (Limit::Off, u32::MAX)] {
            let mut limit = InFlight::new(kind, PER_TRY).unwrap();
            serve(&mut limit, 0, 5_000, 300, 100);
            leave(&mut limit, 200, 5);
            assert_eq!(limit.limit(), expected);
        }
    }

    /// X9.
    #[test]
    fn a_reload_keeps_what_was_learned_and_the_new_bounds_apply_at_once() {
        let mut limit = adaptive();
        serve(&mut limit, 0, 5_000, 300, 100);
        leave(&mut limit, 20, 1_000);
        let (found, known, patience) = (limit.limit(), limit.known(), limit.patience());
        let mut reload = |kind, per_try| {
            limit.adopt(&InFlight::new(kind, per_try).unwrap());
            assert_eq!(limit.known(), known);
            (limit.limit(), limit.patience())
        };
        assert_eq!(reload(Limit::Adaptive { ceiling: 4096 }, PER_TRY), (found, patience));
        assert_eq!(reload(Limit::Adaptive { ceiling: 20 }, PER_TRY), (20, patience));
        assert_eq!(reload(Limit::Fixed(3), PER_TRY), (3, patience));
        assert_eq!(reload(Limit::Off, PER_TRY), (u32::MAX, patience));
        let hasty = Duration::from_millis(400);
        assert_eq!(reload(Limit::Off, hasty), (u32::MAX, hasty), "nobody waits for longer");
        assert_eq!(reload(Limit::Adaptive { ceiling: 4096 }, PER_TRY), (found, patience));
    }

    /// An answer that comes later than anybody was believed to wait, and not one at that very age, is late.
    #[test]
    fn an_answer_is_late_when_it_is_older_than_patience() {
        let mut limit = adaptive();
        for _ in 0..20 {
            limit.learn_patience(Duration::from_millis(400));
        }
        assert_eq!(limit.patience(), Duration::from_millis(400));
        let is_late = |age: u64| limit.is_late(at(10_000 + age), at(10_000));
        assert_eq!([399, 400, 401, 5_000].map(is_late), [false, false, true, true]);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        for kind in [Limit::Fixed(0), Limit::Adaptive { ceiling: 7 }] {
            let message = InFlight::new(kind, PER_TRY).unwrap_err().to_string();
            assert!(message.starts_with("in_flight.") && message.contains("write"), "{message}");
        }
    }
}

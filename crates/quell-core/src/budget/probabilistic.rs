//! Probabilistic: chance, held to a share of the traffic.
//!
//! **Why.** Tokens are spent by whoever fails first, and those who fail later get nothing. Chance treats all alike, keeps
//! nothing but two counts, and needs no agreement in a fleet: if everybody retries a failure with the chance
//! `target / failure rate`, retries come to `target` of the traffic, whoever they are.
//!
//! **How.** Successes and failures are counted and halve every half-life. Up to `target` every failure is retried; above it
//! the chance shrinks. Until ten attempts are known the chance is a half. It bounds the share on average, not the
//! number: of a budget by chance nothing can be said about what a fleet allows at most.
//!
//! ```
//! use quell_core::{Rng, Time, budget::probabilistic::{Probabilistic, Spec}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let mut budget = Probabilistic::new(Spec::default(), now)?;
//! let retried = (0..10_000).filter(|_| {
//!     budget.failed(now);
//!     budget.take(now, &mut rng).is_ok()
//! });
//! assert!((900..1_100).contains(&retried.count()));
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use core::time::Duration;

use super::{Gauge, Invalid, Paid, TOKEN, invalid};
use crate::{Reason, Rng, Time, time::nanos};

/// Fewer attempts than this say nothing.
const ENOUGH: f64 = 10.0;

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Retries as a share of all attempts.
    pub target: f64,
    /// The chance until ten attempts are known.
    pub unknown: f64,
    /// What happened so long ago counts half.
    pub half_life: Duration,
}

impl Default for Spec {
    fn default() -> Self {
        Self { target: 0.1, unknown: 0.5, half_life: Duration::from_secs(10) }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Probabilistic {
    target: f64,
    unknown: f64,
    half_life: u64,
    halved_at: Time,
    good: f64,
    bad: f64,
}

impl Probabilistic {
    /// A budget that knows nothing yet.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let half_life = invalid::at_least_a_millisecond(spec.half_life, Invalid::HalfLife)?;
        Ok(Self {
            target: invalid::some_share(spec.target, Invalid::Target)?,
            unknown: invalid::share(spec.unknown, Invalid::Unknown)?,
            half_life: nanos(half_life),
            halved_at: now,
            good: 0.0,
            bad: 0.0,
        })
    }

    /// Allows one retry by chance. Nothing is paid, so nothing is there to be refunded.
    pub fn take(&mut self, now: Time, rng: &mut Rng) -> Result<Paid, Reason> {
        self.decay(now);
        let chance = self.chance(1.0);
        if chance >= 1.0 || rng.unit() < chance {
            Ok(Paid::NOTHING)
        } else {
            Err(Reason::BudgetEmpty)
        }
    }

    /// A call succeeded.
    pub fn earn(&mut self, now: Time) {
        self.decay(now);
        self.good += 1.0;
    }

    /// An attempt failed in a way that a retry could help.
    pub fn failed(&mut self, now: Time) {
        self.decay(now);
        self.bad += 1.0;
    }

    /// Starts afresh.
    pub fn reset(&mut self) {
        (self.good, self.bad) = (0.0, 0.0);
    }

    /// Takes on the numbers of one just made and keeps what it counted. Another half-life begins now.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.decay(now);
        let goes_on = self.half_life == fresh.half_life;
        let halved_at = if goes_on { self.halved_at } else { now.max(self.halved_at) };
        *self = Self { halved_at, good: self.good, bad: self.bad, ..fresh };
    }

    /// The chance, of one.
    pub(super) fn gauge(&self, now: Time) -> Gauge {
        let (_, scale) = self.aged(now);
        Gauge { level: (self.chance(scale) * TOKEN as f64) as u64, max: TOKEN }
    }

    /// The chance of a retry when what was counted is scaled so.
    fn chance(&self, scale: f64) -> f64 {
        let (bad, all) = (self.bad * scale, (self.good + self.bad) * scale);
        if all < ENOUGH {
            self.unknown
        } else if bad <= self.target * all {
            1.0
        } else {
            self.target * all / bad
        }
    }

    fn decay(&mut self, now: Time) {
        let (halvings, scale) = self.aged(now);
        if halvings > 0 {
            let by = Duration::from_nanos(self.half_life.saturating_mul(halvings));
            self.halved_at = self.halved_at + by;
            self.good *= scale;
            self.bad *= scale;
        }
    }

    /// Half-lives that have passed, and what they leave of a count.
    fn aged(&self, now: Time) -> (u64, f64) {
        let halvings = now.nanos_since(self.halved_at) / self.half_life;
        let scale = if halvings < 64 { 1.0 / (1u64 << halvings) as f64 } else { 0.0 };
        (halvings, scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_target_every_failure_is_retried_and_above_it_fewer() {
        let (now, mut rng) = (Time::ZERO, Rng::new(1));
        for (failing, expected) in [(5, 1.0), (10, 1.0), (20, 0.5), (50, 0.2), (100, 0.1)] {
            let mut budget = Probabilistic::new(Spec::default(), now).unwrap();
            for i in 0..10_000 {
                if i % 100 < failing { budget.failed(now) } else { budget.earn(now) }
            }
            let retried = (0..10_000).filter(|_| budget.take(now, &mut rng).is_ok()).count();
            let share = retried as f64 / 10_000.0;
            assert!((share - expected).abs() < 0.02, "{failing} % fail: {share}");
        }
    }

    #[test]
    fn until_ten_attempts_are_known_it_is_a_coin() {
        let (now, mut rng) = (Time::ZERO, Rng::new(2));
        let mut budget = Probabilistic::new(Spec::default(), now).unwrap();
        (0..9).for_each(|_| budget.failed(now));
        let retried = (0..10_000).filter(|_| budget.take(now, &mut rng).is_ok()).count();
        assert!((4_800..5_200).contains(&retried), "{retried}");
    }
}

//! Adaptive: tokens, and caution while next to nothing succeeds.
//!
//! **Why.** A full bucket is a promise made in better times. When an upstream goes down for everybody, spending all of
//! it on retries that cannot succeed helps nobody, and leaves nothing for the moment it comes back.
//!
//! **How.** Beside the tokens it keeps a moving average of how many attempts succeed, starting at "all". While that is
//! below a floor, the lower half of the bucket is not to be touched.
//!
//! ```
//! use quell_core::{Fault, Time, budget::adaptive::{Adaptive, Spec}};
//!
//! let (now, mut budget) = (Time::ZERO, Adaptive::new(Spec::default(), Time::ZERO)?);
//! let allowed = (0..1_000).filter(|_| {
//!     budget.failed();
//!     budget.take(now, Fault::Server).is_ok()
//! });
//! assert_eq!(allowed.count(), 51); // of 100: the one at 50 still has half a bucket
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use super::{Bucket, Gauge, Invalid, Paid, TOKEN, invalid, tokens::Tokens};
use crate::{Fault, Reason, Time};

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// How many tokens, and what earns them.
    pub bucket: Bucket,
    /// Weight of the newest attempt in the average.
    pub alpha: f64,
    /// Below this share of successes, retries need half a bucket.
    pub success_floor: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self { bucket: Bucket::full(100, 0.2), alpha: 0.1, success_floor: 0.1 }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Adaptive {
    tokens: Tokens,
    /// Moving average of successes.
    rate: f64,
    alpha: f64,
    success_floor: f64,
}

impl Adaptive {
    /// A budget at its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Ok(Self {
            tokens: Tokens::new(spec.bucket.into(), now)?,
            rate: 1.0,
            alpha: invalid::some_share(spec.alpha, Invalid::Alpha)?,
            success_floor: invalid::share(spec.success_floor, Invalid::SuccessFloor)?,
        })
    }

    /// Pays for one retry, or says why not.
    pub fn take(&mut self, now: Time, fault: Fault) -> Result<Paid, Reason> {
        if self.is_reserved() { Err(Reason::BudgetEmpty) } else { self.tokens.take(now, fault) }
    }

    /// Takes back what was paid for a retry that was never sent.
    pub fn refund(&mut self, paid: Paid) {
        self.tokens.refund(paid);
    }

    /// A call succeeded.
    pub fn earn(&mut self) {
        self.tokens.earn();
        self.rate += self.alpha * (1.0 - self.rate);
    }

    /// An attempt failed in a way that a retry could help.
    pub fn failed(&mut self) {
        self.rate -= self.alpha * self.rate;
    }

    /// Whether a retry could be paid for.
    pub fn peek(&self, now: Time) -> bool {
        !self.is_reserved() && self.tokens.peek(now)
    }

    /// Starts afresh.
    pub fn reset(&mut self, now: Time) {
        self.tokens.reset(now);
        self.rate = 1.0;
    }

    /// Takes on the numbers of one just made and keeps its tokens, as far as they fit, and its average.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.tokens.adopt(fresh.tokens, now);
        (self.alpha, self.success_floor) = (fresh.alpha, fresh.success_floor);
    }

    pub(super) fn lower(&mut self, level: u64, now: Time) {
        self.tokens.lower(level, now);
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        self.tokens.gauge(now)
    }

    fn is_reserved(&self) -> bool {
        let half = (self.tokens.max / 2).max(TOKEN);
        self.rate < self.success_floor && self.tokens.level < half
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_successes_free_the_reserve() {
        let mut budget = Adaptive::new(Spec::default(), Time::ZERO).unwrap();
        let outage = |budget: &mut Adaptive| {
            budget.failed();
            budget.take(Time::ZERO, Fault::Server).is_ok()
        };
        assert_eq!((0..1_000).filter(|_| outage(&mut budget)).count(), 51);
        (0..2).for_each(|_| budget.earn());
        assert!(budget.take(Time::ZERO, Fault::Server).is_ok(), "19 % of late succeeded");
    }

    #[test]
    fn an_average_stays_an_average() {
        let mut budget = Adaptive::new(Spec::default(), Time::ZERO).unwrap();
        for i in 0..100_000 {
            if i % 1_000 < 500 {
                budget.failed()
            } else {
                budget.earn()
            }
            assert!((0.0..=1.0).contains(&budget.rate));
        }
    }
}

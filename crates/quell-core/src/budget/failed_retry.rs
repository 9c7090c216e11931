//! FailedRetry: only retries that fail cost.
//!
//! **Why.** A retry that succeeds was worth its price; what has to be bounded is retrying that does not help. Clients of
//! large clouds do it so: while retries work there may be as many as are needed, and when they stop working they
//! stop after a handful.
//!
//! **How.** A retry takes one token when it asks. If it succeeds the token comes back; if not it is gone, and ten
//! successes earn another.
//!
//! ```
//! use quell_core::{Fault, Time, budget::{Bucket, failed_retry::{FailedRetry, Spec}}};
//!
//! let (now, spec) = (Time::ZERO, Spec { bucket: Bucket::full(1, 0.1) });
//! let mut budget = FailedRetry::new(spec, now)?;
//! let paid = budget.take(now, Fault::Server).unwrap();
//! assert!(budget.take(now, Fault::Server).is_err());
//! budget.refund(paid); // it succeeded
//! assert!(budget.take(now, Fault::Server).is_ok());
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use super::{Bucket, Gauge, Invalid, Paid, tokens::Tokens};
use crate::{Fault, Reason, Time};

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// How many tokens, and what earns them.
    pub bucket: Bucket,
}

impl Default for Spec {
    fn default() -> Self {
        Self { bucket: Bucket::full(10, 0.1) }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct FailedRetry(Tokens);

impl FailedRetry {
    /// A budget at its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Ok(Self(Tokens::new(spec.bucket.into(), now)?))
    }

    /// Pays for one retry, or says why not.
    pub fn take(&mut self, now: Time, fault: Fault) -> Result<Paid, Reason> {
        self.0.take(now, fault)
    }

    /// Takes back what was paid: the retry was never sent, or it succeeded.
    pub fn refund(&mut self, paid: Paid) {
        self.0.refund(paid);
    }

    /// A call succeeded.
    pub fn earn(&mut self) {
        self.0.earn();
    }

    /// Whether a retry could be paid for.
    pub fn peek(&self, now: Time) -> bool {
        self.0.peek(now)
    }

    /// Starts afresh.
    pub fn reset(&mut self, now: Time) {
        self.0.reset(now);
    }

    /// Takes on the numbers of one just made and keeps its tokens, as far as they fit.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.0.adopt(fresh.0, now);
    }

    pub(super) fn lower(&mut self, level: u64, now: Time) {
        self.0.lower(level, now);
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        self.0.gauge(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_that_work_are_not_bounded_and_ten_that_do_not_are_the_end() {
        let mut budget = FailedRetry::new(Spec::default(), Time::ZERO).unwrap();
        for _ in 0..1_000 {
            let paid = budget.take(Time::ZERO, Fault::Server).unwrap();
            budget.refund(paid);
        }
        let failing = |_: &u32| budget.take(Time::ZERO, Fault::Server).is_ok();
        assert_eq!((0..).take_while(failing).count(), 10);
    }
}

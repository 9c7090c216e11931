//! Grpc: every failure costs, retried or not, as gRPC's clients have it (proposal A6).
//!
//! **Why.** Who moves from gRPC's own retry throttling wants the same numbers to mean the same. It asks "is this
//! upstream well enough to be retried at all?" rather than "what did this retry cost?".
//!
//! **How.** A success earns `ratio`, every retryable failure costs one token, and retries go out only while the level is
//! strictly above half. The failure is charged before its retry asks, so every retry has cost a token too.
//!
//! ```
//! use quell_core::{Time, budget::grpc::{Grpc, Spec}};
//!
//! let mut budget = Grpc::new(Spec::default(), Time::ZERO)?;
//! for _ in 0..4 {
//!     budget.failed();
//!     assert!(budget.take().is_ok()); // 6 of 10 are left
//! }
//! budget.failed();
//! assert!(budget.take().is_err());    // 5 are not above half
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use super::{Bucket, Gauge, Invalid, Paid, TOKEN, tokens::Tokens};
use crate::{Reason, Time};

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
pub struct Grpc(Tokens);

impl Grpc {
    /// A budget at its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Ok(Self(Tokens::new(spec.bucket.into(), now)?))
    }

    /// Allows one retry, whose failure was charged before, or says why not.
    pub fn take(&mut self) -> Result<Paid, Reason> {
        if self.peek() { Ok(Paid::NOTHING) } else { Err(Reason::BudgetEmpty) }
    }

    /// An attempt failed in a way that a retry could help.
    pub fn failed(&mut self) {
        self.0.level = self.0.level.saturating_sub(TOKEN);
    }

    /// A call succeeded.
    pub fn earn(&mut self) {
        self.0.earn();
    }

    /// Whether a retry would be allowed.
    pub fn peek(&self) -> bool {
        self.0.level > self.0.max / 2
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
    fn failures_cost_though_nobody_retries_and_half_is_not_enough() {
        let mut budget = Grpc::new(Spec::default(), Time::ZERO).unwrap();
        (0..5).for_each(|_| budget.failed());
        assert_eq!(budget.take(), Err(Reason::BudgetEmpty));
        budget.earn();
        assert!(budget.take().is_ok(), "a tenth above half is above half");
    }

    #[test]
    fn a_long_outage_leaves_no_debt_but_half_a_bucket_to_earn() {
        let mut budget = Grpc::new(Spec::default(), Time::ZERO).unwrap();
        (0..1_000).for_each(|_| budget.failed());
        (0..50).for_each(|_| budget.earn());
        assert!(!budget.peek());
        budget.earn();
        assert!(budget.peek());
    }
}

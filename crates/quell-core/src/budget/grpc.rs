//! Grpc: every failure costs, retried or not, as gRPC's clients have it (proposal A6).
//!
//! **Why.** Who moves from gRPC's own retry throttling wants the same numbers to mean the same. It asks "is this
//! upstream well enough to be retried at all?" rather than "what did this retry cost?".
//!
//! **How.** A success earns `ratio`, every retryable failure costs one token, and retries go out only while the level is
//! strictly above half. The failure is charged before its retry asks, so every retry has cost a token too. The bucket
//! is that of [`tokens`](super::tokens).
//!
//! ```
//! use quell_core::{Fault, Time, budget::{grpc::Spec, tokens::Tokens}};
//!
//! let (now, mut budget) = (Time::ZERO, Tokens::grpc(Spec::default(), Time::ZERO)?);
//! for _ in 0..4 {
//!     budget.failed();
//!     assert!(budget.take(now, Fault::Server).is_ok()); // 6 of 10 are left
//! }
//! budget.failed();
//! assert!(budget.take(now, Fault::Server).is_err());    // 5 are not above half
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use super::{
    Bucket, Invalid,
    tokens::{Charge, Tokens},
};
use crate::Time;

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

impl Tokens {
    /// A bucket that charges for failures, at its start. See the [module](self).
    pub fn grpc(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Self::charging(Charge::Failures, spec.bucket, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Fault, Reason, Rng,
        budget::{Budget, tokens},
    };

    #[test]
    fn failures_cost_though_nobody_retries_and_half_is_not_enough() {
        let mut budget = Tokens::grpc(Spec::default(), Time::ZERO).unwrap();
        (0..5).for_each(|_| budget.failed());
        assert_eq!(budget.take(Time::ZERO, Fault::Server), Err(Reason::BudgetEmpty));
        budget.earn();
        assert!(budget.take(Time::ZERO, Fault::Server).is_ok(), "a tenth above half is above half");
    }

    #[test]
    fn a_long_outage_leaves_no_debt_but_half_a_bucket_to_earn() {
        let mut budget = Tokens::grpc(Spec::default(), Time::ZERO).unwrap();
        (0..1_000).for_each(|_| budget.failed());
        (0..50).for_each(|_| budget.earn());
        assert!(!budget.peek(Time::ZERO));
        budget.earn();
        assert!(budget.peek(Time::ZERO));
    }

    #[test]
    fn where_failures_pay_a_receipt_from_before_a_reload_gives_nothing_back() {
        let mut rng = Rng::new(1);
        let mut budget = Budget::new(tokens::Spec::default(), Time::ZERO).unwrap();
        let paid = budget.take(Time::ZERO, Fault::Server, &mut rng).unwrap();
        let mut fresh = Budget::new(Spec::default(), Time::ZERO).unwrap();
        fresh.failed(Time::ZERO);
        budget.adopt(fresh, Time::ZERO);
        budget.refund(Time::ZERO, paid);
        assert_eq!(budget.level(Time::ZERO), 9.0);
    }
}

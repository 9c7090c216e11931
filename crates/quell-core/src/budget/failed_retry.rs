//! FailedRetry: only retries that fail cost.
//!
//! **Why.** A retry that succeeds was worth its price; what has to be bounded is retrying that does not help. Clients of
//! large clouds do it so: while retries work there may be as many as are needed, and when they stop working they
//! stop after a handful.
//!
//! **How.** A retry takes one token when it asks. If it succeeds the token comes back; if not it is gone, and ten
//! successes earn another. The bucket is that of [`tokens`](super::tokens).
//!
//! ```
//! use quell_core::{Fault, Time, budget::{Bucket, failed_retry::Spec, tokens::Tokens}};
//!
//! let (now, spec) = (Time::ZERO, Spec { bucket: Bucket::full(1, 0.1) });
//! let mut budget = Tokens::failed_retry(spec, now)?;
//! let paid = budget.take(now, Fault::Server).unwrap();
//! assert!(budget.take(now, Fault::Server).is_err());
//! budget.retried_well(paid);
//! assert!(budget.take(now, Fault::Server).is_ok());
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
    /// A bucket that charges for retries that fail, at its start. See the [module](self).
    pub fn failed_retry(spec: Spec, now: Time) -> Result<Self, Invalid> {
        Self::charging(Charge::FailedRetries, spec.bucket, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn retries_that_work_are_not_bounded_and_ten_that_do_not_are_the_end() {
        let mut budget = Tokens::failed_retry(Spec::default(), Time::ZERO).unwrap();
        for _ in 0..1_000 {
            let paid = budget.take(Time::ZERO, Fault::Server).unwrap();
            budget.retried_well(paid);
        }
        let failing = |_: &u32| budget.take(Time::ZERO, Fault::Server).is_ok();
        assert_eq!((0..).take_while(failing).count(), 10);
    }
}

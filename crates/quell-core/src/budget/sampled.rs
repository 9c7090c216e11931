//! Sampled: some failures may ask another budget.
//!
//! **Why.** When everything fails at once, whoever comes first takes all the tokens, and they come in one burst. If only a
//! fraction of failures may ask, the same tokens last longer and go to callers from all over the outage.
//!
//! **How.** A failure is drawn with the chance `fraction`; if it is, the inner budget decides. All else is the inner
//! budget's.
//!
//! ```
//! use quell_core::{Fault, Rng, Time, budget::sampled::{Sampled, Spec}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let mut budget = Sampled::new(Spec::default(), now)?;
//! let asked = (0..200).filter(|_| budget.take(now, Fault::Server, &mut rng).is_ok());
//! assert!((30..70).contains(&asked.count()));
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use super::{
    Budget, Gauge, Invalid, Paid, adaptive, failed_retry, grpc, invalid, probabilistic, ratio,
    tokens, window,
};
use crate::{Fault, Reason, Rng, Time};

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// The share of failures that may ask.
    pub fraction: f64,
    /// Whom they ask.
    pub inner: Inner,
}

impl Default for Spec {
    fn default() -> Self {
        Self { fraction: 0.25, inner: Inner::Tokens(tokens::Spec::default()) }
    }
}

/// Every kind of budget but a sampled one: a sample of a sample is a smaller sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inner {
    /// See [`tokens`].
    Tokens(tokens::Spec),
    /// See [`grpc`].
    Grpc(grpc::Spec),
    /// See [`failed_retry`].
    FailedRetry(failed_retry::Spec),
    /// See [`ratio`].
    Ratio(ratio::Spec),
    /// See [`window`].
    Window(window::Spec),
    /// See [`adaptive`].
    Adaptive(adaptive::Spec),
    /// See [`probabilistic`].
    Probabilistic(probabilistic::Spec),
    /// Every drawn failure is retried.
    Unlimited,
}

impl From<Inner> for super::Spec {
    fn from(inner: Inner) -> Self {
        match inner {
            Inner::Tokens(spec) => Self::Tokens(spec),
            Inner::Grpc(spec) => Self::Grpc(spec),
            Inner::FailedRetry(spec) => Self::FailedRetry(spec),
            Inner::Ratio(spec) => Self::Ratio(spec),
            Inner::Window(spec) => Self::Window(spec),
            Inner::Adaptive(spec) => Self::Adaptive(spec),
            Inner::Probabilistic(spec) => Self::Probabilistic(spec),
            Inner::Unlimited => Self::Unlimited,
        }
    }
}

impl Inner {
    /// The same kind of budget; `None` for one that is sampled itself, or nothing to sample from.
    pub const fn of(spec: super::Spec) -> Option<Self> {
        use super::Spec;
        Some(match spec {
            Spec::Tokens(spec) => Self::Tokens(spec),
            Spec::Grpc(spec) => Self::Grpc(spec),
            Spec::FailedRetry(spec) => Self::FailedRetry(spec),
            Spec::Ratio(spec) => Self::Ratio(spec),
            Spec::Window(spec) => Self::Window(spec),
            Spec::Adaptive(spec) => Self::Adaptive(spec),
            Spec::Probabilistic(spec) => Self::Probabilistic(spec),
            Spec::Unlimited => Self::Unlimited,
            Spec::Sampled(_) | Spec::None => return None,
        })
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Sampled {
    fraction: f64,
    inner: Budget,
}

impl Sampled {
    /// A budget at its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let fraction = invalid::some_share(spec.fraction, Invalid::Fraction)?;
        Ok(Self { fraction, inner: Budget::new(spec.inner, now)? })
    }

    /// Pays for one retry if its failure is drawn, or says why not.
    pub fn take(&mut self, now: Time, fault: Fault, rng: &mut Rng) -> Result<Paid, Reason> {
        if rng.unit() < self.fraction {
            self.inner.take(now, fault, rng)
        } else {
            Err(Reason::BudgetEmpty)
        }
    }

    /// Takes back what was paid for a retry that was never sent.
    pub fn refund(&mut self, now: Time, paid: Paid) {
        self.inner.refund(now, paid);
    }

    /// A paid retry was sent and succeeded.
    pub fn retried_well(&mut self, now: Time, paid: Paid) {
        self.inner.retried_well(now, paid);
    }

    /// A call succeeded.
    pub fn earn(&mut self, now: Time) {
        self.inner.earn(now);
    }

    /// An attempt failed in a way that a retry could help.
    pub fn failed(&mut self, now: Time) {
        self.inner.failed(now);
    }

    /// Whether a retry that is drawn could be paid for now.
    pub fn peek(&self, now: Time) -> bool {
        self.inner.peek(now)
    }

    /// Starts afresh.
    pub fn reset(&mut self, now: Time) {
        self.inner.reset(now);
    }

    /// Takes on the numbers of one just made; the inner budget by its own rule.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.fraction = fresh.fraction;
        self.inner.adopt(fresh.inner, now);
    }

    pub(super) fn inner(&mut self) -> &mut Budget {
        &mut self.inner
    }

    pub(super) fn held(&self, now: Time) -> u64 {
        self.inner.held(now)
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        self.inner.gauge(now)
    }
}

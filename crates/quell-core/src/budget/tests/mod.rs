//! Facts that every kind of budget shares, properties against a slow model, and wrong budgets that these must catch.

mod controls;
mod facts;
mod lease;
mod ledger;
mod properties;
mod purse;
mod reload;

use core::time::Duration;

use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Every kind with its usual numbers.
pub(crate) fn kinds() -> Vec<Spec> {
    vec![
        tokens::Spec::default().into(),
        tokens::Spec::llm().into(),
        tokens::Spec::time_only().into(),
        grpc::Spec::default().into(),
        failed_retry::Spec::default().into(),
        ratio::Spec::default().into(),
        ratio::Spec::finagle().into(),
        window::Spec::default().into(),
        adaptive::Spec::default().into(),
        probabilistic::Spec::default().into(),
        sampled::Spec::default().into(),
        Spec::Unlimited,
        Spec::None,
    ]
}

/// Those whose answers are neither chance nor always the same.
fn strict_kinds() -> impl Iterator<Item = Spec> {
    let loose = |spec: &Spec| {
        matches!(spec, Spec::Probabilistic(_) | Spec::Sampled(_) | Spec::Unlimited | Spec::None)
    };
    kinds().into_iter().filter(move |spec| !loose(spec))
}

/// A budget with the chance it needs.
struct Asker {
    budget: Budget,
    rng: Rng,
}

impl Asker {
    fn new(spec: impl Into<Spec>) -> Self {
        Self { budget: Budget::new(spec, Time::ZERO).unwrap(), rng: Rng::new(7) }
    }

    /// With so many successes per second for so long, evenly.
    fn healthy(spec: impl Into<Spec>, per_second: u64, seconds: u64) -> Self {
        let mut asker = Self::new(spec);
        (0..per_second * seconds).for_each(|i| asker.budget.earn(at(i * 1_000 / per_second)));
        asker
    }

    /// A failure that wants to be retried.
    fn fail(&mut self, now: Time) -> Option<Paid> {
        self.budget.failed(now);
        self.budget.take(now, Fault::Server, &mut self.rng).ok()
    }

    /// How many of so many failures at once are retried.
    fn burst(&mut self, now: Time, failures: usize) -> usize {
        (0..failures).filter(|_| self.fail(now).is_some()).count()
    }
}

//! Rungs: the cures people reach for, one more at a time.
//!
//! What is in the callers is in each instance, with a state of its own. Up to `queue` nothing stands in front of the service but
//! where the rate limit is alone.

use quell::core::{
    backoff, breaker,
    in_flight::Limit,
    limiter,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Scenario,
    scenario::{Callers, Gateway},
};

/// Ten times the workers.
pub(super) fn ten_times(mut scenario: Scenario) -> Scenario {
    scenario.service.workers = scenario.service.workers.saturating_mul(10);
    scenario
}

/// A limiter in front of the service that lets through what it can do, and nothing else.
pub(super) fn rate_limit(mut scenario: Scenario) -> Scenario {
    let policy = PolicySpec { attempts: 1, ..PolicySpec::gateway() };
    let upstream = UpstreamSpec { rate_limit: Some(limited(&scenario, 1)), ..bare() };
    scenario.gateway = Some(Gateway { policy, upstream, ..Gateway::default() });
    scenario
}

/// What a library inside the callers does, in the order people add it. Each has all that comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rung {
    /// Three retries a second apart, as naive callers do, paid by a budget.
    Budget,
    /// Backoff with jitter instead, and an equal share of the service's capacity for each instance.
    AllThree,
    /// The default breaker.
    Breaker,
    /// An in-flight limit that finds itself, with a queue.
    Queue,
}

/// The callers up to a rung.
pub(super) fn up_to(rung: Rung, scenario: Scenario) -> Scenario {
    let with = |from: Rung| rung >= from;
    let waits = if with(Rung::AllThree) {
        backoff::Spec::default()
    } else {
        backoff::Spec {
            shape: backoff::Shape::Fixed,
            base: std::time::Duration::from_secs(1),
            jitter: backoff::Jitter::None,
            ..backoff::Spec::default()
        }
    };
    let policy = PolicySpec {
        attempts: 4,
        per_try_timeout: Some(scenario.patience),
        backoff: waits,
        ..PolicySpec::library()
    };
    let full = UpstreamSpec::gateway();
    let upstream = UpstreamSpec {
        budget: full.budget,
        rate_limit: with(Rung::AllThree).then(|| limited(&scenario, scenario.instances)),
        breaker: if with(Rung::Breaker) { full.breaker } else { bare().breaker },
        in_flight: if with(Rung::Queue) { full.in_flight } else { Limit::Off },
        ..bare()
    };
    scenario.with_callers(Callers::Quell { policy, upstream })
}

/// Quell with every control off.
fn bare() -> UpstreamSpec {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    UpstreamSpec { breaker, in_flight: Limit::Off, ..UpstreamSpec::library() }
}

/// What the service can do, shared by so many.
fn limited(scenario: &Scenario, by: u32) -> limiter::Spec {
    let per_second = scenario.service.capacity() / f64::from(by.max(1));
    limiter::Spec { per_second, burst: (per_second.ceil() as u32).max(1) }
}

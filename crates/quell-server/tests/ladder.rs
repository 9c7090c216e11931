//! The storm against every cure people reach for: what each of them is good for when the queue has built up.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use quell_server::sim::file::{self, Against};
use quell_sim::{run, verdict::Summary};

/// What 30 seconds of stall come to.
fn stalled(who: Against) -> Summary {
    let plans = file::parse(file::LADDER).unwrap();
    let plan = plans.iter().find(|plan| plan.name == "stall").unwrap();
    run(&plan.faced_by(who), 1).unwrap().summary
}

#[test]
fn a_rate_limit_at_capacity_never_drains_a_backlog() {
    let summary = stalled(Against::RateLimit);
    assert_eq!(summary.verdict.as_str(), "metastable", "{summary}");
}

#[test]
fn a_budget_heals_only_as_fast_as_the_zombies_drain() {
    for who in [Against::Budget, Against::AllThree] {
        let summary = stalled(who);
        assert_eq!(summary.verdict.as_str(), "draining", "{summary}");
        assert!(summary.amplification <= 1.1, "{summary}");
    }
}

#[test]
fn a_breaker_lets_the_backlog_drain_and_a_limit_keeps_it_from_building_up() {
    let (breaker, queue) = (stalled(Against::Breaker), stalled(Against::Queue));
    assert!(breaker.verdict.within(10) && !breaker.verdict.within(1), "{breaker}");
    assert!(queue.verdict.within(1), "{queue}");
    assert!(queue.wasted < breaker.wasted, "{queue} / {breaker}");
}

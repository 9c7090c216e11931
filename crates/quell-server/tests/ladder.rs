//! The storm against every cure people reach for: what each of them is good for when the queue has built up.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use quell_server::sim::file;
use quell_sim::{run, verdict::Summary};

/// What 30 seconds of stall come to.
fn stalled(who: &str) -> Summary {
    let plans = file::parse(file::LADDER).unwrap();
    let plan = plans.iter().find(|plan| plan.name == "stall").unwrap();
    run(&plan.way(who).unwrap().scenario, 1).unwrap().summary
}

#[test]
fn a_rate_limit_at_capacity_never_drains_a_backlog() {
    let summary = stalled("rate-limit");
    assert_eq!(summary.verdict.as_str(), "metastable", "{summary}");
}

#[test]
fn a_budget_heals_only_as_fast_as_the_zombies_drain() {
    for who in ["budget", "all-three"] {
        let summary = stalled(who);
        assert_eq!(summary.verdict.as_str(), "draining", "{summary}");
        assert!(summary.amplification <= 1.1, "{summary}");
    }
}

#[test]
fn a_breaker_lets_the_backlog_drain_and_a_limit_keeps_it_from_building_up() {
    let (breaker, queue) = (stalled("breaker"), stalled("queue"));
    assert!(breaker.verdict.within(10) && !breaker.verdict.within(1), "{breaker}");
    assert!(queue.verdict.within(1), "{queue}");
    assert!(queue.wasted < breaker.wasted, "{queue} / {breaker}");
}

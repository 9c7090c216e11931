//! Chains and graphs of services: what attempts at every layer come to, and what bounds them.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{
    breaker, budget,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Run, Scenario, run,
    scenario::{Abandonment, Callers, Edge, Node, Outage, OutageKind, Service},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn service() -> Service {
    Service::constant(1_000, ms(1))
}

/// Attempts without a breaker, and with this budget.
fn edge(to: usize, attempts: u32, budget: budget::Spec) -> Edge {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    Edge {
        policy: PolicySpec { attempts, ..PolicySpec::library() },
        upstream: UpstreamSpec { budget, breaker, ..UpstreamSpec::library() },
        ..Edge::new(to)
    }
}

/// Users, `hops` services in a row, the last of which always fails; every hop makes so many attempts.
fn chain(hops: usize, attempts: u32, budget: budget::Spec) -> Scenario {
    let outside = edge(0, attempts, budget);
    let mut scenario = Scenario {
        load: 100.0,
        instances: 1,
        callers: Callers::Quell { policy: outside.policy, upstream: outside.upstream },
        service: service(),
        calls: vec![outside],
        outage: Outage { kind: OutageKind::Brownout { share: 0.0 }, at: s(0), length: s(60) },
        watch: s(60),
        ..Scenario::storm(OutageKind::Fail)
    };
    for hop in 1..hops {
        let calls = if hop + 1 < hops { vec![edge(hop, attempts, budget)] } else { vec![] };
        scenario.below.push(Node { calls, ..Node::leaf(service()) });
    }
    let last = Outage { kind: OutageKind::Fail, at: s(0), length: s(1_000) };
    scenario.below.last_mut().unwrap().faults = vec![last];
    scenario
}

fn every(scenario: &mut Scenario, change: impl Fn(&mut Edge)) {
    let below = scenario.below.iter_mut().flat_map(|node| &mut node.calls);
    scenario.calls.iter_mut().chain(below).for_each(change);
}

/// Calls that reach the last service, per user's request.
fn per_user(run: &Run) -> f64 {
    run.below.last().unwrap().sent as f64 / run.series.sum(Count::Demand, 0..120) as f64
}

#[test]
fn attempts_multiply_along_a_chain() {
    for (hops, attempts, expected) in [(3, 3, 27.0), (4, 3, 81.0), (3, 4, 64.0)] {
        let run = run(&chain(hops, attempts, budget::Spec::Unlimited), 1).unwrap();
        let got = per_user(&run);
        // The last users of the run are still at it when it ends.
        assert!((got / expected - 1.0).abs() < 0.1, "{attempts} at each of {hops}: {got}");
    }
}

#[test]
fn one_credit_makes_the_extra_load_a_sum() {
    let mut scenario = chain(4, 3, budget::Spec::Unlimited);
    scenario.credit = true;
    every(&mut scenario, |edge| edge.credit = true);
    let got = per_user(&run(&scenario, 1).unwrap());
    assert!((2.5..=3.0).contains(&got), "{got}");
}

#[test]
fn a_mark_keeps_the_layers_above_from_retrying() {
    let mut scenario = chain(4, 3, budget::Spec::Unlimited);
    every(&mut scenario, |edge| edge.marks = true);
    let got = per_user(&run(&scenario, 1).unwrap());
    assert!((2.8..=3.0).contains(&got), "only the lowest layer retries: {got}");
}

#[test]
fn budgets_and_credit_keep_a_chain_that_fails_for_good_near_one_call_per_user() {
    let mut scenario = chain(4, 3, budget::Spec::default());
    scenario.credit = true;
    every(&mut scenario, |edge| edge.credit = true);
    let got = per_user(&run(&scenario, 1).unwrap());
    assert!(got <= 1.1, "{got}");
}

#[test]
fn a_service_that_calls_two_others_answers_when_both_have() {
    let mut scenario = chain(2, 1, budget::Spec::default());
    scenario.below = vec![
        Node::leaf(Service::constant(1_000, ms(30))),
        Node::leaf(Service::constant(1_000, ms(50))),
    ];
    scenario.calls = vec![Edge::new(0), Edge::new(1)];
    let run = run(&scenario, 1).unwrap();
    let demand = run.series.sum(Count::Demand, 0..120);
    assert!(run.below.iter().all(|below| below.sent.abs_diff(demand) < 20), "{:?}", run.below);
    assert!(run.series.sum(Count::Good, 0..120).abs_diff(demand) < 20);
}

/// Workers that wait for a slow service behind them are busy: the trouble travels up.
#[test]
fn a_stall_at_the_bottom_takes_the_top_down_and_ends_with_it() {
    let mut scenario = chain(2, 1, budget::Spec::default());
    scenario.service.workers = 20;
    let stall = Outage { kind: OutageKind::Stall, at: s(20), length: s(10) };
    scenario.below[0].faults = vec![stall];
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.series.sum(Count::Good, 21..29), 0);
    assert!(run.series.sum(Count::Good, 70..80) > 900);
}

#[test]
fn a_top_that_stalls_gives_the_answers_from_below_when_it_is_back() {
    let mut scenario = chain(2, 1, budget::Spec::default());
    scenario.below[0] = Node::leaf(Service::constant(1_000, ms(500)));
    scenario.faults = vec![Outage { kind: OutageKind::Stall, at: s(20), length: s(5) }];
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.series.sum(Count::Good, 21..25), 0);
    let lost = run.series.sum(Count::Demand, 0..110).abs_diff(run.series.sum(Count::Good, 0..110));
    assert!(lost < 100, "{lost}");
}

#[test]
fn who_notices_a_departure_drops_the_calls_made_for_it_too() {
    let mut scenario = chain(2, 1, budget::Spec::default());
    scenario.callers = Callers::NO_RETRIES;
    scenario.patience = ms(100);
    scenario.service.abandonment = Abandonment::Cancels { after: ms(1) };
    let slow = Service {
        abandonment: Abandonment::Cancels { after: ms(1) },
        ..Service::constant(1_000, ms(1_000))
    };
    scenario.below[0] = Node::leaf(slow);
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.below[0].work.served, 0);
    assert!(run.below[0].queueing.cancelled > 11_000);
}

#[test]
fn calls_that_lead_nowhere_or_back_up_are_refused_with_a_fix() {
    let mut nowhere = chain(3, 1, budget::Spec::default());
    nowhere.below[0].calls[0].to = 2;
    let mut back = chain(3, 1, budget::Spec::default());
    back.below[1].calls = vec![Edge::new(0)];
    for scenario in [nowhere, back] {
        assert!(run(&scenario, 1).unwrap_err().to_string().contains("write"));
    }
}

#[test]
fn every_layer_is_seen_with_what_it_was_asked_and_what_it_spent() {
    let run = run(&chain(3, 3, budget::Spec::Unlimited), 1).unwrap();
    let all: Vec<_> = run.layers.iter().map(|layer| layer.over(0..120)).collect();
    let users = run.series.sum(Count::Demand, 0..120) as f64;
    for (layer, expected) in all.iter().zip([3.0, 9.0, 27.0]) {
        assert!((layer.amplification() - 3.0).abs() < 0.1, "{layer:?}");
        assert!((layer.sent as f64 / users / expected - 1.0).abs() < 0.1, "{layer:?}");
        assert_eq!(layer.useful_share(), Some(0.0));
    }
    // What the lowest turns down at once takes no worker; those above are held all the while.
    assert_eq!(all[2].held, 0);
    assert!(all[0].held > all[1].held && all[1].held > 0, "{all:?}");
    assert_eq!(run.below[1].sent, all[2].sent, "the seconds add up");
}

#[test]
fn work_has_a_price_in_answers() {
    let mut scenario = chain(2, 1, budget::Spec::default());
    scenario.below[0] = Node::leaf(Service::constant(1_000, ms(50)));
    let run = run(&scenario, 1).unwrap();
    let cost = run.cost(0..100);
    // 1 ms of its own and 50 ms of waiting at the top, 50 ms below.
    let work = cost.work_per_answer.unwrap();
    assert!(work.abs_diff(ms(101)) < ms(1), "{work:?}");
    assert!((cost.of_a_thousand(0.002).unwrap() - 2.0).abs() < 0.01, "{cost:?}");
    assert_eq!((cost.departed, cost.beyond_first), (0.0, 0.0));
}

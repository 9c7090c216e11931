//! Hops inside: instances with a state of their own, restarts, deadlines handed down, and a gateway before a service inside.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{
    breaker, budget,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Run, Scenario, run,
    scenario::{
        Abandonment, Arrivals, Callers, Edge, Gateway, Node, Outage, OutageKind, Restart, Service,
    },
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 300 users per second, who try once, at a front that calls a back with room for 360. The back is in trouble from second
/// 20 to 30.
fn scenario(kind: OutageKind, edge: Edge) -> Scenario {
    let trouble = Outage { kind, at: s(20), length: s(10) };
    Scenario {
        load: 300.0,
        callers: Callers::NO_RETRIES,
        service: Service::constant(2_000, ms(1)),
        calls: vec![edge],
        below: vec![Node { faults: vec![trouble], ..Node::leaf(Service::constant(36, ms(100))) }],
        outage: Outage { kind: OutageKind::Brownout { share: 0.0 }, ..trouble },
        watch: s(60),
        ..Scenario::storm(kind)
    }
}

/// An edge whose retries only the budget holds back.
fn edge() -> Edge {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    let upstream = UpstreamSpec { breaker, ..UpstreamSpec::library() };
    Edge { upstream, ..Edge::new(0) }
}

fn retries(run: &Run) -> u64 {
    run.below[0].sent - run.series.sum(Count::Sent, 0..usize::MAX)
}

fn good(run: &Run, seconds: core::ops::Range<usize>) -> f64 {
    let sum = |what| run.series.sum(what, seconds.clone()) as f64;
    sum(Count::Good) / sum(Count::Demand)
}

/// The budget starts with 100 retries in each process: floors multiply, ratios do not.
#[test]
fn every_instance_of_an_edge_has_a_budget_of_its_own() {
    let retries = |instances, restart| {
        let edge = Edge { instances, restart, ..edge() };
        let run = run(&scenario(OutageKind::Fail, edge), 1).unwrap();
        assert!(good(&run, 40..80) > 0.99, "{}", run.summary);
        retries(&run)
    };
    // And a few earned by what was under way when it began.
    for instances in [1, 4, 8] {
        let got = retries(instances, None) - 100 * u64::from(instances);
        assert!(got < 5, "{instances} instances: {got} more");
    }
    // Restarted in the middle of the outage, each begins with a full budget once more.
    let rolling = Restart { at: s(23), step: s(1) };
    let got = retries(4, Some(rolling));
    assert!((800..805).contains(&got), "{got}");
}

#[test]
fn calls_of_an_instance_that_is_restarted_fail_and_so_do_the_jobs_that_made_them() {
    let restart = Some(Restart { at: s(25), step: Duration::ZERO });
    let calm = OutageKind::Brownout { share: 0.0 };
    let lost = |restart| {
        let run = run(&scenario(calm, Edge { restart, ..edge() }), 1).unwrap();
        run.series.sum(Count::Demand, 0..90) - run.series.sum(Count::Good, 0..90)
    };
    // 300 per second for 100 ms are under way, then as at the run's end.
    let (calm, restarted) = (lost(None), lost(restart));
    assert!((20..45).contains(&(restarted - calm)), "{restarted}, {calm} without a restart");
}

/// The back becomes 20 times slower than it was, twice as slow as users are patient; its callers wait ten seconds for it, and
/// the queue for it is as long, unless they are told how long users wait.
#[test]
fn a_deadline_that_is_handed_down_heals_at_once_and_spares_work_for_users_who_have_left() {
    let slow = |deadline| {
        let slow = OutageKind::Latency { factor: 20.0 };
        let mut scenario = scenario(slow, Edge { deadline, ..edge() });
        scenario.below[0].service.abandonment = Abandonment::Deadline { margin: ms(110) };
        let run = run(&scenario, 1).unwrap();
        (run.summary.verdict, run.work.wasted as f64 / run.work.served as f64)
    };
    let (verdict, wasted) = slow(false);
    assert!(!verdict.within(30) && wasted > 0.4, "{verdict}, {wasted} wasted");
    let (verdict, wasted) = slow(true);
    assert!(verdict.within(1) && wasted < 0.15, "{verdict}, {wasted} wasted");
}

#[test]
fn a_gateway_before_a_service_inside_heals_it_for_all_who_call() {
    let verdict = |gateway| {
        let naive = Edge {
            policy: PolicySpec { per_try_timeout: Some(s(1)), ..PolicySpec::library() },
            ..edge()
        };
        let mut scenario = scenario(OutageKind::Stall, naive);
        // Two edges: the front calls the back itself, and through a middle.
        scenario.calls = vec![Edge { to: 0, ..naive }, Edge { to: 1, ..naive }];
        scenario.below[0].calls = vec![Edge { to: 1, ..naive }];
        scenario.below[0].service = Service::constant(2_000, ms(1));
        let faults = std::mem::take(&mut scenario.below[0].faults);
        scenario.below.push(Node { faults, gateway, ..Node::leaf(Service::constant(72, ms(100))) });
        scenario.patience = s(3);
        run(&scenario, 1).unwrap()
    };
    let (without, with) = (verdict(None), verdict(Some(Gateway::default())));
    assert!(!without.summary.verdict.within(5), "{}", without.summary);
    assert!(with.summary.verdict.within(1), "{}", with.summary);
    assert!(10 * with.below[1].work.wasted < without.below[1].work.wasted, "{:?}", with.below);
}

#[test]
fn clients_with_quell_may_call_through_a_gateway_too() {
    let scenario = Scenario {
        load: 300.0,
        service: Service::constant(36, ms(100)),
        ..Scenario::storm(OutageKind::Stall).with_callers(Callers::quell(s(1))).with_gateway()
    };
    let run = run(&scenario, 1).unwrap();
    assert!(run.summary.verdict.within(1), "{}", run.summary);
    assert!(run.summary.amplification <= 1.1, "{}", run.summary);
}

/// Three attempts at the edge of the chain and two more at each hop would be 18 per user; the credit allows 3 in all.
#[test]
fn a_gateway_inside_keeps_to_the_credit_of_the_chain() {
    let open = UpstreamSpec { budget: budget::Spec::Unlimited, ..edge().upstream };
    let mut scenario = scenario(OutageKind::Fail, Edge { upstream: open, credit: true, ..edge() });
    scenario.callers = Callers::Quell { policy: PolicySpec::library(), upstream: open };
    scenario.credit = true;
    scenario.below[0].gateway = Some(Gateway { upstream: open, ..Gateway::default() });
    scenario.below[0].faults[0].length = s(70);
    let run = run(&scenario, 1).unwrap();
    let before = run.series.sum(Count::Demand, 0..20);
    let failing = run.series.sum(Count::Demand, 20..90);
    let per_user = (run.below[0].sent - before) as f64 / failing as f64;
    assert!((2.9..=3.05).contains(&per_user), "{per_user}");
}

#[test]
fn the_same_seed_gives_the_same_hops_and_no_instances_are_refused() {
    let edge = Edge {
        instances: 5,
        deadline: true,
        restart: Some(Restart { at: s(22), step: s(1) }),
        ..edge()
    };
    let mut base = scenario(OutageKind::Stall, edge);
    base.below[0].gateway = Some(Gateway::default());
    assert_eq!(run(&base, 7).unwrap(), run(&base, 7).unwrap());
    assert_ne!(run(&base, 7).unwrap().hash, run(&base, 8).unwrap().hash);
    base.calls[0].instances = 0;
    assert!(run(&base, 1).unwrap_err().to_string().contains("write"));
}

/// The front begins at 9 s, calls at 9.5 s, stalls from 10 to 20 s, and has its answer from the back at 11.5 s.
#[test]
fn a_good_reply_from_below_waits_for_the_end_of_a_stall() {
    let mut scenario = scenario(OutageKind::Brownout { share: 0.0 }, edge());
    scenario.patience = s(60);
    scenario.arrivals = Arrivals::Burst { users: 1, at: s(9) };
    scenario.service = Service::constant(1, ms(500));
    scenario.below[0].service = Service::constant(1, s(2));
    scenario.outage = Outage { kind: OutageKind::Stall, at: s(10), length: s(10) };
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.series.sum(Count::Good, 0..20), 0);
    assert_eq!(run.series.at(Count::Good, 20), 1);
}

#[test]
fn nobody_gets_through_a_gateway_inside_before_it_has_started() {
    let mut scenario = scenario(OutageKind::Brownout { share: 0.0 }, edge());
    scenario.below[0].gateway = Some(Gateway { starts: s(15), ..Gateway::default() });
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.series.sum(Count::Good, 0..15), 0);
    assert!(good(&run, 16..90) > 0.99, "{}", run.summary);
}

/// One user, two retries in all, of which one is lent to each attempt. The first of two calls in a row spends it on a lost
/// attempt, so the second call fails at once; the user has one retry left, and what came of it has none.
#[test]
fn a_second_call_has_the_credit_that_the_first_one_left() {
    let open = UpstreamSpec { budget: budget::Spec::Unlimited, ..edge().upstream };
    let policy = PolicySpec { per_try_timeout: Some(s(1)), ..PolicySpec::library() };
    let link = Edge { upstream: open, policy, credit: true, ..edge() };
    let mut scenario = scenario(OutageKind::Hole, link);
    scenario.callers = Callers::Quell { policy: PolicySpec::library(), upstream: open };
    scenario.credit = true;
    scenario.arrivals = Arrivals::Burst { users: 1, at: ms(29_500) };
    scenario.calls.push(Edge { to: 1, ..link });
    let down = Outage { kind: OutageKind::Fail, at: s(0), length: s(90) };
    let back = Node::leaf(Service::constant(36, ms(100)));
    scenario.below.push(Node { faults: vec![down], ..back });
    let run = run(&scenario, 1).unwrap();
    let sent = [run.series.sum(Count::Sent, 0..90), run.below[0].sent, run.below[1].sent];
    assert_eq!(sent, [2, 3, 2]);
}

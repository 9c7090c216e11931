//! Replies that say more than yes or no: when to come back, and that coming back is of no use.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{
    breaker, budget,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Run, Scenario, run,
    scenario::{Arrivals, Callers, Outage, OutageKind, Service},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 300 requests per second for a service that can do 3,000, in trouble from second 10 to 20.
fn scenario(kind: OutageKind, callers: Callers) -> Scenario {
    Scenario {
        load: 300.0,
        instances: 1,
        callers,
        service: Service::constant(300, ms(100)),
        outage: Outage { kind, at: s(10), length: s(10) },
        watch: s(40),
        ..Scenario::storm(kind)
    }
}

/// The library with three attempts and nothing but hints to hold them back.
fn library() -> Callers {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    let budget = budget::Spec::Unlimited;
    let upstream = UpstreamSpec { breaker, budget, ..UpstreamSpec::library() };
    Callers::Quell { policy: PolicySpec::library(), upstream }
}

fn hinted(kind: OutageKind, hint: Option<Duration>) -> Run {
    let mut scenario = scenario(kind, library());
    scenario.service.hint = hint;
    run(&scenario, 1).unwrap()
}

/// Users of these seconds without an answer, and attempts per user in them.
fn cost(run: &Run, seconds: core::ops::Range<usize>) -> (f64, f64) {
    let sum = |what| run.series.sum(what, seconds.clone()) as f64;
    (1.0 - sum(Count::Good) / sum(Count::Demand), sum(Count::Sent) / sum(Count::Demand))
}

/// Three attempts 100 ms apart are spent within the outage; two waits of 4 s carry a call over its end.
#[test]
fn a_hint_that_is_heeded_carries_a_lone_call_over_the_end_of_the_outage() {
    let good = |hint| {
        let mut scenario = scenario(OutageKind::Fail, library());
        scenario.arrivals = Arrivals::Burst { users: 1, at: s(15) };
        scenario.service.hint = hint;
        let run = run(&scenario, 1).unwrap();
        (run.series.sum(Count::Good, 0..60), run.series.sum(Count::Sent, 0..60))
    };
    assert_eq!((good(None), good(Some(s(4)))), ((0, 3), (1, 3)));
}

/// Every error of a newcomer tells everybody's retries to wait for another 4 s: they are refused when they wake.
#[test]
fn in_a_crowd_errors_with_a_hint_leave_one_attempt_per_user() {
    let (without, with) = (hinted(OutageKind::Fail, None), hinted(OutageKind::Fail, Some(s(4))));
    assert!((cost(&without, 11..20).1 - 3.0).abs() < 0.05, "{:?}", cost(&without, 11..20));
    assert_eq!(cost(&with, 11..20).1, 1.0);
    let lost = |run: &Run| cost(run, 10..40).0 * 3.0;
    assert!((lost(&with) - lost(&without)).abs() < 0.05, "{}, {}", lost(&with), lost(&without));
}

#[test]
fn a_hint_beyond_the_cap_ends_the_call_at_once() {
    let (_, sends) = cost(&hinted(OutageKind::Fail, Some(s(31))), 11..20);
    assert_eq!(sends, 1.0);
    let (_, sends) = cost(&hinted(OutageKind::Fail, None), 11..20);
    assert!(sends > 2.9, "{sends}");
}

#[test]
fn a_full_queue_says_when_to_come_back_too() {
    let sends = |hint| {
        let mut scenario = scenario(OutageKind::Stall, library());
        scenario.service.queue.max = Some(10);
        scenario.service.hint = hint;
        let run = run(&scenario, 1).unwrap();
        assert!(run.queueing.refused > 2_000, "{:?}", run.queueing);
        cost(&run, 11..20).1
    };
    let (without, with) = (sends(None), sends(Some(s(31))));
    assert!(with < 1.01 && without > 2.8, "{with}, {without} without a hint");
}

#[test]
fn callers_without_quell_heed_no_hint() {
    let sent = |hint| {
        let mut scenario = scenario(OutageKind::Fail, Callers::NAIVE);
        scenario.service.hint = hint;
        run(&scenario, 1).unwrap().hash
    };
    assert_eq!(sent(None), sent(Some(s(31))));
}

/// A third of all requests is at fault: nobody repeats them, whoever sends them and whatever is in between.
#[test]
fn fatal_errors_are_not_repeated_and_open_no_breaker() {
    let fatal = OutageKind::Fatal { share: 1.0 / 3.0, misread: false };
    let quell = Callers::quell(s(1));
    for callers in [Callers::NAIVE, quell] {
        let scenario = scenario(fatal, callers);
        let (lost, sends) = cost(&run(&scenario, 1).unwrap(), 10..20);
        assert!((lost - 1.0 / 3.0).abs() < 0.02, "{lost}");
        assert_eq!(sends, 1.0);
    }
    let (lost, sends) =
        cost(&run(&scenario(fatal, Callers::NAIVE).with_gateway(), 1).unwrap(), 10..20);
    assert!((lost - 1.0 / 3.0).abs() < 0.02, "{lost}");
    assert_eq!(sends, 1.0);
}

/// Taken for errors that may pass, the same ones cost 1 + f·R sends: a repetition never helps, so they all are made.
#[test]
fn misread_fatal_errors_are_repeated_in_vain_as_far_as_the_budget_goes() {
    let misread = OutageKind::Fatal { share: 1.0 / 3.0, misread: true };
    let to_the_end = |callers| {
        let mut scenario = scenario(misread, callers);
        (scenario.outage.length, scenario.watch) = (s(50), s(0));
        run(&scenario, 1).unwrap()
    };
    let naive = to_the_end(Callers::NAIVE);
    let (lost, sends) = cost(&naive, 14..60);
    assert!((lost - 1.0 / 3.0).abs() < 0.03 && (sends - 2.0).abs() < 0.05, "{lost}, {sends}");
    assert_eq!(naive.observed.useful, 0, "of {}", naive.observed.retries);
    let quell = to_the_end(Callers::quell(s(1)));
    let (lost, sends) = cost(&quell, 14..60);
    assert!((lost - 1.0 / 3.0).abs() < 0.03 && sends < 1.08, "{lost}, {sends}");
}

/// The budget that misread errors have drained is missing when retries would help.
#[test]
fn a_brownout_on_top_of_misread_errors_finds_the_budget_spent() {
    let lost = |faults: Vec<Outage>| {
        let brownout = OutageKind::Brownout { share: 0.05 };
        let mut scenario = scenario(brownout, Callers::quell(s(1)));
        scenario.faults = faults;
        let run = run(&scenario, 1).unwrap();
        let (retries, useful) = (run.observed.retries as f64, run.observed.useful as f64);
        useful / retries
    };
    let misread = OutageKind::Fatal { share: 0.2, misread: true };
    let (alone, both) =
        (lost(vec![]), lost(vec![Outage { kind: misread, at: s(0), length: s(60) }]));
    assert!(alone > 0.95 && both < 0.1, "useful: {alone} alone, {both} with misread errors");
}

#[test]
fn the_same_seed_finds_the_same_requests_at_fault() {
    let fatal = OutageKind::Fatal { share: 0.3, misread: true };
    let mut scenario = scenario(fatal, library());
    scenario.service.hint = Some(s(1));
    scenario.faults = vec![Outage { kind: OutageKind::Brownout { share: 0.2 }, ..scenario.outage }];
    assert_eq!(run(&scenario, 5).unwrap(), run(&scenario, 5).unwrap());
    assert_ne!(run(&scenario, 5).unwrap().hash, run(&scenario, 6).unwrap().hash);
    scenario.outage.kind = OutageKind::Fatal { share: 1.5, misread: false };
    assert!(run(&scenario, 1).unwrap_err().to_string().contains("write"));
}

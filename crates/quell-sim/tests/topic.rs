//! Records of a topic: what fails waits on a tier, what is due is paid for, and nothing is lost on the way.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{breaker, budget, ladder, spec::UpstreamSpec};
use quell_sim::{
    Run, Scenario, run,
    scenario::{Arrivals, Outage, OutageKind, Restart, Service, Topic},
    verdict::{Count, Verdict},
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 100 records per second, 10 instances of 4 hands, a service that can do 200, tiers of 3, 10 and 30 s; in trouble from
/// second 20 on.
fn scenario(kind: OutageKind, length: u64) -> Scenario {
    Scenario {
        load: 100.0,
        instances: 10,
        topic: Some(Topic {
            tiers: ladder::Spec::Tiers([3, 10, 30].map(s).to_vec()),
            concurrency: 4,
            ..Topic::default()
        }),
        service: Service::constant(20, ms(100)),
        outage: Outage { kind, at: s(20), length: s(length) },
        watch: s(100),
        ..Scenario::storm(kind)
    }
}

fn upstream(scenario: &mut Scenario) -> &mut UpstreamSpec {
    &mut scenario.topic.as_mut().unwrap().upstream
}

fn done(run: &Run) -> u64 {
    run.series.sum(Count::Good, 0..usize::MAX)
}

/// Everything that was written is done, dead, waiting, or in one of the hands.
fn assert_nothing_lost(run: &Run, hands: u64) {
    let last = run.records.last().unwrap();
    let waiting = last.lag + last.due + last.tiers.iter().sum::<u64>();
    let written = run.series.sum(Count::Demand, 0..usize::MAX);
    let in_hand = written.checked_sub(done(run) + last.dead + waiting).unwrap();
    assert!(in_hand <= hands, "{in_hand} of {written} are nowhere: {last:?}");
}

#[test]
fn nothing_is_lost_whatever_happens() {
    let kinds = OutageKind::ALL.into_iter().chain([
        OutageKind::Brownout { share: 0.5 },
        OutageKind::Fatal { share: 0.3, misread: false },
        OutageKind::Latency { factor: 20.0 },
    ]);
    for (kind, seed) in kinds.zip(1..) {
        let mut scenario = scenario(kind, 60);
        scenario.restarts = vec![Restart { at: s(25), step: s(2) }];
        scenario.service.hint = (seed % 2 == 0).then_some(s(5));
        let run = run(&scenario, seed).unwrap();
        assert_nothing_lost(&run, 40);
        assert!(done(&run) > 8_000, "{kind:?}: {}", done(&run));
    }
}

#[test]
fn a_failed_record_comes_back_when_its_tier_is_over_and_not_before() {
    let mut scenario = scenario(OutageKind::Fail, 2);
    scenario.arrivals = Arrivals::Burst { users: 100, at: s(21) };
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.records[21].tiers, [100, 0, 0]);
    assert_eq!(run.series.sum(Count::Good, 0..24), 0);
    assert_eq!(run.series.sum(Count::Good, 24..25), 100);
    assert_eq!((run.observed.retries, run.observed.useful), (100, 100));
}

/// Records of the first 17 of 60 s fail on all three tiers within them. With a breaker, intake is paused, and the probes are
/// new records.
#[test]
fn an_outage_longer_than_the_ladder_makes_dead_letters_without_a_breaker_and_none_with_it() {
    let dead = |mode| {
        let mut scenario = scenario(OutageKind::Fail, 60);
        upstream(&mut scenario).budget = budget::Spec::Unlimited;
        upstream(&mut scenario).breaker.mode = mode;
        let run = run(&scenario, 1).unwrap();
        assert_nothing_lost(&run, 40);
        assert!(run.summary.verdict.healed(), "{}", run.summary);
        run.records.last().unwrap().dead
    };
    let (without, with) = (dead(breaker::Mode::Disabled), dead(breaker::Mode::Enforce));
    assert!((1_600..1_800).contains(&without), "{without}");
    assert_eq!(with, 0);
}

/// 40 % fail for a minute, and 10 instances have 100 retries each: new records are handled throughout.
#[test]
fn an_empty_budget_holds_due_records_back_and_not_new_ones() {
    let scenario = scenario(OutageKind::Brownout { share: 0.4 }, 60);
    let held = run(&scenario, 1).unwrap();
    assert!(held.records[..80].iter().all(|second| second.lag < 50));
    assert!((1_000..2_000).contains(&held.records[79].due), "{:?}", held.records[79]);
    assert!(matches!(held.summary.verdict, Verdict::Draining { .. }), "{}", held.summary);
    let mut free = scenario;
    upstream(&mut free).budget = budget::Spec::Unlimited;
    let free = run(&free, 1).unwrap();
    assert!(free.records.iter().all(|second| second.due < 10));
    assert!(free.summary.verdict.within(1), "{}", free.summary);
    let dead = |run: &Run| run.records.last().unwrap().dead;
    assert!(dead(&held) == 0 && dead(&free) > 20, "{}, {} free", dead(&held), dead(&free));
}

/// What is left of the capacity works off what has come meanwhile: 100 per second, or 20.
#[test]
fn consumers_have_healed_when_they_have_caught_up() {
    let after = |load| {
        let run = run(&Scenario { load, ..scenario(OutageKind::Fail, 30) }, 1).unwrap();
        (run.summary.verdict, run.records[50].lag + run.records[50].due)
    };
    let (verdict, waiting) = after(100.0);
    assert!(verdict.healed() && !verdict.within(20) && waiting > 2_500, "{verdict}, {waiting}");
    let (verdict, waiting) = after(180.0);
    assert!(matches!(verdict, Verdict::Draining { eta } if eta > s(200)), "{verdict}, {waiting}");
}

#[test]
fn fatal_records_are_dead_at_once_and_deferred_ones_burn_no_attempt() {
    let fatal = run(&scenario(OutageKind::Fatal { share: 0.3, misread: false }, 10), 1).unwrap();
    let dead = fatal.records.last().unwrap().dead;
    assert!((250..350).contains(&dead), "{dead}");
    assert!(fatal.records.iter().all(|second| second.tiers == [0, 0, 0]));
    let mut busy = scenario(OutageKind::Fail, 60);
    busy.service.hint = Some(s(5));
    upstream(&mut busy).budget = budget::Spec::Unlimited;
    let busy = run(&busy, 1).unwrap();
    assert_eq!(busy.records.last().unwrap().dead, 0);
    assert!(busy.records.iter().all(|second| second.tiers == [0, 0, 0]));
    assert!(busy.summary.verdict.healed(), "{}", busy.summary);
}

#[test]
fn the_same_seed_gives_the_same_records_and_what_cannot_be_consumed_is_refused() {
    let base = scenario(OutageKind::Brownout { share: 0.5 }, 20);
    assert_eq!(run(&base, 7).unwrap(), run(&base, 7).unwrap());
    assert_ne!(run(&base, 7).unwrap().hash, run(&base, 8).unwrap().hash);
    let topic = |change: fn(&mut Topic)| {
        let mut topic = base.topic.clone().unwrap();
        change(&mut topic);
        Scenario { topic: Some(topic), ..base.clone() }
    };
    for wrong in [
        topic(|topic| topic.concurrency = 0),
        topic(|topic| topic.policy.attempts = 3),
        topic(|topic| topic.tiers = ladder::Spec::Tiers(vec![])),
        base.clone().with_gateway(),
    ] {
        let error = run(&wrong, 1).unwrap_err();
        assert!(error.to_string().contains("write"), "{error}");
    }
}

/// One instance with ten retries that earns no more, and 40 records that fail at once.
fn poor(kind: OutageKind, length: u64) -> Scenario {
    let mut scenario = Scenario { instances: 1, ..scenario(kind, length) };
    scenario.arrivals = Arrivals::Burst { users: 40, at: s(21) };
    let tokens = budget::tokens::Spec { start: Some(10), ratio: 0.0, ..Default::default() };
    upstream(&mut scenario).budget = tokens.into();
    scenario
}

#[test]
fn a_restarted_instance_pays_for_due_records_with_a_new_budget() {
    let sent = |restarts| {
        let mut scenario = Scenario { restarts, ..poor(OutageKind::Fail, 90) };
        upstream(&mut scenario).breaker.mode = breaker::Mode::Disabled;
        run(&scenario, 1).unwrap().series.sum(Count::Sent, 0..usize::MAX)
    };
    assert_eq!(sent(vec![]), 50);
    assert_eq!(sent(vec![Restart { at: s(60), step: Duration::ZERO }]), 60);
}

#[test]
fn a_record_that_an_open_breaker_sends_back_has_cost_nothing() {
    let run = run(&poor(OutageKind::Fail, 30), 1).unwrap();
    let moments = run.observed.timeline.moments();
    assert!(run.records[24].due > 0 && moments[24].open == 1.0, "{:?}", run.records[24]);
    assert_eq!(run.series.sum(Count::Sent, 0..usize::MAX), 50);
}

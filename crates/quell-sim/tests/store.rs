//! One budget for a whole fleet, leased from a store that may go away.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{
    Rng, breaker,
    budget::tokens,
    lease::{self, overshoot_bound},
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Run, Scenario, run,
    scenario::{Away, Callers, Outage, OutageKind, Restart, Service, Store, Topic},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 200 requests per second that all fail for a minute, from instances that earn nothing themselves and have no breaker.
fn scenario(instances: u32, budget: tokens::Spec, store: Option<Store>) -> Scenario {
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    let upstream = UpstreamSpec { budget: budget.into(), breaker, ..UpstreamSpec::library() };
    Scenario {
        load: 200.0,
        instances,
        callers: Callers::Quell { policy: PolicySpec::library(), upstream },
        store,
        service: Service::constant(100, ms(10)),
        outage: Outage { kind: OutageKind::Fail, at: s(0), length: s(60) },
        watch: s(0),
        ..Scenario::storm(OutageKind::Fail)
    }
}

fn nothing() -> tokens::Spec {
    tokens::Spec { start: Some(0), ratio: 0.0, ..tokens::Spec::default() }
}

fn shared(per_second: u32, burst: u32) -> Store {
    Store {
        budget: lease::Spec { per_second, burst, ..lease::Spec::default() },
        ..Store::default()
    }
}

/// Every first attempt is made at once, so what was sent beyond them in each second are retries.
fn retries(run: &Run) -> Vec<u64> {
    let of = |second| run.series.at(Count::Sent, second) - run.series.at(Count::Demand, second);
    (0..60).map(of).collect()
}

/// The promise of the lease, through retries of real calls and a store that is away at any time.
#[test]
fn no_window_sees_more_retries_than_the_fleet_has_and_the_stated_overshoot() {
    let mut rng = Rng::new(11);
    let mut closest = 0.0_f64;
    for case in 0..60 {
        let (instances, per_second) = (1 + rng.below(40) as u32, 1 + rng.below(60) as u32);
        let burst = 1 + rng.below(200) as u32;
        let mut store = shared(per_second, burst);
        store.round_trip = ms(rng.below(70)); // beyond 50 ms every request is given up
        store.away = (0..rng.below(5))
            .map(|_| Away { at: ms(rng.below(60_000)), length: ms(rng.below(15_000)) })
            .collect();
        let bound = overshoot_bound(&store.budget, instances);
        let run = run(&scenario(instances, nothing(), Some(store)), case).unwrap();
        let retries = retries(&run);
        for from in 0..60 {
            let mut sum = 0;
            for (second, more) in retries.iter().enumerate().skip(from) {
                sum += more;
                // Those of the first 0.2 s may have been paid for before.
                let seconds = (second - from) as f64 + 1.2;
                let limit = f64::from(burst) + f64::from(per_second) * seconds;
                let over = (sum as f64 - limit) / bound as f64;
                closest = closest.max(over);
                assert!(over <= 1.0, "case {case}: {sum} from {from} to {second}, {over}");
            }
        }
    }
    assert!(closest > 0.05, "there is no overshoot to bound: {closest}");
}

/// A fleet of 100 starts with 100 retries in each process, or with 1,000 in all.
#[test]
fn a_shared_budget_starts_once_and_not_in_every_process() {
    let sum = |budget, store| {
        let scenario = Scenario { load: 2_000.0, ..scenario(100, budget, store) };
        retries(&run(&scenario, 1).unwrap()).iter().sum::<u64>()
    };
    let own = sum(tokens::Spec::default(), None);
    let common =
        sum(tokens::Spec { start: Some(0), ..tokens::Spec::default() }, Some(Store::default()));
    assert!((9_900..=10_000).contains(&own), "{own}");
    assert!((1_800..=2_100).contains(&common), "{common}: 1,000, and 17 in each of 60 s");
}

/// Never on nothing and never without limit.
#[test]
fn while_the_store_is_away_every_process_lives_on_its_share() {
    let per_second = |away| {
        let store = Store { away, ..shared(50, 100) };
        let run = run(&scenario(20, nothing(), Some(store)), 1).unwrap();
        let leased = run.leased.unwrap();
        let rate = |seconds: core::ops::Range<usize>| {
            let length = seconds.len() as f64;
            retries(&run)[seconds].iter().sum::<u64>() as f64 / length
        };
        (rate(10..30), rate(32..60), leased)
    };
    let (before, after, leased) = per_second(vec![]);
    assert!((48.0..52.0).contains(&before) && (48.0..52.0).contains(&after), "{before}, {after}");
    assert_eq!(leased.lost, 0);
    let (before, away, leased) = per_second(vec![Away { at: s(30), length: s(30) }]);
    assert!((48.0..52.0).contains(&before), "{before}");
    assert!((40.0..52.0).contains(&away), "{away}");
    // One request per probe and process, and not one per retry.
    assert!((20 * 25..20 * 70).contains(&leased.lost), "{leased:?}");
    let (never, _, leased) = per_second(vec![Away { at: s(0), length: s(60) }]);
    assert!((40.0..52.0).contains(&never) && leased.granted == 0, "{never}, {leased:?}");
}

/// A topic's due records are paid for out of the same purse.
#[test]
fn consumers_of_a_topic_share_a_budget_too() {
    let due = |store| {
        let mut scenario = scenario(10, nothing(), store);
        let upstream = UpstreamSpec { budget: nothing().into(), ..UpstreamSpec::background() };
        let tiers = quell_core::ladder::Spec::Tiers(vec![s(3), s(10)]);
        scenario.topic = Some(Topic { upstream, tiers, ..Topic::default() });
        scenario.outage =
            Outage { kind: OutageKind::Brownout { share: 0.2 }, at: s(5), length: s(5) };
        scenario.watch = s(50);
        let last = run(&scenario, 1).unwrap().records.last().unwrap().clone();
        last.due
    };
    assert!(due(None) > 150, "{}", due(None));
    assert_eq!(due(Some(shared(50, 50))), 0);
}

#[test]
fn the_same_seed_leases_the_same_and_nonsense_is_refused() {
    let store = Store { away: vec![Away { at: s(10), length: s(10) }], ..shared(20, 100) };
    let mut base = scenario(10, nothing(), Some(store));
    base.restarts = vec![Restart { at: s(15), step: s(1) }];
    assert_eq!(run(&base, 7).unwrap(), run(&base, 7).unwrap());
    assert_ne!(run(&base, 7).unwrap().hash, run(&base, 8).unwrap().hash);
    for wrong in [shared(0, 10), Store { round_trip: s(11), ..Store::default() }] {
        let scenario = Scenario { store: Some(wrong), ..base.clone() };
        let error = run(&scenario, 1).unwrap_err().to_string();
        assert!(error.contains("write") && error.starts_with("store."), "{error}");
    }
}

#[test]
fn a_process_that_was_restarted_leases_again() {
    let mut scenario = scenario(20, nothing(), Some(shared(50, 100)));
    scenario.restarts = vec![Restart { at: s(10), step: Duration::ZERO }];
    let run = run(&scenario, 1).unwrap();
    let rate = retries(&run)[20..].iter().sum::<u64>() as f64 / 40.0;
    assert!((48.0..52.0).contains(&rate), "{rate}");
}

//! One of three shards is dead: what a breaker over all of them does, and one for each.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::{
    breaker,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Run, Scenario, run,
    scenario::{Abandonment, Callers, Edge, Node, Outage, OutageKind, Service, Shards},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 300 requests per second for three shards of 120 each; one fails from second 20 to 50.
fn scenario(kind: OutageKind, breaker: breaker::Spec, keys: Option<usize>) -> Scenario {
    let policy = PolicySpec { per_try_timeout: Some(s(1)), ..PolicySpec::library() };
    let upstream = UpstreamSpec { breaker, breaker_keys: keys, ..UpstreamSpec::library() };
    Scenario {
        load: 300.0,
        instances: 2,
        callers: Callers::Quell { policy, upstream },
        service: Service {
            shards: Some(Shards { hit: 1, ..Shards::new(3) }),
            ..Service::constant(36, ms(100))
        },
        outage: Outage { kind, at: s(20), length: s(30) },
        watch: s(40),
        ..Scenario::storm(kind)
    }
}

/// The share of users with an answer during the outage, and the share of breakers that were open in its middle.
fn during(run: &Run) -> (f64, f64) {
    let share = |what| run.series.sum(what, 21..50) as f64;
    let moments = &run.observed.timeline.moments()[25..50];
    let open = moments.iter().map(|moment| moment.open).sum::<f64>() / moments.len() as f64;
    (share(Count::Good) / share(Count::Demand), open)
}

#[test]
fn one_breaker_over_three_shards_takes_the_healthy_two_down_and_one_for_each_does_not() {
    for kind in [OutageKind::Fail, OutageKind::Hole] {
        // It opens at 30 % failures, and a third is more than that.
        let hardened = breaker::Spec::hardened();
        let (good, open) = during(&run(&scenario(kind, hardened, None), 1).unwrap());
        assert!(good < 0.5 && (0.1..0.6).contains(&open), "{kind:?}: {good}, open {open}");
        let keyed = run(&scenario(kind, hardened, Some(16)), 1).unwrap();
        let (good, open) = during(&keyed);
        // Of three breakers in each process, that of the dead shard.
        assert!((0.65..0.68).contains(&good), "{kind:?}: {good}");
        assert!((0.25..0.34).contains(&open), "{kind:?}: open {open}");
        assert!(keyed.summary.verdict.healed(), "{}", keyed.summary);
    }
}

#[test]
fn the_default_breaker_overlooks_a_third_and_one_for_each_shard_spares_the_dead_one() {
    let sent = |keys| {
        let scenario = scenario(OutageKind::Hole, breaker::Spec::default(), keys);
        let run = run(&scenario, 1).unwrap();
        assert!((0.65..0.68).contains(&during(&run).0), "{:?}", during(&run));
        run.shards.iter().map(|shard| shard.sent as f64).collect::<Vec<_>>()
    };
    let (one, each) = (sent(None), sent(Some(16)));
    assert!(each[0] < 0.75 * one[0], "{each:?} instead of {one:?}");
    assert!((each[1] / one[1] - 1.0).abs() < 0.01, "{each:?} and {one:?}");
}

/// Callers who wait for an hour for shards that fall behind: 12 + 12 + 11 workers of 100 ms.
#[test]
fn every_shard_has_its_part_of_the_keys_and_of_the_workers() {
    let run = run(
        &Scenario {
            load: 600.0,
            callers: Callers::NO_RETRIES,
            patience: s(3_600),
            service: Service { shards: Some(Shards::new(3)), ..Service::constant(35, ms(100)) },
            ..scenario(OutageKind::Brownout { share: 0.0 }, breaker::Spec::default(), None)
        },
        1,
    )
    .unwrap();
    let sent: u64 = run.shards.iter().map(|shard| shard.sent).sum();
    for (shard, workers) in run.shards.iter().zip([12.0, 12.0, 11.0]) {
        let share = shard.sent as f64 / sent as f64;
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
        let served = shard.work.served as f64 / 90.0;
        assert!((served / (10.0 * workers) - 1.0).abs() < 0.02, "{served} by {workers}");
    }
    assert_eq!(run.work.served, run.shards.iter().map(|shard| shard.work.served).sum::<u64>());
    let backlog = run.observed.timeline.moments()[89].backlog;
    assert!(backlog.abs_diff(sent - run.work.served) <= 35, "{backlog}");
}

#[test]
fn who_leaves_a_stalled_shard_is_noticed_there() {
    let mut stalled = scenario(OutageKind::Stall, breaker::Spec::default(), None);
    stalled.callers = Callers::NO_RETRIES;
    stalled.service.abandonment = Abandonment::Cancels { after: ms(10) };
    let run = run(&stalled, 1).unwrap();
    assert!(run.shards[0].queueing.cancelled > 2_500, "{:?}", run.shards);
    assert!(run.shards[1..].iter().all(|shard| shard.queueing.cancelled < 50), "{:?}", run.shards);
    assert!(run.summary.verdict.within(2), "{}", run.summary);
}

/// The key goes down the chain, whether or not somebody still waits.
#[test]
fn a_dead_shard_behind_the_service_costs_its_part_of_the_users() {
    let scenario = Scenario {
        callers: Callers::NO_RETRIES,
        service: Service::constant(60, ms(50)),
        calls: vec![Edge::new(0)],
        below: vec![Node {
            faults: vec![Outage { kind: OutageKind::Fail, at: s(20), length: s(30) }],
            ..Node::leaf(Service {
                shards: Some(Shards { hit: 1, ..Shards::new(4) }),
                ..Service::constant(60, ms(50))
            })
        }],
        outage: Outage { kind: OutageKind::Brownout { share: 0.0 }, at: s(20), length: s(30) },
        ..scenario(OutageKind::Fail, breaker::Spec::default(), None)
    };
    let run = run(&scenario, 1).unwrap();
    assert!((during(&run).0 - 0.75).abs() < 0.02, "{:?}", during(&run));
    assert!(run.shards.is_empty());
}

#[test]
fn the_same_seed_splits_the_same_way_and_what_cannot_be_split_is_refused() {
    let base = scenario(OutageKind::Stall, breaker::Spec::default(), Some(16));
    assert_eq!(run(&base, 7).unwrap(), run(&base, 7).unwrap());
    assert_ne!(run(&base, 7).unwrap().hash, run(&base, 8).unwrap().hash);
    for shards in [Shards::new(0), Shards::new(37), Shards { count: 3, hit: 4 }] {
        let service = Service { shards: Some(shards), ..base.service.clone() };
        let error = run(&Scenario { service, ..base.clone() }, 1).unwrap_err();
        assert!(error.to_string().contains("write"), "{error}");
    }
}

//! Many who come at one instant, for something that only one can change at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::backoff::{Jitter, Shape, Spec};
use quell_sim::{
    Run, Scenario,
    dist::Dist,
    run,
    scenario::{Arrivals, Callers, Outage, OutageKind, Service},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A crowd in second 1, and callers who do not give up.
fn crowd(users: u32, service: Service, jitter: Jitter) -> Scenario {
    let backoff =
        Spec { base: ms(10), cap: s(2), jitter, shape: Shape::Exponential { factor: 2.0 } };
    Scenario {
        arrivals: Arrivals::Burst { users, at: s(1) },
        patience: s(60),
        callers: Callers::Backoff { retries: u32::MAX, backoff },
        service,
        outage: Outage { kind: OutageKind::Brownout { share: 0.0 }, at: s(1), length: s(1) },
        watch: s(600),
        ..Scenario::storm(OutageKind::Fail)
    }
}

fn total(run: &Run, what: Count) -> u64 {
    run.series.sum(what, 0..usize::MAX)
}

#[test]
fn a_burst_comes_at_its_instant_and_nobody_before_or_after() {
    let run = run(&crowd(250, Service::constant(250, ms(10)), Jitter::Full), 1).unwrap();
    assert_eq!(run.series.at(Count::Demand, 1), 250);
    assert_eq!((total(&run, Count::Demand), total(&run, Count::Good)), (250, 250));
    assert_eq!(run.queueing.conflicts, 0, "nothing contends unless it is said to");
}

/// All begin at once and take equally long: in every round one succeeds, so n users need n + (n − 1) + … + 1 calls.
#[test]
fn in_lockstep_one_of_all_who_contend_succeeds_in_each_round() {
    let service = Service { contended: true, ..Service::constant(20, ms(10)) };
    let lockstep = Scenario {
        callers: Callers::Fixed { retries: u32::MAX, pause: ms(50) },
        ..crowd(20, service, Jitter::None)
    };
    let run = run(&lockstep, 1).unwrap();
    assert_eq!((total(&run, Count::Good), total(&run, Count::Sent)), (20, 210));
    assert_eq!(run.queueing.conflicts, 190);
}

#[test]
fn one_worker_serves_a_contended_thing_without_conflicts() {
    let service = Service { contended: true, ..Service::constant(1, ms(10)) };
    let run = run(&crowd(50, service, Jitter::Full), 1).unwrap();
    assert_eq!((total(&run, Count::Sent), run.queueing.conflicts), (50, 0));
}

#[test]
fn full_jitter_takes_less_than_half_the_calls_of_plain_backoff_and_ends_sooner() {
    let calls = |jitter| {
        let time = Dist::Lognormal { p50: ms(20), p99: ms(27) };
        let service = Service { contended: true, ..Service::new(100, time) };
        let run = run(&crowd(100, service, jitter), 1).unwrap();
        assert_eq!(total(&run, Count::Good), 100);
        total(&run, Count::Sent)
    };
    let (full, none) = (calls(Jitter::Full), calls(Jitter::None));
    assert!(2 * full < none, "{full} instead of {none}");
}

#[test]
fn the_same_seed_gives_the_same_crowd_and_an_empty_one_is_refused() {
    let service =
        Service { contended: true, ..Service::new(50, Dist::Exponential { mean: ms(20) }) };
    let crowd = crowd(100, service, Jitter::Full);
    assert_eq!(run(&crowd, 3).unwrap(), run(&crowd, 3).unwrap());
    assert_ne!(run(&crowd, 3).unwrap().hash, run(&crowd, 4).unwrap().hash);
    let nobody = Scenario { arrivals: Arrivals::Burst { users: 0, at: s(1) }, ..crowd };
    assert!(run(&nobody, 1).unwrap_err().to_string().contains("write"));
}

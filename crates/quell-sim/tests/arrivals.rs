//! Who comes when: open and closed loops, users who ask again, instances that are restarted.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_core::spec::{PolicySpec, UpstreamSpec};
use quell_sim::{
    Run, Scenario,
    dist::Dist,
    run,
    scenario::{Arrivals, Callers, Curve, Outage, OutageKind, Restart, Resubmit, Service},
    verdict::Count,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 300 requests per second for 60 seconds, for a service that has time, and nothing happens.
fn with(change: impl FnOnce(&mut Scenario)) -> Run {
    let mut scenario = Scenario {
        load: 300.0,
        callers: Callers::NO_RETRIES,
        service: Service::constant(60, ms(100)),
        outage: Outage { kind: OutageKind::Fail, at: s(30), length: Duration::ZERO },
        watch: s(30),
        ..Scenario::storm(OutageKind::Fail)
    };
    change(&mut scenario);
    run(&scenario, 1).unwrap()
}

fn demand(run: &Run) -> Vec<u64> {
    (0..60).map(|second| run.series.at(Count::Demand, second)).collect()
}

#[test]
fn even_arrivals_are_the_same_in_every_second_and_random_ones_are_not() {
    let even = demand(&with(|s| s.arrivals = Arrivals::Even));
    assert!(even.iter().all(|&n| (299..=301).contains(&n)), "{even:?}");
    let random = demand(&with(|_| {}));
    let mean = random.iter().sum::<u64>() as f64 / 60.0;
    let variance = random.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / 59.0;
    assert!((mean - 300.0).abs() < 10.0, "{mean}");
    assert!((150.0..500.0).contains(&variance), "{variance}");
}

#[test]
fn a_shape_raises_and_lowers_the_load_and_may_end_it() {
    let points = vec![(0.0, 1.0), (20.0, 1.0), (20.0, 2.0), (30.0, 2.0), (50.0, 0.0)];
    let run = with(|s| s.arrivals = Arrivals::Shaped(Curve(points)));
    for (seconds, expected) in
        [(0..20, 6_000.0), (20..30, 6_000.0), (30..50, 6_000.0), (50..60, 0.0)]
    {
        let got = run.series.sum(Count::Demand, seconds.clone()) as f64;
        assert!((got - expected).abs() < 250.0, "{seconds:?}: {got}");
    }
}

#[test]
fn a_recorded_series_is_replayed_to_the_request_again_and_again() {
    let run = with(|s| s.arrivals = Arrivals::Recorded(vec![0, 17, 300, 5]));
    let expected: Vec<_> = [0, 17, 300, 5].into_iter().cycle().take(60).collect();
    assert_eq!(demand(&run), expected);
}

/// Little's law: users ÷ (think time + answer time) per second, and never more than the users can do.
#[test]
fn a_closed_loop_slows_down_with_the_service() {
    let users = |change: fn(&mut Scenario)| {
        let run = with(|s| {
            let think = Dist::Exponential { mean: ms(900) };
            s.arrivals = Arrivals::Closed { users: 300, think };
            s.patience = Duration::from_secs(100);
            change(s);
        });
        run.series.sum(Count::Good, 10..60) as f64 / 50.0
    };
    assert!((users(|_| {}) - 300.0).abs() < 5.0);
    assert!((users(|s| s.service.time = Dist::Constant(ms(600))) - 100.0).abs() < 3.0);
    let policy = |s: &mut Scenario| s.callers = Callers::quell(Duration::from_secs(10));
    assert!((users(policy) - 300.0).abs() < 5.0);
}

#[test]
fn users_who_ask_again_add_requests_and_no_demand() {
    for callers in [Callers::NO_RETRIES, Callers::quell(s(1))] {
        let outage = |s: &mut Scenario| {
            s.callers = callers;
            s.arrivals = Arrivals::Even;
            s.outage.length = Duration::from_secs(10);
        };
        let run = with(|s| {
            outage(s);
            let after = Dist::Uniform { from: ms(500), to: ms(1_500) };
            s.resubmit = Some(Resubmit { share: 0.5, after, times: 3 });
        });
        let plain = with(outage);
        assert_eq!(demand(&run)[..60], demand(&plain)[..60]);
        let received = |run: &Run| run.series.sum(Count::Received, 0..100);
        let extra = received(&run) - received(&plain);
        // Of 3,000 who fail a half asks again, up to three times, unless the service is back by then.
        assert!((2_000..2_800).contains(&extra), "{extra}");
        let good = |run: &Run| run.series.sum(Count::Good, 0..100);
        assert!(good(&run) > good(&plain));
    }
}

/// Whoever comes in the second of the outage asks again two seconds later, and is answered 100 ms after that.
#[test]
fn who_asks_again_has_waited_since_the_first_time() {
    let Callers::Quell { policy, upstream } = Callers::quell(s(1)) else { unreachable!() };
    let once = Callers::Quell { policy: PolicySpec { attempts: 1, ..policy }, upstream };
    for callers in [Callers::NO_RETRIES, once] {
        let run = with(|scenario| {
            scenario.callers = callers;
            scenario.outage.length = s(1);
            let after = Dist::Constant(s(2));
            scenario.resubmit = Some(Resubmit { share: 1.0, after, times: 1 });
        });
        let [before, during, _] = &run.observed.latency;
        let p50 = during.quantile(0.5).unwrap().as_secs_f64();
        assert!((p50 / 2.1 - 1.0).abs() < 1.0 / 16.0, "{p50}");
        assert!(before.quantile(0.99).unwrap() < ms(110));
    }
}

/// G4: what an instance knew is lost, start credits come back.
#[test]
fn instances_that_restart_in_an_outage_spend_their_start_credit_again() {
    let retries = |restarts: Vec<Restart>| {
        let run = with(|s| {
            s.instances = 10;
            s.callers = Callers::quell(Duration::from_secs(1));
            s.outage.length = Duration::from_secs(20);
            s.restarts = restarts;
        });
        let count = |what| run.series.sum(what, 30..50);
        count(Count::Sent) as f64 / count(Count::Demand) as f64
    };
    let rolling = vec![Restart { at: s(35), step: s(1) }];
    let at_once = vec![Restart { at: s(40), step: Duration::ZERO }];
    assert!(retries(rolling.clone()) > retries(vec![]));
    assert!(retries(at_once) > retries(vec![]));
    let run = with(|s| {
        s.gateway = Some(quell_sim::scenario::Gateway::default());
        s.restarts = rolling;
    });
    assert!(run.series.sum(Count::Good, 0..60) > 17_000, "a restart costs only what was open");
}

#[test]
fn requests_that_are_not_safe_to_repeat_are_not_retried_by_quell() {
    let sent = |writes| {
        let run = with(|s| {
            s.callers = Callers::quell(Duration::from_secs(1));
            s.outage = Outage {
                kind: OutageKind::Brownout { share: 0.02 },
                at: s.outage.at,
                length: Duration::from_secs(20),
            };
            s.writes = writes;
        });
        run.series.sum(Count::Sent, 0..60) - run.series.sum(Count::Demand, 0..60)
    };
    assert!(sent(0.0) > 80);
    assert!(sent(0.5) < sent(0.0));
    assert_eq!(sent(1.0), 0);
}

#[test]
fn what_nobody_can_follow_is_refused_with_a_fix() {
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = Scenario::storm(OutageKind::Fail);
        change(&mut scenario);
        let message = run(&scenario, 1).unwrap_err().to_string();
        assert!(message.contains("write"), "{message}");
    };
    refused(|s| s.arrivals = Arrivals::Shaped(Curve(vec![(0.0, 0.0)])));
    refused(|s| s.arrivals = Arrivals::Recorded(vec![]));
    refused(|s| s.arrivals = Arrivals::Recorded(vec![0, 0]));
    refused(|s| s.arrivals = Arrivals::Closed { users: 0, think: Dist::Constant(ms(1)) });
    refused(|s| s.arrivals = Arrivals::Closed { users: 1, think: Dist::Constant(ms(0)) });
    refused(|s| s.writes = -1.0);
    refused(|s| {
        s.resubmit = Some(Resubmit { share: 3.0, after: Dist::Constant(ms(1)), times: 1 });
    });
}

/// Nobody is served from 10 to 20 s; a user asks at 15 s and every two seconds after that.
#[test]
fn whoever_asks_again_does_so_as_often_as_written_and_has_waited_since_the_first_time() {
    let policy = PolicySpec { attempts: 1, ..PolicySpec::library() };
    let library = Callers::Quell { policy, upstream: UpstreamSpec::library() };
    for callers in [Callers::NO_RETRIES, library] {
        let asks = |times| {
            with(|scenario| {
                scenario.callers = callers;
                scenario.arrivals = Arrivals::Burst { users: 1, at: s(15) };
                scenario.resubmit =
                    Some(Resubmit { share: 1.0, after: Dist::Constant(s(2)), times });
                scenario.outage = Outage { kind: OutageKind::Fail, at: s(10), length: s(10) };
            })
        };
        let total = |run: &Run, what| run.series.sum(what, 0..60);
        for times in [0, 1, 2] {
            let run = asks(times);
            assert_eq!(total(&run, Count::Sent), u64::from(times) + 1, "{callers:?}");
            assert_eq!((total(&run, Count::Demand), total(&run, Count::Good)), (1, 0));
        }
        let run = asks(9);
        assert_eq!((total(&run, Count::Sent), total(&run, Count::Good)), (4, 1), "{callers:?}");
        let took = run.observed.latency[1].quantile(1.0).unwrap();
        assert!((ms(6_000)..ms(6_400)).contains(&took), "{took:?}");
    }
}

#[test]
fn a_run_in_which_nothing_is_left_to_happen_is_watched_to_its_end_all_the_same() {
    let run = with(|scenario| scenario.arrivals = Arrivals::Burst { users: 1, at: s(5) });
    assert_eq!(run.observed.timeline.moments().len(), 60);
    let good = (0..60).filter(|&second| run.observed.timeline.moments()[second].p50.is_some());
    assert_eq!(good.collect::<Vec<_>>(), [5]);
}

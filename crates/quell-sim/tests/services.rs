//! What services do with too much work, with the departed and with trouble of every kind.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_sim::{
    Run, Scenario,
    dist::Dist,
    run, run_while,
    scenario::{Abandonment, Arrivals, Callers, Cold, Curve, Order, Outage, OutageKind, Service},
    verdict::{Count, Early},
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 300 requests per second for a service that can do 360, down from second 10 to 15.
fn scenario(kind: OutageKind) -> Scenario {
    Scenario {
        load: 300.0,
        service: Service::constant(36, ms(100)),
        outage: Outage { kind, at: s(10), length: s(5) },
        watch: s(40),
        ..Scenario::storm(kind)
    }
}

fn with(kind: OutageKind, change: impl FnOnce(&mut Scenario)) -> Run {
    let mut scenario = scenario(kind);
    change(&mut scenario);
    run(&scenario, 1).unwrap()
}

fn heals(run: &Run) -> bool {
    run.summary.verdict.within(3)
}

#[test]
fn a_queue_that_serves_the_departed_keeps_the_storm_alive() {
    assert!(!run(&scenario(OutageKind::Stall), 1).unwrap().summary.verdict.within(40));
}

/// It starts those who are about to leave, and stops half way: as bad as a deadline without a margin.
#[test]
fn noticing_who_left_heals_patient_callers_and_not_those_who_retry() {
    let cancels = |callers, after| {
        with(OutageKind::Stall, |s| {
            s.callers = callers;
            s.service.abandonment = Abandonment::Cancels { after: ms(after) };
        })
    };
    let once = cancels(Callers::NO_RETRIES, 0);
    assert!(once.summary.verdict.within(10), "{}", once.summary);
    assert!(once.queueing.cancelled > 1_000);
    assert_eq!(once.work.wasted, 0, "what is noticed at once is never finished");
    let naive = cancels(Callers::NAIVE, 0);
    assert!(!naive.summary.verdict.within(40), "{}", naive.summary);
    let late = cancels(Callers::NO_RETRIES, 4_000);
    assert!(late.work.wasted > 1_000, "noticed so late, work is done for nobody");
}

#[test]
fn quell_in_front_of_a_service_that_notices_departures_recovers_at_once() {
    let run = with(OutageKind::Stall, |s| {
        s.service.abandonment = Abandonment::Cancels { after: ms(10) };
        s.gateway = Some(quell_sim::scenario::Gateway::default());
    });
    assert!(run.summary.verdict.within(1), "{}", run.summary);
    assert!(run.queueing.cancelled > 0);
}

#[test]
fn a_deadline_header_heals_with_a_margin_of_one_service_time_and_not_without() {
    let deadline = |margin| {
        with(OutageKind::Stall, |s| {
            s.service.abandonment = Abandonment::Deadline { margin: ms(margin) };
        })
    };
    assert!(heals(&deadline(110)), "{}", deadline(110).summary);
    assert!(!deadline(0).summary.verdict.within(40), "{}", deadline(0).summary);
}

#[test]
fn last_come_first_served_and_a_bounded_wait_heal_where_first_come_does_not() {
    for order in [Order::Lifo, Order::Adaptive] {
        let run = with(OutageKind::Stall, |s| s.service.queue.order = order);
        assert!(run.summary.goodput_after > 0.9, "{order:?}: {}", run.summary);
    }
    let bounded = with(OutageKind::Stall, |s| s.service.queue.wait = Some(ms(500)));
    assert!(heals(&bounded), "{}", bounded.summary);
    assert!(bounded.queueing.refused > 1_000);
    let short = with(OutageKind::Stall, |s| s.service.queue.max = Some(36));
    assert!(heals(&short), "{}", short.summary);
}

#[test]
fn refusals_that_cost_something_take_it_from_the_capacity() {
    let served = |cost| {
        let run = with(OutageKind::Fail, |s| {
            s.load = 600.0;
            s.patience = Duration::from_secs(600);
            s.callers = Callers::NO_RETRIES;
            s.service.queue.max = Some(10);
            s.service.refusal_cost = ms(cost);
        });
        run.series.sum(Count::Good, 20..50) as f64 / 30.0
    };
    assert!((served(0) - 360.0).abs() < 5.0, "{}", served(0));
    // x good ones and 600 − x refusals a second: 0.1·x + 0.05·(600 − x) = 36 workers.
    assert!((served(50) - 120.0).abs() < 6.0, "{}", served(50));
}

/// 1,500 refusals of 2 ms from a stall of 5 s are 80 ms for each of 36 workers, and not 3 s for whoever comes first.
#[test]
fn the_work_of_refusals_is_shared_by_all_workers() {
    let run = with(OutageKind::Stall, |s| {
        s.patience = Duration::from_secs(600);
        s.callers = Callers::NO_RETRIES;
        s.service.queue.max = Some(10);
        s.service.refusal_cost = ms(2);
    });
    assert!(run.queueing.refused > 1_300, "{:?}", run.queueing);
    assert!(heals(&run), "{}", run.summary);
    let slowest = run.observed.latency[2].quantile(1.0).unwrap();
    assert!(slowest < ms(250), "{slowest:?}");
}

/// 3,000 refusals a second of 50 ms would keep 150 workers busy, and there are 36.
#[test]
fn a_service_that_is_busy_refusing_serves_nobody() {
    let run = with(OutageKind::Fail, |s| {
        s.load = 3_000.0;
        s.patience = Duration::from_secs(600);
        s.callers = Callers::NO_RETRIES;
        s.service.queue.max = Some(10);
        s.service.refusal_cost = ms(50);
    });
    let served = run.series.sum(Count::Good, 20..50);
    assert!(served < 30, "{served} in 30 s");
}

#[test]
fn a_brownout_fails_its_share_and_brownouts_that_overlap_add_up() {
    let sent = |run: &Run, seconds| run.series.sum(Count::Sent, seconds) as f64;
    let brown = OutageKind::Brownout { share: 0.25 };
    let run = with(brown, |s| {
        s.callers = Callers::NO_RETRIES;
        s.faults = vec![Outage { kind: brown, at: Duration::from_secs(12), length: ms(3_000) }];
    });
    let expected = 0.25 * sent(&run, 10..12) + 0.5 * sent(&run, 12..15);
    assert!((run.queueing.failed as f64 / expected - 1.0).abs() < 0.1, "{:?}", run.queueing);
}

#[test]
fn slowness_hangs_and_lost_workers_cost_capacity_while_they_last() {
    let good = |kind, seconds| {
        let run = with(kind, |s| {
            s.callers = Callers::NO_RETRIES;
            s.patience = Duration::from_secs(600);
            s.watch = Duration::from_secs(60);
        });
        run.series.sum(Count::Good, seconds) as f64 / 3.0
    };
    for (kind, expected) in [
        (OutageKind::Latency { factor: 10.0 }, 36.0),
        (OutageKind::Partial { share: 0.5 }, 180.0),
        (OutageKind::Hang { share: 0.5, time: ms(1_900) }, 36.0),
    ] {
        let got = good(kind, 12..15);
        assert!((got - expected).abs() < 0.3 * expected, "{kind:?}: {got}");
    }
    assert!((good(OutageKind::Partial { share: 1.0 }, 12..15)) < 1.0);
}

#[test]
fn a_stall_ends_when_the_last_of_those_that_overlap_ends() {
    let run = with(OutageKind::Stall, |scenario| {
        scenario.callers = Callers::NO_RETRIES;
        let further = Outage { kind: OutageKind::Stall, at: s(12), length: s(6) };
        scenario.faults = vec![further];
    });
    assert_eq!(run.series.sum(Count::Good, 11..18), 0);
    assert!(run.work.served > 0);
}

#[test]
fn a_flapping_service_is_down_in_every_other_second() {
    let whole = Outage { kind: OutageKind::Fail, at: s(10), length: s(6) };
    let run = with(OutageKind::Fail, |s| {
        s.callers = Callers::NO_RETRIES;
        let mut parts = whole.flapping(Duration::from_secs(1), Duration::from_secs(1));
        s.outage = parts.remove(0);
        s.faults = parts;
    });
    for second in 10..16 {
        let sent = run.series.at(Count::Sent, second) as f64;
        let good = run.series.at(Count::Good, second) as f64;
        let down = second % 2 == 0;
        assert_eq!(good < sent / 2.0, down, "second {second}: {good} of {sent}");
    }
}

#[test]
fn a_bad_deploy_breaks_one_instance_after_the_other_until_the_rollback() {
    let run = with(OutageKind::Fail, |scenario| {
        scenario.callers = Callers::NO_RETRIES;
        let mut parts = Outage::bad_deploy(s(10), s(10), 5, s(2));
        scenario.outage = parts.remove(0);
        scenario.faults = parts;
    });
    let good = |second: usize| {
        run.series.sum(Count::Good, second..second + 2) as f64
            / run.series.sum(Count::Sent, second..second + 2) as f64
    };
    for (i, second) in (10..20).step_by(2).enumerate() {
        let expected = 1.0 - 0.2 * (i + 1) as f64;
        assert!((good(second) - expected).abs() < 0.1, "second {second}: {}", good(second));
    }
    assert!(good(21) > 0.99);
}

#[test]
fn failures_follow_the_curve_of_utilisation() {
    // Capacity 360; at 324 per second, u = 0.9, half of the requests fail.
    let run = with(OutageKind::Fail, |s| {
        s.load = 324.0;
        s.outage.length = Duration::ZERO;
        s.callers = Callers::NO_RETRIES;
        s.service.failures = Curve(vec![(0.8, 0.0), (1.0, 1.0)]);
    });
    let share = run.queueing.failed as f64 / run.series.sum(Count::Sent, 0..50) as f64;
    assert!((share - 0.5).abs() < 0.05, "{share}");
}

#[test]
fn a_service_that_slows_down_when_crowded_collapses_where_another_copes() {
    let crowded = |curve| {
        with(OutageKind::Stall, |s| {
            s.load = 200.0;
            s.callers = Callers::NO_RETRIES;
            s.service.crowding = curve;
        })
    };
    assert!(crowded(Curve::NONE).summary.verdict.within(20));
    let run = crowded(Curve(vec![(1.0, 1.0), (4.0, 4.0)]));
    assert!(!run.summary.verdict.within(40), "{}", run.summary);
}

#[test]
fn a_cold_start_is_slow_at_first_and_warms_up() {
    let run = with(OutageKind::Fail, |s| {
        s.callers = Callers::NO_RETRIES;
        s.service.cold = Some(Cold { factor: 4.0, over: Duration::from_secs(4) });
    });
    assert!(run.series.at(Count::Good, 15) < 150, "{:?}", run.series.at(Count::Good, 15));
    let warm = with(OutageKind::Fail, |s| s.callers = Callers::NO_RETRIES);
    assert!(warm.series.at(Count::Good, 15) > 200);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_fix() {
    let refused = |change: fn(&mut Scenario)| {
        let mut scenario = scenario(OutageKind::Fail);
        change(&mut scenario);
        let message = run(&scenario, 1).unwrap_err().to_string();
        assert!(message.contains("write"), "{message}");
    };
    refused(|s| s.load = f64::NAN);
    refused(|s| s.instances = 0);
    refused(|s| s.service.workers = 0);
    refused(|s| s.service.time = Dist::Constant(Duration::ZERO));
    refused(|s| s.service.time = Dist::Uniform { from: ms(2), to: ms(1) });
    refused(|s| s.service.failures = Curve(vec![(0.5, 1.5)]));
    refused(|s| s.service.crowding = Curve(vec![(2.0, 1.0), (1.0, 1.0)]));
    refused(|s| s.service.cold = Some(Cold { factor: 0.5, over: ms(1) }));
    refused(|s| s.outage.kind = OutageKind::Brownout { share: 2.0 });
    refused(|s| s.outage.kind = OutageKind::Latency { factor: f64::NAN });
}

/// Who has left makes room for who comes.
#[test]
fn a_caller_who_has_left_takes_no_place_in_a_bounded_queue() {
    let run = with(OutageKind::Stall, |s| {
        s.callers = Callers::NO_RETRIES;
        s.patience = ms(300);
        s.service.abandonment = Abandonment::Cancels { after: ms(0) };
        s.service.queue.max = Some(150); // about 90 come within the patience of one
    });
    assert_eq!(run.queueing.refused, 0);
    let backlog = run.observed.timeline.moments().iter().map(|moment| moment.backlog);
    assert!((60..150).contains(&backlog.max().unwrap()));
}

/// Two kinds of requests hang at the same time, each for as long as it does.
#[test]
fn shares_that_hang_at_the_same_time_add_up() {
    let hang = |share, time| OutageKind::Hang { share, time: ms(time) };
    let run = with(hang(0.1, 300), |s| {
        s.faults.push(Outage { kind: hang(0.1, 700), ..s.outage });
        s.service.workers = 360;
        s.callers = Callers::NO_RETRIES;
    });
    let during = |share| run.observed.latency[1].quantile(share).unwrap().as_millis();
    assert!((95..=110).contains(&during(0.75)), "{}", during(0.75));
    assert!((290..=330).contains(&during(0.85)), "{}", during(0.85));
    assert!((690..=760).contains(&during(0.95)), "{}", during(0.95));
}

/// A load that will fall has not fallen yet.
#[test]
fn a_run_is_not_hopeless_while_something_is_still_to_come() {
    let mut storm = scenario(OutageKind::Stall);
    storm.watch = s(700);
    storm.arrivals = Arrivals::Shaped(Curve(vec![(0.0, 1.0), (100.0, 1.0), (100.0, 0.05)]));
    let run = |storm: &Scenario| run_while(storm, 1, Early::Hopeless, &mut |_| {}).unwrap();
    let shaped = run(&storm);
    assert!(shaped.summary.verdict.healed(), "{}", shaped.summary.verdict);
    storm.arrivals = Arrivals::Random;
    assert!(run(&storm).timing.end < 100);
}

/// Who is served when, by one or a few slow workers and for users with all the time in the world.
fn slow(workers: u32, burst: u32, kinds: [OutageKind; 2]) -> Run {
    with(kinds[0], |scenario| {
        scenario.callers = Callers::NO_RETRIES;
        scenario.patience = s(600);
        scenario.arrivals = Arrivals::Burst { users: burst, at: ms(11_500) };
        scenario.service = Service::constant(workers, s(1));
        scenario.faults = vec![Outage { kind: kinds[1], ..scenario.outage }];
    })
}

#[test]
fn factors_of_latencies_that_overlap_multiply() {
    let run = slow(1, 1, [2.0, 3.0].map(|factor| OutageKind::Latency { factor }));
    assert_eq!(run.series.sum(Count::Good, 0..17), 0);
    assert_eq!(run.series.at(Count::Good, 17), 1);
}

#[test]
fn shares_of_workers_that_are_lost_at_once_add_up() {
    let run = slow(10, 30, [0.3, 0.4].map(|share| OutageKind::Partial { share }));
    assert_eq!([12, 13, 14].map(|second| run.series.at(Count::Good, second)), [3, 3, 3]);
}

/// Four users, at 0, 250, 500 and 750 ms, for one worker who takes 600 ms for each. When it is free somebody has been
/// waiting for 350 ms: the third user is next, and has the answer after 700 ms; the second would have it after 950 ms.
#[test]
fn an_adaptive_queue_turns_round_after_a_tenth_of_a_second() {
    let served = |order| {
        let run = with(OutageKind::Fail, |scenario| {
            scenario.callers = Callers::NO_RETRIES;
            scenario.patience = ms(800);
            scenario.arrivals = Arrivals::Recorded([&[4][..], &[0; 99]].concat());
            scenario.service = Service::constant(1, ms(600));
            scenario.service.queue.order = order;
        });
        run.series.sum(Count::Good, 0..50)
    };
    assert_eq!([Order::Fifo, Order::Adaptive, Order::Lifo].map(served), [1, 2, 2]);
}

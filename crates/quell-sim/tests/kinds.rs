//! Kinds of requests: what each of them does, and that nothing else changes where there are none.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_sim::{
    Run, Scenario,
    dist::Dist,
    run,
    scenario::{
        Arrivals, Callers, Curve, Gateway, HangUps, Kind, Outage, OutageKind, Sharing, Side,
        Together,
    },
    verdict::{Count, Crowd},
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn fault(kind: OutageKind, at: u64, length: u64) -> Outage {
    Outage { kind, at: s(at), length: s(length) }
}

fn quick() -> Kind {
    Kind::new("quick", 200.0, ms(20))
}

/// A minute without anything in front.
fn plain(workers: u32, kinds: Vec<Kind>) -> Run {
    run(&Scenario::of_kinds(workers, kinds), 1).unwrap()
}

fn fronted(workers: u32, kinds: Vec<Kind>) -> Scenario {
    Scenario { gateway: Some(Gateway::default()), ..Scenario::of_kinds(workers, kinds) }
}

fn served(crowd: &Crowd, from: usize, to: usize) -> f64 {
    let total = |what| crowd.series.sum(what, from..to) as f64;
    total(Count::Good) / total(Count::Demand)
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_kinds_too() {
    let hang_ups = Some(HangUps { share: 0.3, after: Dist::Uniform { from: ms(1), to: ms(9) } });
    let slow = Kind { hang_ups, ..Kind::new("slow", 30.0, Dist::Exponential { mean: ms(200) }) };
    let scenario = fronted(40, vec![quick(), slow]);
    let (a, b) = (run(&scenario, 7).unwrap(), run(&scenario, 7).unwrap());
    assert_eq!(a, b);
    assert_ne!(a.hash, run(&scenario, 8).unwrap().hash);
}

#[test]
fn the_same_seed_brings_the_same_requests_whatever_serves_them() {
    let kinds = || vec![quick(), Kind::new("slow", 30.0, Dist::Exponential { mean: ms(200) })];
    let (few, many) = (plain(50, kinds()), plain(5_000, kinds()));
    for (a, b) in few.kinds.iter().zip(&many.kinds) {
        assert_eq!(a.demand(), b.demand());
    }
    assert_eq!(few.kinds[1].quantile(0.5), many.kinds[1].quantile(0.5), "the same work too");
}

#[test]
fn every_kind_takes_its_own_time() {
    let run = plain(1_000, vec![quick(), Kind::new("slow", 30.0, ms(400))]);
    let times: Vec<_> = run.kinds.iter().map(|crowd| crowd.quantile(0.99).unwrap()).collect();
    assert_eq!(times, [ms(20), ms(400)]);
    assert!(run.kinds.iter().all(|crowd| crowd.lost == 0 && crowd.refused() == 0.0));
}

#[test]
fn what_only_waits_holds_no_worker() {
    let think = Dist::Constant(ms(10));
    let arrivals = Arrivals::Closed { users: 100, think };
    let polls = Kind { arrivals, waits: true, ..Kind::new("polls", 30.0, s(3)) };
    for sharing in [None, Some(Sharing { loss: 0.5 })] {
        let mut scenario = Scenario::of_kinds(10, vec![quick(), polls.clone()]);
        scenario.service.sharing = sharing;
        let run = run(&scenario, 1).unwrap();
        assert!(run.kinds[0].quantile(0.99).unwrap() < ms(40), "{sharing:?}");
        assert_eq!(run.kinds[1].quantile(0.5), Some(s(3)), "{sharing:?}");
    }
}

#[test]
fn an_upload_is_no_work_until_it_is_over() {
    let arrivals = Arrivals::Closed { users: 100, think: Dist::Constant(ms(10)) };
    let upload = Some(Dist::Uniform { from: s(2), to: s(8) });
    let uploads = Kind { arrivals, upload, ..Kind::new("uploads", 20.0, ms(20)) };
    let run = plain(10, vec![quick(), uploads]);
    assert!(run.kinds[0].quantile(0.99).unwrap() < ms(40));
    let took = run.kinds[1].quantile(0.5).unwrap();
    assert!((ms(4_600)..ms(5_400)).contains(&took), "{took:?}");
}

#[test]
fn bursts_come_as_often_as_they_say() {
    let arrivals = Arrivals::Bursts { users: 40, within: ms(50), every: s(10) };
    let run = plain(1_000, vec![Kind { arrivals, ..quick() }]);
    let counts: Vec<_> = (0..60).map(|at| run.series.at(Count::Demand, at)).collect();
    let bursts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    assert_eq!(
        bursts.map(|(at, n)| (at, *n)).collect::<Vec<_>>(),
        [(10, 40), (20, 40), (30, 40), (40, 40), (50, 40)]
    );
}

#[test]
fn whoever_hangs_up_is_gone_for_good_and_not_lost() {
    let hang_ups = Some(HangUps { share: 0.5, after: ms(5).into() });
    let mut scenario = Scenario::of_kinds(1_000, vec![Kind { hang_ups, retries: true, ..quick() }]);
    scenario.callers = Callers::NAIVE;
    let run = run(&scenario, 1).unwrap();
    let crowd = &run.kinds[0];
    assert!((5_500..6_500).contains(&crowd.hung_up), "{}", crowd.hung_up);
    assert!((5_500..6_500).contains(&crowd.demand()), "half of them want an answer");
    assert_eq!(crowd.lost, 0);
    assert!(run.work.wasted >= crowd.hung_up - 5, "and the service works for the others too");
}

#[test]
fn those_who_leave_together_leave_at_one_instant() {
    let together = Some(Together { every: s(10), most: 3 });
    let run = plain(1_000, vec![Kind { together, ..Kind::new("slow", 20.0, ms(500)) }]);
    assert_eq!(run.kinds[0].hung_up, 3 * 5, "three of about ten, five times");
}

#[test]
fn one_kind_alone_stalls_and_goes_on_where_it_was() {
    for sharing in [None, Some(Sharing { loss: 0.0 })] {
        let faults = vec![fault(OutageKind::Stall, 20, 5)];
        let slow = Kind { faults, ..Kind::new("slow", 10.0, ms(100)) };
        let mut scenario = Scenario::of_kinds(1_000, vec![quick(), slow]);
        scenario.service.sharing = sharing;
        let run = run(&scenario, 1).unwrap();
        let [quick, slow] = &run.kinds[..] else { panic!() };
        assert_eq!(quick.quantile(1.0), Some(ms(20)), "{sharing:?}");
        assert_eq!(slow.series.sum(Count::Good, 20..25), 0, "{sharing:?}");
        assert_eq!(slow.lost, 0, "{sharing:?}");
        let longest = slow.quantile(1.0).unwrap();
        assert!((ms(5_000)..=ms(5_100)).contains(&longest), "{sharing:?}: {longest:?}");
    }
}

#[test]
fn a_stall_of_the_whole_service_puts_off_what_only_waits_too() {
    let polls = Kind { waits: true, ..Kind::new("polls", 10.0, ms(500)) };
    let mut scenario = Scenario::of_kinds(1_000, vec![quick(), polls]);
    scenario.faults = vec![fault(OutageKind::Stall, 20, 5)];
    let run = run(&scenario, 1).unwrap();
    for crowd in &run.kinds {
        assert_eq!(crowd.series.sum(Count::Good, 20..25), 0, "{}", crowd.name);
        assert_eq!(crowd.lost, 0, "{}", crowd.name);
    }
    let longest = run.kinds[1].quantile(1.0).unwrap();
    assert!((ms(5_400)..=ms(5_500)).contains(&longest), "{longest:?}");
}

#[test]
fn one_kind_alone_fails_or_is_slower() {
    let failing = Kind { faults: vec![fault(OutageKind::Fail, 0, 100)], ..quick() };
    let broken = Kind { fails: 1.0, ..quick() };
    let drift = Curve(vec![(0.0, 1.0), (60.0, 3.0)]);
    let run = plain(1_000, vec![quick(), failing, broken, Kind { drift, ..quick() }]);
    let shares: Vec<_> = run.kinds.iter().map(|crowd| served(crowd, 0, 59) > 0.99).collect();
    assert_eq!(shares, [true, false, false, true]);
    assert_eq!((run.kinds[1].good(), run.kinds[2].good()), (0, 0));
    assert!(run.kinds[3].quantile(1.0).unwrap() > ms(59));
}

#[test]
fn refusals_are_told_by_reason_and_those_who_leave_in_the_queue_apart() {
    let mut scenario = fronted(2, vec![Kind { patience: ms(300).into(), ..quick() }]);
    let mut gateway = Gateway::default();
    gateway.upstream.in_flight = quell_core::in_flight::Limit::Fixed(2);
    gateway.upstream.queue_wait = Some(s(10));
    (gateway.policy.timeout, gateway.policy.per_try_timeout) = (s(60), Some(s(60)));
    gateway.upstream.order = quell_core::queue::Order::Fifo;
    scenario.gateway = Some(gateway);
    let run = run(&scenario, 1).unwrap();
    let refusals = &run.kinds[0].refusals;
    assert!(refusals.left() > 50 && refusals.total() > 1_000, "{refusals:?}");
    assert_eq!(refusals, &run.observed.refusals, "there is one kind");
    let by_second: u64 = run.kinds[0].left_queued.iter().sum();
    assert_eq!(by_second, refusals.left());
    assert!(run.refused() > 0.05 && run.refused() < 1.0, "{}", run.refused());
}

#[test]
fn only_good_callers_count_as_refused() {
    let hostile = Kind { side: Side::Hostile, callers: 1, ..Kind::new("flood", 3_000.0, ms(20)) };
    let mut scenario = fronted(10, vec![Kind { load: 1.0, ..quick() }, hostile]);
    scenario.watch = s(10);
    let run = run(&scenario, 1).unwrap();
    assert!(run.kinds[1].refused() > 0.5);
    assert_eq!(run.refused(), run.kinds[0].refused());
}

//! Services that work on everybody at once, by exact arithmetic and by what queueing theory knows.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::time::Duration;

use quell_sim::{
    Run, Scenario,
    dist::Dist,
    run,
    scenario::{
        Abandonment, Arrivals, Callers, Edge, Node, Order, Outage, OutageKind, Service, Sharing,
    },
    verdict::Tally,
};

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn shared(workers: u32, time: impl Into<Dist>, loss: f64) -> Service {
    Service { sharing: Some(Sharing { loss }), ..Service::new(workers, time) }
}

fn fault(kind: OutageKind, at: Duration, length: Duration) -> Outage {
    Outage { kind, at, length }
}

/// These users at a service, and nothing happens to it; everybody waits and nobody tries again.
fn calm(arrivals: Arrivals, service: Service, seconds: u64) -> Scenario {
    Scenario {
        arrivals,
        instances: 1,
        patience: s(600),
        callers: Callers::NO_RETRIES,
        service,
        outage: fault(OutageKind::Brownout { share: 0.0 }, s(0), s(seconds)),
        watch: s(0),
        ..Scenario::storm(OutageKind::Fail)
    }
}

/// So many users who come after a second.
fn crowd(users: u32, service: Service) -> Scenario {
    calm(Arrivals::Burst { users, at: s(1) }, service, 30)
}

/// So many in each of the first seconds, evenly spaced.
fn recorded(seconds: &[u32], service: Service) -> Scenario {
    let mut counts = vec![0; 30];
    counts[..seconds.len()].copy_from_slice(seconds);
    calm(Arrivals::Recorded(counts), service, 30)
}

/// What the service came to. Where nobody waits, the time it was held is the sum of all latencies.
fn tally(scenario: &Scenario) -> Tally {
    let run = run(scenario, 1).unwrap();
    assert_eq!(run.queueing.delayed, 0, "nobody waits for a worker");
    run.layers[0].over(0..usize::MAX)
}

/// The sum of all latencies.
fn latencies(scenario: &Scenario) -> Duration {
    Duration::from_nanos(tally(scenario).held)
}

#[test]
fn two_on_one_worker_take_twice_as_long() {
    assert_eq!(latencies(&crowd(2, shared(1, ms(100), 0.0))), ms(200) * 2);
    assert_eq!(latencies(&crowd(2, shared(2, ms(100), 0.0))), ms(100) * 2);
    assert_eq!(latencies(&crowd(12, shared(3, ms(100), 0.0))), ms(400) * 12);
}

#[test]
fn whoever_comes_later_slows_everybody_from_then_on() {
    // 200 ms are left of the first when the second comes: done at 900 ms; the second has 500 ms left then, and is alone.
    assert_eq!(latencies(&recorded(&[2], shared(1, ms(700), 0.0))), ms(900) * 2);
}

#[test]
fn a_crowd_that_costs_is_slower_by_the_formula() {
    // Three per worker at 0.5: the workers are 1 + 0.5·2 = 2 times slower, and each request gets a third of one.
    assert_eq!(latencies(&crowd(6, shared(2, ms(10), 0.5))), ms(60) * 6);
    assert_eq!(latencies(&crowd(2, shared(2, ms(10), 0.5))), ms(10) * 2);
}

#[test]
fn a_stall_freezes_what_is_shared_and_what_comes_meanwhile() {
    let mut scenario = crowd(2, shared(1, ms(100), 0.0));
    scenario.faults = vec![fault(OutageKind::Stall, ms(1050), s(10))];
    assert_eq!(latencies(&scenario), ms(10_200) * 2);
    scenario.faults = vec![fault(OutageKind::Stall, ms(500), s(10))];
    assert_eq!(latencies(&scenario), ms(9_700) * 2); // until 10.5 s, and two at once
}

#[test]
fn workers_that_are_lost_and_won_change_the_speed_of_what_is_under_way() {
    let with = |workers, kind| {
        let mut scenario = crowd(2, shared(workers, ms(100), 0.0));
        scenario.faults = vec![fault(kind, ms(1050), s(10))];
        latencies(&scenario)
    };
    // 50 ms are left, at half the speed.
    assert_eq!(with(2, OutageKind::Partial { share: 0.5 }), ms(150) * 2);
    // 75 ms are left, at full speed.
    assert_eq!(with(1, OutageKind::Grown { factor: 2.0 }), ms(125) * 2);
    // Not one is left for ten seconds.
    assert_eq!(with(2, OutageKind::Partial { share: 1.0 }), ms(10_100) * 2);
}

#[test]
fn new_workers_take_those_who_wait_at_once() {
    let mut scenario = crowd(4, Service::constant(1, s(2)));
    scenario.faults = vec![fault(OutageKind::Grown { factor: 4.0 }, ms(1500), s(10))];
    let run = run(&scenario, 1).unwrap();
    assert_eq!(run.queueing.waited, ms(500) * 3);
}

#[test]
fn who_left_makes_room_once_it_is_noticed() {
    // The first needs 1.8 s, the second, a second later, 0.6 s. The first leaves after 1.2 s, when the second has had 100 ms.
    let mut scenario = recorded(&[0, 1, 1], shared(1, ms(600), 0.0));
    scenario.faults = vec![fault(OutageKind::Latency { factor: 3.0 }, ms(900), ms(600))];
    scenario.patience = ms(1200);
    scenario.service.abandonment = Abandonment::Cancels { after: ms(0) };
    let tally = tally(&scenario);
    assert_eq!(Duration::from_nanos(tally.held), ms(1200 + 700));
    assert_eq!((Duration::from_nanos(tally.lost), tally.served), (ms(1200), 1));
    // Otherwise both share to the end of the second, and the first is served for nobody.
    scenario.service.abandonment = Abandonment::Serves;
    assert_eq!(latencies(&scenario), ms(2400 + 1200));
}

/// A request that waits for a service behind takes nothing from the others, and goes on after a stall.
#[test]
fn whoever_waits_for_a_service_behind_takes_no_share() {
    let mut scenario = recorded(&[0, 2], shared(1, ms(20), 0.0));
    scenario.below = vec![Node::leaf(Service::constant(36, ms(600)))];
    scenario.calls = vec![Edge::new(0)];
    assert_eq!(latencies(&scenario), ms(620) * 2);
    let mut crowd = crowd(2, shared(1, ms(20), 0.0));
    (crowd.below, crowd.calls) = (scenario.below, scenario.calls);
    assert_eq!(latencies(&crowd), ms(640) * 2);
    crowd.faults = vec![fault(OutageKind::Stall, ms(1100), s(1))];
    assert_eq!(latencies(&crowd), ms(1100) * 2);
}

/// M/G/1 with processor sharing: the mean response is S ÷ (1 − ρ) whatever the spread (Kleinrock 1967).
#[test]
fn the_mean_response_depends_on_the_mean_of_the_work_alone() {
    let spreads = [
        Dist::Constant(ms(10)),
        Dist::Exponential { mean: ms(10) },
        Dist::Bimodal { fast: ms(2), slow: ms(82), share: 0.1 },
    ];
    for (rho, close) in [(0.5, 0.03), (0.7, 0.06)] {
        for spread in &spreads {
            let mut scenario = calm(Arrivals::Random, shared(1, spread.clone(), 0.0), 4_000);
            scenario.load = 100.0 * rho;
            let tally = tally(&scenario);
            let (got, right) = (tally.held as f64 / tally.served as f64 / 1e6, 10.0 / (1.0 - rho));
            assert!((got / right - 1.0).abs() < close, "{spread:?} at {rho}: {got} for {right}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let scenario = Scenario {
        load: 300.0,
        service: shared(36, Dist::Exponential { mean: ms(100) }, 0.5),
        outage: fault(OutageKind::Stall, s(10), s(5)),
        watch: s(25),
        ..Scenario::storm(OutageKind::Stall)
    };
    let hash = |seed| run(&scenario, seed).unwrap().hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

/// All that is shared costs nothing: it is one worker's speed for each, and nobody is ever too many.
#[test]
fn a_service_that_always_has_a_worker_for_each_is_the_same_whether_or_not_they_share() {
    let with = |sharing| {
        let service = Service { sharing, ..Service::new(100, Dist::Exponential { mean: ms(100) }) };
        let mut scenario = calm(Arrivals::Random, service, 60);
        scenario.load = 300.0;
        run(&scenario, 1).unwrap()
    };
    let (apart, shared): (Run, Run) = (with(None), with(Some(Sharing { loss: 1.0 })));
    assert_eq!(apart.queueing.delayed, 0);
    // Sharing rounds up to whole nanoseconds.
    let held = |run: &Run| run.layers[0].over(0..usize::MAX).held;
    assert_eq!(apart.work, shared.work);
    assert!(held(&shared).abs_diff(held(&apart)) <= 2 * apart.work.served);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_fix() {
    let refused = |change: &dyn Fn(&mut Service)| {
        let mut scenario = crowd(1, shared(1, ms(1), 0.0));
        change(&mut scenario.service);
        run(&scenario, 1).err().unwrap().to_string()
    };
    let gains = refused(&|service| service.sharing = Some(Sharing { loss: -1.0 }));
    assert!(gains.starts_with("service.sharing.loss ") && gains.contains("write"), "{gains}");
    let queue = refused(&|service| service.queue.order = Order::Lifo);
    assert!(queue.starts_with("service.queue ") && queue.contains("write"), "{queue}");
    let cost = refused(&|service| service.refusal_cost = ms(1));
    assert!(cost.starts_with("service.refusal_cost ") && cost.contains("write"), "{cost}");
}

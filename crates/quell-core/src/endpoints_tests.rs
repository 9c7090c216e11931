use super::*;
use crate::{Rng, in_flight::Limit, pools};

const EVERY: Duration = Duration::from_millis(500);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn endpoints(count: u16) -> Endpoints {
    Endpoints::new(count, Some(Ejection::default()), at(0)).unwrap()
}

fn fail(endpoints: &mut Endpoints, endpoint: u16, times: u32, now: Time) -> bool {
    (0..times).fold(false, |ejected, _| ejected | endpoints.judge(endpoint, Some(false), now))
}

fn answers(endpoints: &mut Endpoints, endpoint: u16, number: u64, now: Time) {
    assert!(endpoints.answered(now), "there are others, or ghosts");
    endpoints.get_past(endpoint, number, |_| false);
}

fn chosen(endpoints: &Endpoints, tried: Tried, now: Time) -> Vec<u16> {
    let mut rng = Rng::new(1);
    let mut seen: Vec<_> = (0..200).map(|_| endpoints.choose(now, tried, &mut rng)).collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn an_answer_ends_the_ghosts_sent_before_it_and_no_others() {
    let mut endpoints = endpoints(2);
    let early = endpoints.sent(0);
    let answered = endpoints.sent(0);
    let late = endpoints.sent(0);
    let elsewhere = endpoints.sent(1);
    for (endpoint, number) in [(0, late), (0, early), (1, elsewhere)] {
        endpoints.ghost(endpoint, number);
    }
    answers(&mut endpoints, 0, answered, at(1));
    assert_eq!(endpoints.ghosts(), 2);
    let next = endpoints.sent(0);
    answers(&mut endpoints, 0, next, at(1));
    assert_eq!(endpoints.ghosts(), 1);
}

#[test]
fn one_probe_per_interval_goes_to_a_silent_endpoint_with_ghosts() {
    let mut endpoints = endpoints(1);
    assert_eq!(endpoints.due(at(10_000), EVERY), None);
    for _ in 0..2 {
        let number = endpoints.sent(0);
        endpoints.ghost(0, number);
    }
    assert_eq!(endpoints.due(at(499), EVERY), None);
    assert_eq!(endpoints.next_due(EVERY), Some(at(500)));
    assert_eq!(endpoints.due(at(500), EVERY), Some(0));
    endpoints.probe(0, Pool::NONE, at(500));
    endpoints.sent(0);
    assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
    assert_eq!(endpoints.due(at(999), EVERY), None);
    assert_eq!(endpoints.due(at(1_000), EVERY), Some(0));
}

fn reload(endpoints: &mut Endpoints, count: u16, ejection: Option<Ejection>, now: Time) {
    endpoints.adopt(Endpoints::new(count, ejection, now).unwrap(), now);
}

/// X9.
#[test]
fn a_reload_keeps_ghosts_and_what_is_in_hand_of_those_that_stay_and_frees_those_that_go() {
    let mut endpoints = endpoints(3);
    let numbers: Vec<_> = (0..6).map(|i| (i % 3, endpoints.sent(i % 3))).collect();
    for &(endpoint, number) in &numbers[..3] {
        endpoints.ghost(endpoint, number);
    }
    reload(&mut endpoints, 1, None, at(1));
    assert_eq!(
        (endpoints.under_way(), endpoints.ghosts(), endpoints.taken(10, None::<fn(u16) -> bool>)),
        (3, 1, 4)
    );
    assert_eq!(chosen(&endpoints, Tried::default(), at(1)), [0]);
    answers(&mut endpoints, 2, numbers[5].1, at(2));
    endpoints.done(2);
    endpoints.ghost(1, numbers[4].1);
    assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1), "none where nobody is");
    reload(&mut endpoints, 2, Some(Ejection::default()), at(3));
    assert_eq!((endpoints.all.len(), endpoints.ghosts()), (2, 1));
    assert_eq!(chosen(&endpoints, Tried::default(), at(3)), [1], "nothing stands there");
}

/// X9.
#[test]
fn an_ejection_outlives_a_reload_within_the_new_bound_and_unless_nobody_is_left() {
    let (mut endpoints, short) = (endpoints(3), Duration::from_secs(1));
    assert!(fail(&mut endpoints, 1, 5, at(0)) && fail(&mut endpoints, 0, 5, at(0)));
    reload(&mut endpoints, 4, Some(Ejection::default()), at(1));
    assert_eq!(chosen(&endpoints, Tried::default(), at(9_999)), [2, 3]);
    reload(&mut endpoints, 4, Some(Ejection { base: short, most: short, after: 5 }), at(1));
    assert_eq!((endpoints.ejected(at(1_000)), endpoints.ejected(at(1_001))), (2, 0));
    reload(&mut endpoints, 2, Some(Ejection::default()), at(1));
    assert_eq!(endpoints.ejected(at(1)), 0, "the two that were left are gone");
}

/// P12.
#[test]
fn one_dead_endpoints_ghosts_do_not_starve_the_living() {
    let (mut endpoints, mut rng) = (endpoints(4), Rng::new(1));
    for _ in 0..1_000 {
        let number = endpoints.sent(3);
        endpoints.ghost(3, number);
    }
    assert_eq!(endpoints.taken(100, None::<fn(u16) -> bool>), 25);
    assert!((0..1_000).all(|_| endpoints.choose(at(0), Tried::default(), &mut rng) != 3));
}

#[test]
fn ghosts_are_bounded_and_the_oldest_go_first() {
    let mut endpoints = endpoints(1);
    for _ in 0..MOST_GHOSTS + 10 {
        let number = endpoints.sent(0);
        endpoints.ghost(0, number);
    }
    assert_eq!(endpoints.ghosts(), MOST_GHOSTS);
    assert_eq!(endpoints.all[0].ghosts[0].number, 11);
}

#[test]
fn a_ghost_gives_its_pools_slot_back_however_it_ends() {
    let (mut endpoints, pool) = (endpoints(2), Pool::of(0));
    let spec = pools::Spec::of(&[5_000]).unwrap();
    endpoints.set_pools(Pools::new(spec, Limit::Off, 2).unwrap());
    let held = |endpoints: &Endpoints| {
        let pool = endpoints.pools().unwrap().snapshot()[0].unwrap();
        (pool.in_flight, pool.ghosts)
    };
    let haunt = |endpoints: &mut Endpoints, times| {
        for _ in 0..times {
            endpoints.pools_mut().unwrap().sent(pool);
            let number = endpoints.sent(1);
            endpoints.ghost_in(1, number, pool);
        }
    };
    haunt(&mut endpoints, MOST_GHOSTS + 10);
    assert_eq!(held(&endpoints), (0, MOST_GHOSTS as u32), "forgotten");
    endpoints.probe(1, Pool::NONE, at(0));
    assert_eq!(held(&endpoints), (0, MOST_GHOSTS as u32 - 1), "displaced");
    let answered = endpoints.sent(1);
    haunt(&mut endpoints, 3);
    answers(&mut endpoints, 1, answered, at(0));
    assert_eq!(held(&endpoints), (0, 3), "answered");
    assert!(fail(&mut endpoints, 1, 5, at(0)));
    assert_eq!(held(&endpoints), (0, 0), "ejected");
}

#[test]
fn failures_in_a_row_eject_an_endpoint_for_longer_each_time() {
    let mut endpoints = endpoints(3);
    assert!(!fail(&mut endpoints, 1, 4, at(0)));
    endpoints.judge(1, Some(true), at(0));
    assert!(!fail(&mut endpoints, 1, 4, at(0)), "a success in between");
    assert!(fail(&mut endpoints, 1, 1, at(0)));
    assert_eq!(chosen(&endpoints, Tried::default(), at(9_999)), [0, 2]);
    assert_eq!(chosen(&endpoints, Tried::default(), at(10_000)), [0, 1, 2]);
    assert!(fail(&mut endpoints, 1, 5, at(10_000)));
    assert_eq!(endpoints.ejected(at(29_999)), 1);
    assert_eq!(endpoints.ejected(at(30_000)), 0);
}

#[test]
fn the_last_endpoint_is_never_ejected() {
    let mut endpoints = endpoints(3);
    for endpoint in 0..3 {
        fail(&mut endpoints, endpoint, 1_000, at(0));
    }
    assert_eq!(endpoints.ejected(at(1)), 2);
    assert_eq!(chosen(&endpoints, Tried::default(), at(1)), [2]);
    assert!(!fail(&mut self::endpoints(1), 0, 1_000, at(0)));
}

#[test]
fn a_retry_goes_where_its_call_has_not_been_unless_it_has_been_everywhere() {
    let endpoints = endpoints(3);
    let tried = Tried::default().with(0);
    assert_eq!(chosen(&endpoints, tried, at(0)), [1, 2]);
    assert_eq!(chosen(&endpoints, tried.with(2), at(0)), [1]);
    assert_eq!(chosen(&endpoints, tried.with(2).with(1), at(0)), [0, 1, 2]);
}

#[test]
fn ejection_ends_the_ghosts_that_stood_there() {
    let mut endpoints = endpoints(2);
    let number = endpoints.sent(1);
    endpoints.ghost(1, number);
    assert!(fail(&mut endpoints, 1, 5, at(0)));
    assert_eq!(endpoints.ghosts(), 0);
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let usual = Ejection::default();
    let nonsense = [
        (0, usual),
        (1, Ejection { after: 0, ..usual }),
        (1, Ejection { base: Duration::ZERO, ..usual }),
        (1, Ejection { most: Duration::from_secs(1), ..usual }),
    ];
    for (count, ejection) in nonsense {
        let message = Endpoints::new(count, Some(ejection), at(0)).unwrap_err().to_string();
        assert!(message.contains("write"), "{message}");
    }
}

#[test]
fn an_answer_ends_what_was_sent_before_it_and_nothing_else() {
    let mut endpoints = endpoints(1);
    let numbers = [0; 3].map(|endpoint| endpoints.sent(endpoint));
    numbers.iter().for_each(|&number| endpoints.ghost(0, number));
    answers(&mut endpoints, 0, numbers[1], at(0));
    assert_eq!(endpoints.ghosts(), 2);
}

#[test]
fn failures_without_end_are_counted_to_the_end_of_the_counter() {
    let mut endpoints = endpoints(2);
    endpoints.all[1].ejected_until = Time::MAX;
    endpoints.all[0].failures = u32::MAX;
    assert!(!endpoints.judge(0, Some(false), at(0)), "the last one is never ejected");
    assert_eq!(endpoints.all[0].failures, u32::MAX);
}

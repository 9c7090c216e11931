use core::time::Duration;

use super::*;
use crate::Rng;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A minute of 300 calls per second over three shards, of which the first is dead. Answers the served share of what the
/// living two were asked for in its second half.
fn served(mut key: impl FnMut(u64) -> u64) -> f64 {
    let spec = Spec { failure_rate: 0.3, ..Spec::default() };
    let mut breakers = Keyed::new(spec, Keyed::USUAL, at(0)).unwrap();
    let (mut rng, mut asked, mut served) = (Rng::new(3), 0, 0);
    for i in 0..18_000 {
        let (now, shard) = (at(i * 10 / 3), rng.below(3));
        let alive = shard != 0;
        let counts = alive && i >= 9_000;
        asked += u32::from(counts);
        let seat = breakers.enter(now, key(shard));
        if breakers.check(now, seat, true, &mut rng).is_ok() {
            let pass = breakers.take(now, seat);
            breakers.judge(now, seat, &pass, Some(alive), &mut rng);
            breakers.free(now, seat, &pass);
            served += u32::from(counts);
        }
    }
    f64::from(served) / f64::from(asked)
}

/// C14.
#[test]
fn with_one_dead_shard_of_three_a_key_keeps_the_other_two_at_full_service() {
    assert!((served(|shard| shard) - 1.0).abs() < f64::EPSILON);
    let shared = served(|_| 0);
    assert!(shared < 0.6, "one breaker for all makes a partial outage a full one: {shared}");
}

/// One call of this key, which ends as told.
fn call(breakers: &mut Keyed, now: Time, key: u64, good: bool) {
    let seat = breakers.enter(now, key);
    let pass = breakers.take(now, seat);
    breakers.judge(now, seat, &pass, Some(good), &mut Rng::new(1));
    breakers.free(now, seat, &pass);
}

#[test]
fn keys_beyond_the_bound_share_one_breaker_and_are_counted() {
    let mut breakers = Keyed::new(Spec::default(), 2, at(0)).unwrap();
    assert!(breakers.is_empty());
    for key in 0..22 {
        call(&mut breakers, at(0), key, false);
    }
    assert_eq!((breakers.len(), breakers.overflowed()), (2, 20));
    assert_eq!(breakers.applied(at(0), 1), State::Closed);
    assert_eq!(breakers.applied(at(0), 21), State::Open);
    assert_eq!(breakers.applied(at(0), 999), State::Open);
    assert_eq!((breakers.count(at(0), State::Closed), breakers.count(at(0), State::Open)), (2, 1));
}

#[test]
fn a_breaker_makes_room_only_if_it_is_as_good_as_new() {
    let mut breakers = Keyed::new(Spec::default(), 1, at(0)).unwrap();
    call(&mut breakers, at(0), 1, true);
    call(&mut breakers, at(9_999), 2, true);
    assert_eq!(breakers.overflowed(), 1, "its window is not empty");
    let seat = breakers.enter(at(10_000), 3);
    assert_eq!((breakers.key_of(seat), breakers.overflowed()), (Some(3), 1));
    let pass = breakers.take(at(10_000), seat);
    call(&mut breakers, at(60_000), 4, true);
    assert_eq!(breakers.overflowed(), 2, "somebody is under way");
    breakers.free(at(60_000), seat, &pass);
    for _ in 0..20 {
        call(&mut breakers, at(60_000), 5, false);
    }
    assert_eq!(breakers.applied(at(60_000), 5), State::Open);
    call(&mut breakers, at(600_000), 6, true);
    assert_eq!(breakers.overflowed(), 3, "it is not closed");
}

/// C3: nobody answers for who had the place before.
#[test]
fn a_late_outcome_is_never_charged_to_another_key() {
    let mut breakers = Keyed::new(Spec { min_calls: 1, ..Spec::default() }, 1, at(0)).unwrap();
    let mut rng = Rng::new(1);
    let seat = breakers.enter(at(0), 1);
    let pass = breakers.take(at(0), seat);
    breakers.free(at(0), seat, &pass);
    let next = breakers.enter(at(0), 2);
    assert_ne!(seat, next);
    assert_eq!(breakers.judge(at(0), seat, &pass, Some(false), &mut rng), None);
    breakers.free(at(0), seat, &pass);
    assert_eq!(breakers.applied(at(0), 2), State::Closed);
    assert!(breakers.at(seat).is_none() && breakers.at(next).is_some());
}

#[test]
fn what_is_forced_holds_for_keys_that_come_later_and_ends_for_all() {
    let mut breakers = Keyed::new(Spec::default(), 8, at(0)).unwrap();
    call(&mut breakers, at(0), 1, true);
    breakers.set_mode(at(0), Mode::ForcedOpen, Some(at(100)));
    breakers.enter(at(50), 2);
    for key in 1..4 {
        assert_eq!(breakers.applied(at(99), key), State::Open);
    }
    assert_eq!(breakers.applied(at(100), 2), State::HalfOpen);
    breakers.enter(at(100), 3);
    assert_eq!(breakers.applied(at(100), 3), State::Closed, "it was never forced");
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    for most in [0, 65_537] {
        let message = Keyed::new(Spec::default(), most, at(0)).unwrap_err().to_string();
        assert!(message.starts_with("breaker.keys") && message.contains("write"), "{message}");
    }
    assert!(Keyed::new(Spec { probes: 0, ..Spec::default() }, 1, at(0)).is_err());
}

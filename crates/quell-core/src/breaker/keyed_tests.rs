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
        let breaker = breakers.of(now, key(shard));
        if breaker.check(now, true, &mut rng).is_ok() {
            let pass = breaker.take(now);
            breaker.judge(now, &pass, Some(alive), &mut rng);
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

#[test]
fn keys_beyond_the_bound_share_one_breaker_and_are_counted() {
    let mut breakers = Keyed::new(Spec::default(), 2, at(0)).unwrap();
    assert!(breakers.is_empty());
    let mut rng = Rng::new(1);
    for key in 0..22 {
        let pass = breakers.of(at(0), key).take(at(0));
        breakers.of(at(0), key).judge(at(0), &pass, Some(false), &mut rng);
    }
    assert_eq!((breakers.len(), breakers.overflowed()), (2, 40));
    assert_eq!(breakers.of(at(0), 1).state(at(0)), State::Closed);
    assert_eq!(breakers.of(at(0), 21).state(at(0)), State::Open);
    assert_eq!(breakers.of(at(0), 999).state(at(0)), State::Open);
    assert_eq!((breakers.count(at(0), State::Closed), breakers.count(at(0), State::Open)), (2, 0));
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    for most in [0, 65_537] {
        let message = Keyed::new(Spec::default(), most, at(0)).unwrap_err().to_string();
        assert!(message.starts_with("breaker.keys") && message.contains("write"), "{message}");
    }
    assert!(Keyed::new(Spec { probes: 0, ..Spec::default() }, 1, at(0)).is_err());
}

use super::*;

const OPEN: Duration = Duration::from_millis(500);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn breaker() -> (Breaker, Rng) {
    (Breaker::new(Spec::default(), Time::ZERO).unwrap(), Rng::new(7))
}

fn record(breaker: &mut Breaker, now: Time, good: bool, rng: &mut Rng) -> Option<State> {
    let pass = breaker.take(now);
    breaker.judge(now, &pass, Some(good), rng)
}

/// Opened at `now`, and past its open time by `now + OPEN`.
fn opened(now: Time) -> (Breaker, Rng) {
    let (mut breaker, mut rng) = breaker();
    for _ in 0..20 {
        record(&mut breaker, now, false, &mut rng);
    }
    assert_eq!(breaker.state(now), State::Open);
    (breaker, rng)
}

fn probe(breaker: &mut Breaker, now: Time, rng: &mut Rng) -> Result<Pass, Reason> {
    breaker.check(now, true, rng).map_err(|refusal| refusal.reason)?;
    Ok(breaker.take(now))
}

/// C1: how long it was healthy before must not change how many failures open it.
#[test]
fn warm_up_size_does_not_change_failures_to_open() {
    let failures_to_open = |healthy_seconds: u64| {
        let (mut breaker, mut rng) = breaker();
        let start = healthy_seconds * 1_000;
        for ms in (0..start).step_by(10) {
            record(&mut breaker, at(ms), true, &mut rng);
        }
        (1..).find(|_| record(&mut breaker, at(start), false, &mut rng).is_some()).unwrap()
    };
    assert_eq!(failures_to_open(20), failures_to_open(3_600));
}

/// C8: a full window is not needed, the minimum of calls is.
#[test]
fn it_opens_at_the_minimum_of_calls_and_not_before() {
    let (mut breaker, mut rng) = breaker();
    for _ in 0..19 {
        assert_eq!(record(&mut breaker, at(1), false, &mut rng), None);
    }
    assert_eq!(record(&mut breaker, at(1), false, &mut rng), Some(State::Open));
}

#[test]
fn a_success_that_completes_the_minimum_can_open_it() {
    let (mut breaker, mut rng) = breaker();
    for _ in 0..19 {
        record(&mut breaker, at(1), false, &mut rng);
    }
    assert_eq!(record(&mut breaker, at(1), true, &mut rng), Some(State::Open));
}

/// C3: what was sent before it opened says nothing about now.
#[test]
fn outcomes_of_an_older_generation_are_ignored() {
    let (mut breaker, mut rng) = breaker();
    let old = breaker.take(at(0));
    let older = breaker.take(at(0));
    for _ in 0..20 {
        record(&mut breaker, at(0), false, &mut rng);
    }
    assert_eq!(breaker.state(at(600)), State::HalfOpen);
    assert_eq!(breaker.judge(at(600), &old, Some(false), &mut rng), None);
    assert_eq!(breaker.judge(at(600), &older, Some(true), &mut rng), None);
    assert_eq!(breaker.state(at(600)), State::HalfOpen);
}

/// C4.
#[test]
fn half_open_admits_at_most_its_probes_before_any_verdict() {
    let (mut breaker, mut rng) = opened(at(0));
    let now = at(0) + OPEN;
    let passes: Vec<_> = (0..3).map(|_| probe(&mut breaker, now, &mut rng).unwrap()).collect();
    assert_eq!(probe(&mut breaker, now, &mut rng).unwrap_err(), Reason::ProbeLimit);
    assert_eq!(breaker.judge(now, &passes[0], Some(true), &mut rng), None);
    assert_eq!(breaker.judge(now, &passes[1], Some(true), &mut rng), Some(State::Closed));
}

/// C5: three hung probes delay the next by one lease, not for ever.
#[test]
fn a_hung_probe_does_not_wedge_half_open() {
    let (mut breaker, mut rng) = opened(at(0));
    let now = at(0) + OPEN;
    let _hung: Vec<_> = (0..3).map(|_| probe(&mut breaker, now, &mut rng).unwrap()).collect();
    assert!(probe(&mut breaker, now + OPEN / 2, &mut rng).is_err());
    assert!(probe(&mut breaker, now + OPEN, &mut rng).is_ok());
}

/// C6, C7.
#[test]
fn a_cancelled_probe_gives_no_verdict_and_frees_only_its_own_slot() {
    let (mut breaker, mut rng) = opened(at(0));
    let now = at(0) + OPEN;
    let passes: Vec<_> = (0..3).map(|_| probe(&mut breaker, now, &mut rng).unwrap()).collect();
    breaker.free(now, &passes[1]);
    breaker.free(now, &passes[1]);
    assert_eq!(breaker.state(now), State::HalfOpen);
    let next = probe(&mut breaker, now + OPEN / 4, &mut rng).unwrap();
    assert!(probe(&mut breaker, now + OPEN / 4, &mut rng).is_err());
    breaker.free(now, &passes[1]); // its slot belongs to `next` by now
    assert!(probe(&mut breaker, now + OPEN / 4, &mut rng).is_err());
    breaker.free(now, &next);
    assert!(probe(&mut breaker, now + OPEN / 4, &mut rng).is_ok());
}

/// C7: a probe of the last cycle frees nothing in this one.
#[test]
fn a_slot_returns_to_its_own_cycle_only() {
    let (mut breaker, mut rng) = opened(at(0));
    let now = at(0) + OPEN;
    let (slow, bad) =
        (probe(&mut breaker, now, &mut rng).unwrap(), probe(&mut breaker, now, &mut rng).unwrap());
    assert_eq!(breaker.judge(now, &bad, Some(false), &mut rng), Some(State::Open));
    let later = now + OPEN;
    for _ in 0..3 {
        let _ = probe(&mut breaker, later, &mut rng).unwrap();
    }
    breaker.free(later, &slow);
    assert!(probe(&mut breaker, later, &mut rng).is_err());
}

/// C7: judged, then released, as every attempt is; in between its slot may have gone to another in the same instant.
#[test]
fn a_probe_that_is_released_after_its_verdict_does_not_free_the_next_one() {
    let (mut breaker, mut rng) = opened(at(0));
    let passes: Vec<_> = (0..3).map(|_| probe(&mut breaker, at(500), &mut rng).unwrap()).collect();
    assert_eq!(breaker.judge(at(500), &passes[0], None, &mut rng), None);
    let _next = probe(&mut breaker, at(500), &mut rng).unwrap();
    breaker.free(at(500), &passes[0]);
    assert_eq!(probe(&mut breaker, at(500), &mut rng).unwrap_err(), Reason::ProbeLimit);
}

/// C9.
#[test]
fn open_times_are_spread_over_a_fleet() {
    let mut until: Vec<_> = (0..50)
        .map(|seed| {
            let mut breaker = Breaker::new(Spec::default(), at(0)).unwrap();
            let mut rng = Rng::new(seed);
            for _ in 0..20 {
                record(&mut breaker, at(0), false, &mut rng);
            }
            breaker.next_change().unwrap()
        })
        .collect();
    until.sort_unstable();
    until.dedup();
    assert_eq!(until.len(), 50);
    assert!(until.iter().all(|t| (at(250)..=at(500)).contains(t)));
}

/// C10.
#[test]
fn the_state_shown_is_the_state_applied() {
    let (mut breaker, mut rng) = opened(at(0));
    assert!(breaker.check(at(100), true, &mut rng).is_err());
    assert_eq!(breaker.state(at(500)), State::HalfOpen);
    assert!(breaker.check(at(500), true, &mut rng).is_ok());
}

#[test]
fn only_first_attempts_probe() {
    let (mut breaker, mut rng) = opened(at(0));
    let refusal = breaker.check(at(500), false, &mut rng).unwrap_err();
    assert_eq!(refusal.reason, Reason::BreakerOpen);
}

#[test]
fn after_closing_the_admitted_share_ramps_up() {
    let (mut breaker, mut rng) = opened(at(0));
    for _ in 0..2 {
        let pass = probe(&mut breaker, at(500), &mut rng).unwrap();
        breaker.judge(at(500), &pass, Some(true), &mut rng);
    }
    let mut share = |ms: u64| {
        (0..1_000).filter(|_| breaker.check(at(500 + ms), true, &mut rng).is_ok()).count()
    };
    assert!((150..250).contains(&share(0)));
    assert!((550..650).contains(&share(125)));
    assert_eq!(share(250), 1_000);
}

#[test]
fn ignored_outcomes_neither_open_nor_close_it() {
    let (mut breaker, mut rng) = breaker();
    for _ in 0..1_000 {
        let pass = breaker.take(at(0));
        assert_eq!(breaker.judge(at(0), &pass, None, &mut rng), None);
    }
    assert_eq!(breaker.failures.window.total(), 0);
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let spec = Spec::default();
    let nonsense = [
        Spec { window: Duration::ZERO, ..spec },
        Spec { min_calls: 0, ..spec },
        Spec { failure_rate: f64::NAN, ..spec },
        Spec { failure_rate: 0.0, ..spec },
        Spec { open: Duration::ZERO, ..spec },
        Spec { probes: 0, ..spec },
        Spec { successes: 0, ..spec },
    ];
    for spec in nonsense {
        let message = Breaker::new(spec, Time::ZERO).unwrap_err().to_string();
        assert!(message.starts_with("breaker.") && message.contains("write"), "{message}");
    }
}

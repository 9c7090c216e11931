use core::time::Duration;

use super::*;
use crate::{Reason, Rng, breaker::Spec};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn breaker(mode: Mode) -> (Breaker, Rng) {
    (Breaker::new(Spec { mode, ..Spec::default() }, at(0)).unwrap(), Rng::new(7))
}

/// Sends if it may, and answers whether it could.
fn call(breaker: &mut Breaker, now: Time, good: bool, rng: &mut Rng) -> bool {
    if breaker.check(now, true, rng).is_err() {
        return false;
    }
    let pass = breaker.take(now);
    breaker.judge(now, &pass, Some(good), rng);
    breaker.free(now, &pass);
    true
}

/// X10.
#[test]
fn report_mode_decides_and_counts_and_changes_nothing() {
    let (mut report, mut rng) = breaker(Mode::Report);
    for _ in 0..20 {
        assert!(call(&mut report, at(0), false, &mut rng));
    }
    assert_eq!((report.state(at(0)), report.applied(at(0))), (State::Open, State::Closed));
    for _ in 0..100 {
        assert!(call(&mut report, at(100), false, &mut rng));
    }
    assert_eq!(report.would_refuse(), 100);
    assert_eq!(report.state(at(500)), State::HalfOpen);
    assert_eq!(report.check(at(500), false, &mut rng), Ok(State::Closed));
}

/// X10: what enforcement would have refused is not learned from, so it comes to the very same decisions.
#[test]
fn report_mode_comes_to_the_states_that_enforcement_would() {
    for seed in 0..100 {
        let mut dice = Rng::new(seed);
        let ((mut report, mut a), (mut enforce, mut b)) =
            (breaker(Mode::Report), breaker(Mode::Enforce));
        let (mut now, mut refused) = (at(0), 0);
        for _ in 0..2_000 {
            now = now + Duration::from_millis(dice.below(40));
            let good = dice.below(100) < if dice.below(2) == 0 { 20 } else { 90 };
            assert!(call(&mut report, now, good, &mut a));
            refused += u64::from(!call(&mut enforce, now, good, &mut b));
            assert_eq!(report.state(now), enforce.state(now));
        }
        assert_eq!(report.would_refuse(), refused);
    }
}

#[test]
fn a_disabled_breaker_lets_all_through_and_starts_afresh() {
    let (mut breaker, mut rng) = breaker(Mode::Enforce);
    breaker.set_mode(at(0), Mode::Disabled, Some(at(1_000)));
    let before = breaker.take(at(0));
    for _ in 0..1_000 {
        assert!(call(&mut breaker, at(1), false, &mut rng));
    }
    assert_eq!((breaker.state(at(1)), breaker.would_refuse()), (State::Closed, 0));
    assert_eq!(breaker.next_change(), Some(at(1_000)));
    assert_eq!(breaker.mode(at(1_000)), Mode::Enforce);
    assert_eq!(breaker.judge(at(1_000), &before, Some(false), &mut rng), None);
    for _ in 0..19 {
        assert!(call(&mut breaker, at(1_000), false, &mut rng));
    }
    assert_eq!(breaker.state(at(1_000)), State::Closed);
    call(&mut breaker, at(1_000), false, &mut rng);
    assert_eq!(breaker.state(at(1_000)), State::Open);
}

#[test]
fn forced_open_refuses_until_it_ends_and_comes_back_through_probes() {
    let (mut breaker, mut rng) = breaker(Mode::Enforce);
    let early = breaker.take(at(0));
    breaker.set_mode(at(0), Mode::ForcedOpen, Some(at(60_000)));
    for ms in [0, 500, 59_999] {
        assert_eq!((breaker.state(at(ms)), breaker.applied(at(ms))), (State::Open, State::Open));
        let refusal = breaker.check(at(ms), true, &mut rng).unwrap_err();
        assert_eq!((refusal.reason, refusal.retry_at), (Reason::BreakerOpen, at(60_000)));
    }
    assert_eq!(breaker.judge(at(1), &early, Some(true), &mut rng), None);
    assert_eq!(breaker.state(at(60_000)), State::HalfOpen);
    assert_eq!(breaker.check(at(60_000), true, &mut rng), Ok(State::HalfOpen));
}

#[test]
fn forced_open_for_good_ends_when_somebody_says_so() {
    let (mut breaker, mut rng) = breaker(Mode::Enforce);
    breaker.set_mode(at(0), Mode::ForcedOpen, None);
    let later = at(86_400_000);
    let refusal = breaker.check(later, true, &mut rng).unwrap_err();
    assert_eq!(refusal.retry_at, later + Spec::default().open);
    assert_eq!(breaker.next_change(), None);
    assert_eq!(breaker.state(Time::MAX), State::Open);
    breaker.set_mode(later, Mode::Enforce, None);
    assert_eq!(breaker.state(later), State::HalfOpen);
}

#[test]
fn forced_closed_lets_all_through_and_the_next_outcome_decides_on_what_was_seen() {
    let (mut breaker, mut rng) = breaker(Mode::Enforce);
    for _ in 0..20 {
        call(&mut breaker, at(0), false, &mut rng);
    }
    assert_eq!(breaker.state(at(0)), State::Open);
    breaker.set_mode(at(1), Mode::ForcedClosed, Some(at(5_000)));
    for ms in 1..1_000 {
        assert!(call(&mut breaker, at(ms), false, &mut rng));
        assert_eq!(breaker.state(at(ms)), State::Closed);
    }
    assert_eq!(breaker.mode(at(5_000)), Mode::Enforce);
    assert_eq!(breaker.state(at(5_000)), State::Closed);
    assert!(call(&mut breaker, at(5_000), false, &mut rng));
    assert_eq!(breaker.state(at(5_000)), State::Open);
}

#[test]
fn a_mode_ends_in_what_was_written() {
    let (mut breaker, _) = breaker(Mode::Report);
    breaker.set_mode(at(0), Mode::ForcedClosed, Some(at(10)));
    assert_eq!((breaker.mode(at(9)), breaker.mode(at(10))), (Mode::ForcedClosed, Mode::Report));
    breaker.set_mode(at(20), Mode::ForcedOpen, Some(at(15)));
    assert_eq!((breaker.mode(at(20)), breaker.state(at(20))), (Mode::Report, State::HalfOpen));
    assert_eq!(breaker.mode(at(0)), Mode::Report); // a clock that steps back brings nothing back
}

/// A call that was let through against advice in report mode says nothing after it.
#[test]
fn leaving_report_mode_does_not_learn_from_what_it_would_have_refused() {
    let (mut breaker, mut rng) = breaker(Mode::Report);
    for _ in 0..20 {
        call(&mut breaker, at(0), false, &mut rng);
    }
    for _ in 0..2 {
        call(&mut breaker, at(500), true, &mut rng);
    }
    let mut passes = Vec::new();
    while breaker.would_refuse() < 20 {
        assert_eq!(breaker.check(at(500), true, &mut rng), Ok(State::Closed));
        passes.push(breaker.take(at(500)));
    }
    breaker.set_mode(at(510), Mode::Enforce, None);
    for pass in &passes {
        breaker.judge(at(2_000), pass, Some(false), &mut rng);
    }
    assert_eq!(breaker.state(at(2_000)), State::Closed);
}

/// Failures that nobody acted on, then an hour of silence: neither an outcome that says nothing nor a call that has become
/// slow brings them back.
#[test]
fn evidence_older_than_the_window_opens_nothing() {
    for becomes_slow in [false, true] {
        let mut breaker = Breaker::new(Spec::classic(), at(0)).unwrap();
        let mut rng = Rng::new(1);
        breaker.set_mode(at(0), Mode::ForcedClosed, Some(at(1_000)));
        for _ in 0..50 {
            assert!(call(&mut breaker, at(1), false, &mut rng));
        }
        let hour = at(3_600_000);
        assert!(breaker.check(hour, true, &mut rng).is_ok());
        let pass = breaker.take(hour);
        let over = hour + Duration::from_secs(if becomes_slow { 2 } else { 0 });
        assert_eq!(breaker.state(over), State::Closed);
        assert_eq!(breaker.judge(over, &pass, None, &mut rng), None);
        assert_eq!(breaker.judge(over, &pass, Some(false), &mut rng), None);
        assert_eq!(breaker.state(over), State::Closed);
    }
}

#[test]
fn what_was_seen_while_forced_closed_decides_with_the_next_outcome_that_says_something() {
    let mut breaker = Breaker::new(Spec::classic(), at(0)).unwrap();
    let mut rng = Rng::new(1);
    breaker.set_mode(at(0), Mode::ForcedClosed, Some(at(1_000)));
    for _ in 0..50 {
        assert!(call(&mut breaker, at(1), false, &mut rng));
    }
    let (silent, good) = (breaker.take(at(1_000)), breaker.take(at(1_000)));
    assert_eq!(breaker.judge(at(1_000), &silent, None, &mut rng), None);
    assert_eq!(breaker.judge(at(1_000), &good, Some(true), &mut rng), Some(State::Open));
}

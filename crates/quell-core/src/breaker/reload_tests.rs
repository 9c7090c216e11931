use core::time::Duration;

use proptest::prelude::*;

use super::super::{Keyed, Over, Pass, Spec, State, property_tests};
use super::*;
use crate::{Reason, Rng};

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn breaker(spec: Spec) -> (Breaker, Rng) {
    (Breaker::new(spec, at(0)).unwrap(), Rng::new(1))
}

fn reload(breaker: &mut Breaker, spec: Spec, now: Time) {
    breaker.adopt(Breaker::new(spec, now).unwrap(), now);
}

fn fail(breaker: &mut Breaker, rng: &mut Rng, times: u32, now: Time) {
    for _ in 0..times {
        let pass = breaker.take(now);
        breaker.judge(now, &pass, Some(false), rng);
    }
}

fn probe(breaker: &mut Breaker, rng: &mut Rng, now: Time) -> Result<Pass, Reason> {
    breaker.check(now, true, rng).map_err(|refusal| refusal.reason)?;
    Ok(breaker.take(now))
}

/// X9.
#[test]
fn an_open_breaker_stays_open_and_no_longer_than_the_new_open_time() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    fail(&mut breaker, &mut rng, 10, at(0));
    reload(&mut breaker, Spec { min_calls: 50, ..Spec::classic() }, at(1_000));
    assert_eq!(breaker.state(at(14_000)), State::Open, "half of 30 s at least, as drawn");
    reload(&mut breaker, Spec::default(), at(14_000));
    assert_eq!(breaker.state(at(14_499)), State::Open);
    assert_eq!(breaker.state(at(14_500)), State::HalfOpen);
}

/// X9: evidence is worth the same whatever it is kept in, and a call from before the reload is judged after it.
#[test]
fn what_was_counted_still_counts_in_a_window_of_another_length() {
    let longer = Spec { window: Duration::from_secs(60), ..Spec::default() };
    let shorter = Spec { window: Duration::from_secs(1), ..Spec::default() };
    let fewer = Spec { over: Over::Calls(30), ..Spec::default() };
    let more = Spec { over: Over::Calls(100), ..fewer };
    for (was, is) in [(Spec::default(), longer), (longer, shorter), (fewer, more), (more, fewer)] {
        let (mut breaker, mut rng) = breaker(was);
        fail(&mut breaker, &mut rng, 18, at(0));
        let under_way = breaker.take(at(0));
        reload(&mut breaker, is, at(100));
        breaker.judge(at(100), &under_way, Some(false), &mut rng);
        assert_eq!(breaker.state(at(100)), State::Closed);
        fail(&mut breaker, &mut rng, 1, at(100));
        assert_eq!(breaker.state(at(100)), State::Open, "20 of 20, {was:?} to {is:?}");
    }
}

/// X9.
#[test]
fn a_run_of_failures_goes_on_and_a_stricter_rule_waits_for_the_next_outcome() {
    let (mut breaker, mut rng) = breaker(Spec::consecutive());
    fail(&mut breaker, &mut rng, 4, at(0));
    reload(&mut breaker, Spec { consecutive: 3, ..Spec::consecutive() }, at(1));
    assert_eq!(breaker.state(at(1)), State::Closed);
    fail(&mut breaker, &mut rng, 1, at(1));
    assert_eq!(breaker.state(at(1)), State::Open);
}

/// X9.
#[test]
fn a_lower_threshold_looks_only_at_what_is_in_the_window() {
    for (later, opens) in [(100, true), (3_600_000, false)] {
        let (mut breaker, mut rng) = breaker(Spec { min_calls: 100, ..Spec::classic() });
        fail(&mut breaker, &mut rng, 50, at(0));
        reload(&mut breaker, Spec::classic(), at(1));
        let (silent, slow) = (breaker.take(at(later)), breaker.take(at(later)));
        assert_eq!(breaker.judge(at(later), &silent, None, &mut rng), None);
        // The other becomes slow, which is something to look at, though it is just one.
        let state = if opens { State::Open } else { State::Closed };
        assert_eq!(breaker.state(at(later + 2_000)), state, "{later} ms later");
        breaker.free(at(later + 2_000), &slow);
    }
}

/// X9, C4, C7.
#[test]
fn probes_that_are_out_count_under_the_new_number_and_give_back_their_own_slots() {
    let spec = Spec { probes: 5, successes: 9, failures: 9, ..Spec::default() };
    let (mut breaker, mut rng) = breaker(spec);
    fail(&mut breaker, &mut rng, 20, at(0));
    let out: Vec<_> = (0..5).map(|_| probe(&mut breaker, &mut rng, at(500)).unwrap()).collect();
    reload(&mut breaker, Spec { probes: 2, ..spec }, at(501));
    for (freed, pass) in out.iter().enumerate() {
        let may = probe(&mut breaker, &mut rng, at(501));
        assert_eq!(may.is_ok(), freed == 4, "{} are still out", 5 - freed);
        if freed < 4 {
            breaker.judge(at(501), pass, Some(true), &mut rng);
            breaker.free(at(501), pass);
        }
    }
    assert_eq!(probe(&mut breaker, &mut rng, at(502)).unwrap_err(), Reason::ProbeLimit);
    let State::HalfOpen = breaker.state(at(502)) else { panic!() };
    let five = Spec { successes: 5, probes: 3, ..spec };
    reload(&mut breaker, five, at(502));
    let last = probe(&mut breaker, &mut rng, at(502)).unwrap();
    assert_eq!(breaker.judge(at(502), &last, Some(true), &mut rng), Some(State::Closed));
}

/// X9.
#[test]
fn a_mode_set_by_hand_stays_until_its_end_and_then_the_new_one_applies() {
    let report = Spec { mode: Mode::Report, ..Spec::default() };
    let (mut breaker, _) = breaker(Spec::default());
    breaker.set_mode(at(0), Mode::ForcedOpen, Some(at(60_000)));
    reload(&mut breaker, report, at(1));
    assert_eq!(breaker.mode(at(59_999)), Mode::ForcedOpen);
    assert_eq!(breaker.state(at(59_999)), State::Open);
    assert_eq!(breaker.mode(at(60_000)), Mode::Report);
    reload(&mut breaker, Spec::default(), at(60_001));
    assert_eq!(breaker.mode(at(60_001)), Mode::Enforce, "nobody's hand: as it is written");
    breaker.set_mode(at(60_001), Mode::ForcedClosed, None);
    reload(&mut breaker, report, at(60_002));
    assert_eq!(breaker.mode(at(90_000)), Mode::ForcedClosed, "set for good");
}

/// X9.
#[test]
fn an_open_time_that_grew_stays_grown_within_the_new_bound() {
    let spec = Spec { growth: 2.0, growth_after: 1, ..Spec::default() };
    let (mut breaker, mut rng) = breaker(spec);
    fail(&mut breaker, &mut rng, 20, at(0));
    for i in 1..10 {
        let pass = probe(&mut breaker, &mut rng, at(i * 20_000)).unwrap();
        breaker.judge(at(i * 20_000), &pass, Some(false), &mut rng);
    }
    assert_eq!(breaker.open_for, Duration::from_secs(10));
    reload(&mut breaker, Spec { open_max: Duration::from_secs(3), ..spec }, at(180_000));
    assert_eq!(breaker.open_for, Duration::from_secs(3));
    assert_eq!(breaker.state(at(182_999)), State::Open);
    assert_eq!(breaker.state(at(183_000)), State::HalfOpen);
}

fn of(keyed: &mut Keyed, now: Time, key: u64) -> &mut Breaker {
    let seat = keyed.enter(now, key);
    keyed.at(seat).unwrap()
}

/// X9.
#[test]
fn every_shard_keeps_its_breaker() {
    let (mut keyed, mut rng) = (Keyed::new(Spec::default(), 2, at(0)).unwrap(), Rng::new(1));
    for key in [1, 2, 3] {
        fail(of(&mut keyed, at(0), key), &mut rng, 20, at(0));
    }
    keyed.adopt(Keyed::new(Spec::classic(), 1, at(1)).unwrap(), at(1));
    for key in [1, 2, 3] {
        assert_eq!(of(&mut keyed, at(1), key).state(at(1)), State::Open, "{key}");
    }
    assert_eq!(of(&mut keyed, at(1), 1).spec(), &Spec::classic());
}

#[derive(Debug, Clone)]
enum Act {
    Ask,
    End(usize, Option<bool>),
    Free(usize),
    Wait(u64),
    Force(Mode, Option<u64>),
    Reload(Spec),
}

fn act() -> impl Strategy<Value = Act> {
    let good = prop_oneof![2 => Just(Some(true)), 3 => Just(Some(false)), 1 => Just(None)];
    prop_oneof![
        6 => Just(Act::Ask),
        6 => (any::<usize>(), good).prop_map(|(which, good)| Act::End(which, good)),
        1 => any::<usize>().prop_map(Act::Free),
        3 => (0..40u64).prop_map(Act::Wait),
        1 => (property_tests::mode(), prop::option::of(0..50u64))
            .prop_map(|(mode, ms)| Act::Force(mode, ms)),
        3 => property_tests::spec().prop_map(Act::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// X9, C4: whatever is reloaded in whatever state. Only calls that the new rule finds slow, or another mode, change the
    /// state at once; what is in force already changes nothing; no more probes go out than the new number.
    #[test]
    fn a_reload_changes_the_rules_and_not_the_state(
        first in property_tests::spec(), acts in prop::collection::vec(act(), 1..120),
    ) {
        let (mut breaker, mut rng) = breaker(first);
        let (mut clock, mut sent) = (1_000, Vec::<Pass>::new());
        for act in acts {
            let now = at(clock);
            let out = |breaker: &Breaker| match &breaker.inner {
                Inner::HalfOpen(probes) => probes.out(now),
                _ => 0,
            };
            match act {
                Act::Ask => {
                    let before = out(&breaker);
                    if breaker.check(now, true, &mut rng).is_ok() {
                        sent.push(breaker.take(now));
                    }
                    let most = usize::from(breaker.spec.probes);
                    prop_assert!(out(&breaker) <= before.max(most));
                }
                Act::End(which, good) if !sent.is_empty() => {
                    let pass = sent.swap_remove(which % sent.len());
                    breaker.judge(now, &pass, good, &mut rng);
                    breaker.free(now, &pass);
                }
                Act::Free(which) if !sent.is_empty() => {
                    let pass = sent.swap_remove(which % sent.len());
                    breaker.free(now, &pass);
                }
                Act::End(..) | Act::Free(_) => {}
                Act::Wait(ms) => clock += ms,
                Act::Force(mode, ms) => breaker.set_mode(now, mode, ms.map(|ms| at(clock + ms))),
                Act::Reload(spec) => {
                    let (state, mode) = (breaker.state(now), breaker.mode(now));
                    reload(&mut breaker, spec, now);
                    let slow = spec.slow.is_some() && state == State::Closed;
                    let same = breaker.mode(now) == mode && !slow;
                    prop_assert!(breaker.state(now) == state || !same);
                    let once = format!("{breaker:?}");
                    reload(&mut breaker, spec, now);
                    prop_assert_eq!(once, format!("{:?}", breaker));
                }
            }
        }
    }
}

use proptest::prelude::*;

use super::*;
use crate::Rng;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn cohorts(spec: Spec) -> (Cohorts, Rng) {
    (Cohorts::new(spec).unwrap(), Rng::new(1))
}

/// How many may be taken one after the other.
fn take_all(cohorts: &mut Cohorts, now: Time, is_closed: bool, rng: &mut Rng) -> Vec<Round> {
    let mut rounds = Vec::new();
    while rounds.len() < 10_000 && cohorts.may_take(now, is_closed, rng) == May::Take {
        rounds.push(cohorts.takes());
    }
    rounds
}

#[test]
fn in_health_there_is_no_bound_and_no_generator_is_asked() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    assert_eq!(take_all(&mut cohorts, at(0), true, &mut rng).len(), 10_000);
    assert_eq!(rng.next_u64(), Rng::new(1).next_u64());
}

#[test]
fn a_canary_makes_room_for_the_next_one_however_it_ends() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    let canaries = take_all(&mut cohorts, at(0), false, &mut rng);
    let [served, failed] = canaries.try_into().unwrap();
    cohorts.settles(served, true);
    cohorts.settles(failed, false);
    let again = take_all(&mut cohorts, at(0), false, &mut rng);
    assert_eq!(again.len(), 2, "a breaker may want more successes than there are canaries");
    cohorts.puts_back(again[0]);
    assert_eq!(take_all(&mut cohorts, at(0), false, &mut rng).len(), 1);
}

#[test]
fn cohorts_double_when_all_were_served_and_end_past_the_last() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    take_all(&mut cohorts, at(0), false, &mut rng);
    let (mut now, mut sizes) = (at(0), Vec::new());
    while !cohorts.is_free() {
        let cohort = take_all(&mut cohorts, now, true, &mut rng);
        sizes.push(cohort.len());
        if let [all_but_one @ .., _] = &cohort[..] {
            all_but_one.iter().for_each(|&round| cohorts.settles(round, true));
            let late = now + Duration::from_secs(60);
            assert_eq!(cohorts.may_take(late, true, &mut rng), May::WaitForOutcome);
        }
        cohorts.settles(cohort[0], true);
        let May::WaitUntil(next) = cohorts.may_take(now, true, &mut rng) else { panic!() };
        let pause = next.since(now);
        assert!(pause >= Duration::from_millis(500) && pause <= Duration::from_millis(1_500));
        now = next;
        if cohorts.may_take(now, true, &mut rng) == May::Take && cohorts.is_free() {
            break;
        }
    }
    assert_eq!(sizes, [4, 8, 16, 32, 64, 128, 256]);
}

#[test]
fn what_fails_is_replaced_and_does_not_make_the_next_cohort_larger() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    take_all(&mut cohorts, at(0), false, &mut rng);
    for second in 0..100 {
        let cohort = take_all(&mut cohorts, at(second * 1_000), true, &mut rng);
        assert_eq!(cohort.len(), 4);
        cohort.into_iter().for_each(|round| cohorts.settles(round, false));
    }
}

#[test]
fn what_was_taken_before_the_breaker_opened_is_no_canary() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    assert_eq!(cohorts.may_take(at(0), true, &mut rng), May::Take);
    let before = cohorts.takes();
    assert_eq!(take_all(&mut cohorts, at(0), false, &mut rng).len(), 2);
    cohorts.settles(before, true);
    assert_eq!(cohorts.may_take(at(0), false, &mut rng), May::WaitForOutcome);
}

#[test]
fn a_breaker_that_opens_again_begins_anew_with_canaries() {
    let (mut cohorts, mut rng) = cohorts(Spec::default());
    take_all(&mut cohorts, at(0), false, &mut rng);
    let first = take_all(&mut cohorts, at(0), true, &mut rng);
    first.into_iter().for_each(|round| cohorts.settles(round, true));
    assert_eq!(take_all(&mut cohorts, at(2_000), true, &mut rng).len(), 8);
    assert_eq!(take_all(&mut cohorts, at(2_000), false, &mut rng).len(), 2);
    assert_eq!(take_all(&mut cohorts, at(2_000), true, &mut rng).len(), 4);
}

#[test]
fn consumers_do_not_come_back_in_step() {
    let next = |seed| {
        let (mut cohorts, mut rng) = (Cohorts::new(Spec::default()).unwrap(), Rng::new(seed));
        take_all(&mut cohorts, at(0), false, &mut rng);
        let first = take_all(&mut cohorts, at(0), true, &mut rng);
        first.into_iter().for_each(|round| cohorts.settles(round, true));
        cohorts.may_take(at(0), true, &mut rng)
    };
    assert!((2..20).all(|seed| next(seed) != next(1)));
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let good = Spec::default();
    for wrong in [
        Spec { canaries: 0, ..good },
        Spec { first: 0, ..good },
        Spec { first: 257, ..good },
        Spec { factor: 1, ..good },
        Spec { last: 0, ..good },
        Spec { every: Duration::ZERO, ..good },
        Spec { every: Duration::MAX, ..good },
    ] {
        let message = Cohorts::new(wrong).unwrap_err().to_string();
        assert!(message.starts_with("intake.") && message.contains("write"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// Whatever happened before: in a round no more are in hand than it has, and a breaker that stays closed over an upstream
    /// that serves ends in freedom.
    #[test]
    fn no_course_of_events_takes_too_many_or_wedges(
        acts in prop::collection::vec((0..5u8, any::<usize>(), 0..2_000u64), 1..200),
    ) {
        let (mut cohorts, mut rng) = cohorts(Spec { last: 16, ..Spec::default() });
        let (mut now, mut closed, mut open) = (at(0), true, Vec::new());
        for (act, i, ms) in acts {
            let one = |open: &mut Vec<Round>| (!open.is_empty()).then(|| open.swap_remove(i % open.len()));
            match act {
                0 => closed = !closed,
                1 => now = now + Duration::from_millis(ms),
                2 => if let Some(round) = one(&mut open) { cohorts.settles(round, i % 2 == 0) },
                3 => if let Some(round) = one(&mut open) { cohorts.puts_back(round) },
                _ => if cohorts.may_take(now, closed, &mut rng) == May::Take { open.push(cohorts.takes()) },
            }
            let in_round = open.iter().filter(|&&round| round == Round(cohorts.round)).count();
            prop_assert!(cohorts.is_free() || in_round <= cohorts.size as usize);
            prop_assert_eq!(cohorts.out as usize, in_round);
        }
        open.into_iter().for_each(|round| cohorts.puts_back(round));
        for _ in 0..10 {
            now = now + Duration::from_secs(2);
            let rounds = if cohorts.is_free() { vec![] } else { take_all(&mut cohorts, now, true, &mut rng) };
            rounds.into_iter().for_each(|round| cohorts.settles(round, true));
        }
        prop_assert!(cohorts.is_free());
    }
}

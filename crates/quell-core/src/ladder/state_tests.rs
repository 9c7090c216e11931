use proptest::prelude::*;

use super::{
    super::{Next, Spec},
    *,
};
use crate::{Failure, Outcome, Reason};

const FAILED: Outcome = Outcome::Failed(Failure::of(Fault::Server));
const WEEK: u64 = 7 * 86_400;

fn at(seconds: u64) -> Stamp {
    Stamp::ZERO + Duration::from_secs(seconds)
}

fn ladder() -> Ladder {
    Ladder::new(&Spec::default()).unwrap()
}

/// Found at second 1,000 on this tier, with a jitter of 5 s; it arrived 10 s before.
fn found(tier: usize) -> Found {
    let jitter = Duration::from_secs(5);
    Found { tier: Some(tier), arrived: at(990), now: at(1_000), jitter }
}

/// What is believed of a record on that tier of the default ladder.
fn believed(told: Told, tier: usize) -> CallState {
    CallState::believed(&told, &ladder(), &found(tier))
}

/// Every number as large as can be.
fn absurd() -> Told {
    let most = Some(u64::MAX);
    Told {
        attempt: most,
        due: most,
        first_failure: most,
        last_failure: most,
        error: Some(Fault::Server),
        deferrals: most,
        replays: most,
    }
}

/// K7.
#[test]
fn headers_on_the_main_topic_are_made_up() {
    for tier in [None, Some(3), Some(usize::MAX)] {
        let found = Found { tier, ..Found::on_main(at(5)) };
        let state = CallState::believed(&absurd(), &ladder(), &found);
        assert_eq!(state, CallState::default(), "{tier:?}: no tier of this ladder");
        assert_eq!(state.attempt(), 1);
    }
}

#[test]
fn a_record_without_a_due_time_waits_its_tier_from_when_it_arrived() {
    let found = Found { tier: Some(1), arrived: at(10), now: at(20), jitter: Duration::ZERO };
    let state = CallState::believed(&Told::default(), &ladder(), &found);
    assert_eq!((state.failures, state.due), (2, at(310)));
    let ahead = Found { arrived: Stamp::MAX, ..found };
    let state = CallState::believed(&Told::default(), &ladder(), &ahead);
    assert_eq!(state.due, at(320), "a broker whose clock is ahead holds nothing back");
}

#[test]
fn what_we_wrote_ourselves_is_believed_to_the_letter() {
    let (ladder, mut state) = (ladder(), CallState { replays: 2, ..CallState::default() });
    let mut now = at(1_000);
    let later = Outcome::Defer { after: Duration::from_secs(4_000) };
    for outcome in [FAILED, later, FAILED, FAILED] {
        let (tier, due) = match ladder.step(&mut state, now, &outcome) {
            Next::Retry { tier, due } => (tier, due),
            Next::Defer { due } => (0, due),
            other => panic!("{other:?}"),
        };
        let told = Told {
            attempt: Some(state.attempt().into()),
            due: Some(due.as_millis()),
            first_failure: state.first_failure.map(Stamp::as_millis),
            last_failure: state.last_failure.map(Stamp::as_millis),
            error: state.error,
            deferrals: Some(state.deferrals.into()),
            replays: Some(state.replays.into()),
        };
        let found = Found { tier: Some(tier), ..Found::on_main(now) };
        assert_eq!(CallState::believed(&told, &ladder, &found), state);
        now = due;
    }
    assert_eq!((state.attempt(), state.deferrals), (4, 1));
}

#[test]
fn attempts_are_what_the_tier_allows() {
    for (tier, attempt, expected) in [
        (0, None, 2),
        (0, Some(0), 2),
        (0, Some(1), 2),
        (0, Some(3), 3),
        (1, Some(2), 3),
        (2, Some(4), 4),
        (2, Some(5), 4),
        (0, Some(1 << 32), 4),
        (0, Some(u64::MAX), 4),
    ] {
        let state = believed(Told { attempt, ..Told::default() }, tier);
        assert_eq!(state.attempt(), expected, "{attempt:?} on tier {tier}");
    }
}

#[test]
fn a_deferred_or_replayed_record_may_lie_on_a_tier_without_a_failure() {
    let never_failed = |told: Told| believed(Told { attempt: Some(1), ..told }, 1).failures;
    assert_eq!(never_failed(Told { deferrals: Some(1), ..Told::default() }), 0);
    assert_eq!(never_failed(Told { replays: Some(1), ..Told::default() }), 0);
    assert_eq!(never_failed(Told { deferrals: Some(0), replays: Some(0), ..Told::default() }), 2);
}

#[test]
fn nobody_holds_a_record_for_longer_than_its_tier_and_the_jitter() {
    for (tier, due, expected) in [
        (0, 0, 0),
        (0, 1_030, 1_030),
        (0, 1_125, 1_125), // a handler may ask for two minutes
        (0, 1_126, 1_125),
        (2, 2_805, 2_805),
        (2, 2_806, 2_805),
    ] {
        let told = Told { due: Some(due * 1_000), ..Told::default() };
        assert_eq!(believed(told, tier).due, at(expected), "due {due} on tier {tier}");
    }
    assert_eq!(believed(Told { deferrals: None, ..absurd() }, 1).due, at(1_305));
    assert_eq!(believed(absurd(), 1).due, at(1_005 + WEEK), "a handler may defer for a week");
}

#[test]
fn no_failure_lies_in_the_future_and_the_first_is_no_later_than_the_last() {
    let state = believed(absurd(), 0);
    assert_eq!((state.first_failure, state.last_failure), (Some(at(1_000)), Some(at(1_000))));
    let (first_failure, last_failure) = (Some(900_000), Some(800_000));
    let state = believed(Told { first_failure, last_failure, ..Told::default() }, 0);
    assert_eq!((state.first_failure, state.last_failure), (Some(at(800)), Some(at(800))));
    let state = believed(Told { first_failure, ..Told::default() }, 0);
    assert_eq!((state.first_failure, state.last_failure), (Some(at(900)), None));
}

#[test]
fn counts_past_all_measure_are_as_large_as_counts_get_and_step_no_further() {
    let mut state = believed(absurd(), 0);
    assert_eq!((state.deferrals, state.replays), (u32::MAX, u32::MAX));
    let later = Outcome::Defer { after: Duration::MAX };
    let due = at(WEEK);
    assert_eq!(ladder().step(&mut state, at(0), &later), Next::Defer { due });
    assert_eq!((state.deferrals, state.due), (u32::MAX, due));
}

#[test]
fn a_clock_at_the_end_of_time_breaks_nothing() {
    let found = Found { tier: Some(0), ..Found::on_main(Stamp::MAX) };
    let found = Found { jitter: Duration::MAX, ..found };
    assert_eq!(CallState::believed(&absurd(), &ladder(), &found).due, Stamp::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// K7: whatever the headers of a tier claim, the event gets up to its tier and beyond it at every failure, is
    /// never held for longer than a week, and is dead after as many failures as there are tiers left.
    #[test]
    fn no_header_makes_an_event_immortal_or_lets_it_fall_back(
        delays in prop::collection::vec(1..100_000u64, 1..6),
        tier in 0..6usize,
        numbers in prop::array::uniform4(prop::option::of(any::<u64>())),
        (arrived, now) in (0..1u64 << 42, 0..1u64 << 42),
        jitter in (0..60_000u64).prop_map(Duration::from_millis),
    ) {
        let ladder = Ladder::new(&Spec::Tiers(delays.iter().copied().map(Duration::from_secs).collect())).unwrap();
        let tier = tier % delays.len();
        let [attempt, first_failure, last_failure, due] = numbers;
        let told = Told { attempt, first_failure, last_failure, due, ..Told::default() };
        let (arrived, mut now) = (Stamp::from_millis(arrived), Stamp::from_millis(now));
        let found = Found { tier: Some(tier), arrived, now, jitter };
        let mut state = CallState::believed(&told, &ladder, &found);
        prop_assert!(state.due <= now + LONGEST + jitter);
        prop_assert!(state.due <= now + ladder.tiers()[tier].max(ladder.hint_cap) + jitter);
        prop_assert!(state.first_failure.is_none_or(|first| first <= now));
        for last in tier.. {
            prop_assert!(last < delays.len() + 1, "immortal");
            match ladder.step(&mut state, now, &FAILED) {
                Next::Retry { tier, due } => {
                    prop_assert!(tier > last);
                    prop_assert_eq!(due, now + ladder.tiers()[tier]);
                    now = due;
                }
                Next::Dead { reason } => {
                    prop_assert_eq!(reason, Reason::AttemptsSpent);
                    break;
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    /// Those who claim to be deferred or replayed begin anew at most: they are dead after as many failures as there are
    /// tiers, and one.
    #[test]
    fn no_claim_of_a_deferral_makes_an_event_immortal(
        tier in 0..3usize,
        (attempt, deferrals, replays) in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
    ) {
        let told = Told { attempt, deferrals, replays, ..Told::default() };
        let mut state = believed(told, tier);
        let failures = (1..).find(|_| matches!(ladder().step(&mut state, at(1_000), &FAILED), Next::Dead { .. }));
        prop_assert!(failures <= Some(4), "{failures:?}");
    }
}

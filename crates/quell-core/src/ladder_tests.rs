use super::*;
use crate::{Failure, Fault};

const FAILED: Outcome = Outcome::Failed(Failure::of(Fault::Server));

fn seconds(delays: &[u64]) -> Vec<Duration> {
    delays.iter().copied().map(Duration::from_secs).collect()
}

fn at(seconds: u64) -> Stamp {
    Stamp::ZERO + Duration::from_secs(seconds)
}

fn ladder() -> Ladder {
    Ladder::new(&Spec::default()).unwrap()
}

fn by_formula(attempts: u32, base: u64, factor: f64, cap: u64) -> Result<Ladder, Invalid> {
    let (base, cap) = (Duration::from_secs(base), Duration::from_secs(cap));
    Ladder::new(&Spec::Formula { attempts, base, factor, cap })
}

#[test]
fn an_event_climbs_the_tiers_and_then_dies() {
    let (ladder, mut state) = (ladder(), CallState::default());
    for (tier, (now, due)) in [(0, 30), (100, 400), (1_000, 2_800)].into_iter().enumerate() {
        let next = ladder.step(&mut state, at(now), &FAILED);
        assert_eq!(next, Next::Retry { tier, due: at(due) });
    }
    let next = ladder.step(&mut state, at(3_000), &FAILED);
    assert_eq!(next, Next::Dead { reason: Reason::AttemptsSpent });
    let (first_failure, last_failure) = (Some(at(0)), Some(at(3_000)));
    let (due, error) = (at(2_800), Some(Fault::Server));
    let died =
        CallState { failures: 4, due, first_failure, last_failure, error, ..CallState::default() };
    assert_eq!(state, died);
    assert_eq!(ladder.horizon(), Duration::from_secs(120 + 300 + 1_800), "a hint may be 120 s");
}

#[test]
fn four_attempts_of_thirty_seconds_times_six_wait_30s_3m_and_18m() {
    assert_eq!(by_formula(4, 30, 6.0, 1_800).unwrap().tiers(), seconds(&[30, 180, 1_080]));
    let capped = by_formula(6, 30, 6.0, 1_800).unwrap();
    assert_eq!(capped.tiers(), seconds(&[30, 180, 1_080, 1_800, 1_800]));
}

/// K5: waiting is not failing.
#[test]
fn a_defer_comes_back_when_asked_never_at_once_and_burns_no_attempt() {
    let (ladder, mut state) = (ladder(), CallState::default());
    for (after, due) in [(90, 90), (7_200, 7_200), (0, 1), (u64::MAX, 7 * 86_400)] {
        let outcome = Outcome::Defer { after: Duration::from_secs(after) };
        assert_eq!(ladder.step(&mut state, at(0), &outcome), Next::Defer { due: at(due) });
    }
    assert_eq!(ladder.step(&mut state, at(5), &Outcome::Abandoned), Next::Defer { due: at(5) });
    assert_eq!(ladder.step(&mut state, at(5), &Outcome::Success), Next::Ack);
    assert_eq!(state, CallState { deferrals: 4, due: at(5), ..CallState::default() });
}

#[test]
fn what_no_retry_can_help_dies_at_once() {
    let mut state = CallState::default();
    let fatal = Outcome::Failed(Failure::of(Fault::Fatal));
    let next = ladder().step(&mut state, at(0), &fatal);
    assert_eq!((next, state.failures), (Next::Dead { reason: Reason::NotRetryable }, 1));
}

#[test]
fn no_tier_is_earlier_than_the_hint_and_one_beyond_the_cap_is_a_stop() {
    let ladder = ladder();
    for (failures, hint, expected) in [
        (0, 10, Next::Retry { tier: 0, due: at(30) }),
        (0, 120, Next::Retry { tier: 0, due: at(120) }),
        (0, 121, Next::Dead { reason: Reason::HintTooLong }),
        (2, 1_000, Next::Retry { tier: 2, due: at(1_800) }),
        (2, u64::MAX, Next::Dead { reason: Reason::HintTooLong }),
    ] {
        let mut state = CallState { failures, ..CallState::default() };
        let failure = Failure::of(Fault::Overload).with_hint(Duration::from_secs(hint));
        assert_eq!(ladder.step(&mut state, at(0), &Outcome::Failed(failure)), expected);
    }
}

#[test]
fn delays_are_named_as_people_write_them() {
    for (millis, name) in [
        (30_000, "30s"),
        (300_000, "5m"),
        (5_400_000, "1h30m"),
        (86_400_000, "1d"),
        (1_500, "1s500ms"),
        (250, "250ms"),
        (0, "0s"),
    ] {
        assert_eq!(Human(Duration::from_millis(millis)).to_string(), name);
    }
}

/// R4, for topics: no two sources share a name, however dashes fall.
#[test]
fn names_of_different_sources_never_meet() {
    let words =
        ["a", "b", "a-b", "b-30s", "retry", "dlq", "a-dlq", "a-retry", "retry-b", "b-retry-c"];
    let mut seen = std::collections::BTreeMap::new();
    for topic in words {
        for group in [None].into_iter().chain(words.map(Some)) {
            let Ok(names) = Names::new(topic, group) else { continue };
            for name in [names.retry(Duration::from_secs(30)), names.dead()] {
                assert_eq!(seen.insert(name.clone(), (topic, group)), None, "{name}");
            }
        }
    }
    assert!(seen.len() > 100);
    assert_eq!(Names::new("pay", None).unwrap().dead(), "pay-dlq");
    assert_eq!(
        Names::new("pay", Some("mail")).unwrap().retry(Duration::from_secs(300)),
        "pay-retry-mail-5m"
    );
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let longest = LONGEST + Duration::from_millis(1);
    let tiers =
        [vec![], vec![Duration::ZERO], vec![longest], vec![Duration::from_nanos(1_500_000)]];
    let long = "x".repeat(101);
    let messages = tiers
        .into_iter()
        .map(|tiers| Ladder::new(&Spec::Tiers(tiers)).unwrap_err())
        .chain(
            [(34, 6.0, 60), (4, 0.5, 60), (4, f64::NAN, 60), (4, 2.0, 29), (4, 2.0, u64::MAX)]
                .map(|(attempts, factor, cap)| by_formula(attempts, 30, factor, cap).unwrap_err()),
        )
        .chain([
            by_formula(1, 30, 2.0, 60).unwrap_err(),
            by_formula(u32::MAX, 30, 2.0, 60).unwrap_err(),
        ])
        .chain(
            ["", "a b", "..", &long, "a-retry-30s", "a-dlq"]
                .map(|name| Names::new(name, None).unwrap_err()),
        );
    for message in messages.map(|invalid| invalid.to_string()) {
        assert!(message.starts_with("tiers") || message.starts_with("source."), "{message}");
        assert!(message.contains("write"), "{message}");
    }
}

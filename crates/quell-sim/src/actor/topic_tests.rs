use super::*;
use crate::scenario::{OutageKind, Topic};

/// The verdict on a topic with as much lag as given in each of the 40 seconds after the outage.
fn judged(lag: impl Fn(u64) -> u64) -> Verdict {
    let topic = Some(Topic::default());
    let scenario = Scenario { topic, ..Scenario::storm(OutageKind::Stall) };
    let mut consumers = Consumers::new(&scenario, 1).unwrap().unwrap();
    consumers.seconds = (0..40).map(|i| Records { lag: lag(i), ..Records::default() }).collect();
    let timing = Timing { outage_at: 0, outage_len: 0, end: 40 };
    consumers.verdict(timing, 100.0, Verdict::Unclear)
}

#[test]
fn lag_that_falls_steadily_is_draining_until_it_is_gone_at_that_pace() {
    let eta = Duration::from_secs(40 + 20);
    assert_eq!(judged(|second| 10_000 + 500 * (39 - second)), Verdict::Draining { eta });
}

#[test]
fn lag_that_is_lower_at_the_end_only_or_hardly_is_not_draining() {
    assert_eq!(judged(|second| if second < 39 { 10_000 } else { 5_000 }), Verdict::Unclear);
    assert_eq!(judged(|second| 10_000 - second), Verdict::Unclear);
}

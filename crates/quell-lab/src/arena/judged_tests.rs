use core::time::Duration;

use super::*;

const TIMING: Timing = Timing { outage_at: 30, outage_len: 10, end: 86 };
const CAPACITY: f64 = 120.0;

/// A hundred ask every second, and so many are answered.
fn judged(answered: impl Fn(usize) -> u64, refused: u64) -> Judged {
    let mut series = Series::default();
    for tenth in 0..860 {
        let at = Duration::from_millis(100 * tenth as u64 + 50);
        let second = tenth / 10;
        series.add(Count::Demand, at, 10);
        series.add(Count::Received, at, 10);
        series.add(Count::Sent, at, 20);
        series.add(Count::Good, at, answered(second) / 10);
    }
    // One second before the trouble.
    series.add(Count::Refused, Duration::from_millis(29_500), refused);
    Judged::of(&series, TIMING, CAPACITY)
}

fn healthy(second: usize) -> u64 {
    if (30..40).contains(&second) { 0 } else { 100 }
}

#[test]
fn a_world_is_won_by_whoever_is_back_a_second_after_the_trouble() {
    let won = judged(|second| if second == 40 { 0 } else { healthy(second) }, 0);
    assert!(won.won && !won.is_stuck(), "{won:?}");
    assert_eq!((won.worst_window, won.goodput, won.last), (1.0, 1.0, 1.0));
    assert_eq!((won.lost, won.sent, won.refused), (100.0, 2.0, 0.0));
}

#[test]
fn a_window_below_95_percent_loses_it() {
    // Five seconds of 100: 470 are too few, 480 are enough.
    let dip = |at: usize, good: u64| {
        judged(move |second| if second == at { good } else { healthy(second) }, 0)
    };
    assert!(!dip(41, 70).won);
    assert!(dip(41, 80).won);
    assert!(!dip(70, 70).won, "second 70 is the last that counts");
    assert!(dip(71, 70).won, "15 s are looked at as a whole");
    assert_eq!(dip(41, 70).worst_window, 0.94);
}

#[test]
fn the_last_15_seconds_have_to_be_well() {
    let fades = judged(|second| if second >= 71 { 90 } else { healthy(second) }, 0);
    assert!(!fades.won && !fades.is_stuck());
    assert_eq!(fades.last, 0.9);
    let stuck = judged(|second| if second >= 71 { 40 } else { healthy(second) }, 0);
    assert!(stuck.is_stuck());
}

#[test]
fn half_a_percent_refused_before_the_trouble_loses_it() {
    assert!(judged(healthy, 7).won, "of 1,500");
    assert!(!judged(healthy, 8).won);
}

#[test]
fn nobody_has_to_do_more_than_the_service_can() {
    let mut series = Series::default();
    for tenth in 0..860 {
        let at = Duration::from_millis(100 * tenth + 50);
        series.add(Count::Demand, at, 30);
        series.add(Count::Good, at, if (300..400).contains(&tenth) { 0 } else { 12 });
    }
    let overloaded = Judged::of(&series, TIMING, CAPACITY);
    assert!(overloaded.won);
    assert_eq!((overloaded.goodput, overloaded.lost), (1.0, 0.0));
}

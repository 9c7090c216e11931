//! Every formula on a sequence that was computed by hand.

use quell_core::{Rng, pace::Known};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Time {
    Time::ZERO + MS * ms as u32
}

fn rng() -> Rng {
    Rng::stream(1, 0, quell_sim::PURPOSE_RULE)
}

/// A good answer now, to a call that was sent when it should have been.
fn good(now: u64, took: u64, in_flight: u32) -> Answered {
    Answered {
        now: at(now),
        sent_at: at(now.saturating_sub(took)),
        took: MS * took as u32,
        good: true,
        in_flight,
        patience: MS * 1000,
        known: None,
    }
}

/// Limits after each of these answers: how long it took, and how many were under way.
fn limits<C: Control>(control: &mut C, answers: &[(u64, u32)]) -> Vec<u32> {
    let after = |&(took, in_flight): &(u64, u32)| {
        control.answered(&good(10_000, took, in_flight));
        control.limit()
    };
    answers.iter().map(after).collect()
}

#[test]
fn aimd_adds_one_per_answer_and_loses_a_tenth_per_drop() {
    let mut aimd = Netflix::new(Aimd::default());
    assert_eq!(limits(&mut aimd, &[(100, 9), (100, 10), (100, 10)]), [20, 21, 21]);
    assert_eq!(limits(&mut aimd, &[(100, 30); 10]).last(), Some(&31));
    aimd.left(at(0), MS * 1000, true);
    assert_eq!(aimd.limit(), 27); // 27.9
    assert_eq!(limits(&mut aimd, &[(5000, 0), (5001, 0), (5001, 0), (5001, 0)]), [27, 24, 21, 20]);
    assert_eq!(limits(&mut aimd, &[(100, 200); 300]).last(), Some(&200));
}

#[test]
fn errors_and_callers_who_left_the_queue_are_no_samples_for_the_limits_of_netflix() {
    let mut aimd = Netflix::new(Aimd::default());
    limits(&mut aimd, &[(100, 30); 10]);
    aimd.answered(&Answered { good: false, ..good(0, 0, 30) });
    aimd.left(at(0), MS * 1000, false);
    assert_eq!(aimd.limit(), 30);
}

#[test]
fn vegas_keeps_three_to_six_waiting() {
    let mut vegas = Netflix::new(Vegas::new(rng()));
    // The first is the least. Then 0, 26·(1 − 100/110) = 2.4, 1.7 and 27·(1 − 100/200) = 13.5 wait.
    let steps = [(100, 20), (100, 20), (110, 26), (107, 26), (200, 26)];
    assert_eq!(limits(&mut vegas, &steps), [20, 26, 26, 27, 26]);
    vegas.left(at(0), MS * 1000, true);
    assert_eq!(limits(&mut vegas, &[(100, 12)]), [25]); // less than half is in use
    // From 100 on its steps are twice as large: 97 + 6, and 103 + 12.
    assert_eq!(limits(&mut vegas, &[(100, 100); 14])[11..], [97, 103, 115]);
}

#[test]
fn vegas_takes_the_least_latency_anew() {
    let mut vegas = Netflix::new(Vegas::new(rng()));
    limits(&mut vegas, &[(100, 1)]);
    assert_eq!(limits(&mut vegas, &[(200, 20)]), [19]); // ten wait
    limits(&mut vegas, &[(200, 1); 30 * 19]);
    assert_eq!(limits(&mut vegas, &[(200, 19)]), [25]); // nobody does
}

#[test]
fn gradient2_follows_the_ratio_of_its_averages() {
    let mut gradient = Netflix::new(Gradient2::default());
    // A fifth of the four that may wait, each time.
    assert_eq!(limits(&mut gradient, &[(100, 20); 10])[7..], [26, 27, 28]);
    // 101 to 400 ms: half of 28, and four, is 18; a fifth of the way there.
    assert_eq!(limits(&mut gradient, &[(100, 13), (400, 28)]), [28, 26]);
    // Within one and a half times the average nothing waits.
    assert_eq!(limits(&mut gradient, &[(150, 26), (150, 26)]), [26, 27]);
    assert_eq!(limits(&mut gradient, &[(10_000, 200); 100]).last(), Some(&20));
    assert_eq!(limits(&mut gradient, &[(100, 200); 1000]).last(), Some(&200));
}

#[test]
fn windows_hand_on_one_mean_per_second() {
    let mut windowed = Netflix::new(Windowed::new(Gradient2::default()));
    let mut plain = Netflix::new(Gradient2::default());
    windowed.answered(&good(1, 1, 20)); // ends a window of one, which is too few
    for now in 2..=20 {
        windowed.answered(&good(now, if now % 2 == 0 { 100 } else { 300 }, 20));
    }
    assert_eq!(windowed.limit(), 20);
    for second in 1..=5 {
        for i in 0..10 {
            windowed.answered(&good(second * 1100 + i, 200, 20));
        }
        plain.answered(&good(second, 200, 20));
    }
    assert_eq!((windowed.limit(), plain.limit()), (24, 24)); // 20.8, 21.6, …, 24
}

/// So many answers, 1 ms apart; when the last of them was.
fn answers(envoy: &mut Envoy, from: u64, took: u64, count: u64) -> u64 {
    (0..count).for_each(|i| envoy.answered(&good(from + i, took, 3)));
    from + count - 1
}

#[test]
fn envoys_gradient_is_least_latency_and_a_quarter_to_the_median() {
    let mut envoy = Envoy::new(rng());
    let mut now = answers(&mut envoy, 1000, 100, 50);
    assert_eq!(envoy.limit(), 3);
    // 3·1.25 + √3.75 = 5.7, then 8.75, then 13.2; and 13·0.5 + √6.5 = 9.0 where it took four times as long.
    for (took, limit) in [(100, 5), (100, 8), (100, 13), (400, 9)] {
        now = answers(&mut envoy, now + 1, took, 99);
        now += 1;
        envoy.left(at(now), MS, true); // only lets time pass
        assert_eq!(envoy.limit(), limit, "after {took} ms at {now}");
    }
}

#[test]
fn envoy_lets_three_in_for_fifty_answers_every_minute() {
    let mut envoy = Envoy::new(rng());
    let known = answers(&mut envoy, 1000, 100, 50);
    answers(&mut envoy, known + 1, 100, 1000);
    envoy.pressed(at(known + 2000)); // ends the last interval
    let before = envoy.limit();
    assert!(before > 100, "{before}");
    envoy.pressed(at(known + 59_000));
    assert_eq!(envoy.limit(), before);
    envoy.pressed(at(known + 69_000));
    assert_eq!(envoy.limit(), 3);
    let since = known + 69_000;
    answers(&mut envoy, since, 60_000, 60); // sent before
    assert_eq!(envoy.limit(), 3);
    answers(&mut envoy, since + 200, 50, 49);
    assert_eq!(envoy.limit(), 3);
    answers(&mut envoy, since + 300, 50, 1);
    assert_eq!(envoy.limit(), before);
}

#[test]
fn envoy_looks_for_the_least_latency_again_when_it_stays_at_three() {
    let mut envoy = Envoy::new(rng());
    let mut now = answers(&mut envoy, 1000, 100, 50);
    // Ten times slower: 3·0.5 + √1.5 is below three, five times in a row; the next 50 say that this is the least.
    now = answers(&mut envoy, now + 1, 1000, 600);
    assert_eq!(envoy.limit(), 3);
    now = answers(&mut envoy, now + 1001, 1000, 60);
    answers(&mut envoy, now + 1, 1000, 300);
    assert!(envoy.limit() > 5, "{}", envoy.limit());
}

#[test]
fn bbr_is_the_peak_rate_times_the_least_mean_latency() {
    let mut bbr = Bbr::default();
    let mut tenth = |tenth: u64, answers: u32, took: u64| {
        (0..answers).for_each(|_| bbr.answered(&good(tenth * 100, took, 1)));
        bbr.limit()
    };
    assert_eq!(tenth(10, 10, 100), 1024); // no tenth is over
    assert_eq!(tenth(11, 20, 200), 11); // 100/s × 100 ms, and one
    assert_eq!(tenth(12, 5, 200), 21); // 200/s × 100 ms, and one
    for i in 13..110 {
        tenth(i, 5, 200);
    }
    assert_eq!(tenth(110, 5, 200), 41); // the first tenth is forgotten: 200/s × 200 ms
    assert_eq!(tenth(111, 5, 200), 11); // and the second: 50/s × 200 ms
    assert_eq!(tenth(10_000, 1, 1), 11); // nothing is known: it stays
    assert_eq!(tenth(10_001, 1, 1), 2);
}

#[test]
fn the_former_rule_is_half_of_patience_and_at_most_eight_times_rate_and_base() {
    let mut former = Former::default();
    let mut after = |rate, base| {
        let known = Some(Known { rate, base: MS * base });
        former.answered(&Answered { known, ..good(1000, 50, 5) });
        former.limit()
    };
    assert_eq!(
        [after(100.0, 50), after(300.0, 100), after(1.0, 1), after(1e6, 100)],
        [40, 150, 8, 4096]
    );
    let mut stranger = Former::default();
    (0..19).for_each(|_| stranger.left(at(1), MS, true));
    assert_eq!(stranger.limit(), 512);
    stranger.left(at(1), MS, true);
    assert_eq!(stranger.limit(), 8);
}

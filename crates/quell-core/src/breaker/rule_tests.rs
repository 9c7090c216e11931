use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

fn breaker(spec: Spec) -> (Breaker, Rng) {
    (Breaker::new(spec, Time::ZERO).unwrap(), Rng::new(7))
}

/// One call of this length, which ends at `now`.
fn took(breaker: &mut Breaker, now: u64, ms: u64, good: bool, rng: &mut Rng) -> Option<State> {
    let _ = breaker.check(at(now - ms), true, rng);
    let pass = breaker.take(at(now - ms));
    let changed = breaker.judge(at(now), &pass, Some(good), rng);
    breaker.free(at(now), &pass);
    changed
}

fn record(breaker: &mut Breaker, now: u64, good: bool, rng: &mut Rng) -> Option<State> {
    took(breaker, now, 0, good, rng)
}

fn last(calls: u32) -> Spec {
    Spec { over: Over::Calls(calls), ..Spec::default() }
}

/// C1.
#[test]
fn warm_up_size_does_not_change_failures_to_open_over_calls() {
    for healthy in [100, 101, 163, 100_000] {
        let (mut breaker, mut rng) = breaker(last(100));
        for i in 0..healthy {
            assert_eq!(record(&mut breaker, i, true, &mut rng), None);
        }
        let fails = (1..).find(|_| record(&mut breaker, healthy, false, &mut rng).is_some());
        assert_eq!(fails, Some(50), "after {healthy}");
    }
}

/// A count window forgets by calls and not by time, and either of two windows is enough.
#[test]
fn windows_of_time_and_of_calls_can_stand_alone_or_together() {
    let opens = |over: Over| {
        let (mut breaker, mut rng) = breaker(Spec { over, min_calls: 4, ..Spec::default() });
        // One failure a minute, each too old for a window of time by the next.
        (0..4).any(|i| record(&mut breaker, i * 60_000, false, &mut rng).is_some())
    };
    assert!(!opens(Over::Time) && opens(Over::Calls(8)) && opens(Over::Either(8)));
    // A long count window still full of successes does not hide a bad ten seconds.
    let (mut either, mut rng) = breaker(Spec { over: Over::Either(4_096), ..Spec::default() });
    for i in 0..4_096 {
        record(&mut either, i, true, &mut rng);
    }
    assert!((0..20).any(|_| record(&mut either, 60_000, false, &mut rng).is_some()));
}

#[test]
fn failures_in_a_row_open_it_and_one_success_starts_over() {
    let (mut breaker, mut rng) = breaker(Spec::consecutive());
    for _ in 0..100 {
        for _ in 0..4 {
            assert_eq!(record(&mut breaker, 0, false, &mut rng), None);
        }
        record(&mut breaker, 0, true, &mut rng);
    }
    for _ in 0..4 {
        record(&mut breaker, 0, false, &mut rng);
    }
    let ignored = breaker.take(at(0));
    assert_eq!(breaker.judge(at(0), &ignored, None, &mut rng), None);
    assert_eq!(record(&mut breaker, 0, false, &mut rng), Some(State::Open));
    assert_eq!(record(&mut breaker, 30_000, true, &mut rng), None);
    assert_eq!(record(&mut breaker, 30_000, true, &mut rng), None);
    assert_eq!(record(&mut breaker, 30_000, true, &mut rng), Some(State::Closed));
}

#[test]
fn slow_successes_open_it_at_their_rate() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    for i in 0..9 {
        assert_eq!(took(&mut breaker, 5_000, 2_000, true, &mut rng), None, "call {i}");
    }
    assert_eq!(took(&mut breaker, 5_000, 2_000, true, &mut rng), Some(State::Open));
    let (mut brisk, mut rng) = self::breaker(Spec::classic());
    for i in 0..1_000 {
        assert_eq!(took(&mut brisk, 5_000 + i, 1_999, true, &mut rng), None);
    }
}

/// C13: nothing has ended, and it is known all the same.
#[test]
fn calls_that_are_still_running_count_once_they_are_slow() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    let hung: Vec<_> = (0..10)
        .map(|i| {
            breaker.check(at(i), true, &mut rng).unwrap();
            breaker.take(at(i))
        })
        .collect();
    assert_eq!(breaker.next_change(), Some(at(2_000)));
    assert_eq!(breaker.state(at(2_008)), State::Closed);
    assert_eq!(breaker.state(at(2_009)), State::Open);
    assert_eq!(breaker.check(at(2_009), true, &mut rng).unwrap_err().reason, Reason::BreakerOpen);
    assert_eq!(breaker.opened_by_itself(), Some(State::Open));
    assert_eq!(breaker.opened_by_itself(), None);
    let until = breaker.next_change().unwrap();
    assert!((at(2_009 + 15_000)..at(2_009 + 30_000)).contains(&until), "drawn ahead: {until:?}");
    for pass in &hung {
        assert_eq!(breaker.judge(at(5_000), pass, Some(true), &mut rng), None);
    }
    assert_eq!(breaker.state(at(5_000)), State::Open);
}

/// C13: a slow call counts once, whoever looks first and however it ends.
#[test]
fn a_slow_call_counts_once() {
    let (mut breaker, mut rng) = breaker(Spec { min_calls: 10, ..Spec::classic() });
    for i in 0..3 {
        let seen = breaker.take(at(0));
        assert_eq!(breaker.state(at(2_000 + i)), State::Closed); // counted here
        breaker.judge(at(2_500), &seen, Some(true), &mut rng);
        breaker.free(at(2_500), &seen);
        let left = breaker.take(at(0));
        breaker.free(at(2_500), &left); // or here, when its caller leaves
        breaker.free(at(2_500), &left);
        let quick = breaker.take(at(2_500));
        breaker.free(at(2_500), &quick); // and this one says nothing
    }
    for _ in 0..3 {
        assert_eq!(took(&mut breaker, 2_500, 2_000, true, &mut rng), None);
    }
    assert_eq!(took(&mut breaker, 2_500, 2_000, true, &mut rng), Some(State::Open));
}

/// X4: who loses a hedge is cancelled before it is slow and without a verdict.
#[test]
fn a_hedge_that_lost_frees_once_and_never_opens_it() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    for i in 0..10_000 {
        let (winner, loser) = (breaker.take(at(i)), breaker.take(at(i)));
        breaker.judge(at(i + 1_000), &winner, Some(true), &mut rng);
        for pass in [&winner, &loser, &loser] {
            breaker.free(at(i + 1_000), pass);
        }
    }
    assert_eq!(breaker.state(at(20_000)), State::Closed);
}

#[test]
fn a_slow_probe_is_no_proof_of_recovery() {
    let (mut breaker, mut rng) = breaker(Spec { failures: 1, ..Spec::classic() });
    for _ in 0..10 {
        record(&mut breaker, 0, false, &mut rng);
    }
    assert_eq!(took(&mut breaker, 32_000, 1_999, true, &mut rng), None);
    assert_eq!(took(&mut breaker, 34_000, 2_000, true, &mut rng), Some(State::Open));
}

#[test]
fn so_many_failed_probes_open_it_again_and_no_fewer() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    for _ in 0..10 {
        record(&mut breaker, 0, false, &mut rng);
    }
    for good in [false, true, false, true] {
        assert_eq!(record(&mut breaker, 30_000, good, &mut rng), None);
    }
    assert_eq!(record(&mut breaker, 30_000, false, &mut rng), Some(State::Open));
}

#[test]
fn the_open_time_grows_after_five_failed_returns_up_to_its_bound_and_starts_over_when_closed() {
    let spec = Spec { growth: 2.0, ..Spec::default() };
    let (mut breaker, mut rng) = breaker(spec);
    let mut now = 0;
    let mut longest = Vec::new();
    for _ in 0..20 {
        record(&mut breaker, now, false, &mut rng);
    }
    for _ in 0..12 {
        longest.push(breaker.open_for.as_millis());
        let open = breaker.next_change().unwrap().since(at(now));
        assert!((breaker.open_for / 2..=breaker.open_for).contains(&open));
        now += 10_000;
        assert_eq!(record(&mut breaker, now, false, &mut rng), Some(State::Open));
    }
    let grown = [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000];
    assert_eq!(longest, [[500; 5].as_slice(), &grown].concat());
    now += 10_000;
    record(&mut breaker, now, true, &mut rng);
    assert_eq!(record(&mut breaker, now, true, &mut rng), Some(State::Closed));
    assert_eq!(breaker.open_for, spec.open);
}

#[test]
fn without_growth_it_probes_at_the_same_pace_for_ever() {
    let (mut breaker, mut rng) = breaker(Spec::default());
    for _ in 0..20 {
        record(&mut breaker, 0, false, &mut rng);
    }
    for i in 1..100 {
        record(&mut breaker, i * 500, false, &mut rng);
        assert!(breaker.next_change().unwrap() <= at((i + 1) * 500));
    }
}

/// T5: a machine that slept for a month finds its breaker where its own time left it, and not in a burst.
#[test]
fn a_month_of_sleep_is_one_step() {
    let (mut breaker, mut rng) = breaker(Spec::classic());
    let _running = breaker.take(at(0));
    for _ in 0..10 {
        record(&mut breaker, 0, false, &mut rng);
    }
    let month = at(30 * 86_400_000);
    assert_eq!(breaker.state(month), State::HalfOpen);
    let probes = (0..100).filter(|_| {
        let go = breaker.check(month, true, &mut rng).is_ok();
        go.then(|| breaker.take(month)).is_some()
    });
    assert_eq!(probes.count(), 5);
}

/// C2: what a breaker keeps does not depend on how much it has seen.
#[test]
fn a_million_calls_leave_it_as_large_as_ten() {
    let size = |calls: u64| {
        let (mut breaker, mut rng) =
            breaker(Spec { over: Over::Either(100), consecutive: 5, ..Spec::classic() });
        for i in 0..calls {
            took(&mut breaker, 1 + i / 1_000, 1, true, &mut rng);
        }
        let text = format!("{breaker:?}"); // digits aside, its structure
        text.chars().filter(|c| !c.is_ascii_digit()).count()
    };
    assert_eq!(size(10), size(1_000_000));
}

#[test]
fn presets_are_valid_and_as_written() {
    let secs = Duration::from_secs;
    for spec in [Spec::default(), Spec::classic(), Spec::hardened(), Spec::consecutive()] {
        spec.check().unwrap();
    }
    let (classic, hardened) = (Spec::classic(), Spec::hardened());
    assert_eq!((classic.window, classic.min_calls, classic.failure_rate), (secs(30), 10, 0.5));
    assert_eq!((classic.slow, classic.slow_rate), (Some(secs(2)), 0.8));
    assert_eq!((classic.open, classic.probes), (secs(30), 5));
    assert_eq!((hardened.window, hardened.min_calls, hardened.failure_rate), (secs(30), 10, 0.3));
    assert_eq!((hardened.slow, hardened.slow_rate), (Some(secs(3)), 0.5));
    assert_eq!((hardened.open, hardened.probes), (secs(20), 5));
    let row = Spec::consecutive();
    assert_eq!((row.consecutive, row.successes, row.open, row.probes), (5, 3, secs(30), 3));
}

#[test]
fn what_a_setting_adds_to_a_recovery_can_be_told() {
    let ms = Duration::from_millis;
    let added = |spec: Spec| spec.added_recovery(ms(100));
    assert_eq!(added(Spec::default()), ms(500 + 100 + 250));
    assert_eq!(added(Spec { growth: 2.0, ..Spec::default() }), ms(10_000 + 100 + 250));
    assert_eq!(added(Spec { probes: 1, ..Spec::default() }), ms(500 + 200 + 250));
    assert_eq!(added(Spec { open: Duration::MAX, ..Spec::default() }), Duration::MAX);
}

/// The promise behind that number, for callers enough: a breaker that a dead upstream has kept open for a while.
#[test]
fn no_recovery_takes_longer_than_was_told() {
    let reply = 20;
    for seed in 0..200 {
        let spec = Spec { growth: if seed % 2 == 0 { 1.0 } else { 2.0 }, ..Spec::default() };
        let (mut breaker, mut rng) = (Breaker::new(spec, at(0)).unwrap(), Rng::new(seed));
        let back = 20_000 + seed * 37;
        let mut out: Vec<(u64, Pass, bool)> = Vec::new();
        let steady = (0..back + 30_000).find(|&ms| {
            for (_, pass, good) in out.extract_if(.., |(ends, ..)| *ends <= ms) {
                breaker.judge(at(ms), &pass, Some(good), &mut rng);
                breaker.free(at(ms), &pass);
            }
            let may = breaker.check(at(ms), true, &mut rng).is_ok();
            if may {
                out.push((ms + reply, breaker.take(at(ms)), ms >= back));
            }
            ms >= back && matches!(breaker.inner, Inner::Calm)
        });
        let added = at(steady.unwrap()).since(at(back));
        // What failed before it was back may fail it once more, within one reply.
        let longest = spec.added_recovery(Duration::from_millis(reply + 2));
        assert!(added <= longest + Duration::from_millis(reply), "{added:?} > {longest:?}");
    }
}

#[test]
fn nonsense_in_rules_is_refused_with_the_field_and_the_fix() {
    let spec = Spec::default();
    let list = record::List::of(&[500], &[]).unwrap();
    let nonsense = [
        last(0),
        last(19),
        last(4_097),
        Spec { slow: Some(Duration::ZERO), ..spec },
        Spec { slow_rate: 0.0, ..Spec::classic() },
        Spec { slow_rate: f64::NAN, ..Spec::classic() },
        Spec { over: Over::Off, ..spec },
        Spec { over: Over::Off, consecutive: 5, ..Spec::classic() },
        Spec { growth: 0.5, ..spec },
        Spec { growth: f64::NAN, ..spec },
        Spec { growth: 2.0, open: Duration::from_secs(11), ..spec },
        Spec { failures: 0, ..spec },
        Spec { probes: 17, ..spec },
        Spec { record: record::Record { record: list, ignore: list }, ..spec },
    ];
    for spec in nonsense {
        let message = Breaker::new(spec, Time::ZERO).unwrap_err().to_string();
        assert!(message.starts_with("breaker.") && message.contains("write"), "{message}");
    }
}

#[test]
fn an_open_time_may_start_at_its_bound() {
    let spec = Spec { growth: 2.0, ..Spec::default() };
    assert!(Breaker::new(Spec { open: spec.open_max, ..spec }, Time::ZERO).is_ok());
}

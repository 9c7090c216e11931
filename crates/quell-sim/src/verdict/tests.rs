use super::*;

/// Ten seconds of health, ten of outage, forty to recover in.
const TIMING: Timing = Timing { outage_at: 10, outage_len: 10, end: 60 };

/// A run with constant demand and as many good answers as `good` says for each second.
fn run(demand: u64, good: impl Fn(usize) -> u64) -> Series {
    let mut run = Series::default();
    for second in 0..TIMING.end {
        spread(&mut run, Count::Demand, second, demand);
        spread(&mut run, Count::Good, second, good(second));
    }
    run
}

/// Counts `n` in one second, evenly but for what ten does not divide.
fn spread(run: &mut Series, what: Count, second: usize, n: u64) {
    for tenth in 0..10 {
        let share = n * (tenth + 1) / 10 - n * tenth / 10;
        run.add(what, Duration::from_millis(second as u64 * 1_000 + tenth * 100), share);
    }
}

fn healed(tenths: u32) -> Verdict {
    Verdict::Healed { after: Duration::from_millis(100) * tenths }
}

fn judged(demand: u64, good: impl Fn(usize) -> u64) -> Verdict {
    Verdict::of(&run(demand, good), TIMING, 1_200.0, &Timeline::default())
}

#[test]
fn health_from_the_first_second_on_is_recovery_in_no_time() {
    assert_eq!(judged(1_000, |_| 1_000), healed(0));
}

#[test]
fn recovery_is_counted_from_the_first_second_that_all_later_windows_agree_on() {
    for k in 1..=15 {
        let verdict = judged(1_000, |s| if s < 20 + k as usize { 0 } else { 1_000 });
        // The first window may miss 5 % of five seconds: two tenths of a second.
        assert_eq!(verdict, healed(10 * k as u32 - 2));
        assert!(verdict.within(k));
        assert!(!verdict.within(k - 1));
    }
}

#[test]
fn a_recovery_too_late_to_be_watched_for_25_seconds_is_not_believed() {
    let verdict = judged(1_000, |s| if s < 36 { 0 } else { 1_000 });
    assert_eq!(verdict, Verdict::Unclear);
}

#[test]
fn a_dip_in_the_middle_spoils_the_recovery_before_it() {
    // A bit more than a quarter of one second is 5 % of any window around it; a bit less is not.
    let verdict = judged(1_000, |s| if s == 30 { 740 } else { 1_000 });
    assert_eq!(verdict, healed(101));
    let verdict = judged(1_000, |s| if s == 30 { 760 } else { 1_000 });
    assert_eq!(verdict, healed(0));
}

#[test]
fn windows_of_many_requests_need_exactly_95_percent() {
    assert!(judged(1_000, |_| 950).within(0));
    assert!(!judged(1_000, |_| 949).within(60));
    assert!(judged(200, |_| 190).within(0));
    assert!(!judged(200, |_| 189).within(60));
}

#[test]
fn demand_above_capacity_is_measured_against_capacity() {
    assert!(judged(3_000, |_| 1_150).within(0));
    let verdict = judged(3_000, |_| 600);
    assert_eq!(verdict, Verdict::Sheds { share: 0.8 });
    assert_eq!(verdict.to_string(), "sheds 80 %");
}

#[test]
fn chance_at_20_requests_a_second_is_tolerated_and_a_loss_of_a_fifth_is_not() {
    let healthy = |seed: &u64| {
        Verdict::of(&poisson(*seed, 1.0), TIMING, 30.0, &Timeline::default()) == healed(0)
    };
    assert!((1..=300).filter(healthy).count() >= 294);
    for seed in 1..=300 {
        assert!(
            !Verdict::of(&poisson(seed, 0.8), TIMING, 30.0, &Timeline::default()).within(10),
            "seed {seed}"
        );
    }
}

/// Users who arrive at random, 20 per second, and are answered 100 to 200 ms later if at all.
fn poisson(seed: u64, answered: f64) -> Series {
    let mut state = seed;
    let mut uniform = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let (mut run, mut at) = (Series::default(), 0.0);
    loop {
        at -= (1.0 - uniform()).ln() / 20.0;
        if at >= TIMING.end as f64 {
            return run;
        }
        run.add(Count::Demand, Duration::from_secs_f64(at), 1);
        let answer = at + 0.1 + 0.1 * uniform();
        if uniform() < answered {
            run.add(Count::Good, Duration::from_secs_f64(answer), 1);
        }
    }
}

#[test]
fn a_short_run_is_judged_by_the_windows_it_has_and_none_is_no_health() {
    let healthy = run(1_000, |_| 1_000);
    let until =
        |end| Verdict::of(&healthy, Timing { end, ..TIMING }, 1_200.0, &Timeline::default());
    assert!(until(25).within(0));
    assert!(!until(24).within(0));
    assert!(!until(20).within(0));
    assert!(!until(0).within(0));
}

#[test]
fn a_run_without_users_has_not_healed() {
    assert_eq!(judged(0, |_| 0), Verdict::Unclear);
}

#[test]
fn the_summary_counts_from_the_outage_on_and_the_refusals_before_it() {
    let mut run = run(100, |s| if s < 20 { 0 } else { 100 });
    for second in 0..TIMING.end {
        let storm = second >= 10;
        spread(&mut run, Count::Received, second, if storm { 400 } else { 100 });
        spread(&mut run, Count::Sent, second, if storm { 440 } else { 95 });
        spread(&mut run, Count::Refused, second, if storm { 0 } else { 5 });
    }
    let summary =
        Summary::of(&run, TIMING, 120.0, Work { served: 1_000, wasted: 250 }, &Observed::default());
    assert_eq!(summary.verdict, healed(0));
    assert_eq!(summary.amplification, 1.1);
    assert_eq!(summary.attempts_per_user, 4.4);
    assert_eq!(summary.wasted, 0.25);
    assert_eq!(summary.goodput_after, 1.0);
    assert_eq!(summary.refused_before, 0.05);
    assert_eq!(
        summary.to_string(),
        "healed in 0 s; amplification 1.10, 4.40 attempts per user, 25 % of the work wasted"
    );
}

#[test]
fn a_second_beyond_all_bounds_costs_no_more_memory_than_the_longest_run() {
    let mut run = Series::default();
    run.add(Count::Demand, Duration::MAX, 1);
    assert_eq!(run.len(), LONGEST);
}

/// A run in which nobody is served after the outage, `sent` attempts per second reach the service, and its backlog and
/// wasted work are as given.
fn down(sent: u64, backlog: impl Fn(usize) -> u64, wasted: u64) -> (Series, Timeline) {
    let mut run = run(1_000, |second| if second < 10 { 1_000 } else { 0 });
    let mut timeline = Timeline::default();
    for second in 0..TIMING.end {
        spread(&mut run, Count::Sent, second, sent);
        timeline.push(Moment {
            backlog: backlog(second),
            served: 1_000,
            wasted,
            ..Moment::default()
        });
    }
    (run, timeline)
}

fn verdict_of((run, timeline): &(Series, Timeline)) -> Verdict {
    Verdict::of(run, TIMING, 1_200.0, timeline)
}

#[test]
fn a_backlog_that_falls_is_draining_until_it_is_gone_at_that_pace() {
    // At the end 40 seconds after the outage 20,000 wait, and 500 fewer each second.
    let falling = down(1_000, |second| 20_000 + 500 * (59 - second as u64), 1_000);
    let verdict = verdict_of(&falling);
    assert_eq!(verdict, Verdict::Draining { eta: Duration::from_secs(80) });
    assert_eq!(verdict.to_string(), "draining, about 80 s");
}

#[test]
fn a_backlog_that_stays_or_hardly_falls_is_metastable_where_work_is_wasted_or_retries_add_load() {
    let metastable = Verdict::Metastable { goodput: 0.0 };
    assert_eq!(verdict_of(&down(1_000, |_| 50_000, 1_000)), metastable);
    assert_eq!(verdict_of(&down(1_000, |second| 50_000 - second as u64, 1_000)), metastable);
    assert_eq!(verdict_of(&down(4_000, |_| 0, 0)), metastable);
    assert_eq!(verdict_of(&down(1_060, |_| 0, 0)), metastable);
}

#[test]
fn users_who_go_without_although_nothing_is_wasted_are_shed() {
    assert_eq!(verdict_of(&down(1_000, |_| 0, 0)), Verdict::Sheds { share: 1.0 });
    assert_eq!(verdict_of(&down(0, |_| 3, 49)), Verdict::Sheds { share: 1.0 });
}

#[test]
fn a_run_is_hopeless_after_a_minute_of_full_load_for_nothing_and_not_before() {
    let timing = Timing { outage_at: 0, outage_len: 10, end: 600 };
    let ends = |sent: u64, good: fn(usize) -> u64, backlog: fn(usize) -> u64| {
        let (mut run, mut timeline) = (Series::default(), Timeline::default());
        (1..=timing.end).find(|&over| {
            spread(&mut run, Count::Demand, over - 1, 1_000);
            spread(&mut run, Count::Sent, over - 1, sent);
            spread(&mut run, Count::Good, over - 1, good(over - 1));
            timeline.push(Moment { backlog: backlog(over - 1), ..Moment::default() });
            Early::Hopeless.stops(&run, timing, 1_200.0, &timeline, over, 0)
        })
    };
    assert_eq!(ends(4_000, |_| 0, |second| 1_000 * second as u64), Some(70));
    // Now and then somebody is served, the backlog falls, or less is sent than the service can do: there is hope.
    assert_eq!(ends(4_000, |second| if second % 60 == 9 { 60 } else { 0 }, |_| 9), None);
    assert_eq!(ends(4_000, |_| 0, |second| 1_000_000 - second as u64), None);
    assert_eq!(ends(1_000, |_| 0, |_| 9), None);
    assert!(!Early::Never.stops(&Series::default(), timing, 1.0, &Timeline::default(), 600, 0));
}

#[test]
fn whoever_failed_everybody_has_not_healed_because_nobody_comes_any_more() {
    let mut run = Series::default();
    for second in 0..22 {
        spread(&mut run, Count::Demand, second, 1_000);
        spread(&mut run, Count::Good, second, if second < 10 { 1_000 } else { 0 });
    }
    let verdict = Verdict::of(&run, TIMING, 1_200.0, &Timeline::default());
    assert_eq!(verdict, Verdict::Unclear);
}

#[test]
fn a_backlog_that_falls_in_one_half_of_the_glance_only_is_not_draining() {
    let metastable = Verdict::Metastable { goodput: 0.0 };
    // The last 15 seconds are 45 to 59.
    let late = |second| if second < 59 { 20_000 } else { 10_000 };
    let early = |second| if second < 46 { 20_000 } else { 10_000 };
    let dips = |second| if second < 46 { 20_000 } else { 1_000 * (second as u64 - 45) };
    assert_eq!(verdict_of(&down(1_000, late, 1_000)), metastable);
    assert_eq!(verdict_of(&down(1_000, early, 1_000)), metastable);
    assert_eq!(verdict_of(&down(1_000, dips, 1_000)), metastable);
}

#[test]
fn refusals_count_as_the_price_of_good_times_in_the_15_seconds_before_the_outage() {
    let timing = Timing { outage_at: 30, outage_len: 10, end: 60 };
    let refused_in = |refused| {
        let mut run = Series::default();
        (0..60).for_each(|second| spread(&mut run, Count::Received, second, 100));
        spread(&mut run, Count::Refused, refused, 30);
        Summary::of(&run, timing, 120.0, Work::default(), &Observed::default()).refused_before
    };
    assert_eq!([14, 15, 29, 30].map(refused_in), [0.0, 0.02, 0.02, 0.0]);
}

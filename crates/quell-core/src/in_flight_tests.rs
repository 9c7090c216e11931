use proptest::prelude::*;

use super::*;

const PER_TRY: Duration = Duration::from_secs(5);

/// A limit and one class, in trouble from the beginning: how it is found.
struct Rig {
    limit: InFlight,
    classes: Classes,
    looked: Time,
}

impl Rig {
    fn new(kind: Limit) -> Self {
        let mut limit = InFlight::new(kind, PER_TRY).unwrap();
        limit.watch.tighten(Time::ZERO, Evidence::Crowding);
        Self { limit, classes: Classes::new(Time::ZERO), looked: Time::ZERO }
    }

    fn served(&mut self, now: Time, sent_at: Time, load: Load) -> bool {
        let class = self.classes.at(0);
        self.limit.served(now, sent_at, true, class);
        let moved = self.limit.found(now, sent_at, load, class);
        let lasted = now.nanos_since(self.looked);
        if lasted >= 50_000_000 {
            self.limit.keep_pace(&self.classes);
            self.classes.at(0).turn(now, lasted as f64, 1.0);
            self.looked = now;
        }
        self.limit.know(&mut self.classes);
        moved
    }

    fn left(&mut self, now: Time, sent_at: Time, load: Load) {
        self.limit.left(now, sent_at, load, self.classes.at(0));
    }

    fn learn_patience(&mut self, now: Time, since: Time) {
        self.limit.learn_patience(now, since, self.classes.at(0));
        self.limit.know(&mut self.classes);
    }

    fn limit(&self) -> u32 {
        self.limit.limit()
    }
}

fn adaptive() -> Rig {
    Rig::new(Limit::Adaptive { ceiling: 4096 })
}

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Serves `rate` per second from `from` to `to` (ms), `took` (ms) each, as many at once as that makes.
fn serve(limit: &mut Rig, (from, to): (u64, u64), rate: u64, took: u64) {
    for i in 0..(to - from) * rate / 1_000 {
        let now = at(from + i * 1_000 / rate);
        let used = (rate * took / 1_000) as u32;
        limit.served(
            now,
            Time::ZERO + now.since(at(took)),
            Load { under_way: used, queued: false },
        );
    }
}

/// What work takes with so many inside: a tenth of a second, as long as there is one of 36 workers for each; beyond that as many
/// times longer, and all of them slow down by `loss` for each 36 more.
fn crowded(loss: f64) -> impl Fn(f64) -> f64 {
    move |inside| 0.1 * (inside / 36.0).max(1.0) * (1.0 + loss * (inside - 36.0).max(0.0) / 36.0)
}

/// Lets `rate` per second come for so many seconds, as a fluid without chance. Answers with all limits on the way.
fn flow(
    limit: &mut Rig,
    now: &mut Time,
    (seconds, rate): (u64, f64),
    takes: impl Fn(f64) -> f64,
) -> Vec<u32> {
    let (end, mut inside, mut limits) = (*now + Duration::from_secs(seconds), 1.0, vec![]);
    while *now < end {
        let most = f64::from(limit.limit());
        inside = ((inside + rate * takes(inside)) / 2.0).clamp(1.0, most);
        let took = Duration::from_secs_f64(takes(inside));
        *now = *now + took.div_f64(inside);
        let at = Time::ZERO + now.since(Time::ZERO + took);
        limit.served(*now, at, Load { under_way: inside as u32, queued: inside >= most });
        limits.push(limit.limit());
    }
    limits
}

fn leave(limit: &mut Rig, times: u32, age: u64) {
    for _ in 0..times {
        // Long after all that was served.
        limit.learn_patience(at(10_000_000 + age), at(10_000_000));
    }
}

/// P6.
#[test]
fn the_limit_is_bounded_by_the_callers_patience_and_not_by_the_proxys_timeout() {
    let mut limit = adaptive();
    leave(&mut limit, 20, 1_000);
    let mut now = at(1_000);
    flow(&mut limit, &mut now, (5, 300.0), crowded(0.0));
    // From now on everything is answered in the same time, however much of it, and yet no quicker than 300/s.
    let growing = (0..20_000).map(|i| {
        let (now, used) = (now + Duration::from_micros(3_333 * i), limit.limit());
        limit.served(now, Time::ZERO + now.since(at(100)), Load { under_way: used, queued: true });
        limit.limit()
    });
    let most = growing.max().unwrap();
    assert!((140..=155).contains(&most), "300/s × 1 s / 2, got {most}");
}

/// Overload is where the right limit is as many as there are workers, and more is what kills a service that degrades.
#[test]
fn under_overload_the_limit_finds_the_workers() {
    for (loss, most) in [(0.0, 70), (0.2, 60), (0.5, 50), (1.0, 46)] {
        let (mut limit, mut now) = (adaptive(), at(1_000));
        flow(&mut limit, &mut now, (10, 300.0), crowded(loss));
        flow(&mut limit, &mut now, (10, 540.0), crowded(loss));
        let limits = flow(&mut limit, &mut now, (60, 540.0), crowded(loss));
        let mean = limits.iter().sum::<u32>() / limits.len() as u32;
        assert!((30..=most).contains(&mean), "loss {loss}: {mean} on average");
    }
}

#[test]
fn demand_that_grows_is_let_through_while_work_takes_no_longer() {
    let (mut limit, mut now) = (adaptive(), at(1_000));
    flow(&mut limit, &mut now, (20, 10.0), |_| 0.1);
    assert!(limit.limit() < 10, "{}", limit.limit());
    flow(&mut limit, &mut now, (10, 1_000.0), |_| 0.1);
    assert!(limit.limit() >= 100, "{}", limit.limit());
}

#[test]
fn what_is_slow_for_good_becomes_what_it_is_compared_with() {
    let (mut limit, mut now) = (adaptive(), at(1_000));
    flow(&mut limit, &mut now, (10, 300.0), |_| 0.1);
    flow(&mut limit, &mut now, (30, 300.0), |_| 0.5);
    assert!(limit.limit() >= 150, "300/s × 0.5 s, got {}", limit.limit());
}

#[test]
fn at_rest_there_is_a_little_room_and_no_more() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 60_000), 300, 100);
    assert!((31..=40).contains(&limit.limit()), "30 are under way, got {}", limit.limit());
}

/// P8.
#[test]
fn the_limit_does_not_decay_while_nothing_is_served() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 20_000), 300, 100);
    let before = limit.limit();
    let mut lowest = before;
    for second in 1_820..1_850 {
        serve(&mut limit, (second * 1_000, second * 1_000 + 1_000), 300, 100);
        lowest = lowest.min(limit.limit());
    }
    assert!(lowest + 3 >= before, "{before}, then as low as {lowest}");
}

/// Nobody has left, all are slow alike, and nothing that was sent since is back any sooner.
#[test]
fn an_upstream_that_becomes_slower_but_larger_is_let_through_at_once() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 10_000), 300, 100);
    let before = limit.limit();
    for _ in 0..before {
        limit.served(at(12_000), at(10_000), Load { under_way: before, queued: true });
    }
    assert_eq!(limit.limit(), before, "it may have stood still");
    let looks_at = limit.limit.looks_at();
    assert!(looks_at > at(12_000) && looks_at < at(13_000), "{looks_at:?}");
    assert!(limit.limit.wake(looks_at));
    assert!(limit.limit() > 15 * before, "20 times as slow, got {}", limit.limit());
    assert_eq!(limit.limit.looks_at(), Time::MAX);
}

/// The other half: what is sent next is as quick as ever.
#[test]
fn an_upstream_that_stood_still_is_not_taken_for_a_slower_one() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 10_000), 300, 100);
    let before = limit.limit();
    for _ in 0..before {
        limit.served(at(12_000), at(10_000), Load { under_way: before, queued: true });
    }
    limit.served(at(12_100), at(12_000), Load { under_way: before, queued: true });
    assert_eq!(limit.limit.looks_at(), Time::MAX);
    assert!(!limit.limit.wake(at(13_000)));
    assert_eq!(limit.limit(), before);
}

#[test]
fn fixed_and_off_learn_nothing() {
    for (kind, expected) in [(Limit::Fixed(7), 7), (Limit::Off, u32::MAX)] {
        let mut limit = Rig::new(kind);
        serve(&mut limit, (1_000, 5_000), 300, 100);
        leave(&mut limit, 200, 5);
        assert_eq!(limit.limit(), expected);
    }
}

/// X9.
#[test]
fn a_reload_keeps_what_was_learned_and_the_new_bounds_apply_at_once() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 5_000), 300, 100);
    leave(&mut limit, 20, 1_000);
    let Rig { mut limit, mut classes, .. } = limit;
    let (found, known, patience) = (limit.limit(), limit.known(), limit.patience());
    let mut reload = |kind, per_try| {
        limit.adopt(&InFlight::new(kind, per_try).unwrap());
        limit.know(&mut classes);
        assert_eq!(limit.known(), known);
        (limit.limit(), limit.patience())
    };
    assert_eq!(reload(Limit::Adaptive { ceiling: 4096 }, PER_TRY), (found, patience));
    assert_eq!(reload(Limit::Adaptive { ceiling: 20 }, PER_TRY), (20, patience));
    assert_eq!(reload(Limit::Fixed(3), PER_TRY), (3, patience));
    assert_eq!(reload(Limit::Off, PER_TRY), (u32::MAX, patience));
    let hasty = Duration::from_millis(400);
    assert_eq!(reload(Limit::Off, hasty), (u32::MAX, hasty), "nobody waits for longer");
    assert_eq!(reload(Limit::Adaptive { ceiling: 4096 }, PER_TRY), (found, patience));
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    for kind in [Limit::Fixed(0), Limit::Adaptive { ceiling: 7 }] {
        let message = InFlight::new(kind, PER_TRY).unwrap_err().to_string();
        assert!(message.starts_with("in_flight.") && message.contains("write"), "{message}");
    }
}

/// One in a hundred leaves, as somebody always does: at a high rate that is many, and means nothing.
#[test]
fn a_few_who_leave_do_not_throttle_a_busy_service() {
    let (mut limit, mut now) = (adaptive(), at(1_000));
    for i in 0..200_000u32 {
        now = now + Duration::from_micros(20);
        let load = Load { under_way: 500.min(limit.limit()), queued: limit.limit() < 500 };
        limit.served(now, Time::ZERO + now.since(at(10)), load);
        if i % 100 == 0 {
            limit.left(now, Time::ZERO + now.since(at(1_000)), load);
        }
    }
    assert!(limit.limit() >= 450, "50,000/s × 10 ms, got {}", limit.limit());
}

/// Nobody can wait where there is no queue: a refusal says the same.
#[test]
fn without_a_queue_refusals_let_the_limit_grow() {
    let (mut limit, mut now) = (adaptive(), at(1_000));
    flow(&mut limit, &mut now, (10, 30.0), |_| 0.1);
    let before = limit.limit();
    for _ in 0..2_000 {
        now = now + Duration::from_millis(5);
        limit.limit.press();
        let load = Load { under_way: limit.limit(), queued: false };
        limit.served(now, Time::ZERO + now.since(at(100)), load);
    }
    assert!(limit.limit() > 3 * before, "{before}, then {}", limit.limit());
}

/// Whoever polls would do so without end.
#[test]
fn a_limit_that_is_not_found_does_not_ask_to_be_looked_at() {
    let mut limit = adaptive();
    serve(&mut limit, (1_000, 10_000), 300, 100);
    for _ in 0..8 {
        let load = Load { under_way: 30, queued: true };
        limit.served(at(12_000), at(10_000), load);
    }
    assert!(limit.limit.looks_at() < Time::MAX);
    limit.limit.set(40);
    assert_eq!(limit.limit.looks_at(), Time::MAX);
}

/// Two that leave for each that is answered: what is answered is as quick as ever, and yet more is not let in.
#[test]
fn who_leaves_counts_as_slow() {
    let (mut limit, mut now) = (adaptive(), at(1_000));
    flow(&mut limit, &mut now, (20, 300.0), |_| 0.1);
    let before = limit.limit();
    for _ in 0..600 {
        now = now + Duration::from_millis(10);
        let sent_at = |ms| Time::ZERO + now.since(at(ms));
        let load = Load { under_way: limit.limit(), queued: true };
        limit.left(now, sent_at(1_000), load);
        limit.left(now, sent_at(1_000), load);
        limit.served(now, sent_at(100), load);
    }
    assert!(limit.limit() < before / 2, "{before}, then {}", limit.limit());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases() / 10))]

    /// Whatever happens, clocks that step back and answers of no time or of years included.
    #[test]
    fn the_limit_stays_within_its_bounds(
        ceiling in 8..5_000u32,
        steps in prop::collection::vec((0..40u32, 0..64u32, 0..2_000u32, any::<bool>(), 0..8u8), 0..2_000),
    ) {
        let mut limit = Rig::new(Limit::Adaptive { ceiling });
        let mut now = at(1_000);
        for (wait, took, under_way, queued, what) in steps {
            now = now.plus(1 << wait);
            let (load, sent_at) = (Load { under_way, queued }, now.nanos_since(Time::from_nanos(1 << took)));
            let sent_at = Time::from_nanos(sent_at);
            let _ = match what {
                0 => {
                    limit.left(now, sent_at, load);
                    true
                }
                1 => limit.limit.wake(now),
                2 => limit.served(sent_at, now, load), // the other way round
                _ => limit.served(now, sent_at, load),
            };
            prop_assert!((LEAST as u32..=ceiling).contains(&limit.limit()), "{}", limit.limit());
        }
    }
}

use proptest::prelude::*;

use super::*;
use crate::Rng;

const MS: Duration = Duration::from_millis(1);
const NEVER: Duration = Duration::ZERO;
const JITTERS: [Jitter; 5] =
    [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Decorrelated, Jitter::Proportional(0.5)];

fn spec(base_ms: u64, cap_ms: u64, jitter: Jitter) -> Spec {
    let (base, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
    Spec { base, cap, jitter, ..Spec::default() }
}

fn backoff(base_ms: u64, cap_ms: u64, jitter: Jitter) -> Backoff {
    Backoff::new(spec(base_ms, cap_ms, jitter)).unwrap()
}

fn shaped(shape: Shape) -> Backoff {
    Backoff::new(Spec { shape, ..spec(100, 1_000, Jitter::Full) }).unwrap()
}

fn longest_ms(backoff: &Backoff) -> Vec<u128> {
    (1..=6).map(|n| backoff.longest(n).as_millis()).collect()
}

/// Mean and variance, in seconds.
fn moments(delays: &[Duration]) -> (f64, f64) {
    let n = delays.len() as f64;
    let mean = delays.iter().map(Duration::as_secs_f64).sum::<f64>() / n;
    let square = |d: &Duration| (d.as_secs_f64() - mean) * (d.as_secs_f64() - mean);
    (mean, delays.iter().map(square).sum::<f64>() / n)
}

#[test]
fn waits_double_up_to_the_cap() {
    let backoff = backoff(100, 1_000, Jitter::Full);
    assert_eq!(longest_ms(&backoff), [100, 200, 400, 800, 1_000, 1_000]);
}

#[test]
fn every_shape_grows_as_its_formula_says() {
    assert_eq!(longest_ms(&shaped(Shape::None)), [0; 6]);
    assert_eq!(longest_ms(&shaped(Shape::Fixed)), [100; 6]);
    assert_eq!(longest_ms(&shaped(Shape::Linear)), [100, 200, 300, 400, 500, 600]);
    let tripled = shaped(Shape::Exponential { factor: 3.0 });
    assert_eq!(longest_ms(&tripled), [100, 300, 900, 1_000, 1_000, 1_000]);
    let waits = Waits::new(&[30 * MS, 5 * MS, 700 * MS]).unwrap();
    assert_eq!(longest_ms(&shaped(Shape::List(waits))), [30, 5, 700, 700, 700, 700]);
    assert_eq!(waits.iter().collect::<Vec<_>>(), [30 * MS, 5 * MS, 700 * MS]);
}

/// The worker's tiers by formula: 30 s × 6, capped at 30 m.
#[test]
fn the_tiers_of_a_worker_are_exact() {
    let minute = 60_000;
    let shape = Shape::Exponential { factor: 6.0 };
    let tiers = Backoff::new(Spec { shape, ..spec(30_000, 30 * minute, Jitter::None) }).unwrap();
    assert_eq!(longest_ms(&tiers)[..4], [30_000, 180_000, 1_080_000, 1_800_000]);
}

/// What a spread has to be: no two alike, and uniform between zero and a second by a Kolmogorov–Smirnov test.
fn is_spread(mut draw: impl FnMut() -> Duration) -> Result<(), String> {
    let mut delays: Vec<_> = (0..10_000).map(|_| draw()).collect();
    delays.sort_unstable();
    if delays.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("two calls got the same delay".into());
    }
    let n = delays.len() as f64;
    let gap = |(i, delay): (usize, &Duration)| (delay.as_secs_f64() - (i as f64 + 0.5) / n).abs();
    let ks = delays.iter().enumerate().map(gap).fold(0.0, f64::max);
    // At the 1 % level.
    if ks < 1.63 / n.sqrt() { Ok(()) } else { Err(format!("Kolmogorov–Smirnov distance {ks}")) }
}

/// B1: one policy, one generator, many calls.
#[test]
fn calls_from_one_policy_get_pairwise_different_uniform_delays() {
    let (backoff, mut rng) = (backoff(1_000, 60_000, Jitter::Full), Rng::new(11));
    assert_eq!(is_spread(|| backoff.delay(1, NEVER, &mut rng)), Ok(()));
}

/// B1, the other way round: the same test sees a generator that every call has its own copy of.
#[test]
fn a_cloned_generator_would_be_noticed() {
    let backoff = backoff(1_000, 60_000, Jitter::Full);
    assert!(is_spread(|| backoff.delay(1, NEVER, &mut Rng::new(11))).is_err());
}

/// What the cap has to be: never exceeded, and no point on which callers gather.
fn is_capped_and_varied(
    cap: Duration,
    mut draw: impl FnMut(&mut Rng) -> Duration,
) -> Result<(), String> {
    let mut rng = Rng::new(5);
    let delays: Vec<_> = (0..1_000).map(|_| draw(&mut rng)).collect();
    if let Some(longer) = delays.iter().find(|&&delay| delay > cap) {
        return Err(format!("{longer:?} exceeds the cap"));
    }
    let at_the_cap = delays.iter().filter(|&&delay| delay == cap).count();
    let (mean, variance) = moments(&delays);
    if at_the_cap > 10 || variance < 0.02 * mean * mean {
        return Err(format!("variance {variance}, and {at_the_cap} of 1000 exactly at the cap"));
    }
    Ok(())
}

/// B2: jitter survives at the cap, and the cap holds after jitter.
#[test]
fn at_the_cap_delays_still_vary_and_never_exceed_it() {
    let cap = Duration::from_secs(1);
    for jitter in JITTERS.into_iter().filter(|jitter| *jitter != Jitter::None) {
        let backoff = backoff(100, 1_000, jitter);
        let mut prev = cap;
        let mut draw = |rng: &mut Rng| {
            prev = backoff.delay(20, prev, rng);
            prev
        };
        assert_eq!(is_capped_and_varied(cap, &mut draw), Ok(()), "{}", jitter.as_str());
    }
}

/// B2, the other way round: both wrong orders of cap and jitter are seen.
#[test]
fn capping_after_jitter_and_jitter_after_capping_would_be_noticed() {
    let cap = Duration::from_secs(1);
    let grown = Duration::from_millis(100) * (1 << 19);
    let cap_after = |rng: &mut Rng| rng.up_to(grown).min(cap);
    assert!(is_capped_and_varied(cap, cap_after).is_err());
    let jitter_after = |rng: &mut Rng| grown.min(cap).mul_f64(0.5 + rng.unit());
    assert!(is_capped_and_varied(cap, jitter_after).is_err());
}

/// B4, B9: mean and variance of every jitter, from the first retry on, as its formula says. A jitter that is lost in a
/// change, or that spares the first retry, shows here.
#[test]
fn every_jitter_has_the_mean_and_variance_of_its_formula() {
    // The range, in milliseconds, of retry n after a wait of as long as its shape says.
    let ranges = |jitter, n: u32| {
        let d = 100.0 * f64::from(1 << (n - 1));
        match jitter {
            Jitter::None => (d, d),
            Jitter::Full => (0.0, d),
            Jitter::Equal => (d / 2.0, d),
            Jitter::Decorrelated => (100.0, 3.0 * d),
            Jitter::Proportional(p) => (d - p * d, d + p * d),
        }
    };
    for (jitter, n) in JITTERS.iter().flat_map(|jitter| (1..=5).map(move |n| (*jitter, n))) {
        let (backoff, mut rng) = (backoff(100, 10_000, jitter), Rng::new(9));
        let prev = 100 * MS * (1 << (n - 1));
        let delays: Vec<_> = (0..20_000).map(|_| backoff.delay(n, prev, &mut rng)).collect();
        let (from, to) = ranges(jitter, n);
        let (mean, variance) = moments(&delays);
        let (mean, variance, width) = (mean * 1e3, variance * 1e6, to - from);
        assert!(
            (mean - (from + to) / 2.0).abs() <= 0.01 * width + 1e-6,
            "{jitter:?} {n}: mean {mean}"
        );
        let expected = width * width / 12.0;
        assert!(
            (variance - expected).abs() <= 0.03 * expected + 1e-6,
            "{jitter:?} {n}: variance {variance}"
        );
        let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        assert!(delays.iter().all(|&delay| (ms(from)..=ms(to)).contains(&delay)), "{jitter:?} {n}");
    }
}

/// The mean wait before retry 100, and how many waits are shorter than the one before.
fn long_run(mut next: impl FnMut(Duration) -> Duration) -> (Duration, f64) {
    let (mut sum, mut shorter) = (Duration::ZERO, 0);
    for _ in 0..2_000 {
        let mut prev = NEVER;
        for _ in 0..100 {
            let wait = next(prev);
            shorter += u32::from(wait < prev);
            prev = wait;
        }
        sum += prev;
    }
    (sum / 2_000, f64::from(shorter) / 200_000.0)
}

/// B5, with the ratchet that the same test sees.
#[test]
fn decorrelated_waits_also_shrink_and_their_mean_stays_well_below_the_cap() {
    let (backoff, mut rng) = (backoff(100, 10_000, Jitter::Decorrelated), Rng::new(3));
    let (mean, shorter) = long_run(|prev| backoff.delay(100, prev, &mut rng));
    assert!(mean < Duration::from_secs(5), "mean {mean:?}");
    assert!(shorter > 0.3, "{shorter} of all waits are shorter than the one before");

    let cap = Duration::from_secs(10);
    let ratchet = |prev: Duration| {
        let prev = prev.max(100 * MS);
        prev.min(cap) + rng.up_to((3 * prev).min(cap).saturating_sub(prev))
    };
    let (mean, shorter) = long_run(ratchet);
    assert!(mean > Duration::from_secs(9) && shorter < 0.1, "{mean:?}, {shorter}");
}

/// B6, T4: the attempts at which shifts and multiplications overflow elsewhere.
#[test]
fn no_attempt_number_overflows() {
    let waits = Waits::new(&[100 * MS, Duration::MAX]).unwrap();
    let shapes =
        [Shape::Fixed, Shape::Linear, Shape::Exponential { factor: 100.0 }, Shape::List(waits)];
    let endless =
        |shape, jitter| Backoff::new(Spec { shape, base: 100 * MS, cap: Duration::MAX, jitter });
    for (shape, jitter) in shapes.iter().flat_map(|s| JITTERS.map(|jitter| (*s, jitter))) {
        let Ok(endless) = endless(shape, jitter) else { continue };
        for n in [0, 1, 31, 32, 33, 63, 64, 65, 1_024, u32::MAX] {
            let wait = endless.delay(n, Duration::MAX, &mut Rng::new(1));
            assert!(wait <= Duration::from_nanos(u64::MAX), "retry {n} of {shape:?} {jitter:?}");
            let (from, to) = (endless.shortest(n), endless.longest(n));
            assert!((from..=to).contains(&endless.median(n)), "retry {n} of {shape:?} {jitter:?}");
            assert!(backoff(100, 20_000, jitter).longest(n) <= Duration::from_secs(20));
        }
    }
    let shape = Shape::Exponential { factor: 2.0 };
    let longest = endless(shape, Jitter::Full).unwrap().longest(u32::MAX);
    assert_eq!(longest, Duration::from_nanos(u64::MAX));
    let linear = endless(Shape::Linear, Jitter::None).unwrap();
    assert_eq!(linear.longest(u32::MAX), 100 * MS * u32::MAX);
}

/// B7: three times a previous wait that is shorter than the base, or none.
#[test]
fn a_previous_wait_below_the_base_counts_as_the_base() {
    let (backoff, mut rng) = (backoff(100, 10_000, Jitter::Decorrelated), Rng::new(2));
    for prev in [NEVER, Duration::from_nanos(1), 10 * MS] {
        for _ in 0..100 {
            assert!((100 * MS..=300 * MS).contains(&backoff.delay(1, prev, &mut rng)));
        }
    }
    let tight = Backoff::new(spec(100, 100, Jitter::Decorrelated)).unwrap();
    assert_eq!(tight.delay(3, Duration::MAX, &mut rng), 100 * MS);
}

#[test]
fn half_of_all_waits_are_below_the_median() {
    for jitter in JITTERS {
        let (backoff, mut rng) = (backoff(100, 20_000, jitter), Rng::new(21));
        let mut prev = [NEVER; 10_000];
        for n in 1..=8 {
            for wait in &mut prev {
                *wait = backoff.delay(n, *wait, &mut rng);
            }
            let median = backoff.median(n);
            let below = prev.iter().filter(|&&wait| wait <= median).count();
            let share = if jitter == Jitter::None { 10_000..=10_000 } else { 4_800..=5_200 };
            assert!(share.contains(&below), "{jitter:?} {n}: {below} up to {median:?}");
        }
    }
    let first = backoff(100, 20_000, Jitter::Decorrelated).median(1);
    assert!(first.abs_diff(200 * MS) < Duration::from_micros(1), "{first:?}");
}

/// B7.
#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let good = Spec::default();
    let exponential = |factor| Spec { shape: Shape::Exponential { factor }, ..good };
    let long = Waits::new(&[MS, 30_000 * MS]).unwrap();
    let mut nonsense = vec![
        Spec { base: Duration::ZERO, ..good },
        Spec { base: Duration::ZERO, shape: Shape::Fixed, ..good },
        Spec { base: Duration::ZERO, shape: Shape::Linear, ..good },
        Spec { cap: MS, ..good },
        Spec { cap: MS, shape: Shape::Fixed, ..good },
        Spec { shape: Shape::List(long), ..good },
        Spec { shape: Shape::Linear, jitter: Jitter::Decorrelated, ..good },
        Spec { shape: Shape::None, jitter: Jitter::Decorrelated, ..good },
    ];
    nonsense.extend([0.5, 0.0, -2.0, 101.0, f64::NAN, f64::INFINITY].map(exponential));
    nonsense.extend(
        [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY]
            .map(|p| Spec { jitter: Jitter::Proportional(p), ..good }),
    );
    let mut messages: Vec<_> =
        nonsense.iter().map(|spec| Backoff::new(*spec).unwrap_err().to_string()).collect();
    for waits in [&[][..], &[MS; 17], &[MS, Duration::ZERO]] {
        messages.push(Waits::new(waits).unwrap_err().to_string());
    }
    for message in messages {
        assert!(message.starts_with("backoff.") && message.contains("write"), "{message}");
    }
    let without_base = Spec { base: Duration::ZERO, shape: Shape::None, ..good };
    assert!(Backoff::new(without_base).is_ok());
}

/// B8: nobody who writes nothing waits for ever, or not at all.
#[test]
fn the_default_has_a_wait_a_spread_and_a_cap() {
    let backoff = Backoff::new(Spec::default()).unwrap();
    assert_eq!(backoff.longest(1), 100 * MS);
    assert_eq!(backoff.longest(u32::MAX), Duration::from_secs(20));
    assert_eq!(backoff.spec().jitter, Jitter::Full);
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let wait = || prop_oneof![1..1_000_u64, 1..u64::MAX].prop_map(Duration::from_nanos);
    let shape = prop_oneof![
        Just(Shape::None),
        Just(Shape::Fixed),
        Just(Shape::Linear),
        (1.0..100.0).prop_map(|factor| Shape::Exponential { factor }),
        prop::collection::vec(wait(), 1..=16).prop_map(|w| Shape::List(Waits::new(&w).unwrap())),
    ];
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        Just(Jitter::Decorrelated),
        (0.001..=1.0).prop_map(Jitter::Proportional),
    ];
    (shape, wait(), wait(), jitter).prop_map(|(shape, a, b, jitter)| {
        let cap = if let Shape::List(waits) = shape { waits.longest() } else { a.max(b) };
        Spec { shape, base: a.min(b), cap, jitter }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// B2, B6: whatever is written, and whatever retry it is.
    #[test]
    fn every_wait_lies_between_the_shortest_and_the_longest_and_within_the_cap(
        spec in any_spec(),
        seed: u64,
        n: u32,
    ) {
        let Ok(backoff) = Backoff::new(spec) else {
            prop_assert_eq!(spec.jitter, Jitter::Decorrelated);
            return Ok(());
        };
        let (mut rng, mut prev) = (Rng::new(seed), NEVER);
        for n in (1..=40).chain([n.max(40)]) {
            prev = backoff.delay(n, prev, &mut rng);
            prop_assert!((backoff.shortest(n)..=backoff.longest(n)).contains(&prev), "retry {}", n);
            prop_assert!(backoff.longest(n) <= spec.cap);
        }
    }
}

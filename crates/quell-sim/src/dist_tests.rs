use super::*;

const N: usize = 200_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn all() -> [Dist; 6] {
    [
        Dist::Constant(ms(100)),
        Dist::Uniform { from: ms(50), to: ms(150) },
        Dist::Exponential { mean: ms(100) },
        Dist::Lognormal { p50: ms(80), p99: ms(400) },
        Dist::Bimodal { fast: ms(50), slow: ms(1_000), share: 0.05 },
        Dist::Histogram(vec![(ms(10), 0.0), (ms(50), 3.0), (ms(100), 6.0), (ms(1_000), 1.0)]),
    ]
}

/// Sorted, in milliseconds.
fn drawn(dist: &Dist) -> Vec<f64> {
    let (draw, mut rng) = (Draw::new(dist).unwrap(), Rng::new(11));
    let mut times: Vec<_> = (0..N).map(|_| draw.next(&mut rng).as_secs_f64() * 1_000.0).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn the_mean_of_what_is_drawn_is_the_mean_that_is_said() {
    for dist in all() {
        let times = drawn(&dist);
        let said = Draw::new(&dist).unwrap().mean().as_secs_f64() * 1_000.0;
        let mean = times.iter().sum::<f64>() / N as f64;
        assert!((mean / said - 1.0).abs() < 0.01, "{dist:?}: {mean} instead of {said}");
    }
}

#[test]
fn quantiles_are_those_that_were_written() {
    let near = |times: &[f64], share: f64, expected: f64| {
        let got = times[(N as f64 * share) as usize];
        assert!((got / expected - 1.0).abs() < 0.02, "{share}: {got} instead of {expected}");
    };
    let [_, uniform, exponential, lognormal, bimodal, histogram] = all().map(|dist| drawn(&dist));
    near(&uniform, 0.25, 75.0);
    near(&exponential, 0.5, 69.31);
    near(&exponential, 0.99, 460.5);
    near(&lognormal, 0.5, 80.0);
    near(&lognormal, 0.99, 400.0);
    near(&bimodal, 0.94, 50.0);
    near(&bimodal, 0.96, 1_000.0);
    near(&histogram, 0.15, 30.0); // half of the bucket that holds 3 of 10
    near(&histogram, 0.6, 75.0);
    near(&histogram, 0.95, 550.0);
}

/// Two runs that differ elsewhere draw the same times.
#[test]
fn every_time_takes_one_number_from_the_generator() {
    for dist in &all()[1..] {
        let (draw, mut a, mut b) = (Draw::new(dist).unwrap(), Rng::new(3), Rng::new(3));
        draw.next(&mut a);
        b.next_u64();
        assert_eq!(a.next_u64(), b.next_u64(), "{dist:?}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_with_a_fix() {
    for dist in [
        Dist::Uniform { from: ms(2), to: ms(1) },
        Dist::Lognormal { p50: ms(0), p99: ms(1) },
        Dist::Lognormal { p50: ms(2), p99: ms(1) },
        Dist::Bimodal { fast: ms(1), slow: ms(2), share: f64::NAN },
        Dist::Bimodal { fast: ms(1), slow: ms(2), share: 1.1 },
        Dist::Histogram(vec![]),
        Dist::Histogram(vec![(ms(1), 0.0)]),
        Dist::Histogram(vec![(ms(1), f64::NAN)]),
        Dist::Histogram(vec![(ms(1), 2.0), (ms(2), -1.0)]),
        Dist::Histogram(vec![(ms(2), 1.0), (ms(1), 1.0)]),
    ] {
        let message = Draw::new(&dist).unwrap_err().to_string();
        assert!(message.contains("write"), "{message}");
    }
}

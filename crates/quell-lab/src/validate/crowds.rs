//! Crowds: what jitter does for many who fail together.

use core::time::Duration;

use quell_core::{
    Rng,
    backoff::{Backoff, Jitter, Shape, Spec},
};

use super::{Row, SEED, Size, steady};
use quell_sim::{
    Scenario,
    dist::Dist,
    scenario::{Arrivals, Callers, Invalid, OutageKind, Service},
    verdict::Count,
};

const AWS: &str = "AWS, Exponential Backoff And Jitter, 2015";
const HERD: &str = "the model of the herd";
const CLIENTS: u32 = 100;

pub(super) fn rows(size: Size) -> Result<Vec<Row>, Invalid> {
    let runs = size.pick(5, 100);
    let none = calls(Jitter::None, runs)?;
    let full = calls(Jitter::Full, runs)?;
    let name = "100 contending clients: calls with full jitter ÷ with plain exponential backoff";
    Ok(vec![
        Row::within(name, AWS, 0.0..=0.5, full / none)
            .remark("the text does not say at which attempt base × 2^attempt begins; its code begins with 1, a first wait of 10 ms, and so does this; here only the hops between a client's read and its write take time"),
        Row::within("herd of 100, 1 % randomness: most per 20 ms on the last retry", HERD, 35.0..=46.0, herd(0.01)?),
        Row::within("herd of 100, 50 % randomness: most per 20 ms on the last retry", HERD, 3.0..=5.0, herd(0.5)?),
    ])
}

/// Clients who each read a row's version and write it back, which works if nobody wrote in between. Answers with the
/// calls that were made until all have succeeded: the mean over so many runs.
fn calls(jitter: Jitter, runs: u64) -> Result<f64, Invalid> {
    let ms = Duration::from_millis;
    let backoff =
        Spec { base: ms(10), cap: ms(2_000), jitter, shape: Shape::Exponential { factor: 2.0 } };
    // From the read to the write: two hops of 10 ms, each with a standard deviation of 2.
    let there_and_back = Dist::Lognormal { p50: ms(20), p99: Duration::from_micros(26_600) };
    let crowd = Scenario {
        arrivals: Arrivals::Burst { users: CLIENTS, at: Duration::ZERO },
        service: Service { contended: true, ..Service::new(CLIENTS, there_and_back) },
        ..steady(
            1.0,
            Service::constant(1, ms(1)),
            Callers::Backoff { retries: u32::MAX, backoff },
            600,
            OutageKind::Brownout { share: 0.0 },
        )
    };
    let mut calls = 0;
    for run in 0..runs {
        calls += quell_sim::run(&crowd, SEED + run)?.series.sum(Count::Sent, 0..usize::MAX);
    }
    Ok(calls as f64 / runs as f64)
}

/// Clients who fail together and try again five times, 10 ms × 4^n apart. Answers with the most of them that make their
/// last try in the same 20 ms: the median of 21 seeds.
fn herd(randomness: f64) -> Result<f64, Invalid> {
    let spec = Spec {
        base: Duration::from_millis(10),
        cap: Duration::from_secs(10),
        jitter: Jitter::Proportional(randomness),
        shape: Shape::Exponential { factor: 4.0 },
    };
    let backoff = Backoff::new(spec).map_err(quell_core::spec::Invalid::from)?;
    let mut peaks: Vec<_> = (0..21)
        .map(|run| {
            let mut rng = Rng::stream(SEED, run, 3);
            let mut bins = [0u32; 500];
            for _ in 0..CLIENTS {
                let last: Duration =
                    (1..=5).map(|n| backoff.delay(n, Duration::ZERO, &mut rng)).sum();
                bins[(last.as_millis() / 20).min(499) as usize] += 1;
            }
            bins.into_iter().max().unwrap_or(0)
        })
        .collect();
    peaks.sort_unstable();
    Ok(f64::from(peaks[10]))
}

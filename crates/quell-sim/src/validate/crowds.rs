//! Crowds: what jitter does for many who fail together. No service is needed for it, only the backoff of `quell-core`.

use core::time::Duration;

use quell_core::{
    Rng, Time,
    backoff::{Backoff, Jitter, Shape, Spec},
};

use super::{Row, SEED, Size};
use crate::{agenda::Agenda, maths::normal_quantile, scenario::Invalid};

const AWS: &str = "AWS, Exponential Backoff And Jitter, 2015";
const HERD: &str = "the model of the herd";
const CLIENTS: usize = 100;

pub(super) fn rows(size: Size) -> Result<Vec<Row>, Invalid> {
    let runs = size.pick(5, 100);
    let none = calls(Jitter::None, runs)?;
    let full = calls(Jitter::Full, runs)?;
    let name = "100 contending clients: calls with full jitter ÷ with plain exponential backoff";
    Ok(vec![
        Row::within(name, AWS, 0.0..=0.5, full / none)
            .remark("the text does not say at which attempt base × 2^attempt begins; its code begins with 1, a first wait of 10 ms, and so does this"),
        Row::within("herd of 100, 1 % randomness: most per 20 ms on the last retry", HERD, 35.0..=46.0, herd(0.01)?),
        Row::within("herd of 100, 50 % randomness: most per 20 ms on the last retry", HERD, 3.0..=5.0, herd(0.5)?),
    ])
}

/// Where a message of a client is, and what it carries.
#[derive(Clone, Copy)]
enum Step {
    Reads,
    Writes { version: u32 },
    Hears { good: bool },
}

/// Clients who each read a row's version and write it back, which works if nobody wrote in between. Answers with the
/// writes that were made until all have succeeded: the mean over so many runs.
fn calls(jitter: Jitter, runs: u64) -> Result<f64, Invalid> {
    let ms = Duration::from_millis;
    let spec =
        Spec { base: ms(10), cap: ms(2_000), jitter, shape: Shape::Exponential { factor: 2.0 } };
    let backoff = Backoff::new(spec).map_err(quell_core::spec::Invalid::from)?;
    let mut calls = 0u32;
    for run in 0..runs {
        let (mut net, mut waits) = (Rng::stream(SEED, run, 1), Rng::stream(SEED, run, 2));
        // 10 ms with a standard deviation of 2.
        let mut hop =
            || Duration::from_secs_f64((10.0 + 2.0 * normal_quantile(net.unit())).abs() / 1_000.0);
        let mut agenda = Agenda::new();
        let (mut failures, mut row) = ([0u32; CLIENTS], 0u32);
        for client in 0..CLIENTS {
            agenda.at(Time::ZERO + hop(), (client, Step::Reads));
        }
        while let Some((now, (client, step))) = agenda.next() {
            match step {
                Step::Reads => {
                    let there_and_back = hop() + hop();
                    agenda.at(now + there_and_back, (client, Step::Writes { version: row }));
                }
                Step::Writes { version } => {
                    calls += 1;
                    let good = version == row;
                    row += u32::from(good);
                    agenda.at(now + hop(), (client, Step::Hears { good }));
                }
                Step::Hears { good: true } => {}
                Step::Hears { good: false } => {
                    failures[client] += 1;
                    let wait = backoff.delay(failures[client], Duration::ZERO, &mut waits);
                    agenda.at(now + hop() + wait, (client, Step::Reads));
                }
            }
        }
    }
    Ok(f64::from(calls) / runs as f64)
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

//! Storms as others have described them, and the rule for which of them end.

use core::time::Duration;

use super::{Row, Size, retries::budgeted, run, steady};
use quell_sim::{
    Run, Scenario,
    scenario::{Arrivals, Callers, Curve, Invalid, Outage, OutageKind, Service},
    verdict::Count,
};

const HOTOS: &str = "Bronson et al., HotOS 2021";
const RULE: &str = "w·ρ < 1";
const CASCADE: &str = "the model of the cascade";

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn rows(size: Size) -> Result<Vec<Row>, Invalid> {
    let mut rows = hotos()?;
    rows.push(healing(size)?);
    rows.extend(cascade()?);
    Ok(rows)
}

/// A service that stalls for a while under callers who wait a second and try again at once.
fn stalled(load: f64, service: Service, attempts: u32, length: u64, watch: u64) -> Scenario {
    let callers = Callers::Fixed { retries: attempts - 1, pause: Duration::ZERO };
    Scenario {
        patience: s(1),
        outage: Outage { kind: OutageKind::Stall, at: s(10), length: s(length) },
        watch: s(watch),
        ..steady(load, service, callers, 1, OutageKind::Stall)
    }
}

fn healed(run: &Run) -> bool {
    run.summary.verdict.healed()
}

fn hotos() -> Result<Vec<Row>, Invalid> {
    let database = || Service::constant(30, Duration::from_millis(100)); // 300 per second
    let below = run(&stalled(140.0, database(), 2, 10, 300))?;
    let above = run(&stalled(280.0, database(), 2, 10, 120))?;
    let rate = |what| above.series.sum(what, 100..140) as f64 / 40.0;
    Ok(vec![
        Row::near(
            "300 QPS database, one retry, 140 QPS, 10 s trigger: heals (1 = yes)",
            HOTOS,
            1.0,
            f64::from(healed(&below)),
            0.0,
        ),
        Row::near(
            "300 QPS database, one retry, 280 QPS, 10 s trigger: offered afterwards, QPS",
            HOTOS,
            560.0,
            rate(Count::Sent),
            0.03,
        ),
        Row::within(
            "300 QPS database, one retry, 280 QPS, 10 s trigger: goodput afterwards, QPS",
            HOTOS,
            0.0..=1.0,
            rate(Count::Good),
        ),
    ])
}

/// Attempts × utilisation: which cells heal is what the rule says.
fn healing(size: Size) -> Result<Row, Invalid> {
    let utilisations = size.pick(&[0.3, 0.6][..], &[0.2, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9][..]);
    let (mut cells, mut right) = (0, 0);
    for attempts in 1..=5 {
        for &rho in utilisations {
            let product = f64::from(attempts) * rho;
            if (product - 1.0).abs() < 0.09 {
                continue; // too close to call in the time there is
            }
            let service = Service::constant(36, Duration::from_millis(100));
            let run = run(&stalled(360.0 * rho, service, attempts, 5, 120))?;
            cells += 1;
            right += u32::from(healed(&run) == (product < 1.0));
        }
    }
    let name = "stalled FIFO service, attempts 1 to 5 × utilisations: cells where the rule holds";
    Ok(Row::near(name, RULE, f64::from(cells), f64::from(right), 0.0))
}

/// Capacity 10,000, base 8,000, ten seconds of 9,500; failures min(1, 5·(u − 0.8)).
fn cascade() -> Result<Vec<Row>, Invalid> {
    let counts: Vec<_> =
        (0..90).map(|t| if (20..30).contains(&t) { 9_500 } else { 8_000 }).collect();
    let faced_by = |callers: Callers| {
        let service = Service {
            failures: Curve(vec![(0.8, 0.0), (1.0, 1.0)]),
            ..Service::constant(1_000, Duration::from_millis(100))
        };
        let spike = Outage { kind: OutageKind::Brownout { share: 0.0 }, at: s(20), length: s(10) };
        run(&Scenario {
            arrivals: Arrivals::Recorded(counts.clone()),
            outage: spike,
            watch: s(60),
            ..steady(8_000.0, service, callers, 1, spike.kind)
        })
    };
    let none = faced_by(Callers::NO_RETRIES)?;
    let naive = faced_by(Callers::NAIVE)?;
    let budget = faced_by(budgeted(4))?;
    let last = |run: &Run, what| run.series.sum(what, 75..90) as f64 / 15.0;
    Ok(vec![
        Row::near(
            "cascade without retries: goodput afterwards, per second",
            CASCADE,
            8_000.0,
            last(&none, Count::Good),
            0.001,
        ),
        Row::within(
            "cascade with 3 retries after 1 s: goodput afterwards",
            CASCADE,
            0.0..=80.0,
            last(&naive, Count::Good),
        ),
        Row::near(
            "cascade with 3 retries after 1 s: offered afterwards",
            CASCADE,
            32_000.0,
            last(&naive, Count::Sent),
            0.01,
        ),
        Row::within(
            "cascade with a 10 % budget: offered afterwards, at most (1 + b)·base",
            CASCADE,
            8_001.0..=8_800.0,
            last(&budget, Count::Sent),
        ),
        Row::within(
            "cascade with a 10 % budget: goodput afterwards, past the knee",
            CASCADE,
            5_000.0..=7_600.0,
            last(&budget, Count::Good),
        ),
    ])
}

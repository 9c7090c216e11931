//! What retries add, by arithmetic and as published.

use core::time::Duration;

use quell_core::{
    breaker,
    budget::tokens,
    spec::{PolicySpec, UpstreamSpec},
};

use super::{Row, Size, run, steady};
use quell_sim::{
    Run, Scenario,
    scenario::{Arrivals, Callers, Invalid, Outage, OutageKind, Service},
    verdict::Count,
};

const ARITHMETIC: &str = "arithmetic";
const BROOKER: &str = "Brooker 2022";

/// Quell's library with a budget of 10 % that begins empty, and nothing else to hold retries back.
pub(super) fn budgeted(attempts: u32) -> Callers {
    let budget = tokens::Spec { start: Some(0), ..tokens::Spec::default() };
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    Callers::Quell {
        policy: PolicySpec { attempts, ..PolicySpec::library() },
        upstream: UpstreamSpec { budget: budget.into(), breaker, ..UpstreamSpec::library() },
    }
}

fn fixed(retries: u32) -> Callers {
    Callers::Fixed { retries, pause: Duration::from_millis(100) }
}

fn total(run: &Run, what: Count) -> f64 {
    run.series.sum(what, 0..usize::MAX) as f64
}

fn retries(run: &Run) -> f64 {
    total(run, Count::Sent) - total(run, Count::Demand)
}

pub(super) fn rows(size: Size) -> Result<Vec<Row>, Invalid> {
    let seconds = size.pick(60, 600);
    let close = size.pick(0.02, 0.005);
    let attempts = |share: f64, callers: Callers| {
        let service = Service::constant(2_000, Duration::from_millis(10));
        let brownout = OutageKind::Brownout { share };
        let run = run(&steady(1_000.0, service, callers, seconds, brownout))?;
        Ok::<_, Invalid>(total(&run, Count::Sent) / total(&run, Count::Demand))
    };
    let mut rows = Vec::new();
    for (f, r) in [(0.01, 3), (0.1, 3), (0.5, 3), (0.9, 5)] {
        let right = (0..=r).fold(0.0, |sum, _| 1.0 + f * sum);
        let name =
            format!("attempts per request, {r} retries, {} % fail: 1 + f + … + f^R", f * 100.0);
        rows.push(Row::near(name, ARITHMETIC, right, attempts(f, fixed(r))?, close));
    }
    let name = "load at 50 % failures, 3 retries";
    rows.push(Row::near(name, BROOKER, 1.88, attempts(0.5, fixed(3))?, 0.01));
    let bucket = attempts(0.5, budgeted(4))?;
    let name = "load at 50 % failures, 3 retries from a 10 % bucket";
    rows.push(Row::within(name, BROOKER, 1.0..=1.1, bucket).remark(
        "the text says it behaves like 0.1 retries; as described, successes alone fill the bucket, so half of that",
    ));
    let name = "that load by arithmetic: 1 ÷ (1 − 0.1 × 0.5)";
    rows.push(Row::near(name, ARITHMETIC, 1.0 / 0.95, bucket, close));
    let name = "load at 1 % failures, 3 retries from a 10 % bucket: as without it";
    rows.push(Row::near(name, BROOKER, 1.0101, attempts(0.01, budgeted(4))?, close));
    rows.extend(counted()?);
    Ok(rows)
}

/// Cases that can be counted on one's fingers.
fn counted() -> Result<Vec<Row>, Invalid> {
    // Nobody in the first seconds, the crowd in one second, nobody afterwards; down from second 1 on.
    let outage = |counts: &[u32], callers: Callers, mends: u64| {
        let mut counts = counts.to_vec();
        counts.resize(200, 0);
        let outage = Outage {
            kind: OutageKind::Fail,
            at: Duration::from_secs(1),
            length: Duration::from_secs(mends - 1),
        };
        let service = Service::constant(2_000, Duration::from_millis(10));
        Scenario {
            arrivals: Arrivals::Recorded(counts),
            outage,
            watch: Duration::from_secs(60),
            ..steady(1.0, service, callers, 1, OutageKind::Fail)
        }
    };
    let second = Callers::Fixed { retries: u32::MAX, pause: Duration::from_secs(1) };
    let Callers::Backoff { backoff, .. } = Callers::backoff() else { return Ok(vec![]) };
    let backoff = Callers::Backoff { retries: 5, backoff };
    let crowd = [0, 0, 1_000];
    let days = [1_000, 0, 10_000];
    let exact = |name: &str, scenario: Scenario, right: f64| {
        Ok::<_, Invalid>(Row::near(name, ARITHMETIC, right, retries(&run(&scenario)?), 0.0))
    };
    Ok(vec![
        exact(
            "1,000 clients, 60 s outage, fixed 1 s: retries",
            outage(&crowd, second, 62),
            60_000.0,
        )?,
        exact(
            "1,000 clients, 60 s outage, exponential, 5 retries each: retries",
            outage(&crowd, backoff, 62),
            5_000.0,
        )?,
        exact(
            "1,000 successes, then 10,000 failures × 3: retries",
            outage(&days, fixed(3), 62),
            30_000.0,
        )?,
        exact(
            "1,000 successes, then 10,000 failures, 10 % budget from empty: retries",
            outage(&days, budgeted(4), 62),
            100.0,
        )?,
    ])
}

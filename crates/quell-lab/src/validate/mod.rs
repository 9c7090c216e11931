//! Validate: what the simulator says where the right answer is known.
//!
//! **Why.** A simulator that is only ever asked what nobody can check is believed or not, as one likes. Queueing theory
//! has had exact answers for a hundred years, and others have published experiments with retries: whoever gets those
//! right may be asked about the rest.
//!
//! **How.** [`all`] runs each case on the very code that runs scenarios, and says what was expected, what came out and
//! how far apart they may be. Same size, same rows, on every machine.
//!
//! ```no_run
//! use quell_lab::validate::{Size, all};
//!
//! let rows = all(Size::Quick)?;
//! assert!(rows.iter().all(|row| row.ok));
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

mod chains;
mod crowds;
mod queues;
mod retries;
mod storms;

use core::{ops::RangeInclusive, time::Duration};

use quell_sim::{
    Run, Scenario,
    scenario::{Callers, Invalid, Outage, OutageKind, Service},
};

/// How much to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Seconds, with wide tolerances: for tests.
    Quick,
    /// What the page in the docs shows.
    Full,
}

impl Size {
    fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// One thing that is known, and what the simulator made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What is looked at.
    pub name: String,
    /// Who says what is right.
    pub source: &'static str,
    /// What is right.
    pub expected: String,
    /// What came out.
    pub got: f64,
    /// How far apart they may be.
    pub tolerance: String,
    /// Whether they are no further apart.
    pub ok: bool,
    /// Where a published text and its code differ, or what else one should know.
    pub remark: &'static str,
}

impl Row {
    /// A number that is right within this share of it.
    fn near(
        name: impl Into<String>,
        source: &'static str,
        right: f64,
        got: f64,
        share: f64,
    ) -> Self {
        let ok = (got - right).abs() <= share * right.abs();
        let tolerance = if share == 0.0 { "exact".into() } else { format!("{} %", share * 100.0) };
        let expected = format!("{}", (right * 1e6).round() / 1e6);
        Self { name: name.into(), source, expected, got, tolerance, ok, remark: "" }
    }

    /// A number that is right anywhere in a range.
    fn within(
        name: impl Into<String>,
        source: &'static str,
        right: RangeInclusive<f64>,
        got: f64,
    ) -> Self {
        let ok = right.contains(&got);
        let expected = format!("{} to {}", right.start(), right.end());
        Self { name: name.into(), source, expected, got, tolerance: "range".into(), ok, remark: "" }
    }

    fn remark(self, remark: &'static str) -> Self {
        Self { remark, ..self }
    }
}

/// Everything that is known.
pub fn all(size: Size) -> Result<Vec<Row>, Invalid> {
    let mut rows = queues::rows(size)?;
    rows.extend(retries::rows(size)?);
    rows.extend(chains::rows()?);
    rows.extend(storms::rows(size)?);
    rows.extend(crowds::rows(size)?);
    Ok(rows)
}

const SEED: u64 = 1;

/// A service and its callers for so many seconds, in which something may happen all the time.
fn steady(
    load: f64,
    service: Service,
    callers: Callers,
    seconds: u64,
    kind: OutageKind,
) -> Scenario {
    let length = Duration::from_secs(seconds);
    Scenario {
        load,
        instances: 1,
        patience: Duration::from_secs(600),
        callers,
        service,
        outage: Outage { kind, at: Duration::ZERO, length },
        watch: Duration::ZERO,
        ..Scenario::storm(kind)
    }
}

/// The same, and nothing happens.
fn calm(load: f64, service: Service, seconds: u64) -> Scenario {
    steady(load, service, Callers::NO_RETRIES, seconds, OutageKind::Brownout { share: 0.0 })
}

fn run(scenario: &Scenario) -> Result<Run, Invalid> {
    quell_sim::run(scenario, SEED)
}

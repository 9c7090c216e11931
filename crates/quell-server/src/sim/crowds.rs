//! Crowds: why Quell turned callers away, and what became of each kind of requests.
//!
//! **Why.** "2 % refused" cannot be argued with; "2 %, because the queue was full, all of them quick calls" can.

use std::collections::BTreeMap;

use quell_charts::{
    Table,
    number::{percent, thousands},
};
use quell_sim::{
    Run,
    scenario::Side,
    verdict::{Count, Crowd, Refusals},
};
use serde::Serialize;

use super::{Job, figures::millis};

/// Why callers were turned away in a run, for machines.
#[derive(Debug, Serialize)]
pub(super) struct Away {
    /// By the word for the reason.
    refused_for: BTreeMap<&'static str, u64>,
    /// Callers whose patience ended in Quell's queue.
    left_queued: u64,
}

impl From<&Refusals> for Away {
    fn from(refusals: &Refusals) -> Self {
        let all = refusals.all();
        Self {
            refused_for: all.iter().map(|(reason, count)| (reason.as_str(), *count)).collect(),
            left_queued: refusals.left(),
        }
    }
}

/// One kind of requests in a run, for machines.
#[derive(Debug, Serialize)]
pub(super) struct KindRow {
    kind: String,
    side: &'static str,
    asked: u64,
    answered: u64,
    refused: f64,
    lost: u64,
    hung_up: u64,
    sent: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    #[serde(flatten)]
    away: Away,
}

impl KindRow {
    pub(super) fn all(run: &Run) -> Vec<Self> {
        run.kinds.iter().map(Self::of).collect()
    }

    fn of(crowd: &Crowd) -> Self {
        Self {
            kind: crowd.name.clone(),
            side: side(crowd),
            asked: crowd.demand(),
            answered: crowd.good(),
            refused: crowd.refused(),
            lost: crowd.lost,
            hung_up: crowd.hung_up,
            sent: crowd.series.sum(Count::Sent, 0..usize::MAX),
            p50_ms: crowd.quantile(0.5).map(millis),
            p99_ms: crowd.quantile(0.99).map(millis),
            away: Away::from(&crowd.refusals),
        }
    }
}

fn side(crowd: &Crowd) -> &'static str {
    match crowd.side {
        Side::Good => "good",
        Side::Other => "other",
        Side::Hostile => "hostile",
    }
}

/// What became of each kind, by the first seed; one row per kind and policy.
pub(super) fn table(jobs: &[Job<'_>]) -> Option<Table> {
    let columns =
        ["side", "asked", "answered", "refused", "hung up", "p50 ms", "p99 ms", "why refused"];
    let mut table = Table::new("kinds", columns);
    let mut any = false;
    for job in jobs {
        for crowd in job.runs.first().into_iter().flat_map(|run| &run.kinds) {
            any = true;
            let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
            let time =
                |q| crowd.quantile(q).map_or("–".to_owned(), |t| format!("{:.1}", millis(t)));
            let cells = vec![
                side(crowd).to_owned(),
                thousands(crowd.demand() as f64),
                share(crowd.good(), crowd.demand()),
                format!("{:.2} %", crowd.refused() * 100.0),
                thousands(crowd.hung_up as f64),
                time(0.5),
                time(0.99),
                why(&crowd.refusals).unwrap_or("–".to_owned()),
            ];
            table.row(&format!("{}, {}", crowd.name, job.who.label()), cells);
        }
    }
    any.then_some(table)
}

/// Why callers were turned away, one line per policy that did so, by the first seed.
pub(super) fn lines(jobs: &[Job<'_>]) -> Vec<String> {
    let line = |job: &Job<'_>| {
        let why = why(&job.runs.first()?.observed.refusals)?;
        Some(format!("{} refused: {why}", job.who.label()))
    };
    jobs.iter().filter_map(line).collect()
}

fn why(refusals: &Refusals) -> Option<String> {
    let reasons = refusals.all().into_iter().map(|(reason, count)| (reason.as_str(), count));
    let all = reasons.chain([("left in the queue", refusals.left())]);
    let told: Vec<_> = all
        .filter(|(_, count)| *count > 0)
        .map(|(why, count)| format!("{why} {}", thousands(count as f64)))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

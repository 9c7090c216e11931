//! Layers: the service and those behind it, one by one.
//!
//! **Why.** A chain multiplies what every hop adds: end to end one sees that it hurts, layer by layer where it comes from.

use std::ops::Range;

use quell_charts::{Table, number::percent};
use quell_sim::{
    Run,
    verdict::{Count, Layer, Tally},
};
use serde::Serialize;

use super::{Job, file::Plan, runs::Spread};

/// A stretch of time at one service.
#[derive(Debug, Serialize)]
struct Stretch {
    sends_per_user: f64,
    amplification: f64,
    wasted: f64,
    refused: f64,
    rejected: f64,
    retries_useful: Option<f64>,
    work_ms_per_answer: Option<f64>,
}

impl Stretch {
    fn of(run: &Run, layer: &Layer, seconds: Range<usize>) -> Self {
        let tally = layer.over(seconds.clone());
        let per = |whole: f64, what| match run.series.sum(what, seconds.clone()) {
            0 => None,
            n => Some(whole / n as f64),
        };
        Self {
            sends_per_user: per(tally.sent as f64, Count::Demand).unwrap_or(0.0),
            amplification: tally.amplification(),
            wasted: tally.wasted_share(),
            refused: tally.refused_share(),
            rejected: tally.rejected_share(),
            retries_useful: tally.useful_share(),
            work_ms_per_answer: per(tally.held as f64 / 1e6, Count::Good),
        }
    }
}

/// One service of a run, for machines: from the outage's start on, in parts, and by the second.
#[derive(Debug, Serialize)]
pub(super) struct LayerRow {
    service: String,
    #[serde(flatten)]
    since: Stretch,
    before: Stretch,
    during: Stretch,
    after: Stretch,
    timeline: Seconds,
}

#[derive(Debug, Serialize)]
struct Seconds {
    calls: Vec<u64>,
    sent: Vec<u64>,
    served: Vec<u64>,
    wasted: Vec<u64>,
    refused: Vec<u64>,
    rejected: Vec<u64>,
}

impl LayerRow {
    pub(super) fn all(plan: &Plan, run: &Run) -> Vec<Self> {
        let row = |(i, layer): (usize, &Layer)| {
            let [before, during, after] =
                run.timing.parts().map(|part| Stretch::of(run, layer, part));
            let all = |of: fn(&Tally) -> u64| layer.seconds().iter().map(of).collect();
            Self {
                service: name(plan, i).to_owned(),
                since: since(run, layer),
                before,
                during,
                after,
                timeline: Seconds {
                    calls: all(|second| second.calls),
                    sent: all(|second| second.sent),
                    served: all(|second| second.served),
                    wasted: all(|second| second.wasted),
                    refused: all(|second| second.refused),
                    rejected: all(|second| second.rejected),
                },
            }
        };
        run.layers.iter().enumerate().map(row).collect()
    }
}

fn since(run: &Run, layer: &Layer) -> Stretch {
    Stretch::of(run, layer, run.timing.outage_at..run.timing.end)
}

/// A service by its place, as the file names it.
pub(super) fn name(plan: &Plan, i: usize) -> &str {
    let behind = i.checked_sub(1).and_then(|i| plan.behind.get(i));
    behind.map_or("service", String::as_str)
}

/// What [`rows`] says, in its order.
pub(super) const COLUMNS: [&str; 8] = [
    "",
    "sends/user",
    "ampl. in fault",
    "ampl. after",
    "wasted",
    "refused",
    "useful",
    "work ms/answer",
];

/// Every service under every policy; nothing where there is but one service.
pub(super) fn rows<'a>(jobs: &'a [Job<'_>]) -> Vec<(&'a str, Vec<String>)> {
    let rows = jobs.iter().flat_map(|job| {
        let layers = job.runs.first().map_or(0, |run| run.layers.len());
        (0..if layers > 1 { layers } else { 0 }).map(move |i| {
            let label = if i == 0 { job.who.label() } else { "" };
            (label, cells(job, i))
        })
    });
    rows.collect()
}

fn cells(job: &Job<'_>, layer: usize) -> Vec<String> {
    let all = |of: &dyn Fn(&Run, &Layer) -> Option<f64>| {
        Spread::of(job.runs.iter().map(|run| of(run, run.layers.get(layer)?)))
    };
    let says = |spread: Option<Spread>, digits| {
        spread.map_or("–".to_owned(), |spread| spread.says(digits))
    };
    let share = |spread: Option<Spread>| {
        spread.map_or("–".to_owned(), |Spread { median, .. }| percent(median))
    };
    let part = |run: &Run, layer: &Layer, i: usize| {
        let seconds = run.timing.parts()[i].clone();
        Some(layer.over(seconds).amplification())
    };
    vec![
        name(job.plan, layer).to_owned(),
        says(all(&|run, layer| Some(since(run, layer).sends_per_user)), 2),
        says(all(&|run, layer| part(run, layer, 1)), 2),
        says(all(&|run, layer| part(run, layer, 2)), 2),
        share(all(&|run, layer| Some(since(run, layer).wasted))),
        share(all(&|run, layer| Some(since(run, layer).refused))),
        share(all(&|run, layer| since(run, layer).retries_useful)),
        says(all(&|run, layer| since(run, layer).work_ms_per_answer), 0),
    ]
}

/// Attempts per user that reached each service, from the outage's start on: the median over the seeds.
pub(super) fn sends(runs: &[Run]) -> Vec<f64> {
    let layers = runs.first().map_or(0, |run| run.layers.len());
    let sends = |i: usize| {
        let all = runs.iter().map(|run| Some(since(run, run.layers.get(i)?).sends_per_user));
        Spread::of(all).map_or(0.0, |spread| spread.median)
    };
    (0..layers).map(sends).collect()
}

/// [`rows`] as a table, if there is anything to show.
pub(super) fn table(jobs: &[Job<'_>]) -> Option<Table> {
    let rows = rows(jobs);
    let name = &jobs.first()?.plan.name;
    let mut table = Table::new(&format!("{name}: layer by layer"), COLUMNS);
    if rows.is_empty() {
        return None;
    }
    for (label, cells) in rows {
        table.row(label, cells);
    }
    Some(table)
}

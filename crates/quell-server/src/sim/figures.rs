//! Everything a run came to, for machines.

use std::time::Duration;

use quell_sim::{
    Leased, Records, Run,
    verdict::{Cost, Count, Moment, Phase},
};
use serde::Serialize;

use super::{
    crowds::{Away, KindRow},
    layers::LayerRow,
    runs::Spread,
};
use crate::figures::Figures;

/// Before the outage, during it, or after it.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    goodput: f64,
    amplification: f64,
    attempts_per_user: f64,
    wasted: f64,
    refused: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl From<Phase> for Part {
    fn from(phase: Phase) -> Self {
        Self {
            goodput: phase.goodput,
            amplification: phase.amplification,
            attempts_per_user: phase.attempts_per_user,
            wasted: phase.wasted,
            refused: phase.refused,
            p50_ms: phase.p50.map(millis),
            p99_ms: phase.p99.map(millis),
        }
    }
}

/// The same with what it cost.
#[derive(Debug, Serialize)]
struct Priced {
    #[serde(flatten)]
    part: Part,
    #[serde(flatten)]
    price: Price,
}

impl Priced {
    fn of(run: &Run, part: usize, price: Option<f64>) -> Self {
        let cost = run.cost(run.timing.parts()[part].clone());
        Self { part: run.summary.phases[part].into(), price: Price::of(cost, price) }
    }
}

/// What answers cost.
#[derive(Debug, Serialize)]
struct Price {
    work_ms_per_answer: Option<f64>,
    departed: f64,
    attempts_per_answer: Option<f64>,
    beyond_first: f64,
    cost_per_1000: Option<f64>,
}

impl Price {
    fn of(cost: Cost, price: Option<f64>) -> Self {
        Self {
            work_ms_per_answer: cost.work_per_answer.map(millis),
            departed: cost.departed,
            attempts_per_answer: cost.attempts_per_answer,
            beyond_first: cost.beyond_first,
            cost_per_1000: price.and_then(|price| cost.of_a_thousand(price)),
        }
    }
}

/// One figure per second of each kind.
#[derive(Debug, Serialize)]
struct Timeline {
    demand: Vec<u64>,
    good: Vec<u64>,
    received: Vec<u64>,
    sent: Vec<u64>,
    refused: Vec<u64>,
    budget: Vec<Option<f64>>,
    breaker_open: Vec<f64>,
    breaker_half_open: Vec<f64>,
    in_flight: Vec<u64>,
    limit: Vec<Option<u64>>,
    ghosts: Vec<u64>,
    queued: Vec<u64>,
    backlog: Vec<u64>,
    served: Vec<u64>,
    wasted: Vec<u64>,
    p50_ms: Vec<Option<f64>>,
    p99_ms: Vec<Option<f64>>,
}

impl From<&Run> for Timeline {
    fn from(run: &Run) -> Self {
        fn all<T>(run: &Run, of: impl Fn(&Moment) -> T) -> Vec<T> {
            run.observed.timeline.moments().iter().map(of).collect()
        }
        let counts = |what| (0..run.timing.end).map(|second| run.series.at(what, second)).collect();
        Self {
            demand: counts(Count::Demand),
            good: counts(Count::Good),
            received: counts(Count::Received),
            sent: counts(Count::Sent),
            refused: counts(Count::Refused),
            budget: all(run, |moment| moment.budget),
            breaker_open: all(run, |moment| moment.open),
            breaker_half_open: all(run, |moment| moment.half_open),
            in_flight: all(run, |moment| moment.in_flight),
            limit: all(run, |moment| moment.limit),
            ghosts: all(run, |moment| moment.ghosts),
            queued: all(run, |moment| moment.queued),
            backlog: all(run, |moment| moment.backlog),
            served: all(run, |moment| moment.served),
            wasted: all(run, |moment| moment.wasted),
            p50_ms: all(run, |moment| moment.p50.map(millis)),
            p99_ms: all(run, |moment| moment.p99.map(millis)),
        }
    }
}

/// What waits in a topic: at the end, and one figure per second of each kind.
#[derive(Debug, Serialize)]
struct Waiting {
    lag: u64,
    due: u64,
    tiers: Vec<u64>,
    dead: u64,
    timeline: WaitingBySecond,
}

#[derive(Debug, Serialize)]
struct WaitingBySecond {
    lag: Vec<u64>,
    due: Vec<u64>,
    /// For every tier, one figure per second.
    tiers: Vec<Vec<u64>>,
    dead: Vec<u64>,
}

impl Waiting {
    fn of(seconds: &[Records]) -> Option<Self> {
        let all = |of: &dyn Fn(&Records) -> u64| seconds.iter().map(of).collect();
        let Records { lag, due, tiers, dead } = seconds.last()?.clone();
        let timeline = WaitingBySecond {
            lag: all(&|second| second.lag),
            due: all(&|second| second.due),
            tiers: (0..tiers.len()).map(|tier| all(&|second| second.tiers[tier])).collect(),
            dead: all(&|second| second.dead),
        };
        Some(Self { lag, due, tiers, dead, timeline })
    }
}

/// What was leased from a store.
#[derive(Debug, Serialize)]
struct FromStore {
    asked: u64,
    lost: u64,
    granted: u64,
}

impl From<Leased> for FromStore {
    fn from(Leased { asked, lost, granted }: Leased) -> Self {
        Self { asked, lost, granted }
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    pub(super) scenario: &'a str,
    pub(super) kind: &'a str,
    pub(super) against: &'a str,
    pub(super) seed: u64,
    pub(super) w_rho: f64,
    #[serde(flatten)]
    figures: Figures,
    retries_useful: Option<f64>,
    #[serde(flatten)]
    price: Price,
    before: Priced,
    during: Priced,
    after: Priced,
    layers: Vec<LayerRow>,
    #[serde(flatten)]
    away: Away,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<KindRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased: Option<FromStore>,
    stopped_at_s: usize,
    timeline: Timeline,
    events: u64,
    hash: String,
}

impl<'a> Row<'a> {
    pub(super) fn of(
        (scenario, kind, against): (&'a str, &'a str, &'a str),
        (seed, w_rho): (u64, f64),
        (run, price): (&Run, Option<f64>),
        layers: Vec<LayerRow>,
    ) -> Self {
        let [before, during, after] = [0, 1, 2].map(|part| Priced::of(run, part, price));
        Self {
            scenario,
            kind,
            against,
            seed,
            w_rho,
            figures: Figures::from(&run.summary),
            retries_useful: run.summary.retries_useful,
            price: Price::of(run.cost(0..run.timing.end), price),
            before,
            during,
            after,
            layers,
            away: Away::from(&run.observed.refusals),
            kinds: KindRow::all(run),
            records: Waiting::of(&run.records),
            leased: run.leased.map(FromStore::from),
            stopped_at_s: run.timing.end,
            timeline: Timeline::from(run),
            events: run.events,
            hash: format!("{:016x}", run.hash),
        }
    }
}

/// The runs of one scenario and policy over all seeds.
#[derive(Debug, Serialize)]
pub(super) struct OverSeeds<'a> {
    pub(super) scenario: &'a str,
    pub(super) against: &'a str,
    pub(super) seeds: usize,
    pub(super) healed: usize,
    pub(super) recovered_s: Option<Spread>,
    pub(super) amplification: Option<Spread>,
    pub(super) amplification_during: Option<Spread>,
    pub(super) amplification_after: Option<Spread>,
    pub(super) attempts_per_user: Option<Spread>,
    pub(super) wasted: Option<Spread>,
    pub(super) goodput_after: Option<Spread>,
    pub(super) p99_after_ms: Option<Spread>,
    pub(super) work_ms_per_answer: Option<Spread>,
    pub(super) attempts_per_answer: Option<Spread>,
}

impl<'a> OverSeeds<'a> {
    pub(super) fn of(scenario: &'a str, against: &'a str, runs: &[Run]) -> Self {
        let all: Vec<_> = runs.iter().map(|run| (Figures::from(&run.summary), run)).collect();
        let spread = |of: &dyn Fn(&(Figures, &Run)) -> Option<f64>| Spread::of(all.iter().map(of));
        Self {
            scenario,
            against,
            seeds: runs.len(),
            healed: runs.iter().filter(|run| run.summary.verdict.healed()).count(),
            recovered_s: spread(&|(figures, _)| figures.recovered_s),
            amplification: spread(&|(figures, _)| Some(figures.amplification)),
            amplification_during: spread(&|(_, run)| Some(run.summary.phases[1].amplification)),
            amplification_after: spread(&|(_, run)| Some(run.summary.phases[2].amplification)),
            attempts_per_user: spread(&|(figures, _)| Some(figures.attempts_per_user)),
            wasted: spread(&|(figures, _)| Some(figures.wasted)),
            goodput_after: spread(&|(figures, _)| Some(figures.goodput_after)),
            p99_after_ms: spread(&|(_, run)| run.summary.phases[2].p99.map(millis)),
            work_ms_per_answer: spread(&|(_, run)| whole(run).work_per_answer.map(millis)),
            attempts_per_answer: spread(&|(_, run)| whole(run).attempts_per_answer),
        }
    }
}

fn whole(run: &Run) -> Cost {
    run.cost(0..run.timing.end)
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

//! Judged: who won a world.

use core::ops::Range;

use quell_core::Reason;

use super::{
    Rule, crowds,
    worlds::{Edition, World},
};
use quell_sim::{
    Run, control, run,
    scenario::Invalid,
    verdict::{Count, Series, Timing},
};

/// Seconds after the trouble until it counts.
const GRACE: usize = 1;
/// Seconds of a window, and how many seconds of windows have to be good.
pub(super) const WINDOW: usize = 5;
const WATCHED: usize = 30;
/// Seconds at the end, and before the trouble, that are looked at by themselves.
pub(super) const ENDS: usize = 15;
/// The share of requests that may be refused before the trouble.
pub(super) const REFUSED: f64 = 0.005;
/// Whoever ends with less than this share of what is achievable is stuck.
const STUCK: f64 = 0.5;

/// What a rule came to in a world.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// Whether it won.
    pub won: bool,
    /// The least share of what was achievable in the windows that count.
    pub worst_window: f64,
    /// The share of what was achievable from a second after the trouble on.
    pub goodput: f64,
    /// The same over the last 15 s.
    pub last: f64,
    /// The share of requests that were refused in the 15 s before the trouble.
    pub refused: f64,
    /// The 99th percentile of latency before the trouble, in milliseconds.
    pub p99_before: f64,
    /// Attempts that reached the service ÷ users' requests, from the trouble on.
    pub sent: f64,
    /// Good answers lost from the trouble's end on.
    pub lost: f64,
    /// What was simulated.
    pub events: u64,
    /// Good answers by the second.
    pub good: Vec<u64>,
    /// The limit by the second.
    pub limit: Vec<u64>,
    /// Slots in use.
    pub in_flight: Vec<u64>,
    /// Why good callers were turned away: before the trouble, and in health in the whole run.
    pub reasons: Vec<(Reason, u64)>,
    /// Good callers who left in Quell's queue, in the same time.
    pub left_queued: u64,
    /// In health: the 99th percentile of the kind for which that is worst ÷ what it may be. Above 1 is too slow.
    pub slower: f64,
    /// Which kind that is.
    pub slowest: String,
}

impl Judged {
    /// Whether it ends with less than half of what is achievable.
    pub fn is_stuck(&self) -> bool {
        self.last < STUCK
    }

    /// The same, with how it looked.
    pub(super) fn seen(self, run: &Run) -> Self {
        let moments = run.observed.timeline.moments();
        let p99 = run.observed.latency[0].quantile(0.99);
        Self {
            p99_before: p99.map_or(0.0, |p99| p99.as_secs_f64() * 1e3),
            events: run.events,
            limit: moments.iter().map(|moment| moment.limit.unwrap_or(0)).collect(),
            in_flight: moments.iter().map(|moment| moment.in_flight).collect(),
            ..self
        }
    }

    /// By what was counted, where so much can be done per second after the trouble.
    pub(crate) fn of(series: &Series, timing: Timing, capacity: f64) -> Self {
        let (end, over) = (timing.end, timing.outage_end());
        let total = |what, seconds: Range<usize>| series.sum(what, seconds) as f64;
        let achievable = |seconds: Range<usize>| {
            total(Count::Demand, seconds.clone()).min(capacity * seconds.len() as f64)
        };
        let share = |seconds: Range<usize>| {
            let achievable = achievable(seconds.clone());
            if achievable > 0.0 { total(Count::Good, seconds) / achievable } else { 1.0 }
        };
        let enough = |w: Range<usize>| series.enough(w.start * 10..w.end * 10, capacity);
        let from = over + GRACE;
        let windows = (from..=from + WATCHED - WINDOW).map(|at| at..at + WINDOW);
        let (before, last) = (timing.outage_at - ENDS..timing.outage_at, end - ENDS..end);
        let received = total(Count::Received, before.clone());
        let refused = if received > 0.0 { total(Count::Refused, before) / received } else { 0.0 };
        let all = timing.outage_at..end;
        Self {
            won: windows.clone().all(enough) && enough(last.clone()) && refused < REFUSED,
            worst_window: windows.map(share).fold(f64::MAX, f64::min),
            goodput: share(from..end),
            last: share(last),
            refused,
            sent: total(Count::Sent, all.clone()) / total(Count::Demand, all).max(1.0),
            lost: (achievable(over..end) - total(Count::Good, over..end)).max(0.0),
            good: (0..end).map(|second| series.at(Count::Good, second)).collect(),
            ..Self::default()
        }
    }
}

/// Runs a world with a rule in front of it.
pub(super) fn run_under(world: &World, rule: Rule, seed: u64) -> Result<Run, Invalid> {
    let mut scenario = world.scenario.clone();
    scenario.gateway = Some(rule.gateway(world.gateway));
    match rule.maker(&scenario, seed) {
        Some(make) => control::run_under(&scenario, seed, make),
        None => run(&scenario, seed),
    }
}

/// Runs a world under a rule.
pub fn judge(world: &World, rule: Rule, seed: u64) -> Result<Judged, Invalid> {
    let mut run = run_under(world, rule, seed)?;
    match world.edition {
        Edition::Old => {}
        Edition::Health => {
            let off = run_under(&crowds::undisturbed(world), Rule::Off, seed)?;
            return Ok(crowds::healthy(world, &run, &off));
        }
        Edition::Mixed => return Ok(crowds::mixed(world, &run)),
    }
    // What is asked for can be answered when the work is done: otherwise a window of answers would be compared with what
    // others asked for, by chance more or fewer.
    run.series.put_off(Count::Demand, (world.time_after.as_millis() / 100) as usize);
    let judged = Judged::of(&run.series, run.timing, world.capacity_after);
    let refusals = &run.observed.refusals;
    Ok(Judged {
        reasons: refusals.in_part(0),
        left_queued: refusals.left_queued[0],
        ..judged.seen(&run)
    })
}

#[cfg(test)]
#[path = "judged_tests.rs"]
mod tests;

//! Report: what there is to say about one request, for people and machines.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::Budget;
use quell::core::budget::{self, fleet_allows};
use quell::core::spec::Invalid;
use quell::core::{Policy, Reason};
use serde::Serialize;

use super::case::{Case, Ends, Run};
use super::sequence::Course;

/// Calls that are played: so many that the shortest and the longest wait are near what can be.
pub(super) const RUNS: u64 = 1_000;
/// An outage, in seconds.
const OUTAGE: u64 = 60;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) route: String,
    pub(super) upstream: String,
    pub(super) policy: String,
    /// The request, in words.
    pub(super) request: String,
    /// What became of each attempt, in words.
    pub(super) happened: String,
    /// The attempt that is asked about.
    pub(super) attempt: u32,
    /// The share of calls that make another one after it; none if no call gets that far.
    pub(super) retried: Option<f64>,
    /// Why those do not that do not.
    pub(super) reason: Option<&'static str>,
    pub(super) why: String,
    pub(super) after: Vec<After>,
    pub(super) deadline: Deadline,
    pub(super) fleet: Fleet,
    pub(super) sequence: Option<Course>,
}

/// What follows an attempt.
#[derive(Debug, Serialize)]
pub(super) struct After {
    pub(super) attempt: u32,
    /// The share of those who got this far that made another one.
    pub(super) retried: f64,
    pub(super) wait: Option<Wait>,
    /// The share of those who got this far that stopped, by reason.
    pub(super) stopped: BTreeMap<&'static str, f64>,
    #[serde(skip)]
    pub(super) waits: Vec<Duration>,
}

/// How long calls wait.
#[derive(Debug, Serialize)]
pub(super) struct Wait {
    pub(super) shortest_ms: f64,
    pub(super) median_ms: f64,
    pub(super) longest_ms: f64,
}

/// What fits into a call's time if every attempt takes all of its own.
#[derive(Debug, Serialize)]
pub(super) struct Deadline {
    pub(super) timeout_ms: f64,
    pub(super) per_try_ms: f64,
    pub(super) attempts: u32,
    /// The fewest and the most that fit.
    pub(super) fit: (u32, u32),
}

/// What all processes allow together in a minute without a success; none if that is not bounded.
#[derive(Debug, Serialize)]
pub(super) struct Fleet {
    pub(super) instances: u32,
    pub(super) whole: String,
    pub(super) each: String,
    pub(super) each_allows: Option<u64>,
    pub(super) together: Option<u64>,
    /// How many more that is than the budget allows as it is written.
    pub(super) overshoot: Option<u64>,
    /// What to do about that.
    pub(super) fix: Option<String>,
}

/// Plays many calls.
pub(super) fn runs(case: &Case<'_>) -> Result<Vec<Run>, Invalid> {
    (1..=RUNS).map(|seed| case.run(seed)).collect()
}

/// What follows each attempt that any call makes.
pub(super) fn after(runs: &[Run]) -> Vec<After> {
    let longest = runs.iter().map(|run| run.waits.len()).max().unwrap_or_default();
    (0..=longest).map(|at| After::new(runs, at)).collect()
}

impl After {
    fn new(runs: &[Run], at: usize) -> Self {
        let reached: Vec<_> = runs.iter().filter(|run| run.waits.len() >= at).collect();
        let mut waits: Vec<_> =
            reached.iter().filter_map(|run| run.waits.get(at).copied()).collect();
        waits.sort_unstable();
        let share = |some: usize| some as f64 / reached.len().max(1) as f64;
        let mut stopped = BTreeMap::new();
        for run in reached.iter().filter(|run| run.waits.len() == at) {
            *stopped.entry(run.reason.map_or("success", Reason::as_str)).or_default() += share(1);
        }
        let wait = waits.first().zip(waits.last()).map(|(shortest, longest)| Wait {
            shortest_ms: millis(*shortest),
            median_ms: millis(waits[waits.len() / 2]),
            longest_ms: millis(*longest),
        });
        let attempt = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
        Self { attempt, retried: share(waits.len()), wait, stopped, waits }
    }

    /// Why most of those stop that do.
    pub(super) fn reason(&self) -> Option<Reason> {
        let (most, _) = self.stopped.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Reason::ALL.iter().copied().find(|reason| reason.as_str() == *most)
    }
}

impl Deadline {
    pub(super) fn new(case: &Case<'_>) -> Result<Self, Invalid> {
        // Whatever the request is: the question is only what there is time for.
        let late = Case { ends: Ends::Late, repeatable: true, replayable: true, ..*case };
        let sends = runs(&late)?.into_iter().map(|run| run.waits.len() as u32 + 1);
        let (fewest, most) = sends.fold((u32::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
        let policy: &Policy = case.policy;
        let timeout = case.deadline.map_or(policy.timeout(), |told| told.min(policy.timeout()));
        Ok(Self {
            timeout_ms: millis(timeout),
            per_try_ms: millis(policy.per_try()),
            attempts: policy.attempts(),
            fit: (fewest, most),
        })
    }
}

impl Fleet {
    pub(super) fn new(written: &Budget, each: budget::Spec, instances: Option<u32>) -> Self {
        let instances = instances.or(written.instances).unwrap_or(1);
        let together = fleet_allows(each, instances, OUTAGE, 0);
        let whole = fleet_allows(written.whole, 1, OUTAGE, 0);
        let overshoot = together.zip(whole).map(|(together, whole)| together.saturating_sub(whole));
        let fix = match written.instances {
            _ if overshoot.is_none_or(|more| more == 0) => None,
            Some(known) if known == instances => {
                Some("no process has less than one token".to_owned())
            }
            _ => Some(format!("write instances = {instances} in the budget")),
        };
        Self {
            instances,
            whole: written.whole.to_string(),
            each: each.to_string(),
            each_allows: fleet_allows(each, 1, OUTAGE, 0),
            together,
            overshoot,
            fix,
        }
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

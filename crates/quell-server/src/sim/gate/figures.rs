//! Figures of a run that can be promised.

use crate::config::fields::Fields;
use quell_sim::{Run, verdict::Count};

use super::{Limits, Within};
use crate::sim::figures::millis;

/// A figure, and the settings that promise it.
pub(super) struct Figure {
    pub(super) name: &'static str,
    max: &'static str,
    min: &'static str,
    /// Whether it is a time, in milliseconds.
    timed: bool,
    pub(super) of: fn(&Run) -> f64,
}

macro_rules! figures {
    ($($name:literal $(($timed:literal))?: $of:expr;)+) => {
        /// All of them.
        pub(super) const FIGURES: &[Figure] = &[$(Figure {
            name: $name,
            max: concat!("max_", $name),
            min: concat!("min_", $name),
            timed: figures!(@ $($timed)?),
            of: $of,
        }),+];
    };
    (@) => { false };
    (@ $timed:literal) => { true };
}

figures! {
    "amplification": |run| run.summary.amplification;
    "sends_per_user": |run| run.summary.attempts_per_user;
    "sends_per_user_before": |run| run.summary.phases[0].attempts_per_user;
    "sends_per_user_during": |run| run.summary.phases[1].attempts_per_user;
    "sends_per_user_after": |run| run.summary.phases[2].attempts_per_user;
    "wasted": |run| run.summary.wasted;
    "goodput": |run| run.summary.goodput_after;
    "goodput_before": |run| run.summary.phases[0].goodput;
    "goodput_during": |run| run.summary.phases[1].goodput;
    "refused_before": |run| run.summary.refused_before;
    "refused_during": |run| run.summary.phases[1].refused;
    "refused_after": |run| run.summary.phases[2].refused;
    "refused": |run| run.refused();
    "answered_good": |run| run.answered_good();
    "left_queued": |run| run.observed.refusals.left() as f64;
    "useful": |run| run.summary.retries_useful.unwrap_or(0.0);
    "sends": |run| total(run, Count::Sent);
    "retries": |run| total(run, Count::Sent) - total(run, Count::Demand);
    "answers": |run| total(run, Count::Good);
    "answered": |run| total(run, Count::Good) / total(run, Count::Demand).max(1.0);
    "sends_at_end": |run| at_end(run, Count::Sent);
    "answers_at_end": |run| at_end(run, Count::Good);
    "peak": |run| peak(run, 0..run.timing.end);
    "peak_after": |run| peak(run, run.timing.outage_end()..run.timing.end);
    "delayed": |run| run.queueing.delayed as f64 / (run.queueing.started as f64).max(1.0);
    "turned_away": |run| run.queueing.refused as f64 / total(run, Count::Sent).max(1.0);
    "conflicts": |run| run.queueing.conflicts as f64;
    "dead_letters": |run| run.records.last().map_or(0.0, |last| last.dead as f64);
    "lag_at_end": |run| run.records.last().map_or(0.0, |last| (last.lag + last.due) as f64);
    "p50_before" ("time"): |run| run.summary.phases[0].p50.map_or(f64::INFINITY, millis);
    "p99_before" ("time"): |run| run.summary.phases[0].p99.map_or(f64::INFINITY, millis);
    "p50_during" ("time"): |run| run.summary.phases[1].p50.map_or(f64::INFINITY, millis);
    "p99_during" ("time"): |run| run.summary.phases[1].p99.map_or(f64::INFINITY, millis);
    "p50_after" ("time"): |run| run.summary.phases[2].p50.map_or(f64::INFINITY, millis);
    "p99_after" ("time"): |run| run.summary.phases[2].p99.map_or(f64::INFINITY, millis);
    "mean_wait" ("time"): |run| millis(run.queueing.waited) / (run.queueing.started as f64).max(1.0);
}

impl Figure {
    /// What is promised of it, if anything is.
    pub(super) fn read(&self, fields: &Fields<'_>) -> Option<Limits> {
        let within = |name| match self.timed {
            true => fields.get(name).map(|Within::<true>(limits)| limits),
            false => fields.get(name).map(|Within::<false>(limits)| limits),
        };
        let (exact, max, min) = (within(self.name), within(self.max), within(self.min));
        if exact.is_none() && max.is_none() && min.is_none() {
            return None;
        }
        let mut limits = exact.unwrap_or(Limits::NONE);
        limits.most = max.map_or(limits.most, |max| limits.most.min(max.most));
        limits.least = min.map_or(limits.least, |min| limits.least.max(min.least));
        Some(limits)
    }
}

fn total(run: &Run, what: Count) -> f64 {
    run.series.sum(what, 0..usize::MAX) as f64
}

/// Per second, over the last 15 seconds.
fn at_end(run: &Run, what: Count) -> f64 {
    let end = run.timing.end;
    let seconds = end.min(15);
    run.series.sum(what, end - seconds..end) as f64 / (seconds as f64).max(1.0)
}

/// The most sends within a tenth of a second.
fn peak(run: &Run, seconds: std::ops::Range<usize>) -> f64 {
    let tenths = seconds.start * 10..seconds.end * 10;
    tenths.map(|tenth| run.series.tenth(Count::Sent, tenth)).max().unwrap_or(0) as f64
}

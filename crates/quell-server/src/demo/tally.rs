//! A tally: what several observers of one run counted, by the second.
//!
//! **Why.** The users' success is seen by the callers, the load by the upstream. A verdict needs both on
//! the same time axis, so both count into one tally that knows when the run began and when its outage is.

use parking_lot::Mutex;
use quell_sim::verdict::{Count, Observed, Series, Timing};
use tokio::time::Instant;

/// Counts of one run, shared by everyone who observes it.
#[derive(Debug)]
pub struct Tally {
    start: Instant,
    timing: Timing,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    series: Series,
    seen: Observed,
    unsent: u64,
}

impl Tally {
    /// A tally of a run that begins now and has no outage.
    pub fn new() -> Self {
        let never = Timing { outage_at: usize::MAX, outage_len: 0, end: usize::MAX };
        Self::since(Instant::now(), never)
    }

    /// A tally of a run that begins, or began, at this instant. What comes earlier counts in the first second.
    pub fn since(start: Instant, timing: Timing) -> Self {
        Self { start, timing, kept: Mutex::default() }
    }

    /// When the run began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Counts one more, now.
    pub fn count(&self, what: Count) {
        self.kept.lock().series.add(what, self.start.elapsed(), 1);
    }

    /// Counts a good answer, now, to a user who first asked at `came`.
    pub fn answered(&self, came: Instant) {
        self.count(Count::Good);
        let since = came.saturating_duration_since(self.start);
        self.kept.lock().seen.answered(self.timing, since, came.elapsed());
    }

    /// What users saw so far: how long answers took. Nobody looks at the service here, so there is no timeline.
    pub fn seen(&self) -> Observed {
        self.kept.lock().seen.clone()
    }

    /// When the outage is, and the end.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// The counts so far.
    pub fn series(&self) -> Series {
        self.kept.lock().series.clone()
    }

    /// Attempts for which this machine had no socket left. If there are any, the run measured this machine
    /// and not the upstream.
    pub fn unsent(&self) -> u64 {
        self.kept.lock().unsent
    }

    pub(crate) fn count_unsent(&self) {
        self.kept.lock().unsent += 1;
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

//! A tally: what several observers of one run counted, by the second.
//!
//! **Why.** The users' success is seen by the callers, the load by the upstream. A verdict needs both on
//! the same time axis, so both count into one tally that knows when the run began.

use parking_lot::Mutex;
use quell_sim::verdict::{Count, Series};
use tokio::time::Instant;

/// Counts of one run, shared by everyone who observes it.
#[derive(Debug)]
pub struct Tally {
    start: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    series: Series,
    unsent: u64,
}

impl Tally {
    /// A tally of a run that begins now.
    pub fn new() -> Self {
        Self::since(Instant::now())
    }

    /// A tally of a run that begins, or began, at this instant. What comes earlier counts in the first second.
    pub fn since(start: Instant) -> Self {
        Self { start, kept: Mutex::default() }
    }

    /// When the run began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Counts one more, now.
    pub fn count(&self, what: Count) {
        self.kept.lock().series.add(what, self.start.elapsed(), 1);
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

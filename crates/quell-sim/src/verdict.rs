//! The verdict: did the users come back after the outage, and what did it cost?
//!
//! **Why.** "It recovered" is a claim that bends easily: count attempts instead of users and a storm looks
//! like traffic, look at one lucky second and a collapse looks like health. So the definition exists once,
//! here, and judges the simulator and real sockets alike.
//!
//! **How.** A run is kept as counts per tenth of a second. A user counts once as *demand* however often the
//! client resends, and once as *good* when an answer arrives while the user still waits. *Achievable* is
//! the smaller of demand and capacity. The run has healed `k` seconds after the outage if from then on
//! every window of five seconds got 95 % of what was achievable in it. Below 80 requests per second 5 % of a
//! window is less than chance alone moves (answers trail requests across the window's edges), so there the
//! shortfall may be one standard deviation of the count instead.
//!
//! What has not healed is looked at over its last 15 seconds: is the backlog on its way down (*draining*), do retries
//! or callers who left keep the service busy (*metastable*), or does it work well for fewer users than it could (*sheds*)?
//!
//! ```
//! use core::time::Duration;
//! use quell_sim::verdict::{Count, Series, Timeline, Timing, Verdict};
//!
//! let mut run = Series::default();
//! for tenth in 0..600 {
//!     let at = Duration::from_millis(100 * tenth);
//!     run.add(Count::Demand, at, 30);
//!     let down = (100..220).contains(&tenth); // the outage lasts 10 s, the service is back 2 s later
//!     run.add(Count::Good, at, if down { 0 } else { 30 });
//! }
//! let timing = Timing { outage_at: 10, outage_len: 10, end: 60 };
//! assert_eq!(Verdict::of(&run, timing, 360.0, &Timeline::default()).to_string(), "healed in 1.8 s");
//! ```

mod crowd;
mod early;
mod histogram;
mod layer;
mod refusals;
mod series;
mod summary;
mod timeline;

use core::{fmt, time::Duration};

pub use crowd::Crowd;
pub use early::Early;
pub use histogram::Histogram;
pub use layer::{Cost, Layer, Tally};
pub use refusals::Refusals;
pub(crate) use series::LONGEST;
use series::TENTHS;
pub use series::{Count, Series, Timing};
pub use summary::{Phase, Summary, Work};
pub(crate) use timeline::drains_in;
pub use timeline::{Moment, Observed, Timeline};

/// Length of the windows that are judged, in tenths of a second.
const WINDOW: usize = 5 * TENTHS;
/// A recovery must hold this long, in seconds, wherever the run watches that long at all.
pub(crate) const HELD_SECONDS: usize = 25;
/// The same in tenths of a second.
const HELD: usize = HELD_SECONDS * TENTHS;
/// How much of the run's end and of the time before the outage is looked at, in seconds.
pub(crate) const GLANCE: usize = 15;
/// More than this share beyond what users asked for is load that retries keep up.
const SUSTAINED: f64 = 0.05;
/// Less than this share of a backlog gone within a glance is no progress: it would take five minutes and more.
const PROGRESS: f64 = 0.05;

/// Whether the users came back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// They did, and stayed.
    Healed {
        /// How long after the outage's end.
        after: Duration,
    },
    /// They did not yet: the service works off a backlog, and gets on with it.
    Draining {
        /// When the backlog will be gone at this pace, counted from the outage's end.
        eta: Duration,
    },
    /// The service works for those who wait, and so many users go without although it could serve them.
    Sheds {
        /// The share of users without an answer in the last 15 seconds, from 0 to 1.
        share: f64,
    },
    /// The outage is over and what it left behind keeps itself alive: retries, or work for callers who have left.
    Metastable {
        /// The share of what was achievable in the last 15 seconds, from 0 to 1.
        goodput: f64,
    },
    /// It looks well, but not for long enough to believe it; or there was nobody to serve.
    Unclear,
}

impl Verdict {
    /// Judges a run against a service that can do `capacity` requests per second. Without a timeline nothing is known of
    /// the backlog and of wasted work, and retries alone decide between metastable and shedding.
    pub fn of(run: &Series, timing: Timing, capacity: f64, timeline: &Timeline) -> Self {
        let (from, end) = (timing.outage_end(), timing.end);
        let (from_tenth, end_tenth) = (from * TENTHS, end * TENTHS);
        let watched = end_tenth.saturating_sub(from_tenth);
        let held = if watched < HELD { WINDOW } else { HELD };
        if watched < held || run.sum(Count::Demand, from..end) == 0 {
            return Self::Unclear; // nothing to see is not health
        }
        let last = end_tenth - WINDOW;
        let enough = |at: usize| run.enough(at..at + WINDOW, capacity);
        // From the first tenth on from which the windows of every further second agree: past the last that does not,
        // among those that lie whole seconds apart.
        let back = (0..TENTHS).filter_map(|offset| {
            let mut windows = (from_tenth + offset..last + 1).step_by(TENTHS).rev();
            let failed = windows.find(|&at| !enough(at));
            let first = failed.map_or(from_tenth + offset, |at| at + TENTHS);
            (first <= end_tenth - held).then_some(first)
        });
        if let Some(back) = back.min() {
            if run.tenths(Count::Demand, back..end_tenth) == 0 {
                return Self::Unclear; // nor is nobody being left to serve
            }
            let after = back - from_tenth;
            return Self::Healed { after: Duration::from_millis(100) * after as u32 };
        }
        Self::unhealed(run, timing, capacity, timeline)
    }

    fn unhealed(run: &Series, timing: Timing, capacity: f64, timeline: &Timeline) -> Self {
        let (from, end) = (timing.outage_end(), timing.end);
        let glance = end.saturating_sub(GLANCE).max(from)..end;
        if let Some(left) = timeline.drains_in(glance.clone()) {
            return Self::Draining { eta: Duration::from_secs((end - from) as u64) + left };
        }
        let last = end * TENTHS;
        if run.enough(last.saturating_sub(WINDOW)..last, capacity) {
            return Self::Unclear;
        }
        let total = |what| run.sum(what, glance.clone()) as f64;
        let demand = total(Count::Demand);
        let retries = total(Count::Sent) > demand * (1.0 + SUSTAINED);
        if retries || timeline.wasted(glance.clone()) > SUSTAINED {
            return Self::Metastable { goodput: run.goodput(glance, capacity) };
        }
        Self::Sheds { share: 1.0 - share(total(Count::Good), demand).min(1.0) }
    }

    /// Whether the users came back within so many seconds.
    pub fn within(&self, seconds: u64) -> bool {
        matches!(self, Self::Healed { after } if *after <= Duration::from_secs(seconds))
    }

    /// Whether the users came back at all.
    pub const fn healed(&self) -> bool {
        matches!(self, Self::Healed { .. })
    }

    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Healed { .. } => "healed",
            Self::Draining { .. } => "draining",
            Self::Sheds { .. } => "sheds",
            Self::Metastable { .. } => "metastable",
            Self::Unclear => "unclear",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.as_str();
        match self {
            Self::Healed { after } => write!(f, "{word} in {} s", after.as_secs_f64()),
            Self::Draining { eta } => write!(f, "{word}, about {} s", eta.as_secs()),
            Self::Sheds { share } => write!(f, "{word} {:.0} %", share * 100.0),
            Self::Metastable { .. } | Self::Unclear => f.write_str(word),
        }
    }
}

/// A ratio, where nothing out of nothing is nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;

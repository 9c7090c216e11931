//! The verdict: did the users come back after the outage, and what did it cost?
//!
//! **Why.** "It recovered" is a claim that bends easily: count attempts instead of users and a storm looks
//! like traffic, look at one lucky second and a collapse looks like health. So the definition exists once,
//! here, and judges the simulator and real sockets alike.
//!
//! **How.** A run is kept as counts per tenth of a second. A user counts once as *demand* however often the
//! client resends, and once as *good* when an answer arrives while the user still waits. *Achievable* is
//! the smaller of demand and capacity. The run has recovered `k` seconds after the outage if from then on
//! every window of five seconds got 95 % of what was achievable in it. Below 80 requests per second 5 % of a
//! window is less than chance alone moves (answers trail requests across the window's edges), so there the
//! shortfall may be one standard deviation of the count instead.
//!
//! ```
//! use core::time::Duration;
//! use quell_sim::verdict::{Count, Series, Timing, Verdict};
//!
//! let mut run = Series::default();
//! for tenth in 0..600 {
//!     let at = Duration::from_millis(100 * tenth);
//!     run.add(Count::Demand, at, 30);
//!     let down = (100..220).contains(&tenth); // the outage lasts 10 s, the service is back 2 s later
//!     run.add(Count::Good, at, if down { 0 } else { 30 });
//! }
//! let timing = Timing { outage_at: 10, outage_len: 10, end: 60 };
//! assert_eq!(Verdict::of(&run, timing, 360.0).to_string(), "recovered in 1.8 s");
//! ```

use core::{fmt, ops::Range, time::Duration};

/// Counts are kept by the tenth of a second.
const TENTHS: usize = 10;

/// Length of the windows that are judged, in tenths of a second.
const WINDOW: usize = 5 * TENTHS;
/// The share of what was achievable that every window must get.
const ENOUGH: f64 = 0.95;
/// How far chance may carry a window of few requests, in standard deviations of its count.
const CHANCE: f64 = 1.0;
/// A recovery must hold this long, in tenths of a second, wherever the run watches that long at all.
const HELD: usize = 25 * TENTHS;
/// How much of the run's end and of the time before the outage is looked at, in seconds.
const GLANCE: usize = 15;
/// Seconds a series can hold; whatever comes later counts in the last one.
const LONGEST: usize = 100_000;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A user's request began; resends of it do not count again.
    Demand,
    /// A user got a good answer while still waiting for it.
    Good,
    /// A caller made an attempt: the first of a user's request or a resend.
    Received,
    /// An attempt reached the upstream.
    Sent,
    /// An attempt was refused on the way, so that it did not reach the upstream.
    Refused,
}

impl Count {
    /// All that is counted.
    pub const ALL: [Self; 5] =
        [Self::Demand, Self::Good, Self::Received, Self::Sent, Self::Refused];
}

/// Counts of a run over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    tenths: Vec<[u64; 5]>,
}

impl Series {
    /// Counts `n` more of `what`, so long after the run began.
    pub fn add(&mut self, what: Count, at: Duration, n: u64) {
        let tenth = (at.as_millis() / 100).min(LONGEST as u128 * TENTHS as u128 - 1) as usize;
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, [0; 5]);
        }
        self.tenths[tenth][what as usize] += n;
    }

    /// The count in one second; 0 where nothing was counted.
    pub fn at(&self, what: Count, second: usize) -> u64 {
        self.sum(what, second..second + 1)
    }

    /// The count over these seconds.
    pub fn sum(&self, what: Count, seconds: Range<usize>) -> u64 {
        self.tenths(what, seconds.start * TENTHS..seconds.end.saturating_mul(TENTHS))
    }

    /// Seconds up to the last in which anything was counted.
    pub fn len(&self) -> usize {
        self.tenths.len().div_ceil(TENTHS)
    }

    /// Whether nothing was counted yet.
    pub fn is_empty(&self) -> bool {
        self.tenths.is_empty()
    }

    fn tenths(&self, what: Count, tenths: Range<usize>) -> u64 {
        let end = tenths.end.min(self.tenths.len());
        let counts = self.tenths.get(tenths.start..end).unwrap_or_default();
        counts.iter().map(|counts| counts[what as usize]).sum()
    }

    /// The most that could have been answered in this time: what was asked for, or what the service can do.
    fn achievable(&self, tenths: Range<usize>, capacity: f64) -> f64 {
        let most = capacity * tenths.len() as f64 / TENTHS as f64;
        (self.tenths(Count::Demand, tenths) as f64).min(most)
    }

    fn enough(&self, window: Range<usize>, capacity: f64) -> bool {
        let achievable = self.achievable(window.clone(), capacity);
        let short = achievable - self.tenths(Count::Good, window) as f64;
        short <= (achievable * (1.0 - ENOUGH)).max(CHANCE * achievable.sqrt())
    }

    fn goodput(&self, seconds: Range<usize>, capacity: f64) -> f64 {
        let seconds = seconds.start * TENTHS..seconds.end * TENTHS;
        let achievable = self.achievable(seconds.clone(), capacity);
        share(self.tenths(Count::Good, seconds) as f64, achievable).min(1.0)
    }
}

/// When things happened, in whole seconds of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The outage's first second.
    pub outage_at: usize,
    /// How many seconds it lasted.
    pub outage_len: usize,
    /// The run's end: the first second that was not observed.
    pub end: usize,
}

impl Timing {
    /// The first second after the outage.
    pub fn outage_end(&self) -> usize {
        self.outage_at.saturating_add(self.outage_len)
    }
}

/// Whether the users came back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// They did, and stayed.
    Recovered {
        /// How long after the outage's end.
        after: Duration,
    },
    /// They did not, or not for long enough to believe it.
    StillDown {
        /// The share of what was achievable in the last 15 seconds, from 0 to 1.
        goodput: f64,
    },
}

impl Verdict {
    /// Judges a run against a service that can do `capacity` requests per second.
    pub fn of(run: &Series, timing: Timing, capacity: f64) -> Self {
        let (from, end) = (timing.outage_end(), timing.end);
        let down = || {
            let last = end.saturating_sub(GLANCE).max(from);
            Self::StillDown { goodput: run.goodput(last..end, capacity) }
        };
        let (from_tenth, end_tenth) = (from * TENTHS, end * TENTHS);
        let watched = end_tenth.saturating_sub(from_tenth);
        let held = if watched < HELD { WINDOW } else { HELD };
        if watched < held || run.sum(Count::Demand, from..end) == 0 {
            return down(); // nothing to see is not health
        }
        // From the first tenth on from which the windows of every further second agree.
        let agree = |from: &usize| {
            let mut windows = (*from..=end_tenth - WINDOW).step_by(TENTHS);
            windows.all(|at| run.enough(at..at + WINDOW, capacity))
        };
        let Some(back) = (from_tenth..=end_tenth - held).find(agree) else { return down() };
        let after = back - from_tenth;
        Self::Recovered { after: Duration::from_millis(100) * after as u32 }
    }

    /// Whether the users came back within so many seconds.
    pub fn within(&self, seconds: u64) -> bool {
        matches!(self, Self::Recovered { after } if *after <= Duration::from_secs(seconds))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered { after } => write!(f, "recovered in {} s", after.as_secs_f64()),
            Self::StillDown { goodput } => {
                write!(f, "still down: {:.0} % of achievable", goodput * 100.0)
            }
        }
    }
}

/// What the upstream did, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests it completed.
    pub served: u64,
    /// Those among them whose caller had already gone.
    pub wasted: u64,
}

/// What a run shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Whether the users came back.
    pub verdict: Verdict,
    /// Attempts sent to the upstream per attempt received, from the outage's start on.
    pub amplification: f64,
    /// Attempts sent to the upstream per user's request, from the outage's start on.
    pub attempts_per_user: f64,
    /// The share of the upstream's work that nobody was waiting for any more.
    pub wasted: f64,
    /// The share of what was achievable after the outage that users got.
    pub goodput_after: f64,
    /// The share of attempts refused in the 15 seconds before the outage: the price in good times.
    pub refused_before: f64,
}

impl Summary {
    /// Sums up a run against a service that can do `capacity` requests per second.
    pub fn of(run: &Series, timing: Timing, capacity: f64, work: Work) -> Self {
        let total = |what, seconds: Range<usize>| run.sum(what, seconds) as f64;
        let since = timing.outage_at..timing.end;
        let before = timing.outage_at.saturating_sub(GLANCE)..timing.outage_at;
        let sent = total(Count::Sent, since.clone());
        Self {
            verdict: Verdict::of(run, timing, capacity),
            amplification: share(sent, total(Count::Received, since.clone())),
            attempts_per_user: share(sent, total(Count::Demand, since)),
            wasted: share(work.wasted as f64, work.served as f64),
            goodput_after: run.goodput(timing.outage_end()..timing.end, capacity),
            refused_before: share(
                total(Count::Refused, before.clone()),
                total(Count::Received, before),
            ),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; amplification {:.2}, {:.2} attempts per user, {:.0} % of the work wasted",
            self.verdict,
            self.amplification,
            self.attempts_per_user,
            self.wasted * 100.0
        )
    }
}

/// A ratio, where nothing out of nothing is nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;

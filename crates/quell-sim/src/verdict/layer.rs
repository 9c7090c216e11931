//! Layer: what one service of a run was asked, did, and spent.
//!
//! **Why.** End to end a chain shows one number of sends; the storm is in the layer below. And an answer has a price: the time that
//! workers spend per user who got one tells a policy that heals from one that heals dearly.
//!
//! **How.** Every service counts for good; once per simulated second the world takes what was added. Nothing is
//! counted twice, so the seconds of any stretch add up.
//!
//! ```
//! use quell_sim::{Scenario, run, scenario::OutageKind};
//!
//! let mut scenario = Scenario::storm(OutageKind::Stall).with_gateway();
//! (scenario.load, scenario.service.workers) = (300.0, 36);
//! let run = run(&scenario, 1)?;
//! let [before, _, _] = run.timing.parts();
//! let cost = run.cost(before);
//! assert_eq!(cost.work_per_answer.map(|time| time.as_millis()), Some(100)); // one attempt of 100 ms
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

use core::{ops::Range, time::Duration};

use super::{Count, LONGEST, Series, share};

/// What one service was asked, did and spent in some stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that were made to it, each with one attempt or more.
    pub calls: u64,
    /// Those among them that Quell refused on the way.
    pub refused: u64,
    /// Attempts that reached it.
    pub sent: u64,
    /// Attempts that it turned down itself, or failed at once.
    pub rejected: u64,
    /// Attempts that it completed.
    pub served: u64,
    /// Those among them whose caller had already gone.
    pub wasted: u64,
    /// Retries of calls that have ended.
    pub retries: u64,
    /// Those among them whose call then succeeded.
    pub useful: u64,
    /// Nanoseconds that its workers were held, waiting for services behind it included; told when a worker is free again.
    pub held: u64,
    /// The part of it that was for callers who had gone.
    pub lost: u64,
}

impl Tally {
    fn both(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            calls: f(self.calls, other.calls),
            refused: f(self.refused, other.refused),
            sent: f(self.sent, other.sent),
            rejected: f(self.rejected, other.rejected),
            served: f(self.served, other.served),
            wasted: f(self.wasted, other.wasted),
            retries: f(self.retries, other.retries),
            useful: f(self.useful, other.useful),
            held: f(self.held, other.held),
            lost: f(self.lost, other.lost),
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        self.both(other, u64::wrapping_add)
    }

    /// Attempts that reached it per call.
    pub fn amplification(&self) -> f64 {
        share(self.sent as f64, self.calls as f64)
    }

    /// The share of its work that nobody was waiting for any more.
    pub fn wasted_share(&self) -> f64 {
        share(self.wasted as f64, self.served as f64)
    }

    /// The share of calls that Quell refused on the way.
    pub fn refused_share(&self) -> f64 {
        share(self.refused as f64, self.calls as f64)
    }

    /// The share of attempts that it turned down itself, or failed at once.
    pub fn rejected_share(&self) -> f64 {
        share(self.rejected as f64, self.sent as f64)
    }

    /// The share of retries whose call then succeeded; `None` if there were no retries.
    pub fn useful_share(&self) -> Option<f64> {
        (self.retries > 0).then(|| share(self.useful as f64, self.retries as f64))
    }
}

/// One service of a run, second by second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    seconds: Vec<Tally>,
    told: Tally,
}

impl Layer {
    /// A second is over, and so much was counted so far.
    pub(crate) fn second_over(&mut self, so_far: Tally) {
        if self.seconds.len() < LONGEST {
            self.seconds.push(so_far.both(self.told, u64::wrapping_sub));
            self.told = so_far;
        }
    }

    pub(crate) fn so_far(&self) -> Tally {
        self.told
    }

    /// All seconds, the first first.
    pub fn seconds(&self) -> &[Tally] {
        &self.seconds
    }

    /// These seconds together.
    pub fn over(&self, seconds: Range<usize>) -> Tally {
        let end = seconds.end.min(self.seconds.len());
        let seconds = self.seconds.get(seconds.start..end).unwrap_or_default();
        seconds.iter().fold(Tally::default(), |sum, second| sum.and(*second))
    }
}

/// What answers cost, in some stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Time that workers of all services were held per user who was answered; `None` where nobody was.
    pub work_per_answer: Option<Duration>,
    /// The share of that time that was for callers who had gone.
    pub departed: f64,
    /// Attempts that reached the first service per user who was answered; `None` where nobody was.
    pub attempts_per_answer: Option<f64>,
    /// The share of those attempts beyond one for each user who asked.
    pub beyond_first: f64,
}

impl Cost {
    /// Of these services.
    pub fn of(layers: &[Layer], series: &Series, seconds: Range<usize>) -> Self {
        let good = series.sum(Count::Good, seconds.clone()) as f64;
        let sent = series.sum(Count::Sent, seconds.clone()) as f64;
        let users = series.sum(Count::Demand, seconds.clone()) as f64;
        let all = layers.iter().map(|layer| layer.over(seconds.clone()));
        let all = all.fold(Tally::default(), |sum, layer| sum.and(layer));
        let per_answer = |whole: f64| (good > 0.0).then(|| whole / good);
        Self {
            work_per_answer: per_answer(all.held as f64)
                .map(|nanos| Duration::from_nanos(nanos as u64)),
            departed: share(all.lost as f64, all.held as f64),
            attempts_per_answer: per_answer(sent),
            beyond_first: share((sent - users).max(0.0), sent),
        }
    }

    /// What a thousand answered users cost, where an attempt at the first service costs so much.
    pub fn of_a_thousand(&self, price: f64) -> Option<f64> {
        Some(self.attempts_per_answer? * price * 1_000.0)
    }
}

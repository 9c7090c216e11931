//! Run: what a run came to.
//!
//! **Why.** Tables, charts, promises and the lab all read the same record of a run, and none of them needs the loop that makes it.

use core::time::Duration;

use crate::{
    scenario::Side,
    verdict::{Cost, Count, Crowd, Layer, Observed, Refusals, Series, Summary, Timing, Work},
};

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it shows.
    pub summary: Summary,
    /// What was counted when.
    pub series: Series,
    /// What became of each kind of requests; empty, if there are no kinds.
    pub kinds: Vec<Crowd>,
    /// What the service did.
    pub work: Work,
    /// How requests waited for it.
    pub queueing: Queueing,
    /// What each of the services behind it did.
    pub below: Vec<Below>,
    /// What each shard of the first service did; empty, if it has none.
    pub shards: Vec<Below>,
    /// How a topic looked at the end of every second; empty, if there is none.
    pub records: Vec<Records>,
    /// What processes asked of the store that they share; `None`, if there is none.
    pub leased: Option<Leased>,
    /// What the service, and each of those behind it, was asked, did and spent, second by second.
    pub layers: Vec<Layer>,
    /// What users saw, and how it looked second by second.
    pub observed: Observed,
    /// When things happened; a run that was hopeless ended before its time.
    pub timing: Timing,
    /// Events that were simulated.
    pub events: u64,
    /// The same seed gives the same hash, on every machine.
    pub hash: u64,
}

impl Run {
    /// What answers cost in these seconds, at all services together.
    pub fn cost(&self, seconds: core::ops::Range<usize>) -> Cost {
        Cost::of(&self.layers, &self.series, seconds)
    }

    fn good_crowds(&self) -> impl Iterator<Item = &Crowd> {
        self.kinds.iter().filter(|crowd| crowd.side == Side::Good)
    }

    /// The share of users who were answered: of good ones where there are kinds, of all others.
    pub fn answered_good(&self) -> f64 {
        let sum = |series: &Series, what| series.sum(what, 0..self.timing.end);
        let total = |what| match self.kinds.is_empty() {
            true => sum(&self.series, what),
            false => self.good_crowds().map(|crowd| sum(&crowd.series, what)).sum(),
        };
        let (good, demand): (u64, u64) = (total(Count::Good), total(Count::Demand));
        if demand == 0 { 0.0 } else { good as f64 / demand as f64 }
    }

    /// The share of tries that Quell turned away or let leave in its queue: of good callers where there are kinds, of all others.
    pub fn refused(&self) -> f64 {
        let good = || self.good_crowds();
        let tries = |series: &Series| series.sum(Count::Received, 0..self.timing.end);
        let away = |refusals: &Refusals| refusals.total() + refusals.left();
        let (tries, away) = match self.kinds.is_empty() {
            true => (tries(&self.series), away(&self.observed.refusals)),
            false => (
                good().map(|crowd| tries(&crowd.series)).sum(),
                good().map(|crowd| away(&crowd.refusals)).sum(),
            ),
        };
        if tries == 0 { 0.0 } else { away as f64 / tries as f64 }
    }
}

/// How requests waited for the service, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queueing {
    /// Requests that a worker began with.
    pub started: u64,
    /// Those among them that had to wait.
    pub delayed: u64,
    /// How long they all waited, together.
    pub waited: Duration,
    /// Requests that were refused: the queue was full, the wait too long or the deadline too near.
    pub refused: u64,
    /// Requests that failed at once because there was too much to do, or in a brownout.
    pub failed: u64,
    /// Requests that were stopped or skipped because their caller had left.
    pub cancelled: u64,
    /// Requests that failed because another had changed the same thing meanwhile.
    pub conflicts: u64,
}

/// What processes asked of the store through which they share a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leased {
    /// Requests to the store.
    pub asked: u64,
    /// Those among them that found it away.
    pub lost: u64,
    /// Whole tokens that were granted.
    pub granted: u64,
}

/// What waits in a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// New records that nobody has taken.
    pub lag: u64,
    /// Records that are due again and that nobody has taken, and those that were only deferred.
    pub due: u64,
    /// Records that wait on each tier.
    pub tiers: Vec<u64>,
    /// Dead letters so far.
    pub dead: u64,
}

/// What a service behind the first one, or a shard, did over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Below {
    /// Attempts that reached it.
    pub sent: u64,
    /// What it did.
    pub work: Work,
    /// How requests waited for it.
    pub queueing: Queueing,
}

//! Timeline: how it looked, second by second.
//!
//! **Why.** A verdict says that it went wrong; what went wrong first, and what was full or empty when it did, is seen in
//! the order of things: budget, breaker, limit, ghosts, queues, latency.
//!
//! **How.** At the end of every simulated second the world looks at itself once: the core's own snapshot of every host,
//! and the service's queue. What a run keeps is bounded by the longest run a [`Series`](super::Series) holds.

use core::{ops::Range, time::Duration};

use super::{Histogram, LONGEST, PROGRESS, Refusals, Timing, Work, share};

/// One second: what it looked like at its end, and what happened in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moment {
    /// How full the retry budgets are, from 0 to 1, on average; `None` where nobody has one.
    pub budget: Option<f64>,
    /// The share of breakers that are open; where keys have their own, of those.
    pub open: f64,
    /// The share of breakers that are half open; those of keys are not among them.
    pub half_open: f64,
    /// Attempts under way, as Quell sees it.
    pub in_flight: u64,
    /// How many may be; `None` where nobody limits them.
    pub limit: Option<u64>,
    /// Slots held for attempts that nobody waits for any more.
    pub ghosts: u64,
    /// Calls that wait in Quell's queues.
    pub queued: u64,
    /// Requests that wait at the service, and records of a topic that are not done.
    pub backlog: u64,
    /// Requests that the service completed in this second.
    pub served: u64,
    /// Those among them whose caller had already gone.
    pub wasted: u64,
    /// The median time from first send to the good answer, of those answered in this second.
    pub p50: Option<Duration>,
    /// The same for the slowest in a hundred.
    pub p99: Option<Duration>,
}

/// What was seen of a run, once per simulated second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    moments: Vec<Moment>,
}

impl Timeline {
    /// The next second.
    pub fn push(&mut self, moment: Moment) {
        if self.moments.len() < LONGEST {
            self.moments.push(moment);
        }
    }

    /// All seconds, the first first.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    fn over(&self, seconds: Range<usize>) -> &[Moment] {
        let end = seconds.end.min(self.moments.len());
        self.moments.get(seconds.start..end).unwrap_or_default()
    }

    /// How long until the backlog is gone at the pace of these seconds; `None` if it is not on its way.
    pub(super) fn drains_in(&self, seconds: Range<usize>) -> Option<Duration> {
        drains_in(self.over(seconds), |moment| moment.backlog)
    }

    /// The share of the work of these seconds that nobody waited for any more.
    pub(super) fn wasted(&self, seconds: Range<usize>) -> f64 {
        let total = |of: fn(&Moment) -> u64| self.over(seconds.clone()).iter().map(of).sum::<u64>();
        share(total(|moment| moment.wasted) as f64, total(|moment| moment.served) as f64)
    }
}

/// How long until what waits is gone at the pace of these seconds; `None` unless it falls in both halves of them, and
/// noticeably.
pub(crate) fn drains_in<S>(seconds: &[S], waits: impl Fn(&S) -> u64) -> Option<Duration> {
    let [first, .., last] = seconds else { return None };
    let half = waits(&seconds[seconds.len() / 2]);
    let (from, to) = (waits(first), waits(last));
    let gone = from.checked_sub(to)?;
    let steady = from > half && half > to && to > 0;
    if !steady || (gone as f64) < from as f64 * PROGRESS {
        return None;
    }
    let pace = gone as f64 / (seconds.len() - 1) as f64;
    Some(Duration::from_secs((to as f64 / pace) as u64))
}

/// What users saw, beside what [`Series`](super::Series) counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// From first send to the good answer, of users who came before the outage, during it and after it.
    pub latency: [Histogram; 3],
    /// Retries of calls that have ended.
    pub retries: u64,
    /// Those among them whose call then succeeded.
    pub useful: u64,
    /// Why Quell turned callers away, and who left in its queue.
    pub refusals: Refusals,
    /// How it looked, second by second.
    pub timeline: Timeline,
    second: Histogram,
    before: Work,
}

impl Observed {
    /// A user who first asked so long after the run's start got a good answer so long later.
    pub fn answered(&mut self, timing: Timing, since: Duration, took: Duration) {
        self.latency[timing.part(since.as_secs() as usize)].add(took);
        self.second.add(took);
    }

    /// A call of so many attempts is over.
    pub(crate) fn ended(&mut self, attempts: u32, good: bool) {
        let retries = u64::from(attempts.saturating_sub(1));
        self.retries += retries;
        self.useful += if good { retries } else { 0 };
    }

    /// A second is over: adds what was seen in it to how it looks.
    pub(crate) fn second_over(&mut self, looks: Moment, work: Work) {
        self.timeline.push(Moment {
            served: work.served - self.before.served,
            wasted: work.wasted - self.before.wasted,
            p50: self.second.quantile(0.5),
            p99: self.second.quantile(0.99),
            ..looks
        });
        self.before = work;
        self.second.clear();
    }

    /// Seconds that are over.
    pub(crate) fn seconds(&self) -> usize {
        self.timeline.moments.len()
    }
}

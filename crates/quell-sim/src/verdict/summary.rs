//! Summary: what a run shows, in a few numbers.

use core::{fmt, ops::Range, time::Duration};

use super::{Count, GLANCE, Observed, Series, Timing, Verdict, share};

/// What the upstream did, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests it completed.
    pub served: u64,
    /// Those among them whose caller had already gone.
    pub wasted: u64,
}

/// What a part of a run shows: before the outage, during it, or after it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Phase {
    /// The share of what was achievable that users got.
    pub goodput: f64,
    /// Attempts sent to the upstream per attempt received.
    pub amplification: f64,
    /// Attempts sent to the upstream per user's request.
    pub attempts_per_user: f64,
    /// The share of the upstream's work that nobody was waiting for any more.
    pub wasted: f64,
    /// The share of attempts that were refused on the way.
    pub refused: f64,
    /// The median time from first send to the good answer, of users who came in this part and got one.
    pub p50: Option<Duration>,
    /// The same for the slowest in a hundred.
    pub p99: Option<Duration>,
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
    /// Before the outage, during it and after it.
    pub phases: [Phase; 3],
    /// The share of retries whose call then succeeded; `None` if there were no retries.
    pub retries_useful: Option<f64>,
}

impl Summary {
    /// Sums up a run against a service that can do `capacity` requests per second.
    pub fn of(run: &Series, timing: Timing, capacity: f64, work: Work, seen: &Observed) -> Self {
        let total = |what, seconds: Range<usize>| run.sum(what, seconds) as f64;
        let since = timing.outage_at..timing.end;
        let before = timing.outage_at.saturating_sub(GLANCE)..timing.outage_at;
        let sent = total(Count::Sent, since.clone());
        let parts = timing.parts();
        let phase = |i: usize| {
            let part = || parts[i].clone();
            let sent = total(Count::Sent, part());
            Phase {
                goodput: run.goodput(part(), capacity),
                amplification: share(sent, total(Count::Received, part())),
                attempts_per_user: share(sent, total(Count::Demand, part())),
                wasted: seen.timeline.wasted(part()),
                refused: share(total(Count::Refused, part()), total(Count::Received, part())),
                p50: seen.latency[i].quantile(0.5),
                p99: seen.latency[i].quantile(0.99),
            }
        };
        Self {
            verdict: Verdict::of(run, timing, capacity, &seen.timeline),
            amplification: share(sent, total(Count::Received, since.clone())),
            attempts_per_user: share(sent, total(Count::Demand, since)),
            wasted: share(work.wasted as f64, work.served as f64),
            goodput_after: run.goodput(timing.outage_end()..timing.end, capacity),
            refused_before: share(
                total(Count::Refused, before.clone()),
                total(Count::Received, before),
            ),
            phases: [0, 1, 2].map(phase),
            retries_useful: (seen.retries > 0)
                .then(|| share(seen.useful as f64, seen.retries as f64)),
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

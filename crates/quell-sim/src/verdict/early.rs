//! Early: when to stop watching a run that nothing will save.
//!
//! **Why.** A storm that keeps itself alive shows in its hundredth second what it would show in its ten thousandth, and its
//! queue grows all the while.
//!
//! **How.** A run is hopeless once the outage has been over for a minute in every second of which users got less than a
//! twentieth of what was achievable, at least as much was sent as the service can do (the load multiplier × ρ is 1 or more,
//! as measured), and the backlog is no smaller at the minute's end than at its start; and nothing is still to come: no
//! fault begins or ends, nobody is restarted, the load keeps its level.

use super::{Count, Series, Timeline, Timing};

/// How long there must be no progress, in seconds.
const HOPELESS: usize = 60;
/// The share of what is achievable below which a second counts as lost.
const LOST: f64 = 0.05;

/// Whether a run may end before it is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Early {
    /// It is watched to its end.
    #[default]
    Never,
    /// It ends once it is hopeless.
    Hopeless,
}

impl Early {
    /// Whether to stop, now that `second` seconds are over, of a run in which nothing new happens from `settled` on.
    pub(crate) fn stops(
        self,
        run: &Series,
        timing: Timing,
        capacity: f64,
        timeline: &Timeline,
        second: usize,
        settled: usize,
    ) -> bool {
        if self == Self::Never || second < timing.outage_end().max(settled).saturating_add(HOPELESS)
        {
            return false;
        }
        let minute = second - HOPELESS..second;
        let moments = timeline.moments();
        let (Some(first), Some(last)) = (moments.get(minute.start), moments.get(second - 1)) else {
            return false;
        };
        let lost = |second: usize| {
            let achievable = (run.at(Count::Demand, second) as f64).min(capacity);
            (run.at(Count::Good, second) as f64) < achievable * LOST
        };
        last.backlog >= first.backlog
            && run.sum(Count::Sent, minute.clone()) as f64 >= capacity * HOPELESS as f64
            && minute.rev().all(lost)
    }
}

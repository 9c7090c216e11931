//! Records instead of users: a topic, its consumers, and the tiers on which failed records wait.

use quell_core::{
    Time,
    budget::Budget,
    ladder::{Ladder, Spec},
    spec::{self, PolicySpec, UpstreamSpec},
};

use super::{Arrivals, Invalid, Scenario, wrong};

/// Work that nobody waits for. What arrives are records of a topic; [`Scenario::instances`] consumers hand them to the
/// service. `callers`, `patience` and `resubmit` say nothing.
///
/// A record that fails waits on a tier and is due when its delay is over; after the last tier it is a dead letter. Due
/// records go first, each paid for by the budget of the instance that takes it, and wait while that is empty; new
/// records go on. While the breaker is not closed the instance takes nothing, and nothing is burnt.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The delays of the tiers: 30 s, 5 min and 30 min by default.
    pub tiers: Spec,
    /// Records that one instance hands over at the same time: from 1 to 65535; 8 by default.
    pub concurrency: u32,
    /// How one record is handed over. One attempt, by default and always: what fails waits on a tier and not in a hand.
    pub policy: PolicySpec,
    /// What the records of one instance share: its breaker, its in-flight limit, and the budget that pays for due ones.
    pub upstream: UpstreamSpec,
}

impl Default for Topic {
    fn default() -> Self {
        Self {
            tiers: Spec::default(),
            concurrency: 8,
            policy: PolicySpec { attempts: 1, ..PolicySpec::background() },
            upstream: UpstreamSpec::background(),
        }
    }
}

impl Topic {
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), Invalid> {
        Ladder::new(&self.tiers)?;
        Budget::new(self.upstream.budget, Time::ZERO).map_err(spec::Invalid::from)?;
        if !(1..=65_535).contains(&self.concurrency) {
            return wrong("topic.concurrency", "is out of range: write from 1 to 65535");
        }
        if self.policy.attempts != 1 {
            let fix = "is not 1, but what fails waits on a tier: write 1, and the tiers you want";
            return wrong("topic.policy.attempts", fix);
        }
        if scenario.gateway.is_some() {
            return wrong(
                "gateway",
                "would have nobody to serve beside a topic: write one of them",
            );
        }
        if matches!(scenario.arrivals, Arrivals::Closed { .. }) {
            let fix = "waits for answers, which records have none of: write another for a topic";
            return wrong("arrivals.closed", fix);
        }
        Ok(())
    }
}

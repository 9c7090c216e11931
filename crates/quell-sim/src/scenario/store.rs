//! A store through which a fleet shares one budget of retries.

use core::time::Duration;

use quell_core::lease::{self, Rules};

use super::{Invalid, wrong};

/// A store such as Redis. Every client instance or gateway that runs Quell leases its part of one budget from it, in the
/// background; a retry is paid for by what its process earned itself, and where that is empty by what it has leased. While
/// the store is away every process lives on its share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The budget of all together: 1,000 retries at once and 17 per second by default, that is 1,000 per minute. `instances`
    /// says nothing: it is the number of processes that run Quell.
    pub budget: lease::Spec,
    /// To the store and back: from 0 to 10 s; 1 ms by default.
    pub round_trip: Duration,
    /// When it is away; never, by default. Requests that reach it then are lost, and it forgets nothing.
    pub away: Vec<Away>,
}

/// The store does not answer for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away {
    /// From when on.
    pub at: Duration,
    /// For how long.
    pub length: Duration,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            budget: lease::Spec { per_second: 17, burst: 1_000, ..lease::Spec::default() },
            round_trip: Duration::from_millis(1),
            away: vec![],
        }
    }
}

impl Store {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        self.rules(1)?;
        if self.round_trip > Duration::from_secs(10) {
            return wrong(
                "store.round_trip",
                "is too long: write at most \"10s\", such as \"1ms\"",
            );
        }
        Ok(())
    }

    /// What holds among so many processes.
    pub(crate) fn rules(&self, instances: u32) -> Result<Rules, lease::Invalid> {
        Rules::new(lease::Spec { instances, ..self.budget })
    }

    /// Whether it is away at this time of the run.
    pub(crate) fn is_away(&self, now: Duration) -> bool {
        self.away.iter().any(|away| (away.at..away.at.saturating_add(away.length)).contains(&now))
    }
}

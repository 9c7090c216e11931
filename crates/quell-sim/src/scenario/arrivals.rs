//! When users come, and when their clients are restarted.

use core::time::Duration;

use super::{Curve, Invalid, wrong};
use crate::dist::{Dist, Draw};

/// When users' requests begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// At random (Poisson), `load` per second.
    Random,
    /// Evenly spaced, `load` per second.
    Even,
    /// At random; the rate is `load` times the height of this curve over the seconds of the run.
    Shaped(Curve),
    /// As many in each second as were recorded, evenly spaced, again and again. `load` says nothing.
    Recorded(Vec<u32>),
    /// So many users at one instant, and nobody else. `load` says nothing.
    Burst {
        /// How many, at least 1.
        users: u32,
        /// When.
        at: Duration,
    },
    /// So many users in so short a time, again and again, and nobody in between. `load` says nothing.
    Bursts {
        /// How many, at least 1.
        users: u32,
        /// Within which time, evenly spaced; zero for all at once.
        within: Duration,
        /// How often; the first are there after this time.
        every: Duration,
    },
    /// So many users who wait for the end of one request, think, and begin the next. `load` says nothing.
    Closed {
        /// How many.
        users: u32,
        /// How long each thinks.
        think: Dist,
    },
}

impl Arrivals {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        match self {
            Self::Shaped(curve)
                if curve.highest() == 0.0 || !curve.is_fine(|y| (0.0..=1e6).contains(&y)) =>
            {
                let fix = "is no shape: write rising seconds with factors of the load, one above 0";
                wrong("arrivals.shape", fix)
            }
            Self::Recorded(counts) if counts.iter().all(|&count| count == 0) => {
                wrong("arrivals.recorded", "has nobody in it: write the requests of each second")
            }
            Self::Closed { users: 0, .. }
            | Self::Burst { users: 0, .. }
            | Self::Bursts { users: 0, .. } => {
                wrong("arrivals.users", "is 0, so nobody would call: write at least 1")
            }
            Self::Bursts { within, every, .. } if every.is_zero() || within > every => {
                wrong("arrivals.every", "is too short: write more than 0s, and at least `within`")
            }
            Self::Closed { think, .. } if Draw::new(think)?.mean().is_zero() => {
                wrong("arrivals.think", "is 0s, so time would stand still: write such as \"1s\"")
            }
            _ => Ok(()),
        }
    }
}

/// Users who got no answer and ask again, by hand. Still the same demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Resubmit {
    /// How many of them do, from 0 to 1.
    pub share: f64,
    /// How much later.
    pub after: Dist,
    /// How often at most.
    pub times: u8,
}

impl Resubmit {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        Draw::new(&self.after)?;
        if !(0.0..=1.0).contains(&self.share) {
            return wrong("resubmit.share", "is out of range: write a number from 0 to 1");
        }
        Ok(())
    }
}

/// Instances that run Quell are restarted: what they knew is lost, and their open calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// When the first one is.
    pub at: Duration,
    /// How much later the next one is: zero for all at once, more for a rolling deploy.
    pub step: Duration,
}

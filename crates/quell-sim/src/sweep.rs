//! Sweep: one scenario, turned by knobs.
//!
//! **Why.** A default is believed when it was looked for: a verdict at one load and one outage says little of the next. A knob is
//! what a sweep, or the search for the tipping point, turns.
//!
//! ```
//! use quell_sim::{Scenario, scenario::OutageKind, sweep::Knob};
//!
//! let mut scenario = Scenario::storm(OutageKind::Stall);
//! Knob::Utilisation.set(&mut scenario, 0.5)?;
//! assert_eq!(scenario.load, 6_000.0);
//! assert!(Knob::Budget.set(&mut scenario, 0.1).is_err()); // naive callers have none
//! # Ok::<_, quell_sim::sweep::Invalid>(())
//! ```

use core::time::Duration;

use quell_core::{budget, budget::tokens};

use crate::scenario::{Arrivals, Callers, Outage, Scenario};

/// What can be turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knob {
    /// Users' requests per second.
    Load,
    /// The same as a share of what the service can do.
    Utilisation,
    /// Requests per second that the service can do.
    Capacity,
    /// The outage's length, in whole seconds.
    Outage,
    /// How long callers wait, in milliseconds.
    Patience,
    /// Client processes.
    Instances,
    /// Most sends of a caller per request.
    Attempts,
    /// Retries per success that Quell's budget pays for.
    Budget,
}

/// Why a knob cannot be turned that far. The message names the knob, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Out of its range.
    #[error("{knob} = {value}: write {fix}")]
    Value {
        /// Which knob.
        knob: &'static str,
        /// How far.
        value: f64,
        /// What is possible.
        fix: &'static str,
    },
    /// Nobody has it.
    #[error("budget: nobody in this scenario has a retry budget: write --against client or front")]
    NoBudget,
    /// It would turn nothing, or half of it.
    #[error("{knob}: {why}: write {fix}")]
    NoGrip {
        /// Which knob.
        knob: &'static str,
        /// What is in the way.
        why: &'static str,
        /// What to do.
        fix: &'static str,
    },
}

impl Knob {
    /// All knobs.
    pub const ALL: [Self; 8] = [
        Self::Load,
        Self::Utilisation,
        Self::Capacity,
        Self::Outage,
        Self::Patience,
        Self::Instances,
        Self::Attempts,
        Self::Budget,
    ];

    /// The word for it on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Utilisation => "utilisation",
            Self::Capacity => "capacity",
            Self::Outage => "outage",
            Self::Patience => "patience",
            Self::Instances => "instances",
            Self::Attempts => "attempts",
            Self::Budget => "budget",
        }
    }

    /// What it counts in.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Load | Self::Capacity => "/s",
            Self::Outage => " s",
            Self::Patience => " ms",
            Self::Utilisation | Self::Instances | Self::Attempts | Self::Budget => "",
        }
    }

    /// Whether only whole numbers mean anything.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Outage | Self::Instances | Self::Attempts)
    }

    /// Turns it.
    pub fn set(self, scenario: &mut Scenario, value: f64) -> Result<(), Invalid> {
        let wrong = |fix| Err(Invalid::Value { knob: self.as_str(), value, fix });
        let nothing = self == Self::Budget && value == 0.0;
        let possible = value > 0.0 && value <= 1e9; // nor is what is no number
        if !nothing && !possible {
            return wrong("a number above 0 and up to 1e9");
        }
        let whole = value.round() as u32;
        if self.is_whole() && whole == 0 {
            return wrong("at least 1");
        }
        let no_grip = |why, fix| Err(Invalid::NoGrip { knob: self.as_str(), why, fix });
        let by_load =
            matches!(scenario.arrivals, Arrivals::Random | Arrivals::Even | Arrivals::Shaped(_));
        if matches!(self, Self::Load | Self::Utilisation) && !by_load {
            return no_grip(
                "users come as written, whatever the load",
                "arrivals that follow load, such as \"random\"",
            );
        }
        let Outage { at, .. } = scenario.outage;
        let also = |fault: &Outage| fault.at < scenario.outage.end() && fault.end() > at;
        if self == Self::Outage && scenario.faults.iter().any(also) {
            return no_grip(
                "other faults overlap the outage, or it comes and goes",
                "an outage of one piece",
            );
        }
        match self {
            Self::Load => scenario.load = value,
            Self::Utilisation => scenario.load = value * scenario.service.capacity(),
            Self::Capacity => {
                let workers = f64::from(scenario.service.workers);
                let workers = workers * value / scenario.service.capacity();
                scenario.service.workers = workers.round().max(1.0) as u32;
            }
            Self::Outage => scenario.outage.length = Duration::from_secs(whole.into()),
            Self::Patience => {
                scenario.patience = Duration::from_nanos((value * 1e6) as u64);
                if let Callers::Quell { policy, .. } = &mut scenario.callers {
                    policy.per_try_timeout = Some(scenario.patience);
                }
            }
            Self::Instances => scenario.instances = whole,
            Self::Attempts => match &mut scenario.callers {
                Callers::Fixed { retries, .. } | Callers::Backoff { retries, .. } => {
                    *retries = whole - 1;
                }
                Callers::Quell { policy, .. } => policy.attempts = whole,
            },
            Self::Budget => {
                if value > 2.0 {
                    return wrong("a number from 0 to 2");
                }
                let mut found = false;
                let callers = match &mut scenario.callers {
                    Callers::Quell { upstream, .. } => Some(upstream),
                    _ => None,
                };
                let front = scenario.gateway.as_mut().map(|gateway| &mut gateway.upstream);
                for upstream in callers.into_iter().chain(front) {
                    let tokens = match upstream.budget {
                        budget::Spec::Tokens(tokens) => tokens,
                        _ => tokens::Spec::default(),
                    };
                    upstream.budget = tokens::Spec { ratio: value, ..tokens }.into();
                    found = true;
                }
                if !found {
                    return Err(Invalid::NoBudget);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{precheck::Precheck, scenario::OutageKind};

    #[test]
    fn every_knob_turns_what_it_is_named_after() {
        let storm = || Scenario::storm(OutageKind::Stall).with_gateway();
        for knob in Knob::ALL {
            let mut turned = storm();
            knob.set(&mut turned, 2.0).unwrap();
            assert_ne!(turned, storm(), "{}", knob.as_str());
        }
        let mut turned = storm();
        Knob::Capacity.set(&mut turned, 6_000.0).unwrap();
        assert_eq!(turned.service.capacity(), 6_000.0);
        Knob::Attempts.set(&mut turned, 1.0).unwrap();
        Knob::Budget.set(&mut turned, 0.0).unwrap();
        assert_eq!(Precheck::of(&turned).unwrap().w, 1.0);
    }

    #[test]
    fn nonsense_is_refused_with_the_fix() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            for knob in Knob::ALL.into_iter().filter(|knob| (*knob, value) != (Knob::Budget, 0.0)) {
                let mut scenario = Scenario::storm(OutageKind::Stall);
                let message = knob.set(&mut scenario, value).unwrap_err().to_string();
                assert!(message.contains("write"), "{message}");
            }
        }
    }

    #[test]
    fn a_knob_that_would_turn_nothing_says_so() {
        let mut scenario = Scenario::storm(OutageKind::Stall);
        scenario.faults = scenario.outage.flapping(Duration::from_secs(2), Duration::from_secs(2));
        scenario.arrivals = Arrivals::Recorded(vec![100]);
        for knob in [Knob::Outage, Knob::Load, Knob::Utilisation] {
            let message = knob.set(&mut scenario.clone(), 5.0).unwrap_err().to_string();
            assert!(message.contains("write"), "{message}");
        }
    }

    #[test]
    fn callers_with_quell_are_as_patient_as_others() {
        let storm = Scenario::storm(OutageKind::Stall);
        let mut scenario = storm.with_callers(Callers::quell(Duration::from_secs(1)));
        Knob::Patience.set(&mut scenario, 50.0).unwrap();
        let expected = Callers::quell(Duration::from_millis(50));
        assert_eq!((scenario.patience, scenario.callers), (Duration::from_millis(50), expected));
    }
}

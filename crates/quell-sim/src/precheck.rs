//! Pre-check: what theory says before anything is run.
//!
//! **Why.** A service that is served first come, first served heals from the worst state only if `w · ρ < 1`, with `w` the load
//! multiplier when everything fails and ρ the utilisation without retries. That takes no simulation to know.
//!
//! ```
//! use quell_sim::{Scenario, precheck::Precheck, scenario::OutageKind};
//!
//! let naive = Precheck::of(&Scenario::storm(OutageKind::Stall))?;
//! assert_eq!(naive.to_string(), "w·ρ = 4.00 × 0.83 = 3.33 ≥ 1: a storm would keep itself alive");
//! # Ok::<_, quell_core::spec::Invalid>(())
//! ```

use core::fmt;

use quell_core::{
    Policy,
    in_flight::Limit,
    spec::Invalid,
    worst::{Given, Load},
};

use crate::scenario::{Callers, Scenario};

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precheck {
    /// The load multiplier when every attempt fails: sends per user's request.
    pub w: f64,
    /// Utilisation without retries.
    pub rho: f64,
    /// Whether an in-flight limit stands in front of the service, so that the rule need not hold for it to heal.
    pub limited: bool,
}

impl Precheck {
    /// Of a scenario; fails where its policies make no sense.
    pub fn of(scenario: &Scenario) -> Result<Self, Invalid> {
        let capacity = scenario.service.capacity();
        let given = Given {
            instances: scenario.instances,
            load: Some(scenario.load),
            capacity: Some(capacity),
            ..Given::default()
        };
        let callers = match scenario.callers {
            Callers::Fixed { retries, .. } | Callers::Backoff { retries, .. } => {
                Load { attempts: retries.saturating_add(1), budget: None }
            }
            Callers::Quell { policy, upstream } => {
                Load::of(&Policy::new(policy)?, upstream.budget, &given)
            }
        };
        let mut limited = matches!(scenario.callers, Callers::Quell { upstream, .. } if upstream.in_flight != Limit::Off);
        let mut w = callers.multiplier(1.0);
        if let Some(gateway) = scenario.gateway {
            let given = Given { instances: 1, ..given };
            w *= Load::of(&Policy::new(gateway.policy)?, gateway.upstream.budget, &given)
                .multiplier(1.0);
            limited |= gateway.upstream.in_flight != Limit::Off;
        }
        let rho = given.utilisation().unwrap_or(0.0);
        Ok(Self { w, rho, limited })
    }

    /// `w · ρ`.
    pub fn w_rho(&self) -> f64 {
        self.w * self.rho
    }
}

impl fmt::Display for Precheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w_rho = self.w_rho();
        let (sign, says) = match (w_rho < 1.0, self.limited) {
            (true, _) => ("<", "heals, however long it takes to drain"),
            (false, true) => ("≥", "it is the in-flight limit that has to heal this"),
            (false, false) => ("≥", "a storm would keep itself alive"),
        };
        write!(f, "w·ρ = {:.2} × {:.2} = {w_rho:.2} {sign} 1: {says}", self.w, self.rho)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::scenario::OutageKind;

    fn of(change: impl Fn(Scenario) -> Scenario) -> Precheck {
        Precheck::of(&change(Scenario::storm(OutageKind::Stall))).unwrap()
    }

    #[test]
    fn retries_multiply_budgets_bound_and_a_limit_in_front_changes_what_must_hold() {
        assert_eq!(of(|s| s.with_callers(Callers::NO_RETRIES)).w, 1.0);
        assert_eq!(of(|s| s.with_callers(Callers::backoff())).w, 4.0);
        let budget = of(|s| s.with_callers(Callers::quell(Duration::from_secs(1))));
        assert!((budget.w - 1.1).abs() < 1e-9 && budget.w_rho() < 1.0, "{budget}");
        let front = of(Scenario::with_gateway);
        assert!(front.limited && front.w_rho() > 1.0, "{front}");
        assert!(front.to_string().contains("in-flight limit"), "{front}");
    }
}

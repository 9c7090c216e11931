//! Pre-check: what theory says before anything is run.
//!
//! **Why.** A service that is served first come, first served heals from the worst state only if `w · ρ < 1`, with `w` the load
//! multiplier when everything fails and ρ the utilisation without retries. That takes no simulation to know.
//!
//! Where there are services behind the service it is the worst of them that counts: retries of all layers above multiply, and a worker is
//! held while those below work for it.
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

use crate::scenario::{Callers, Gateway, Scenario};

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
        let mut worst = Self { w, rho, limited };
        if !scenario.below.is_empty() {
            worst.descends(scenario, &given)?;
        }
        Ok(worst)
    }

    /// Goes through all services from the top down, and stays with the worst.
    fn descends(&mut self, scenario: &Scenario, given: &Given) -> Result<(), Invalid> {
        let services = || {
            let below = scenario.below.iter().map(|node| (&node.service, &node.calls));
            core::iter::once((&scenario.service, &scenario.calls)).chain(below)
        };
        let all: Vec<_> = services().collect();
        // How long a worker is held by one request, those below included.
        let mut held = vec![0.0; all.len()];
        for (i, (service, calls)) in all.iter().enumerate().rev() {
            let below: f64 = calls.iter().map(|edge| held[edge.to + 1]).sum();
            held[i] = service.mean().as_secs_f64() + below;
        }
        // Requests per user, without retries, and the load multiplier.
        let mut reach = vec![(0.0, 0.0_f64); all.len()];
        reach[0] = (1.0, self.w);
        let multiplier = |policy, budget, instances| -> Result<f64, Invalid> {
            let given = Given { instances, ..*given };
            Ok(Load::of(&Policy::new(policy)?, budget, &given).multiplier(1.0))
        };
        for (i, (service, calls)) in all.iter().enumerate() {
            let (visits, mut w) = reach[i];
            let front = i.checked_sub(1).and_then(|i| scenario.below[i].gateway);
            if let Some(Gateway { policy, upstream, .. }) = front {
                w *= multiplier(policy, upstream.budget, 1)?;
            }
            let rho = scenario.load * visits * held[i] / f64::from(service.workers.max(1));
            if w * rho > self.w_rho() {
                (self.w, self.rho) = (w, rho);
                let limit = |gateway: Gateway| gateway.upstream.in_flight != Limit::Off;
                self.limited = if i == 0 { self.limited } else { front.is_some_and(limit) };
            }
            for edge in calls.iter() {
                let more = multiplier(edge.policy, edge.upstream.budget, edge.instances)?;
                let (below, worst) = &mut reach[edge.to + 1];
                *below += visits;
                *worst = worst.max(w * more);
            }
        }
        Ok(())
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
    use crate::scenario::{Edge, Node, OutageKind, Service};

    fn of(change: impl Fn(Scenario) -> Scenario) -> Precheck {
        Precheck::of(&change(Scenario::storm(OutageKind::Stall))).unwrap()
    }

    #[test]
    fn the_worst_service_of_a_chain_counts() {
        let chain = of(|mut s| {
            let leaf = Service::constant(1_000, Duration::from_millis(100));
            s.below = vec![Node::leaf(leaf)];
            s.calls = vec![Edge::new(0)];
            s.with_callers(Callers::NO_RETRIES)
        });
        // The top holds its 1,200 workers for 200 ms; the bottom has fewer, and is asked 1.1 times.
        assert!((chain.w_rho() - 10_000.0 * 0.2 / 1_200.0).abs() < 1e-9, "{chain}");
        let bottom = of(|mut s| {
            s.service = Service::constant(10_000, Duration::from_millis(1));
            s.below = vec![Node::leaf(Service::constant(1_000, Duration::from_millis(100)))];
            s.calls = vec![Edge::new(0)];
            s.with_callers(Callers::NO_RETRIES)
        });
        assert!((bottom.w_rho() - 1.1).abs() < 1e-3, "{bottom}");
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

//! Worst: what a policy can do to a service on its worst day, before that day comes.
//!
//! **Why.** "Three attempts" sounds harmless until every call fails and four layers do the same. The numbers that
//! matter follow from the policy alone: how many sends, how long a caller can wait, how much more load, and
//! whether a service at a given utilisation heals from it.
//!
//! **How.** [`worst`] says all of it for one route. A retry storm heals if `w · ρ < 1`, where ρ is the utilisation without retries and `w` the load
//! multiplier under failure: with independent failures of probability `f` it is `1 + f + … + f^(attempts−1)`,
//! and a budget that pays `ratio` retries per success holds it to `1 + ratio`. Along a chain the attempts multiply,
//! unless a credit makes them a sum.
//!
//! ```
//! use quell_core::worst::Load;
//!
//! let naive = Load { attempts: 4, budget: None };
//! assert_eq!(naive.multiplier(1.0), 4.0);
//! assert!(!naive.heals(0.3));                       // 4 × 0.3 ≥ 1
//! let budgeted = Load { budget: Some(0.1), ..naive };
//! assert!(budgeted.heals(0.83));                    // 1.1 × 0.83 < 1
//! ```
//!
//! What a budget gives whatever succeeds (a floor, a trickle) is a share of the load only when the load is known, and
//! every process gives it once more.

use core::time::Duration;

use crate::{
    Policy,
    breaker::Mode,
    budget::{self, fleet_allows},
    spec::UpstreamSpec,
};

/// Seconds over which what comes with time is averaged.
const LONG: u32 = 3_600;
/// Successes over which what they earn is averaged.
const MANY: u32 = 1_000_000;

/// What is known of a service and its callers, beside what is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Given {
    /// Processes that call it, each with a budget of its own.
    pub instances: u32,
    /// Requests per second without retries, if known.
    pub load: Option<f64>,
    /// Requests per second that it can serve, if known.
    pub capacity: Option<f64>,
    /// The share of attempts that fail.
    pub failure_rate: f64,
    /// How long the outage lasts in which nothing succeeds.
    pub outage: Duration,
    /// How soon it answers when it is well.
    pub reply: Duration,
}

impl Default for Given {
    /// One process, a minute in which everything fails, and nothing known of the service.
    fn default() -> Self {
        Self {
            instances: 1,
            load: None,
            capacity: None,
            failure_rate: 1.0,
            outage: Duration::from_secs(60),
            reply: Duration::from_millis(100),
        }
    }
}

/// A route's worst day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Most sends per call.
    pub attempts: u32,
    /// The longest a caller can wait for the head of an answer.
    pub latency: Duration,
    /// Sends per call at the given rate of failures, once what was saved up is spent.
    pub load: f64,
    /// The same when every attempt fails: `w`.
    pub most_load: f64,
    /// `w · ρ`: from 1 on the service does not heal by itself once everything fails, however rare that is. `None` if load or
    /// capacity are not known.
    pub w_rho: Option<f64>,
    /// Retries that all processes allow together in an outage; `None` if their budget bounds no number.
    pub fleet: Option<u64>,
    /// How much later than the service the breaker lets everybody return.
    pub added_recovery: Duration,
}

/// What a route can do on its worst day.
pub fn worst(policy: &Policy, upstream: &UpstreamSpec, given: &Given) -> Worst {
    // What nobody obeys holds nothing.
    let obeyed = !upstream.modes.budget.is_report();
    let budget = if obeyed { upstream.budget } else { budget::Spec::Unlimited };
    let load = Load::of(policy, budget, given);
    let most_load = load.multiplier(1.0);
    let (instances, outage) = (given.instances, given.outage.as_secs());
    Worst {
        attempts: policy.attempts(),
        latency: latency(policy),
        load: load.multiplier(given.failure_rate),
        most_load,
        w_rho: given.utilisation().map(|utilisation| most_load * utilisation),
        fleet: fleet_allows(budget, instances, outage, 0),
        added_recovery: match upstream.breaker.mode {
            Mode::Enforce => upstream.breaker.added_recovery(given.reply),
            _ => Duration::ZERO, // nothing waits for it
        },
    }
}

impl Given {
    /// How much of what it can do a service has to do, without retries.
    pub fn utilisation(&self) -> Option<f64> {
        Some(self.load? / self.capacity.filter(|&capacity| capacity > 0.0)?)
    }
}

/// What multiplies the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Most sends per call.
    pub attempts: u32,
    /// Retries per success that a budget pays for; `None` if nothing holds them.
    pub budget: Option<f64>,
}

impl Load {
    /// Of a policy and the budget that its callers share.
    pub fn of(policy: &Policy, budget: budget::Spec, given: &Given) -> Self {
        let attempts = policy.attempts();
        let allows = |instances, seconds, successes| {
            fleet_allows(budget, instances, seconds, successes).map(|retries| retries as f64)
        };
        let Some(at_once) = allows(1, 0, 0) else {
            return Self { attempts, budget: by_chance(budget) };
        };
        let earned = (allows(1, 0, MANY.into()).unwrap_or(at_once) - at_once) / f64::from(MANY);
        let all_at_once = allows(given.instances, 0, 0).unwrap_or(0.0);
        let floor = (allows(given.instances, LONG.into(), 0).unwrap_or(0.0) - all_at_once)
            / f64::from(LONG);
        let share = given.load.filter(|&load| load > 0.0).map_or(0.0, |load| floor / load);
        Self { attempts, budget: Some(earned + share) }
    }

    /// Sends per call if each fails with this probability, whatever the others did.
    pub fn multiplier(&self, failure_rate: f64) -> f64 {
        let f = failure_rate.clamp(0.0, 1.0);
        let (mut sum, mut power, mut n) = (0.0, 1.0, 0);
        // Once a further attempt adds nothing that a float could show, none does.
        while n < self.attempts.max(1) && (f == 1.0 || power > 1e-18) {
            if f == 1.0 {
                sum = f64::from(self.attempts.max(1));
                break;
            }
            sum += power;
            power *= f;
            n += 1;
        }
        self.budget.map_or(sum, |ratio| sum.min(1.0 + ratio.max(0.0)))
    }

    /// `w · ρ` on the worst day, when every attempt fails.
    pub fn w_rho(&self, utilisation: f64) -> f64 {
        self.multiplier(1.0) * utilisation
    }

    /// Whether a first-come-first-served service at this utilisation recovers from the worst state.
    pub fn heals(&self, utilisation: f64) -> bool {
        self.w_rho(utilisation) < 1.0
    }
}

/// Retries per first attempt where chance decides: `target` of all attempts are retries.
fn by_chance(budget: budget::Spec) -> Option<f64> {
    match budget.deciding() {
        budget::Spec::Probabilistic(spec) if spec.target < 1.0 => {
            Some(spec.target / (1.0 - spec.target))
        }
        _ => None,
    }
}

/// The longest a caller can wait for the head of an answer: all attempts, all waits, within the timeout.
pub fn latency(policy: &Policy) -> Duration {
    let attempts = policy.attempts();
    let tries = policy.per_try().saturating_mul(attempts);
    // Waits stop growing at the cap, so a sum over many retries need not visit them all.
    let few = attempts.saturating_sub(1).min(64);
    let waits: Duration = (1..=few)
        .map(|n| policy.backoff().longest(n))
        .fold(Duration::ZERO, Duration::saturating_add);
    let rest = policy.backoff().longest(few).saturating_mul(attempts.saturating_sub(1) - few);
    tries.saturating_add(waits).saturating_add(rest).min(policy.timeout())
}

/// Sends that can reach the last service of a chain for one request at its head: each layer multiplies.
pub fn chain(attempts: &[u32]) -> u64 {
    attempts.iter().fold(1, |product, &n| product.saturating_mul(u64::from(n.max(1))))
}

/// The same where the edge's credit is handed down and debited, for the widest fan-out of one path.
pub fn chain_with_credit(edge_attempts: u32, widest_fan_out: u32) -> u64 {
    let credit = u64::from(edge_attempts.max(1) - 1);
    1 + credit * u64::from(widest_fan_out.max(1))
}

/// A chain's worst day, as its last service and its first caller see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chain {
    /// Most sends at the last service for one request at the head.
    pub attempts: u64,
    /// The longest the first caller can wait for the head of an answer.
    pub latency: Duration,
    /// Sends at the last service per request at the head.
    pub load: f64,
    /// `w · ρ` of the last service, if its load and capacity are known.
    pub w_rho: Option<f64>,
}

/// What a chain of routes can do on its worst day, the edge first: with the edge's credit handed down, or each on its own.
/// `None` if there is no route in it.
pub fn of_chain(routes: &[Worst], credit: bool) -> Option<Chain> {
    let (edge, last) = (routes.first()?, routes.last()?);
    let retrying = if credit { &routes[..1] } else { routes };
    let attempts: Vec<_> = retrying.iter().map(|route| route.attempts).collect();
    let most_load: f64 = retrying.iter().map(|route| route.most_load).product();
    Some(Chain {
        attempts: chain(&attempts),
        latency: edge.latency, // whatever happens below, happens within its timeouts
        load: retrying.iter().map(|route| route.load).product(),
        w_rho: last.w_rho.map(|w_rho| w_rho / last.most_load * most_load),
    })
}

/// Sends per request at the last service of a chain in which every layer retries on its own. Where only the edge
/// retries, or its credit is handed down, the edge's own is all there is.
pub fn chain_load(layers: &[Load], failure_rate: f64) -> f64 {
    layers.iter().map(|layer| layer.multiplier(failure_rate)).product()
}

#[cfg(test)]
#[path = "worst_tests.rs"]
mod tests;

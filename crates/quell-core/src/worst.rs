//! Worst: what a policy can do to a service on its worst day, before that day comes.
//!
//! **Why.** "Three attempts" sounds harmless until every call fails and four layers do the same. The numbers that
//! matter follow from the policy alone: how many sends, how long a caller can wait, how much more load, and
//! whether a service at a given utilisation heals from it.
//!
//! **How.** A retry storm heals if `w · ρ < 1`, where ρ is the utilisation without retries and `w` the load
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

use core::time::Duration;

use crate::Policy;

/// What multiplies the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Most sends per call.
    pub attempts: u32,
    /// Retries per success that a budget pays for; `None` if nothing holds them.
    pub budget: Option<f64>,
}

impl Load {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PolicySpec;

    #[test]
    fn independent_failures_add_up_as_a_geometric_sum() {
        let load = Load { attempts: 4, budget: None };
        for (f, expected) in [(0.0, 1.0), (0.01, 1.010_101), (0.1, 1.111), (0.5, 1.875), (1.0, 4.0)]
        {
            let got = load.multiplier(f);
            assert!((got - expected).abs() < 1e-9, "f = {f}: {got}, expected {expected}");
        }
    }

    #[test]
    fn a_budget_bounds_the_multiplier_however_many_attempts() {
        let load = Load { attempts: u32::MAX, budget: Some(0.1) };
        assert_eq!(load.multiplier(1.0), 1.1);
        assert!(load.multiplier(0.999_999_999) <= 1.1);
        assert_eq!(Load { attempts: u32::MAX, budget: None }.multiplier(1.0), f64::from(u32::MAX));
    }

    #[test]
    fn the_healing_rule_is_the_published_one() {
        let naive = Load { attempts: 4, budget: None };
        assert!(naive.heals(0.249) && !naive.heals(0.25));
        let budgeted = Load { attempts: 4, budget: Some(0.1) };
        assert!(budgeted.heals(0.909) && !budgeted.heals(0.91));
    }

    #[test]
    fn chains_multiply_and_credit_makes_them_a_sum() {
        for (chain_of, expected) in
            [(&[3, 3, 3][..], 27), (&[3; 4], 81), (&[4, 4, 4], 64), (&[3; 5], 243), (&[], 1)]
        {
            assert_eq!(chain(chain_of), expected);
        }
        assert_eq!(chain_with_credit(3, 1), 3);
        assert_eq!(chain_with_credit(3, 4), 9);
        assert_eq!(chain(&[u32::MAX; 9]), u64::MAX);
    }

    #[test]
    fn latency_is_all_attempts_and_waits_but_never_beyond_the_timeout() {
        let spec = PolicySpec {
            attempts: 3,
            timeout: Duration::from_secs(30),
            per_try_timeout: Some(Duration::from_secs(2)),
            ..PolicySpec::library()
        };
        // 3 × 2 s, and waits of up to 100 and 200 ms.
        assert_eq!(latency(&Policy::new(spec).unwrap()), Duration::from_millis(6_300));
        let endless = PolicySpec { attempts: u32::MAX, timeout: Duration::MAX, ..spec };
        assert!(latency(&Policy::new(endless).unwrap()) > Duration::from_secs(86_400 * 365));
        let short = PolicySpec { timeout: Duration::from_secs(5), ..spec };
        assert_eq!(latency(&Policy::new(short).unwrap()), Duration::from_secs(5));
    }
}

//! Divided: a budget for a fleet, split among its processes.
//!
//! **Why.** Ten retries per second for a start are nothing for one process and a storm for a thousand. What a budget
//! earns scales with traffic by itself; what it *gives* does not: floors, start credit and caps are given to every
//! process once more. A process that lives for one call gives them away with every call.
//!
//! **How.** A [`Division`] turns the budget of the whole fleet into that of one process: floors, start credit and caps
//! are divided, ratios are left alone. Ephemeral processes get neither start credit nor floor. What cannot be split
//! further is kept: a cap stays at one token at least, or nothing could be saved up at all. [`fleet_allows`]
//! states what the processes allow together.
//!
//! ```
//! use quell_core::budget::{Division, Spec, fleet_allows};
//!
//! let (fleet, outage) = (Spec::default(), 60);
//! assert_eq!(fleet_allows(fleet, 50, outage, 0), Some(5_000)); // everybody has a whole one
//! let one = Division { instances: 50, ephemeral: false }.of(fleet)?;
//! assert_eq!(fleet_allows(one, 50, outage, 0), Some(100));
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use core::time::Duration;

use super::{Bucket, Invalid, PRICE, Spec, TOKEN, failed_retry, sampled};

/// How a budget is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Division {
    /// Processes that share the budget.
    pub instances: u32,
    /// Whether they live for a call or so, as functions do.
    pub ephemeral: bool,
}

impl Division {
    /// One process's part of a fleet's budget.
    pub fn of(self, fleet: impl Into<Spec>) -> Result<Spec, Invalid> {
        if self.instances == 0 {
            return Err(Invalid::Instances);
        }
        Ok(self.part(fleet.into()))
    }

    fn part(self, fleet: Spec) -> Spec {
        match fleet {
            Spec::Tokens(mut spec) => {
                let part = self.bucket(spec.bucket());
                let least = spec.cost.dearest().div_ceil(PRICE);
                (spec.max, spec.start) = (part.max.max(least), part.start);
                // A trickle is a floor: a fleet of fifty drips fifty times as fast.
                spec.refill = spec.refill.and_then(|every| every.checked_mul(self.instances));
                if self.ephemeral {
                    spec.refill = None;
                }
                Spec::Tokens(spec)
            }
            Spec::Grpc(mut spec) => {
                spec.bucket = self.bucket(spec.bucket);
                Spec::Grpc(spec)
            }
            Spec::FailedRetry(mut spec) => {
                spec.bucket = self.bucket(spec.bucket);
                Spec::FailedRetry(spec)
            }
            Spec::Adaptive(mut spec) => {
                spec.bucket = self.bucket(spec.bucket);
                Spec::Adaptive(spec)
            }
            Spec::Ratio(mut spec) => {
                spec.floor /= f64::from(self.instances);
                if self.ephemeral {
                    spec.floor = 0.0;
                }
                Spec::Ratio(spec)
            }
            Spec::Window(mut spec) => {
                spec.bootstrap = self.start(spec.bootstrap);
                Spec::Window(spec)
            }
            Spec::Probabilistic(mut spec) => {
                if self.ephemeral {
                    spec.unknown = spec.unknown.min(spec.target);
                }
                Spec::Probabilistic(spec)
            }
            Spec::Sampled(spec) => match sampled::Inner::of(self.part(spec.inner.into())) {
                Some(inner) => Spec::Sampled(sampled::Spec { inner, ..spec }),
                None => fleet,
            },
            Spec::Unlimited | Spec::None => fleet,
        }
    }

    fn bucket(self, fleet: Bucket) -> Bucket {
        let start = Some(self.start(fleet.starts_at()));
        Bucket { max: self.cap(fleet.max), start, ..fleet }
    }

    fn cap(self, max: u32) -> u32 {
        if max == 0 { 0 } else { (max / self.instances).max(1) }
    }

    fn start(self, start: u32) -> u32 {
        if self.ephemeral { 0 } else { start / self.instances }
    }
}

/// The most retries that `instances` processes with this budget each allow together, in the first `seconds` of
/// their lives in which `successes` attempts succeed. `None` if the budget bounds no number: it is unlimited, or a matter
/// of chance.
pub fn fleet_allows(
    spec: impl Into<Spec>,
    instances: u32,
    seconds: u64,
    successes: u64,
) -> Option<u64> {
    let (given, ratio, price) = match spec.into() {
        Spec::None => return Some(0),
        Spec::Unlimited | Spec::Probabilistic(_) => return None,
        Spec::Sampled(spec) => return fleet_allows(spec.inner, instances, seconds, successes),
        Spec::Tokens(spec) => {
            let trickle = spec.refill.map_or(0, |every| times(every, seconds));
            let given =
                tokens(spec.bucket().starts_at()).saturating_add(trickle.saturating_mul(ONE));
            (given, spec.ratio, spec.cost.cheapest().max(1).into())
        }
        // Every retry comes with a token's way down to half.
        Spec::Grpc(spec) => {
            let half = tokens(spec.bucket.max) / 2;
            (tokens(spec.bucket.starts_at()).saturating_sub(half), spec.bucket.ratio, ONE)
        }
        // Every success may be that of a retry, which costs nothing then.
        Spec::FailedRetry(failed_retry::Spec { bucket }) => {
            (tokens(bucket.starts_at()), bucket.ratio + 1.0, ONE)
        }
        Spec::Adaptive(spec) => (tokens(spec.bucket.starts_at()), spec.bucket.ratio, ONE),
        Spec::Ratio(spec) => {
            let floor = (spec.floor * TOKEN as f64).round() as u128;
            (floor * u128::from(seconds), spec.ratio, ONE)
        }
        Spec::Window(spec) => {
            let windows = times(spec.window, seconds) + 1;
            (tokens(spec.bootstrap).saturating_mul(windows), spec.ratio, ONE)
        }
    };
    let earned = (ratio * TOKEN as f64).round() as u128 * u128::from(successes);
    let all = given.saturating_mul(u128::from(instances)).saturating_add(earned);
    Some(u64::try_from(all / price).unwrap_or(u64::MAX))
}

const ONE: u128 = TOKEN as u128;

fn tokens(whole: u32) -> u128 {
    u128::from(whole) * ONE
}

/// How often a length of time fits into so many seconds.
fn times(length: Duration, seconds: u64) -> u128 {
    u128::from(seconds) * 1_000_000_000 / length.as_nanos().max(1)
}

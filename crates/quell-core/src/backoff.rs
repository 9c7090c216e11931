//! Backoff: how long to wait before a retry.
//!
//! **Why.** Callers who failed together retry together unless chance spreads them. Backoff and jitter
//! *defer* load, they do not reduce it: alone they only move the tipping point. The budget reduces it.
//!
//! **How.** A [`Shape`] says how the waits grow, a [`Jitter`] how they are spread. Every jitter is one uniform draw from a
//! range that already lies within the cap, so the cap holds after jitter, and jitter survives at the cap. The default
//! draws the wait before retry `n` from zero to `min(cap, base · factor^(n−1))`.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Rng, backoff::{Backoff, Jitter, Spec}};
//!
//! let (mut rng, never) = (Rng::new(1), Duration::ZERO);
//! let backoff = Backoff::new(Spec::default())?;
//! assert!(backoff.delay(1, never, &mut rng) <= Duration::from_millis(100));
//! assert!(backoff.delay(1_000, never, &mut rng) <= Duration::from_secs(20));
//!
//! // Decorrelated jitter looks at the wait before.
//! let backoff = Backoff::new(Spec { jitter: Jitter::Decorrelated, ..Spec::default() })?;
//! let first = backoff.delay(1, never, &mut rng);
//! assert!(backoff.delay(2, first, &mut rng) <= 3 * first);
//! # Ok::<_, quell_core::backoff::Invalid>(())
//! ```

use core::time::Duration;

use crate::{Rng, time::nanos};

/// Most waits that a list can hold.
const WAITS: usize = 16;
/// Shares are kept in millionths.
const ONE: u128 = 1_000_000;

/// A backoff as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// How the waits grow from retry to retry.
    pub shape: Shape,
    /// The wait before the first retry, before jitter. Lists and no wait at all have no use for it.
    pub base: Duration,
    /// Longest wait of all, jitter included.
    pub cap: Duration,
    /// How chance spreads the waits.
    pub jitter: Jitter,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            shape: Shape::Exponential { factor: 2.0 },
            base: Duration::from_millis(100),
            cap: Duration::from_secs(20),
            jitter: Jitter::Full,
        }
    }
}

/// How the wait before retry `n` grows with `n`; the first retry is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// No wait. Only the budget stands between a failure and a storm.
    None,
    /// `base`, always.
    Fixed,
    /// `base · n`.
    Linear,
    /// `base · factor^(n−1)`.
    Exponential {
        /// How much longer each further wait is.
        factor: f64,
    },
    /// One wait after the other; the last one repeats.
    List(Waits),
}

impl Shape {
    /// The word that stands in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Linear => "linear",
            Self::Exponential { .. } => "exponential",
            Self::List(_) => "list",
        }
    }
}

/// How chance spreads a wait of `d`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Not at all: those who failed together come back together.
    None,
    /// `uniform(0, d)`: spreads best.
    Full,
    /// `d/2 + uniform(0, d/2)`: for a guaranteed minimum.
    Equal,
    /// `uniform(base, min(cap, 3 · previous))`. It grows by itself, so it goes with [`Shape::Exponential`] alone and
    /// has no use for the factor.
    Decorrelated,
    /// `d · uniform(1−p, 1+p)`, with `d` held to `cap/(1+p)`.
    Proportional(f64),
}

impl Jitter {
    /// The word that stands in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Full => "full",
            Self::Equal => "equal",
            Self::Decorrelated => "decorrelated",
            Self::Proportional(_) => "proportional",
        }
    }
}

/// Up to sixteen waits, none of them zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    nanos: [u64; WAITS],
    len: u8,
}

impl Waits {
    /// Keeps a list of waits.
    pub fn new(waits: &[Duration]) -> Result<Self, Invalid> {
        if waits.is_empty() || waits.len() > WAITS {
            return Err(Invalid::Count(waits.len()));
        }
        if let Some(position) = waits.iter().position(Duration::is_zero) {
            return Err(Invalid::Wait(position + 1));
        }
        let nanos = core::array::from_fn(|i| waits.get(i).map_or(0, |&wait| nanos(wait)));
        Ok(Self { nanos, len: waits.len() as u8 })
    }

    /// The waits as they were written.
    pub fn iter(&self) -> impl Iterator<Item = Duration> + '_ {
        self.nanos[..usize::from(self.len)].iter().map(|&wait| Duration::from_nanos(wait))
    }

    /// The longest of them.
    pub fn longest(&self) -> Duration {
        self.iter().max().unwrap_or_default()
    }

    fn nth(&self, n: u32) -> u64 {
        self.nanos[(n.min(u32::from(self.len)) as usize).saturating_sub(1)]
    }
}

/// Why a [`Spec`] is not a backoff. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Retries without any wait are a storm of their own.
    #[error(
        "backoff.base is 0s, so retries would follow at once: write a duration such as \"100ms\""
    )]
    Base,
    /// A factor below one shrinks the waits, and not-a-number has no meaning.
    #[error("backoff.factor is {0}: write a number from 1 to 100, such as 2.0")]
    Factor(f64),
    /// The cap would cut off the first wait already, or one that was written out.
    #[error(
        "backoff.cap is {cap:?}, less than the wait of {wait:?} that is written beside it: write a cap of at least that"
    )]
    Cap {
        /// The cap as written.
        cap: Duration,
        /// The base, or the longest wait of the list.
        wait: Duration,
    },
    /// No wait, or more than a list can hold.
    #[error("backoff.waits has {0} waits: write from 1 to 16, of which the last repeats")]
    Count(usize),
    /// A wait of nothing in a list.
    #[error(
        "backoff.waits has 0s in position {0}, so that retry would follow at once: write a duration such as \"100ms\""
    )]
    Wait(usize),
    /// No spread worth the name, one that reaches below zero, or not a number.
    #[error(
        "backoff.jitter is proportional by {0}: write a share from 0.001 to 1, such as 0.2 for a fifth up or down"
    )]
    Share(f64),
    /// Decorrelated jitter would ignore how the waits are to grow.
    #[error(
        "backoff.jitter is decorrelated, which grows by itself, and backoff.kind is {0}: write kind = \"exponential\" or another jitter"
    )]
    Decorrelated(&'static str),
}

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff(Spec);

impl Backoff {
    /// Checks a spec once, so that no decision has to.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        let first = match spec.shape {
            Shape::None => Duration::ZERO,
            Shape::List(waits) => waits.longest(),
            _ if spec.base.is_zero() => return Err(Invalid::Base),
            _ => spec.base,
        };
        match (spec.shape, spec.jitter) {
            (Shape::Exponential { factor }, _) if !(1.0..=100.0).contains(&factor) => {
                return Err(Invalid::Factor(factor)); // NaN ends up here too
            }
            (_, Jitter::Proportional(share)) if !(0.001..=1.0).contains(&share) => {
                return Err(Invalid::Share(share));
            }
            (Shape::Exponential { .. }, Jitter::Decorrelated) => {}
            (shape, Jitter::Decorrelated) => return Err(Invalid::Decorrelated(shape.as_str())),
            _ => {}
        }
        if spec.cap < first {
            return Err(Invalid::Cap { cap: spec.cap, wait: first });
        }
        Ok(Self(spec))
    }

    /// The spec it was made from.
    pub const fn spec(&self) -> &Spec {
        &self.0
    }

    /// The same from another first wait, which is known to be valid.
    pub(crate) fn based(&self, base: Duration) -> Self {
        Self(Spec { base, ..self.0 })
    }

    /// The wait before retry `n`; the first retry is 1. `prev` is the wait before the retry before, or zero.
    pub fn delay(&self, n: u32, prev: Duration, rng: &mut Rng) -> Duration {
        let (from, to) = match self.0.jitter {
            Jitter::Decorrelated => self.decorrelated(nanos(prev)),
            _ => self.spread(n),
        };
        if from == to {
            return Duration::from_nanos(from); // nothing to draw
        }
        Duration::from_nanos(from + rng.below((to - from).saturating_add(1)))
    }

    /// The longest wait before retry `n`; the first retry is 1.
    pub fn longest(&self, n: u32) -> Duration {
        if self.0.jitter == Jitter::Decorrelated {
            let mut wait = nanos(self.0.base);
            for _ in 0..n.clamp(1, 41) {
                wait = self.decorrelated(wait).1; // 3^41 is past every cap
            }
            return Duration::from_nanos(wait);
        }
        Duration::from_nanos(self.spread(n).1)
    }

    /// The shortest wait before retry `n`; the first retry is 1.
    pub fn shortest(&self, n: u32) -> Duration {
        match self.0.jitter {
            Jitter::Decorrelated => self.0.base,
            _ => Duration::from_nanos(self.spread(n).0),
        }
    }

    /// The wait before retry `n` that half of all callers stay below; the first retry is 1. Not for the hot path.
    pub fn median(&self, n: u32) -> Duration {
        if self.0.jitter == Jitter::Decorrelated {
            return self.decorrelated_median(n);
        }
        let (from, to) = self.spread(n);
        Duration::from_nanos(from + (to - from) / 2)
    }

    /// What the shape says about retry `n`, capped, before jitter.
    fn wait(&self, n: u32) -> u64 {
        let (base, n) = (nanos(self.0.base), n.max(1));
        let wait = match self.0.shape {
            Shape::None => 0,
            Shape::Fixed => base,
            Shape::Linear => base.saturating_mul(u64::from(n)),
            // A float beyond u64 saturates, so every overflow ends at the cap.
            Shape::Exponential { factor } => (base as f64 * power(factor, n - 1)) as u64,
            Shape::List(waits) => waits.nth(n),
        };
        wait.min(nanos(self.0.cap))
    }

    /// The range that retry `n`'s wait is drawn from, for every jitter that does not look back.
    fn spread(&self, n: u32) -> (u64, u64) {
        let wait = self.wait(n);
        match self.0.jitter {
            Jitter::None | Jitter::Decorrelated => (wait, wait),
            Jitter::Full => (0, wait),
            Jitter::Equal => (wait - wait / 2, wait),
            Jitter::Proportional(share) => {
                let share = (share * ONE as f64).round() as u128;
                let held = u128::from(nanos(self.0.cap)) * ONE / (ONE + share);
                let wait = u128::from(wait).min(held);
                // Both fit: the upper end is at most the cap.
                ((wait * (ONE - share) / ONE) as u64, (wait * (ONE + share) / ONE) as u64)
            }
        }
    }

    /// The range after a wait of `prev`. Its lower end is always the base, which is why it is no ratchet.
    fn decorrelated(&self, prev: u64) -> (u64, u64) {
        let base = nanos(self.0.base);
        (base, prev.max(base).saturating_mul(3).min(nanos(self.0.cap)))
    }

    /// There is no formula for it, so the distribution is carried from wait to wait as so many quantiles.
    fn decorrelated_median(&self, n: u32) -> Duration {
        const QUANTILES: usize = 33;
        let (base, cap) = (nanos(self.0.base) as f64, nanos(self.0.cap) as f64);
        let mut waits = [base; QUANTILES];
        for _ in 0..n.clamp(1, 256) {
            let tops = waits.map(|wait| (3.0 * wait).min(cap));
            let next = core::array::from_fn(|i| {
                quantile((i as f64 + 0.5) / QUANTILES as f64, base, &tops)
            });
            if core::mem::replace(&mut waits, next) == next {
                break; // settled
            }
        }
        Duration::from_nanos(waits[QUANTILES / 2] as u64)
    }
}

/// Where the mean of the distributions `uniform(base, top)` has reached `share`.
fn quantile(share: f64, base: f64, tops: &[f64]) -> f64 {
    let below = |x: f64| {
        let one = |top: &f64| if *top > x { (x - base) / (top - base) } else { 1.0 };
        tops.iter().map(one).sum::<f64>() / tops.len() as f64
    };
    let (mut from, mut to) = (base, tops.iter().copied().fold(base, f64::max));
    for _ in 0..48 {
        let middle = from + (to - from) / 2.0;
        if below(middle) < share { from = middle } else { to = middle }
    }
    to
}

/// `x^n` by squaring: only multiplications, so the same bits on every machine.
fn power(mut x: f64, mut n: u32) -> f64 {
    let mut result = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            result *= x;
        }
        x *= x;
        n >>= 1;
    }
    result
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;

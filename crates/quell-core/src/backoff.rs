//! Backoff: how long to wait before a retry.
//!
//! **Why.** Callers who failed together retry together unless chance spreads them. Backoff and jitter
//! *defer* load, they do not reduce it: alone they only move the tipping point. The budget reduces it.
//!
//! **How.** The wait before retry `n` is uniform between zero and `min(cap, base · factor^(n−1))` ("full
//! jitter"). The cap bounds the range that is drawn from, so it holds after jitter, and jitter survives at it.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Rng, backoff::{Backoff, Spec}};
//!
//! let backoff = Backoff::new(Spec::default())?;
//! assert!(backoff.delay(1, &mut Rng::new(1)) <= Duration::from_millis(100));
//! assert!(backoff.delay(1_000, &mut Rng::new(1)) <= Duration::from_secs(20));
//! # Ok::<_, quell_core::backoff::Invalid>(())
//! ```

use core::time::Duration;

use crate::{Rng, time::nanos};

/// A backoff as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Longest wait before the first retry.
    pub base: Duration,
    /// How much longer each further wait may be.
    pub factor: f64,
    /// Longest wait of all, jitter included.
    pub cap: Duration,
}

impl Default for Spec {
    fn default() -> Self {
        Self { base: Duration::from_millis(100), factor: 2.0, cap: Duration::from_secs(20) }
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
    /// The cap would cut off the first wait already.
    #[error(
        "backoff.cap is {cap:?}, less than backoff.base {base:?}: write a cap of at least the base"
    )]
    Cap {
        /// The cap as written.
        cap: Duration,
        /// The base as written.
        base: Duration,
    },
}

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff(Spec);

impl Backoff {
    /// Checks a spec once, so that no decision has to.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        if spec.base.is_zero() {
            return Err(Invalid::Base);
        }
        if !(1.0..=100.0).contains(&spec.factor) {
            return Err(Invalid::Factor(spec.factor)); // NaN ends up here too
        }
        if spec.cap < spec.base {
            return Err(Invalid::Cap { cap: spec.cap, base: spec.base });
        }
        Ok(Self(spec))
    }

    /// The spec it was made from.
    pub const fn spec(&self) -> &Spec {
        &self.0
    }

    /// The longest wait before retry `n`; the first retry is 1.
    pub fn longest(&self, n: u32) -> Duration {
        let cap = nanos(self.0.cap);
        let grown = nanos(self.0.base) as f64 * power(self.0.factor, n.saturating_sub(1));
        // A float beyond u64 saturates, so every overflow ends at the cap.
        Duration::from_nanos((grown as u64).min(cap))
    }

    /// The wait before retry `n`; the first retry is 1.
    pub fn delay(&self, n: u32, rng: &mut Rng) -> Duration {
        rng.up_to(self.longest(n))
    }
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
mod tests {
    use super::*;

    fn backoff(base_ms: u64, cap_ms: u64) -> Backoff {
        let (base, cap) = (Duration::from_millis(base_ms), Duration::from_millis(cap_ms));
        Backoff::new(Spec { base, factor: 2.0, cap }).unwrap()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let backoff = backoff(100, 1_000);
        let longest: Vec<_> = (1..=6).map(|n| backoff.longest(n).as_millis()).collect();
        assert_eq!(longest, [100, 200, 400, 800, 1_000, 1_000]);
    }

    /// B1: one policy, one generator, many calls: all different, and uniform by a Kolmogorov–Smirnov test.
    #[test]
    fn calls_from_one_policy_get_pairwise_different_uniform_delays() {
        let (backoff, mut rng) = (backoff(1_000, 60_000), Rng::new(11));
        let mut delays: Vec<_> = (0..10_000).map(|_| backoff.delay(1, &mut rng)).collect();
        delays.sort_unstable();
        assert!(delays.windows(2).all(|pair| pair[0] < pair[1]));
        let n = delays.len() as f64;
        let gap =
            |(i, delay): (usize, &Duration)| (delay.as_secs_f64() - (i as f64 + 0.5) / n).abs();
        let ks = delays.iter().enumerate().map(gap).fold(0.0, f64::max);
        assert!(ks < 1.63 / n.sqrt(), "Kolmogorov–Smirnov distance {ks}"); // 1 % level
    }

    /// B2: jitter survives at the cap, and the cap holds after jitter.
    #[test]
    fn at_the_cap_delays_still_vary_and_never_exceed_it() {
        let (backoff, mut rng) = (backoff(100, 1_000), Rng::new(5));
        let delays: Vec<_> = (0..1_000).map(|_| backoff.delay(20, &mut rng)).collect();
        assert!(delays.iter().all(|&d| d <= Duration::from_secs(1)));
        let mean = delays.iter().map(Duration::as_secs_f64).sum::<f64>() / 1_000.0;
        let square = |d: &Duration| (d.as_secs_f64() - mean).powi(2);
        let variance = delays.iter().map(square).sum::<f64>() / 1_000.0;
        assert!((0.06..0.11).contains(&variance), "variance {variance}, uniform has 1/12");
    }

    /// B6: the attempts at which shifts and multiplications overflow elsewhere.
    #[test]
    fn no_attempt_number_overflows() {
        for n in [0, 1, 31, 32, 33, 63, 64, 65, 1_024, u32::MAX] {
            assert!(backoff(100, 20_000).longest(n) <= Duration::from_secs(20), "retry {n}");
        }
        let endless = Spec { cap: Duration::MAX, ..Spec::default() };
        let longest = Backoff::new(endless).unwrap().longest(u32::MAX);
        assert_eq!(longest, Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let spec = Spec::default();
        let nonsense = [
            Spec { base: Duration::ZERO, ..spec },
            Spec { factor: 0.5, ..spec },
            Spec { factor: f64::NAN, ..spec },
            Spec { cap: Duration::from_millis(1), ..spec },
        ];
        for spec in nonsense {
            let message = Backoff::new(spec).unwrap_err().to_string();
            assert!(message.starts_with("backoff.") && message.contains("write"), "{message}");
        }
    }
}

//! Dist: how times are spread.
//!
//! **Why.** A service that always takes 100 ms and one that takes 100 ms on average fail in different ways: queues,
//! timeouts and hedges live on the tail. So a time is written with its spread, and drawn the same way everywhere.
//!
//! **How.** A [`Dist`] is what people write; checked once it becomes a [`Draw`], which takes one number from its
//! generator per time (so that two runs that differ elsewhere still draw the same times), or none if it is constant.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::Rng;
//! use quell_sim::dist::{Dist, Draw};
//!
//! let ms = Duration::from_millis;
//! let draw = Draw::new(&Dist::Lognormal { p50: ms(20), p99: ms(200) })?;
//! let mut rng = Rng::stream(1, 0, 0);
//! let slow = (0..10_000).filter(|_| draw.next(&mut rng) > ms(200)).count();
//! assert!((70..130).contains(&slow), "{slow}");
//! # Ok::<_, quell_sim::dist::Invalid>(())
//! ```

use core::time::Duration;

use quell_core::Rng;

use crate::maths::{exp, ln, normal_quantile};

/// Times, as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Dist {
    /// Always the same.
    Constant(Duration),
    /// Any time from the first to the second, all alike.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// Most are short, few are long, and having waited says nothing about how much is left.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// What most services look like.
    Lognormal {
        /// Half are shorter.
        p50: Duration,
        /// One in a hundred is longer.
        p99: Duration,
    },
    /// Two kinds of requests.
    Bimodal {
        /// Most of them.
        fast: Duration,
        /// The rest.
        slow: Duration,
        /// The share of the rest, from 0 to 1.
        share: f64,
    },
    /// As measured: weights of buckets that each reach from the bound before (0 for the first) to their own.
    Histogram(Vec<(Duration, f64)>),
}

impl From<Duration> for Dist {
    fn from(time: Duration) -> Self {
        Self::Constant(time)
    }
}

/// Why a [`Dist`] cannot be drawn from. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// The ends are the wrong way round.
    #[error("uniform is from {from:?} to {to:?}: write the shorter time as from")]
    Uniform {
        /// As written.
        from: Duration,
        /// As written.
        to: Duration,
    },
    /// No such spread exists.
    #[error(
        "lognormal has p50 {p50:?} and p99 {p99:?}: write a p50 above 0s and a p99 of at least as much"
    )]
    Lognormal {
        /// As written.
        p50: Duration,
        /// As written.
        p99: Duration,
    },
    /// Not a share.
    #[error(
        "bimodal.share is {0}: write a number from 0 to 1, such as 0.05 for one slow request in twenty"
    )]
    Share(f64),
    /// Nothing to draw from.
    #[error("histogram is {0}: write rising bounds with weights of at least 0, one of them above")]
    Histogram(String),
}

/// Times that can be drawn. See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Draw(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Constant(Duration),
    Uniform {
        from: Duration,
        width: Duration,
    },
    Exponential {
        mean: Duration,
    },
    /// The median in seconds, and the standard deviation of the logarithm.
    Lognormal {
        median: f64,
        sigma: f64,
    },
    Bimodal {
        fast: Duration,
        slow: Duration,
        share: f64,
    },
    Histogram(Box<[Bucket]>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    from: Duration,
    to: Duration,
    /// The share of all times up to the end of this bucket.
    until: f64,
}

impl Draw {
    /// Checks what was written.
    pub fn new(dist: &Dist) -> Result<Self, Invalid> {
        Ok(Self(match *dist {
            Dist::Constant(time) => Kind::Constant(time),
            Dist::Uniform { from, to } => {
                let width = to.checked_sub(from).ok_or(Invalid::Uniform { from, to })?;
                Kind::Uniform { from, width }
            }
            Dist::Exponential { mean } => Kind::Exponential { mean },
            Dist::Lognormal { p50, p99 } => {
                if p50.is_zero() || p99 < p50 {
                    return Err(Invalid::Lognormal { p50, p99 });
                }
                let median = p50.as_secs_f64();
                let sigma = ln(p99.as_secs_f64() / median) / normal_quantile(0.99);
                Kind::Lognormal { median, sigma }
            }
            Dist::Bimodal { fast, slow, share } => {
                if !(0.0..=1.0).contains(&share) {
                    return Err(Invalid::Share(share));
                }
                Kind::Bimodal { fast, slow, share }
            }
            Dist::Histogram(ref buckets) => Kind::Histogram(histogram(buckets)?),
        }))
    }

    /// The next time.
    pub fn next(&self, rng: &mut Rng) -> Duration {
        match self.0 {
            Kind::Constant(time) => time,
            Kind::Uniform { from, width } => from + rng.up_to(width),
            Kind::Exponential { mean } => mean.mul_f64(-ln(1.0 - rng.unit())),
            Kind::Lognormal { median, sigma } => {
                seconds(median * exp(sigma * normal_quantile(rng.unit())))
            }
            Kind::Bimodal { fast, slow, share } => {
                if rng.unit() < share {
                    slow
                } else {
                    fast
                }
            }
            Kind::Histogram(ref buckets) => {
                let at = rng.unit();
                let i = buckets.partition_point(|bucket| bucket.until <= at);
                let Some(bucket) = buckets.get(i) else { return Duration::ZERO };
                let before = if i == 0 { 0.0 } else { buckets[i - 1].until };
                let part = (at - before) / (bucket.until - before);
                bucket.from + (bucket.to - bucket.from).mul_f64(part)
            }
        }
    }

    /// The time, if it is always the same.
    pub fn constant(&self) -> Option<Duration> {
        if let Kind::Constant(time) = self.0 { Some(time) } else { None }
    }

    /// The mean of all times.
    pub fn mean(&self) -> Duration {
        match self.0 {
            Kind::Constant(time) => time,
            Kind::Uniform { from, width } => from + width / 2,
            Kind::Exponential { mean } => mean,
            Kind::Lognormal { median, sigma } => seconds(median * exp(sigma * sigma / 2.0)),
            Kind::Bimodal { fast, slow, share } => fast.mul_f64(1.0 - share) + slow.mul_f64(share),
            Kind::Histogram(ref buckets) => {
                let mut before = 0.0;
                let parts = buckets.iter().map(|bucket| {
                    let share = bucket.until - before;
                    before = bucket.until;
                    ((bucket.from + bucket.to) / 2).mul_f64(share)
                });
                parts.sum()
            }
        }
    }
}

fn histogram(buckets: &[(Duration, f64)]) -> Result<Box<[Bucket]>, Invalid> {
    let wrong = || Invalid::Histogram(format!("{buckets:?}"));
    let total: f64 = buckets.iter().map(|(_, weight)| weight).sum();
    let rises = buckets.is_sorted_by(|a, b| a.0 < b.0);
    if !rises
        || !total.is_finite()
        || total <= 0.0
        || buckets.iter().any(|(_, weight)| *weight < 0.0)
    {
        return Err(wrong());
    }
    let (mut from, mut sum) = (Duration::ZERO, 0.0);
    let mut all: Vec<_> = Vec::new();
    for &(to, weight) in buckets {
        sum += weight;
        if weight > 0.0 {
            all.push(Bucket { from, to, until: sum / total });
        }
        from = to;
    }
    // Whatever rounding left over belongs to the last one.
    all.last_mut().ok_or_else(wrong)?.until = 1.0;
    Ok(all.into())
}

/// Seconds as a duration; what no duration can hold is for ever.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
#[path = "dist_tests.rs"]
mod tests;

//! Limiter: so many per second, and a burst.
//!
//! **Why.** A tenant's quota and a service's protection are promises about *rate*. A limiter that rounds its interval, drops
//! the fraction of a token at every look, or pays out a night's sleep at once keeps another promise than the one that
//! was written. (It does not drain a backlog: that is the in-flight limit's job.)
//!
//! **How.** A bucket holds up to `burst` tokens, a request takes its cost, and time brings `per_second` of them back. A token
//! is 10¹⁵ parts, so a nanosecond brings a whole number of parts, namely the millionths of the rate, and nothing is ever
//! rounded: a refusal names the very nanosecond from which the same request would pass. Look at every gate with
//! [`Limiter::check`], then [`Limiter::take`]; hand back with [`Limiter::give_back`] what was taken and not sent.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, limiter::{Limiter, Refused, Spec}};
//!
//! let now = Time::ZERO;
//! let mut limiter = Limiter::new(Spec { per_second: 10.0, burst: 2 }, now)?;
//! assert_eq!(limiter.take(now, 2), Ok(()));                          // starts full
//! let later = now + Duration::from_millis(100);
//! assert_eq!(limiter.take(now, 1), Err(Refused::Until(later)));
//! assert_eq!(limiter.take(later, 1), Ok(()));
//! assert_eq!(limiter.take(later, 3), Err(Refused::TooLarge));        // and never will
//! # Ok::<_, quell_core::limiter::Invalid>(())
//! ```

use core::time::Duration;

use crate::Time;

/// One token, in the unit that levels are kept in: a thousand million nanoseconds times a million millionths.
const TOKEN: u128 = 1_000_000_000_000_000;

/// A rate limit as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Tokens that come back per second, exact to the millionth.
    pub per_second: f64,
    /// Tokens the bucket can hold; it starts full.
    pub burst: u32,
}

/// Why a [`Spec`] is not a limiter. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Nothing would ever come back, more than a clock can tell apart, or not a number.
    #[error(
        "rate_limit.per_second is {0}: write a number from 0.000001 to 1000000000, such as 1000"
    )]
    PerSecond(f64),
    /// Nothing could ever pass.
    #[error(
        "rate_limit.burst is 0, so nothing would ever pass: write at least 1, such as the tokens of one second"
    )]
    Burst,
}

/// Why a request does not pass now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// From this very instant on the same request would pass, if nobody else takes before.
    Until(Time),
    /// It costs more than the bucket can ever hold: waiting does not help.
    TooLarge,
}

impl Refused {
    /// When the same request would pass; [`Time::MAX`] is never.
    pub const fn retry_at(self) -> Time {
        match self {
            Self::Until(at) => at,
            Self::TooLarge => Time::MAX,
        }
    }
}

/// What a limiter shows: headers and status calls are made of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Whole tokens that could be taken now.
    pub tokens: u32,
    /// Tokens the bucket can hold.
    pub capacity: u32,
    /// Tokens that come back per second.
    pub per_second: f64,
    /// When one more whole token will be there; now, if the bucket is full.
    pub next: Time,
    /// When the bucket will be full again; now, if it is.
    pub reset: Time,
}

/// What all buckets of one limit have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    capacity: u128,
    /// Parts that one nanosecond brings.
    per_nano: u64,
}

impl Rule {
    pub(crate) fn new(spec: Spec) -> Result<Self, Invalid> {
        if !(1e-6..=1e9).contains(&spec.per_second) {
            return Err(Invalid::PerSecond(spec.per_second)); // NaN ends up here too
        }
        if spec.burst == 0 {
            return Err(Invalid::Burst);
        }
        let per_nano = (spec.per_second * 1e6).round() as u64;
        Ok(Self { capacity: u128::from(spec.burst) * TOKEN, per_nano })
    }
}

/// What one key has of its own.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Parts that were there at `at`; what time has brought since is added when somebody looks.
    level: u128,
    at: Time,
}

impl Bucket {
    pub(crate) const fn full(rule: &Rule, now: Time) -> Self {
        Self { level: rule.capacity, at: now }
    }

    /// Parts that are there now. Neither the product nor the sum can overflow: 2⁶⁴ × 10¹⁵ + 2³² × 10¹⁵ < 2¹²⁸.
    #[inline]
    fn level(&self, rule: &Rule, now: Time) -> u128 {
        let brought = u128::from(now.nanos_since(self.at)) * u128::from(rule.per_nano);
        (self.level + brought).min(rule.capacity)
    }

    #[inline]
    pub(crate) fn check(&self, rule: &Rule, now: Time, cost: u32) -> Result<(), Refused> {
        let price = u128::from(cost) * TOKEN;
        if price <= self.level(rule, now) { Ok(()) } else { Err(self.refuse(rule, price)) }
    }

    #[inline]
    pub(crate) fn take(&mut self, rule: &Rule, now: Time, cost: u32) -> Result<(), Refused> {
        let price = u128::from(cost) * TOKEN;
        match self.level(rule, now).checked_sub(price) {
            Some(rest) => {
                self.level = rest;
                self.at = self.at.max(now); // a clock that steps back must not bring the same time twice
                Ok(())
            }
            None => Err(self.refuse(rule, price)),
        }
    }

    pub(crate) fn give_back(&mut self, rule: &Rule, cost: u32) {
        self.level = rule.capacity.min(self.level + u128::from(cost) * TOKEN);
    }

    /// What is there goes on under another rule, as far as it fits.
    pub(crate) fn adopt(&mut self, was: &Rule, is: &Rule, now: Time) {
        self.level = self.level(was, now).min(is.capacity);
        self.at = self.at.max(now);
    }

    /// Whether it is as good as new.
    #[inline]
    pub(crate) fn is_full(&self, rule: &Rule, now: Time) -> bool {
        self.level(rule, now) == rule.capacity
    }

    pub(crate) fn status(&self, rule: &Rule, now: Time) -> Status {
        let level = self.level(rule, now);
        let tokens = level / TOKEN; // at most the burst, which is a u32
        let when = |level: u128| self.reaches(rule, level.min(rule.capacity)).max(now);
        Status {
            tokens: tokens as u32,
            capacity: (rule.capacity / TOKEN) as u32,
            per_second: rule.per_nano as f64 / 1e6,
            next: when((tokens + 1) * TOKEN),
            reset: when(rule.capacity),
        }
    }

    #[cold]
    fn refuse(&self, rule: &Rule, price: u128) -> Refused {
        if price > rule.capacity {
            return Refused::TooLarge;
        }
        Refused::Until(self.reaches(rule, price))
    }

    /// The first instant at which so much is there.
    fn reaches(&self, rule: &Rule, level: u128) -> Time {
        let wait = level.saturating_sub(self.level).div_ceil(u128::from(rule.per_nano));
        self.at + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Limiter {
    rule: Rule,
    bucket: Bucket,
}

impl Limiter {
    /// A full bucket.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let rule = Rule::new(spec)?;
        Ok(Self { rule, bucket: Bucket::full(&rule, now) })
    }

    /// Whether a request of this cost would pass; takes nothing.
    #[inline]
    pub fn check(&self, now: Time, cost: u32) -> Result<(), Refused> {
        self.bucket.check(&self.rule, now, cost)
    }

    /// Lets a request of this cost pass and takes its tokens, or says why not and takes none.
    #[inline]
    pub fn take(&mut self, now: Time, cost: u32) -> Result<(), Refused> {
        self.bucket.take(&self.rule, now, cost)
    }

    /// Hands back what was taken for a request that was never sent.
    pub fn give_back(&mut self, cost: u32) {
        self.bucket.give_back(&self.rule, cost);
    }

    /// What there is to show now.
    pub fn status(&self, now: Time) -> Status {
        self.bucket.status(&self.rule, now)
    }

    /// Takes on the numbers of one just made and keeps the tokens it has, as far as they fit: reloading a policy is no way to
    /// a new burst.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.bucket.adopt(&self.rule, &fresh.rule, now);
        self.rule = fresh.rule;
    }
}

#[cfg(test)]
#[path = "limiter_tests.rs"]
mod tests;

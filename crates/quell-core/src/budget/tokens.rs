//! Tokens: a retry is paid for with successes.
//!
//! **Why.** Every retry spends capacity that the upstream may not have. With `n` attempts per call the
//! load on a failing upstream is `n` times what it was, just when it can bear least. A budget ties
//! retries to what *succeeded*: healthy traffic earns plenty, and when nothing succeeds nothing is
//! retried. It bounds the multiplier; it does not heal a backlog, which is the in-flight limit's job.
//!
//! **How.** A success earns `ratio` tokens, a retry costs one, and the level stays within `0..=max`.
//! First attempts never ask. Where traffic is thin, an optional trickle adds tokens with time. All
//! arithmetic is in whole millionths of a token, so every ratio is exact and nothing drifts.
//!
//! ```
//! use quell_core::{Time, budget::tokens::{Spec, Tokens}};
//!
//! let mut budget = Tokens::new(Spec { max: 2, ratio: 0.5, refill: None }, Time::ZERO)?;
//! let first = budget.take(Time::ZERO).unwrap();      // starts full
//! let _second = budget.take(Time::ZERO).unwrap();
//! assert!(budget.take(Time::ZERO).is_err());         // empty: the retry is refused
//! budget.refund(first);                              // the first was never sent
//! assert!(budget.take(Time::ZERO).is_ok());
//! # Ok::<_, quell_core::budget::tokens::Invalid>(())
//! ```

use core::time::Duration;

use crate::{Reason, Time};

/// One token, in the unit that levels are kept in.
const TOKEN: u64 = 1_000_000;

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Tokens the budget can hold; it starts full.
    pub max: u32,
    /// Tokens earned by one success: `0.1` means one retry per ten successes.
    pub ratio: f64,
    /// One token per this long, for upstreams with little traffic.
    pub refill: Option<Duration>,
}

impl Default for Spec {
    fn default() -> Self {
        Self { max: 100, ratio: 0.1, refill: None }
    }
}

/// Why a [`Spec`] is not a budget. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Nothing could ever be paid for.
    #[error(
        "budget.max is 0, so no retry is ever paid for: write at least 1, or attempts = 1 to forbid retries"
    )]
    Max,
    /// Negative, more than two retries per success, or not a number.
    #[error(
        "budget.ratio is {0}: write a number from 0 to 2, such as 0.1 for one retry per ten successes"
    )]
    Ratio(f64),
    /// Infinitely many tokens at once.
    #[error(
        "budget.refill is 0s: leave it out, or write the time in which one token comes back, such as \"1s\""
    )]
    Refill,
}

/// Proof that one retry was paid for. Spend it by sending, or hand it back with [`Tokens::refund`].
#[must_use = "a retry that was paid for and is not sent must be refunded"]
#[derive(Debug, PartialEq, Eq)]
pub struct Paid(());

/// See the [module](self).
#[derive(Debug)]
pub struct Tokens {
    level: u64,
    max: u64,
    earned: u64,
    refill: Option<Duration>,
    refilled_at: Time,
}

impl Tokens {
    /// A full budget.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        if spec.max == 0 {
            return Err(Invalid::Max);
        }
        if !(0.0..=2.0).contains(&spec.ratio) {
            return Err(Invalid::Ratio(spec.ratio)); // NaN ends up here too
        }
        if spec.refill == Some(Duration::ZERO) {
            return Err(Invalid::Refill);
        }
        let max = u64::from(spec.max) * TOKEN;
        let earned = (spec.ratio * TOKEN as f64).round() as u64;
        Ok(Self { level: max, max, earned, refill: spec.refill, refilled_at: now })
    }

    /// Pays for one retry, or says why not. Asked last, right before the wait: whoever fails first pays first.
    pub fn take(&mut self, now: Time) -> Result<Paid, Reason> {
        self.catch_up(now);
        match self.level.checked_sub(TOKEN) {
            Some(rest) => {
                self.level = rest;
                Ok(Paid(()))
            }
            None => Err(Reason::BudgetEmpty),
        }
    }

    /// Takes back what was paid for a retry that was never sent.
    pub fn refund(&mut self, _: Paid) {
        self.level = self.max.min(self.level + TOKEN);
    }

    /// A call succeeded.
    #[inline]
    pub fn earn(&mut self) {
        self.level = self.max.min(self.level + self.earned);
    }

    /// Whether the next retry could be paid for from what was earned so far.
    pub fn is_empty(&self) -> bool {
        self.level < TOKEN
    }

    /// How full the budget is now, from 0 to 1: what is shown is what is applied.
    pub fn fill(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        self.level as f64 / self.max as f64
    }

    /// Adds the whole tokens that time has brought, in one step however long nobody looked, and keeps the remainder.
    fn catch_up(&mut self, now: Time) {
        let Some(every) = self.refill else { return };
        let whole = now.since(self.refilled_at).as_nanos() / every.as_nanos();
        let room = u128::from((self.max - self.level).div_ceil(TOKEN));
        if whole >= room {
            // Full: time spent at the top earns nothing later.
            self.level = self.max;
            self.refilled_at = now.max(self.refilled_at);
        } else {
            self.level += whole as u64 * TOKEN;
            self.refilled_at = self.refilled_at + every * whole as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max: u32, ratio: f64) -> Tokens {
        Tokens::new(Spec { max, ratio, refill: None }, Time::ZERO).unwrap()
    }

    fn trickle(max: u32, start: Time) -> Tokens {
        let refill = Some(Duration::from_secs(1));
        Tokens::new(Spec { max, ratio: 0.0, refill }, start).unwrap()
    }

    fn drain(budget: &mut Tokens, now: Time) -> u32 {
        (0..).take_while(|_| budget.take(now).is_ok()).count() as u32
    }

    #[test]
    fn an_empty_budget_refuses_and_ten_successes_at_a_tenth_buy_one_retry() {
        let mut budget = budget(3, 0.1);
        assert_eq!(drain(&mut budget, Time::ZERO), 3);
        for _ in 0..9 {
            budget.earn();
        }
        assert_eq!(budget.take(Time::ZERO), Err(Reason::BudgetEmpty));
        budget.earn();
        assert!(budget.take(Time::ZERO).is_ok());
    }

    #[test]
    fn every_ratio_pays_exactly_what_it_says() {
        for percent in 1..=200 {
            let mut budget = budget(30_000, f64::from(percent) / 100.0);
            drain(&mut budget, Time::ZERO);
            for _ in 0..10_000 {
                budget.earn();
            }
            assert_eq!(drain(&mut budget, Time::ZERO), percent * 100, "ratio {percent} %");
        }
    }

    #[test]
    fn a_refund_returns_one_token_and_never_overfills() {
        let mut budget = budget(1, 1.0);
        let paid = budget.take(Time::ZERO).unwrap();
        budget.earn();
        budget.refund(paid);
        assert_eq!(drain(&mut budget, Time::ZERO), 1);
    }

    #[test]
    fn thirty_idle_days_fill_the_budget_in_one_step_and_no_further() {
        let mut budget = trickle(10, Time::ZERO);
        drain(&mut budget, Time::ZERO);
        let later = Time::ZERO + Duration::from_secs(30 * 86_400);
        assert_eq!(drain(&mut budget, later), 10);
        assert_eq!(drain(&mut budget, later + Duration::from_millis(999)), 0);
        assert_eq!(drain(&mut budget, later + Duration::from_millis(1_000)), 1);
    }

    #[test]
    fn asking_often_loses_no_fraction_of_the_trickle() {
        let mut budget = trickle(10, Time::ZERO);
        drain(&mut budget, Time::ZERO);
        let tenths = (1..=50).map(|i| Time::ZERO + Duration::from_millis(100 * i));
        assert_eq!(tenths.map(|now| drain(&mut budget, now)).sum::<u32>(), 5);
    }

    /// T1, T2.
    #[test]
    fn a_clock_that_steps_back_earns_nothing_and_breaks_nothing() {
        let start = Time::ZERO + Duration::from_secs(100);
        let mut budget = trickle(1, start);
        drain(&mut budget, start);
        assert_eq!(drain(&mut budget, Time::ZERO), 0);
        assert_eq!(drain(&mut budget, start + Duration::from_millis(999)), 0);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        for (max, ratio) in [(0, 0.1), (1, -0.1), (1, 2.1), (1, f64::NAN), (1, f64::INFINITY)] {
            let spec = Spec { max, ratio, refill: None };
            let message = Tokens::new(spec, Time::ZERO).unwrap_err().to_string();
            assert!(message.starts_with("budget."), "{message}");
            assert!(message.contains("write"), "{message}");
        }
    }
}

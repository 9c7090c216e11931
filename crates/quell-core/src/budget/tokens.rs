//! Tokens: a retry is paid for with successes.
//!
//! **Why.** Every retry spends capacity that the upstream may not have. With `n` attempts per call the
//! load on a failing upstream is `n` times what it was, just when it can bear least. A budget ties
//! retries to what *succeeded*: healthy traffic earns plenty, and when nothing succeeds nothing is
//! retried. It bounds the multiplier; it does not heal a backlog, which is the in-flight limit's job.
//!
//! **How.** A success earns `ratio` tokens, a retry costs one (or what its kind of fault costs), and the level
//! stays within `0..=max`. First attempts never ask. Where traffic is thin, an optional trickle adds tokens with
//! time; where retries should stop long before the last token, they pause below a share of `max`. All
//! arithmetic is in whole millionths of a token, so every ratio is exact and nothing drifts.
//!
//! Other kinds are the same bucket with another price list:
//!
//! | kind | a failure costs | a retry costs when it asks | gets back when it succeeds | retries go out |
//! |---|---|---|---|---|
//! | tokens | – | its [`Cost`] | – | from `pause_below` on |
//! | [`failed_retry`](super::failed_retry) | – | 1 | 1 | while there is 1 |
//! | [`grpc`](super::grpc) | 1 | – | – | above half |
//!
//! ```
//! use quell_core::{Fault, Time, budget::tokens::{Spec, Tokens}};
//!
//! let spec = Spec { max: 2, ratio: 0.5, ..Spec::default() };
//! let (now, mut budget) = (Time::ZERO, Tokens::new(spec, Time::ZERO)?);
//! let first = budget.take(now, Fault::Server).unwrap();      // starts full
//! let _second = budget.take(now, Fault::Server).unwrap();
//! assert!(budget.take(now, Fault::Server).is_err());         // empty: the retry is refused
//! budget.refund(first);                                      // the first was never sent
//! assert!(budget.take(now, Fault::Server).is_ok());
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use core::time::Duration;

use super::{Bucket, Gauge, Invalid, PRICE, Paid, TOKEN, invalid};
use crate::{Fault, Reason, Time};

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Tokens the budget can hold.
    pub max: u32,
    /// Tokens earned by one success: `0.1` means one retry per ten successes.
    pub ratio: f64,
    /// Tokens there are at the start; full unless said.
    pub start: Option<u32>,
    /// One token per this long, for upstreams with little traffic. Every process of a fleet has its own.
    pub refill: Option<Duration>,
    /// Retries pause while the level is below this share of `max`.
    pub pause_below: f64,
    /// What a retry costs.
    pub cost: Cost,
}

/// What a retry costs after which fault, in millionths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// After a connection that failed.
    pub connect: u32,
    /// After an attempt without an answer.
    pub timeout: u32,
    /// After an upstream that said it has too much to do.
    pub overload: u32,
    /// After every other failure.
    pub server: u32,
}

impl Cost {
    /// The same for all.
    pub const fn all(cost: u32) -> Self {
        Self { connect: cost, timeout: cost, overload: cost, server: cost }
    }

    const fn of(&self, fault: Fault) -> u32 {
        match fault {
            Fault::Connect => self.connect,
            Fault::Timeout => self.timeout,
            Fault::Overload => self.overload,
            Fault::Server | Fault::Fatal => self.server,
        }
    }

    pub(super) fn cheapest(&self) -> u32 {
        self.connect.min(self.timeout).min(self.overload).min(self.server)
    }

    pub(super) fn dearest(&self) -> u32 {
        self.connect.max(self.timeout).max(self.overload).max(self.server)
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::all(PRICE)
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            max: 100,
            ratio: 0.1,
            start: None,
            refill: None,
            pause_below: 0.0,
            cost: Cost::default(),
        }
    }
}

impl Spec {
    /// For calls that are few, long and dear: retries pause below half, and a token a second comes back.
    pub fn llm() -> Self {
        Self { refill: Some(Duration::from_secs(1)), pause_below: 0.5, ..Self::default() }
    }

    /// Ten retries, and one per second, whatever succeeds.
    pub fn time_only() -> Self {
        Self { max: 10, ratio: 0.0, refill: Some(Duration::from_secs(1)), ..Self::default() }
    }

    /// How many tokens, and what earns them.
    pub const fn bucket(&self) -> Bucket {
        Bucket { max: self.max, ratio: self.ratio, start: self.start }
    }
}

/// What a bucket charges for: by this its kinds differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charge {
    /// Retries, when they ask.
    Retries,
    /// Retries, when they ask; those that succeed get it back.
    FailedRetries,
    /// Failures that a retry could help. The retry itself is free.
    Failures,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Tokens {
    pub(super) level: u64,
    pub(super) max: u64,
    earned: u64,
    start: u64,
    threshold: u64,
    charge: Charge,
    cost: Cost,
    refill: Option<Duration>,
    refilled_at: Time,
}

impl Tokens {
    /// A budget at its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        if spec.max == 0 {
            return Err(Invalid::Max);
        }
        let earned = invalid::ratio(spec.ratio)?;
        if spec.refill == Some(Duration::ZERO) {
            return Err(Invalid::Refill);
        }
        let start = spec.bucket().starts_at();
        if start > spec.max {
            return Err(Invalid::Start { start, max: spec.max });
        }
        let max = u64::from(spec.max) * TOKEN;
        let cost = spec.cost;
        if cost.cheapest() == 0 {
            return Err(Invalid::Cost { cost: 0, max: spec.max });
        }
        if u64::from(cost.dearest()) > max {
            return Err(Invalid::Cost { cost: cost.dearest(), max: spec.max });
        }
        let pause_below = invalid::share(spec.pause_below, Invalid::PauseBelow)?;
        let threshold = (pause_below * max as f64).round() as u64;
        let start = u64::from(start) * TOKEN;
        let refill = spec.refill;
        let charge = Charge::Retries;
        let refilled_at = now;
        Ok(Self { level: start, max, earned, start, threshold, charge, cost, refill, refilled_at })
    }

    /// The plain bucket of another kind: only what it charges for differs.
    pub(super) fn charging(charge: Charge, bucket: Bucket, now: Time) -> Result<Self, Invalid> {
        let plain = Self::new(bucket.into(), now)?;
        Ok(match charge {
            Charge::Retries | Charge::FailedRetries => Self { charge, ..plain },
            Charge::Failures => {
                // Strictly above half.
                Self { charge, cost: Cost::all(0), threshold: plain.max / 2 + 1, ..plain }
            }
        })
    }

    /// Whether it is of the same kind.
    pub(super) fn charges_like(&self, other: &Self) -> bool {
        self.charge == other.charge
    }

    /// Pays for one retry, or says why not. Asked last, right before the wait: whoever fails first pays first.
    pub fn take(&mut self, now: Time, fault: Fault) -> Result<Paid, Reason> {
        self.catch_up(now);
        let cost = self.cost.of(fault);
        match self.level.checked_sub(u64::from(cost)) {
            Some(rest) if self.level >= self.threshold => {
                self.level = rest;
                Ok(Paid::of(cost))
            }
            _ => Err(Reason::BudgetEmpty),
        }
    }

    /// Takes back what was paid for a retry that was never sent; nothing where failures pay.
    pub fn refund(&mut self, paid: Paid) {
        if self.charge == Charge::Failures {
            return; // it was paid for before a reload, to another kind
        }
        self.level = self.max.min(self.level + u64::from(paid.amount));
    }

    /// A paid retry was sent and succeeded; its success is told with [`Tokens::earn`] as every other.
    pub fn retried_well(&mut self, paid: Paid) {
        if self.charge == Charge::FailedRetries {
            self.refund(paid);
        }
    }

    /// An attempt failed in a way that a retry could help.
    pub fn failed(&mut self) {
        if self.charge == Charge::Failures {
            self.level = self.level.saturating_sub(TOKEN);
        }
    }

    /// A call succeeded.
    #[inline]
    pub fn earn(&mut self) {
        self.level = self.max.min(self.level + self.earned);
    }

    /// Whether the cheapest retry could be paid for now; spends nothing.
    pub fn peek(&self, now: Time) -> bool {
        self.gauge(now).level >= self.threshold.max(u64::from(self.cost.cheapest()))
    }

    /// How full the budget is now, from 0 to 1: what is shown is what is applied.
    pub fn fill(&self, now: Time) -> f64 {
        self.gauge(now).fill()
    }

    /// Starts afresh.
    pub fn reset(&mut self, now: Time) {
        self.level = self.start;
        self.refilled_at = now.max(self.refilled_at);
    }

    /// Takes on the numbers of one just made and keeps its tokens, as far as they fit. A trickle of the same pace goes on
    /// where it was; another begins now.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.catch_up(now);
        let goes_on = self.refill == fresh.refill;
        let refilled_at = if goes_on { self.refilled_at } else { now.max(self.refilled_at) };
        *self = Self { level: self.level.min(fresh.max), refilled_at, ..fresh };
    }

    pub(super) fn lower(&mut self, level: u64, now: Time) {
        self.catch_up(now);
        self.level = self.level.min(level);
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        let refilled = self.brought(now).map_or(self.max, |whole| self.level + whole * TOKEN);
        Gauge { level: refilled, max: self.max }
    }

    /// The whole tokens that time has brought; `None` if they fill the budget.
    fn brought(&self, now: Time) -> Option<u64> {
        let Some(every) = self.refill else { return Some(0) };
        let whole = now.since(self.refilled_at).as_nanos() / every.as_nanos();
        let room = (self.max - self.level).div_ceil(TOKEN);
        if whole >= u128::from(room) { None } else { Some(whole as u64) }
    }

    /// Adds what time has brought, in one step however long nobody looked, and keeps the remainder.
    fn catch_up(&mut self, now: Time) {
        let Some(every) = self.refill else { return };
        match self.brought(now) {
            Some(whole) => {
                self.level += whole * TOKEN;
                self.refilled_at = self.refilled_at + every * whole as u32;
            }
            None => {
                // Full: time spent at the top earns nothing later.
                self.level = self.max;
                self.refilled_at = now.max(self.refilled_at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max: u32, ratio: f64) -> Tokens {
        Tokens::new(Spec { max, ratio, ..Spec::default() }, Time::ZERO).unwrap()
    }

    fn trickle(max: u32, start: Time) -> Tokens {
        let refill = Some(Duration::from_secs(1));
        Tokens::new(Spec { max, ratio: 0.0, refill, ..Spec::default() }, start).unwrap()
    }

    fn drain(budget: &mut Tokens, now: Time) -> u32 {
        (0..).take_while(|_| budget.take(now, Fault::Server).is_ok()).count() as u32
    }

    #[test]
    fn presets_are_as_they_are_known_elsewhere() {
        let (llm, time_only) = (Spec::llm(), Spec::time_only());
        assert_eq!((llm.max, llm.ratio, llm.pause_below), (100, 0.1, 0.5));
        assert_eq!((time_only.max, time_only.ratio), (10, 0.0));
        for spec in [llm, time_only] {
            assert_eq!(spec.refill, Some(Duration::from_secs(1)));
        }
    }

    #[test]
    fn what_is_left_is_shown_as_a_share() {
        let mut budget = budget(4, 0.1);
        let _ = budget.take(Time::ZERO, Fault::Server).unwrap();
        assert_eq!(budget.fill(Time::ZERO), 0.75);
    }

    #[test]
    fn an_empty_budget_refuses_and_ten_successes_at_a_tenth_buy_one_retry() {
        let mut budget = budget(3, 0.1);
        assert_eq!(drain(&mut budget, Time::ZERO), 3);
        for _ in 0..9 {
            budget.earn();
        }
        assert_eq!(budget.take(Time::ZERO, Fault::Server), Err(Reason::BudgetEmpty));
        budget.earn();
        assert!(budget.take(Time::ZERO, Fault::Server).is_ok());
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
        let paid = budget.take(Time::ZERO, Fault::Server).unwrap();
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
            let spec = Spec { max, ratio, ..Spec::default() };
            let message = Tokens::new(spec, Time::ZERO).unwrap_err().to_string();
            assert!(message.starts_with("budget."), "{message}");
            assert!(message.contains("write"), "{message}");
        }
    }
}

//! Ratio: retries are at most a share of the successes of the last seconds.
//!
//! **Why.** "At most a tenth more" is what people mean when they say budget. Counted by the second it would be wiped
//! out by one second without a success, just when it is needed; counted for ever it would pay for an outage with
//! yesterday's health. So it is counted over seconds, and what was not used carries over for some of them.
//!
//! **How.** A success earns `ratio`, time earns `floor` per second, a retry costs one. Two things bound it: retries
//! within the window never exceed `ratio` × successes within it + `floor` × its length, and at most five seconds'
//! earnings are saved up (one second's are the window's average; one whole token can always be saved). The floor
//! is for each process: a fleet has it many times, see [`divided`](super::divided).
//!
//! ```
//! use quell_core::{Time, budget::ratio::{Ratio, Spec}};
//!
//! let mut budget = Ratio::new(Spec::default(), Time::ZERO)?;
//! assert!(budget.take(Time::ZERO).is_err()); // nothing succeeded yet
//! for _ in 0..10 {
//!     budget.earn(Time::ZERO);
//! }
//! assert!(budget.take(Time::ZERO).is_ok());
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use core::time::Duration;

use super::{Gauge, Invalid, PRICE, Paid, TOKEN, invalid, ring::Part, ring::Ring};
use crate::{Reason, Time, time::nanos};

/// So many seconds' earnings can be saved up.
const SAVED_SECONDS: u128 = 5;
const SECOND: u128 = 1_000_000_000;
/// The largest floor that makes sense, per second.
const MOST: f64 = 1e6;

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Retries per success.
    pub ratio: f64,
    /// How far back both count.
    pub window: Duration,
    /// Retries per second that need no success, in each process.
    pub floor: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self { ratio: 0.1, window: Duration::from_secs(10), floor: 0.0 }
    }
}

impl Spec {
    /// The numbers that Finagle's clients start with: a fifth, and ten per second.
    pub fn finagle() -> Self {
        Self { ratio: 0.2, floor: 10.0, ..Self::default() }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Ratio {
    ring: Ring<11>,
    window: u64,
    earned: u64,
    /// Millionths per second.
    floor: u64,
    /// Saved up.
    saved: u64,
    /// Up to when the floor was added, and what was less than a millionth then.
    floored_at: Time,
    remainder: u64,
}

impl Ratio {
    /// A budget that has earned nothing yet.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let earned = invalid::ratio(spec.ratio)?;
        let window = invalid::at_least_a_millisecond(spec.window, Invalid::Window)?;
        if !(0.0..=MOST).contains(&spec.floor) {
            return Err(Invalid::Floor(spec.floor));
        }
        Ok(Self {
            ring: Ring::new(window, now),
            window: nanos(window),
            earned,
            floor: (spec.floor * TOKEN as f64).round() as u64,
            saved: 0,
            floored_at: now,
            remainder: 0,
        })
    }

    /// Pays for one retry, or says why not.
    pub fn take(&mut self, now: Time) -> Result<Paid, Reason> {
        let seen = self.ring.slide(now);
        self.catch_up(now, seen);
        if self.saved < TOKEN || self.rest(now, seen) < TOKEN {
            return Err(Reason::BudgetEmpty);
        }
        self.saved -= TOKEN;
        Ok(Paid { amount: PRICE, at: self.ring.retried() })
    }

    /// Takes back what was paid for a retry that was never sent.
    pub fn refund(&mut self, now: Time, paid: Paid) {
        self.ring.unretried(now, &paid);
        let seen = self.ring.slide(now);
        self.catch_up(now, seen);
        self.saved = self.most(seen).min(self.saved + u64::from(paid.amount));
    }

    /// A call succeeded.
    pub fn earn(&mut self, now: Time) {
        self.ring.succeeded(now);
        let seen = self.ring.slide(now);
        self.catch_up(now, seen);
        self.saved = self.most(seen).min(self.saved + self.earned);
    }

    /// Whether a retry could be paid for now; spends nothing.
    pub fn peek(&self, now: Time) -> bool {
        self.gauge(now).level >= TOKEN
    }

    /// Starts afresh.
    pub fn reset(&mut self, now: Time) {
        self.ring.clear();
        (self.saved, self.remainder) = (0, 0);
        self.floored_at = now.max(self.floored_at);
    }

    /// Takes on the numbers of one just made and keeps what is saved up and what it saw.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        let seen = self.ring.slide(now);
        self.catch_up(now, seen);
        self.ring.adopt(fresh.ring, now);
        (self.window, self.earned, self.floor) = (fresh.window, fresh.earned, fresh.floor);
        self.saved = self.saved.min(self.most(seen));
    }

    pub(super) fn lower(&mut self, level: u64, now: Time) {
        let seen = self.ring.slide(now);
        self.catch_up(now, seen);
        self.saved = self.saved.min(level);
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        let seen = self.ring.look(now);
        let (saved, _) = self.brought(now, seen);
        Gauge { level: saved.min(self.rest(now, seen)), max: self.most(seen) }
    }

    /// What the window's rule leaves.
    fn rest(&self, now: Time, seen: Part) -> u64 {
        let floor = u128::from(self.floor) * u128::from(self.ring.span(now)) / SECOND;
        let allowed = u128::from(seen.successes) * u128::from(self.earned) + floor;
        let spent = u128::from(seen.retries) * u128::from(TOKEN);
        u64::try_from(allowed.saturating_sub(spent)).unwrap_or(u64::MAX)
    }

    /// Most that can be saved up.
    fn most(&self, seen: Part) -> u64 {
        let earned = u128::from(seen.successes) * u128::from(self.earned);
        let second = earned * SECOND / u128::from(self.window) + u128::from(self.floor);
        u64::try_from(SAVED_SECONDS * second).unwrap_or(u64::MAX).max(TOKEN)
    }

    fn catch_up(&mut self, now: Time, seen: Part) {
        (self.saved, self.remainder) = self.brought(now, seen);
        self.floored_at = now.max(self.floored_at);
    }

    /// What is saved up with what time has brought, and the remainder of that, in one step.
    fn brought(&self, now: Time, seen: Part) -> (u64, u64) {
        let elapsed = u128::from(now.nanos_since(self.floored_at));
        let brought = elapsed * u128::from(self.floor) + u128::from(self.remainder);
        let (saved, most) = (u128::from(self.saved) + brought / SECOND, self.most(seen));
        if saved >= u128::from(most) {
            (most, 0)
        } else {
            (saved as u64, (brought % SECOND) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn drain(budget: &mut Ratio, now: Time) -> usize {
        (0..).take_while(|_| budget.take(now).is_ok()).count()
    }

    /// Ten seconds of this many successes per second, evenly.
    fn healthy(spec: Spec, per_second: u64) -> Ratio {
        let mut budget = Ratio::new(spec, at(0)).unwrap();
        (0..10 * per_second).for_each(|i| budget.earn(at(i * 1_000 / per_second)));
        budget
    }

    /// G4, second half.
    #[test]
    fn a_second_without_successes_does_not_wipe_the_budget() {
        let mut budget = healthy(Spec::default(), 100);
        assert_eq!(drain(&mut budget, at(11_000)), 45, "five times a tenth of 900 in ten seconds");
    }

    #[test]
    fn at_most_five_seconds_of_earnings_are_saved_up() {
        assert_eq!(drain(&mut healthy(Spec::default(), 100), at(9_999)), 50);
        assert_eq!(drain(&mut healthy(Spec::finagle(), 100), at(9_999)), 150);
    }

    #[test]
    fn the_floor_pays_so_much_per_second_and_never_more_than_five_seconds_at_once() {
        let mut budget = Ratio::new(Spec::finagle(), at(0)).unwrap();
        let per_tick = |tick: u64| drain(&mut budget, at(50 * tick));
        let twenty_seconds: usize = (1..=400).map(per_tick).sum();
        assert!(
            (199..=200).contains(&twenty_seconds),
            "{twenty_seconds}: the last may be a moment late"
        );
        assert_eq!(drain(&mut budget, at(86_400_000)), 50);
    }

    #[test]
    fn thin_traffic_can_save_up_one_whole_retry() {
        let mut budget = Ratio::new(Spec::default(), at(0)).unwrap();
        (0..10).for_each(|second| budget.earn(at(second * 1_000)));
        assert_eq!(drain(&mut budget, at(9_500)), 1);
    }
}

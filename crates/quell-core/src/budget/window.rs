//! Window: a share of the successes of the last minute, and a few retries where there were none.
//!
//! **Why.** Some services are called so seldom that seconds say nothing. A minute does; and where it holds no success at
//! all, because the process has just started or nobody called, a handful of retries may find out.
//!
//! **How.** Retries within the window are at most `ratio` × successes within it. If there was no success, `bootstrap`
//! retries are allowed instead. Sixty parts that fall off one by one make the window's length exact to a sixtieth;
//! retries and the successes that paid for them fall off together, so nothing is to be had twice at an edge.
//!
//! ```
//! use quell_core::{Time, budget::window::{Spec, Window}};
//!
//! let mut budget = Window::new(Spec::default(), Time::ZERO)?;
//! let first = (0..).take_while(|_| budget.take(Time::ZERO).is_ok()).count();
//! assert_eq!(first, 5);
//! # Ok::<_, quell_core::budget::Invalid>(())
//! ```

use core::time::Duration;

use super::{Gauge, Invalid, PRICE, Paid, TOKEN, invalid, ring::Part, ring::Ring};
use crate::{Reason, Time};

/// A budget as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Retries per success.
    pub ratio: f64,
    /// How far back both count.
    pub window: Duration,
    /// Retries allowed in a window without successes, in each process.
    pub bootstrap: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Self { ratio: 0.1, window: Duration::from_secs(60), bootstrap: 5 }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Window {
    ring: Ring<61>,
    earned: u64,
    bootstrap: u64,
}

impl Window {
    /// A budget with an empty window.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let earned = invalid::ratio(spec.ratio)?;
        let window = invalid::at_least_a_millisecond(spec.window, Invalid::Window)?;
        let bootstrap = u64::from(spec.bootstrap) * TOKEN;
        Ok(Self { ring: Ring::new(window, now), earned, bootstrap })
    }

    /// Pays for one retry, or says why not.
    pub fn take(&mut self, now: Time) -> Result<Paid, Reason> {
        let seen = self.ring.slide(now);
        if self.measure(seen).level < TOKEN {
            return Err(Reason::BudgetEmpty);
        }
        Ok(Paid { amount: PRICE, at: self.ring.retried() })
    }

    /// Takes back what was paid for a retry that was never sent.
    pub fn refund(&mut self, now: Time, paid: Paid) {
        self.ring.unretried(now, &paid);
    }

    /// A call succeeded.
    pub fn earn(&mut self, now: Time) {
        self.ring.succeeded(now);
    }

    /// Whether a retry could be paid for now; spends nothing.
    pub fn peek(&self, now: Time) -> bool {
        self.gauge(now).level >= TOKEN
    }

    /// Starts afresh.
    pub fn reset(&mut self) {
        self.ring.clear();
    }

    /// Takes on the numbers of one just made and keeps what it saw.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.ring.adopt(fresh.ring, now);
        (self.earned, self.bootstrap) = (fresh.earned, fresh.bootstrap);
    }

    /// Writes off what is above this level, for as long as the window is.
    pub(super) fn lower(&mut self, level: u64, now: Time) {
        let seen = self.ring.slide(now);
        let above = self.measure(seen).level.saturating_sub(level);
        self.ring.write_off(above.div_ceil(TOKEN));
    }

    pub(super) fn gauge(&self, now: Time) -> Gauge {
        self.measure(self.ring.look(now))
    }

    fn measure(&self, seen: Part) -> Gauge {
        let max = match seen.successes {
            0 => self.bootstrap,
            some => some.saturating_mul(self.earned),
        };
        Gauge { level: max.saturating_sub(seen.retries.saturating_mul(TOKEN)), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_bootstrap_is_spent_once_per_window() {
        let mut budget = Window::new(Spec::default(), at(0)).unwrap();
        let asked = (0..600).filter(|second| budget.take(at(second * 1_000)).is_ok()).count();
        assert_eq!(asked, 50, "five per minute for ten minutes");
    }

    #[test]
    fn the_bootstrap_ends_with_the_first_success() {
        let mut budget = Window::new(Spec::default(), at(0)).unwrap();
        budget.earn(at(0));
        assert!(budget.take(at(0)).is_err());
        (1..10).for_each(|_| budget.earn(at(0)));
        assert!(budget.take(at(0)).is_ok());
    }
}

//! Reload: a budget goes on under another spec, and never has more than before.
//!
//! **Why.** Whoever reloads in a loop, or moves between two settings, must not get a new start credit each time, or a
//! budget is only as good as the quiet of its configuration. Keeping the *share* of fullness does not do: 10 of 100
//! tokens become 10 of 10, and then all of whatever comes next.
//!
//! **How.** The tokens there are is the one number that all kinds have in common, and a reload never raises it. What is
//! beyond the new maximum, or beyond what the new kind starts with, is lost. The same kind keeps its windows, averages and
//! clocks; another kind starts afresh at that level. Chance holds no tokens: what comes after it starts empty; what
//! comes after no limit at all starts as if new. The totals stay. A receipt from before gives back at most what was
//! paid for it.

use super::{Budget, Kind};
use crate::Time;

impl Budget {
    /// Takes on the spec of one just made, and keeps at most the tokens it has.
    ///
    /// ```
    /// use quell_core::{Fault, Rng, Time, budget::{Budget, grpc, tokens}};
    ///
    /// let (now, mut rng) = (Time::ZERO, Rng::new(1));
    /// let mut budget = Budget::new(tokens::Spec { max: 1, ..tokens::Spec::default() }, now)?;
    /// let paid = budget.take(now, Fault::Server, &mut rng).unwrap();
    /// budget.adopt(Budget::new(tokens::Spec::default(), now)?, now);
    /// assert_eq!(budget.level(now), 0.0); // room for 100, and nothing in it
    /// budget.adopt(Budget::new(grpc::Spec::default(), now)?, now);
    /// assert_eq!(budget.level(now), 0.0);
    /// # Ok::<_, quell_core::budget::Invalid>(())
    /// ```
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        let held = self.held(now);
        match (&mut self.kind, fresh.kind) {
            (Kind::Tokens(own), Kind::Tokens(fresh)) if own.charges_like(&fresh) => {
                own.adopt(fresh, now);
            }
            (Kind::Ratio(own), Kind::Ratio(fresh)) => own.adopt(*fresh, now),
            (Kind::Window(own), Kind::Window(fresh)) => own.adopt(*fresh, now),
            (Kind::Adaptive(own), Kind::Adaptive(fresh)) => own.adopt(fresh, now),
            (Kind::Probabilistic(own), Kind::Probabilistic(fresh)) => own.adopt(fresh, now),
            (Kind::Sampled(own), Kind::Sampled(fresh)) => own.adopt(*fresh, now),
            (own, fresh) => *own = fresh,
        }
        if self.gauge(now).level > held {
            self.lower(held, now);
        }
    }

    /// The tokens there are, in millionths.
    pub(super) fn held(&self, now: Time) -> u64 {
        match &self.kind {
            Kind::Probabilistic(_) => 0,
            Kind::Sampled(kind) => kind.held(now),
            _ => self.gauge(now).level,
        }
    }

    pub(super) fn lower(&mut self, level: u64, now: Time) {
        match &mut self.kind {
            Kind::Tokens(kind) => kind.lower(level, now),
            Kind::Ratio(kind) => kind.lower(level, now),
            Kind::Window(kind) => kind.lower(level, now),
            Kind::Adaptive(kind) => kind.lower(level, now),
            Kind::Sampled(kind) => kind.inner().lower(level, now),
            Kind::Probabilistic(_) | Kind::Unlimited | Kind::None => {}
        }
    }
}

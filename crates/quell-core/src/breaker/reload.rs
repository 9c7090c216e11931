//! Reload: a breaker goes on under another spec, with what it knows.
//!
//! **Why.** Policies are reloaded in the middle of outages. A breaker that started afresh would let everybody at an upstream
//! that is down, and one that dropped its probes would ask it once more for nothing.
//!
//! **How.** A reload neither opens nor closes it: the new rules look at the old evidence with the next outcome. State,
//! generation, probes that are out and failed returns stay. An open time and leases that the new `open` would
//! not have given are shortened to it. Windows of another length count what they still see as of now. A run of failures goes
//! on if it was counted. Calls under way are watched by the new `slow` at once, so those already slower may open it. If
//! that rule is dropped, calls under way count no more, as their numbers would mean others if it came back. A mode that
//! somebody set by hand stays until its end; else the new spec's mode applies.

use super::{Breaker, Inner, Mode};
use crate::Time;

impl Breaker {
    /// Takes on the spec of one just made and keeps all that it knows.
    ///
    /// ```
    /// use quell_core::{Rng, Time, breaker::{Breaker, Spec, State}};
    ///
    /// let (mut rng, now) = (Rng::new(1), Time::ZERO);
    /// let mut breaker = Breaker::new(Spec::default(), now)?;
    /// for _ in 0..20 {
    ///     let pass = breaker.take(now);
    ///     breaker.judge(now, &pass, Some(false), &mut rng);
    /// }
    /// breaker.adopt(Breaker::new(Spec::classic(), now)?, now);
    /// assert_eq!(breaker.state(now), State::Open);
    /// # Ok::<_, quell_core::breaker::Invalid>(())
    /// ```
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.settle(now);
        let was = self.spec.mode;
        self.spec = fresh.spec;
        self.failures.adopt(fresh.failures, now);
        self.adopt_slow(fresh.slow, now);
        self.open_for = self.open_for.clamp(self.spec.open, self.spec.longest_open());
        let was_calm = matches!(self.inner, Inner::Calm);
        match &mut self.inner {
            Inner::Calm => self.inner = self.closed(None),
            Inner::Closed { ramp_from } => {
                let ramp_from = ramp_from.filter(|_| !self.spec.ramp.is_zero());
                self.inner = self.closed(ramp_from);
            }
            Inner::Open { .. } if self.control.mode == Mode::ForcedOpen => {}
            Inner::Open { until } => *until = (*until).min(now + self.open_for),
            Inner::HalfOpen(probes) => probes.shorten(now + self.spec.open),
        }
        let by_hand = self.control.until.is_some() || self.control.mode != was;
        if !by_hand && self.spec.mode != was {
            self.apply(now, self.spec.mode, None);
        }
        self.settle(now);
        if was_calm || matches!(self.inner, Inner::Calm) {
            self.in_a_row = 0; // nobody counts there
        }
    }

    fn adopt_slow(&mut self, fresh: Option<Box<super::Slow>>, now: Time) {
        match (&mut self.slow, fresh) {
            (Some(own), Some(fresh)) => own.adopt(*fresh, now),
            (own, fresh) => {
                if own.is_some() && matches!(self.inner, Inner::Closed { .. }) {
                    self.generation = self.generation.wrapping_add(1);
                }
                *own = fresh;
            }
        }
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;

//! Overlooked: what goes out although a control in report mode speaks against it.

use super::Upstream;
use crate::{Time, mode::Modes};

impl Upstream {
    /// Changes whose decisions are obeyed and whose only counted. Whoever queues behind a limit that is no longer obeyed goes at
    /// the next [`Upstream::poll`].
    pub fn set_modes(&mut self, modes: Modes) {
        self.modes = modes;
        self.endpoints.set_mode(modes.ejection);
    }

    /// What the budget would refuse is counted and sent all the same, if nobody obeys it.
    pub(super) fn overlook_budget(&mut self) -> bool {
        let report = self.modes.budget.is_report();
        self.would_refuse.budget += u64::from(report);
        report
    }

    /// The same for a hedge that a half-empty budget speaks against. One that it cannot pay for at all is counted where
    /// it is asked to.
    pub(super) fn overlook_level(&mut self, now: Time) -> bool {
        if self.purse.parent().peek(now) {
            self.overlook_budget()
        } else {
            self.modes.budget.is_report()
        }
    }

    /// What finds no place is counted and goes out all the same, if nobody obeys the limit, which hears of it either way. A
    /// limit that is held by hand is obeyed.
    #[cold]
    pub(super) fn overlook_limit(&mut self) -> bool {
        self.in_flight.press();
        let report = self.modes.in_flight.is_report() && !self.in_flight.is_held();
        self.would_refuse.in_flight += u64::from(report);
        report
    }
}

#[cfg(test)]
#[path = "overlooked_tests.rs"]
mod tests;

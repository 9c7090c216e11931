//! Mode: what a breaker's decisions mean for traffic, and the levers that change it while it runs.
//!
//! **Why.** A new rule is tried in report mode first, and in an incident people know more than a window does. Both must be
//! sane to leave again. So in report mode the machine runs as if it were obeyed: what it would have refused is
//! let through but not learned from. Forced closed keeps counting, and the first outcome after it decides on all that was
//! seen. Forced open comes back through probes, as nothing was seen.

use super::{Breaker, Inner, Mode, Probes, State};
use crate::{Refusal, Time};

/// The mode that applies, until when, and what was let through against the machine's advice.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Control {
    pub(super) mode: Mode,
    pub(super) until: Option<Time>,
    /// What was just checked passes only because nobody obeys.
    outside: bool,
    would_refuse: u64,
}

impl Control {
    /// What a decision means for traffic.
    pub(super) fn applies(&mut self, decided: Result<State, Refusal>) -> Result<State, Refusal> {
        self.outside = self.mode == Mode::Report && decided.is_err();
        match self.mode {
            Mode::Enforce | Mode::ForcedOpen => decided,
            Mode::Report | Mode::Disabled | Mode::ForcedClosed => Ok(State::Closed),
        }
    }

    /// Whether what is taken now is none of the machine's business.
    pub(super) fn is_outside(&mut self) -> bool {
        let outside = core::mem::take(&mut self.outside);
        self.would_refuse = self.would_refuse.saturating_add(u64::from(outside));
        outside || self.mode == Mode::Disabled
    }

    /// Whether evidence may open it.
    pub(super) fn may_open(&self) -> bool {
        matches!(self.mode, Mode::Enforce | Mode::Report)
    }
}

impl Breaker {
    /// What its decisions mean for traffic now.
    pub fn mode(&mut self, now: Time) -> Mode {
        self.settle(now);
        self.control.mode
    }

    /// Changes that, until an instant or for good; afterwards it is as it was written again.
    pub fn set_mode(&mut self, now: Time, mode: Mode, until: Option<Time>) {
        self.settle(now);
        self.apply(now, mode, until);
        self.settle(now); // the instant may be over
    }

    /// The state that traffic meets: [`Breaker::state`] where that is obeyed, else closed.
    pub fn applied(&mut self, now: Time) -> State {
        let state = self.state(now);
        match self.control.mode {
            Mode::Enforce | Mode::ForcedOpen => state,
            Mode::Report | Mode::Disabled | Mode::ForcedClosed => State::Closed,
        }
    }

    /// Attempts that were sent in report mode and would have been refused.
    pub const fn would_refuse(&self) -> u64 {
        self.control.would_refuse
    }

    pub(super) fn apply(&mut self, now: Time, mode: Mode, until: Option<Time>) {
        let was = self.control.mode;
        self.control.mode = mode;
        self.control.until = until;
        self.control.outside = false;
        match (&self.inner, mode) {
            (_, Mode::ForcedOpen) => {
                self.enter(Inner::Open { until: until.unwrap_or(Time::MAX) });
            }
            (_, Mode::Disabled) if was != Mode::Disabled => self.restart(now, None),
            (Inner::Open { .. } | Inner::HalfOpen(_), Mode::ForcedClosed) => {
                self.restart(now, None);
            }
            (Inner::Open { .. }, _) if was == Mode::ForcedOpen => {
                self.enter(Inner::HalfOpen(Probes::none()));
            }
            (Inner::Closed { ramp_from }, Mode::Enforce | Mode::Report) => {
                self.stay_closed(was, *ramp_from);
            }
            (Inner::Calm | Inner::Closed { .. }, _) => self.stay_closed(was, None),
            (Inner::Open { .. } | Inner::HalfOpen(_), _) => {}
        }
    }

    /// Closed in another mode, on the same evidence. Where calls were sent against advice a new generation starts, or
    /// they would count from now on.
    fn stay_closed(&mut self, was: Mode, ramp_from: Option<Time>) {
        self.inner = self.closed(ramp_from);
        if matches!(was, Mode::Report | Mode::Disabled) {
            self.generation = self.generation.wrapping_add(1);
            if let Some(slow) = &mut self.slow {
                slow.forget_running();
            }
        }
    }
}

#[cfg(test)]
#[path = "mode_tests.rs"]
mod tests;

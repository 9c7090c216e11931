//! Apart: a kind of call that fails or hangs, while others do well.
//!
//! **Why.** A path that always answers with an error, or never answers, is not a service that is down. If its failures opened
//! everybody's breaker, or its calls held everybody's slots, a broken part would be an outage of the whole.
//!
//! **How.** Failures count against the whole only while most kinds of calls fail. Otherwise a failing kind gets a breaker of its own,
//! with the numbers of everybody's, and loses it once it does well again. A kind that hangs while others are answered is
//! [held apart](crate::in_flight): to as many as it had in health, and a lone call every two seconds.
//! An endpoint that fails while another does well is its own trouble in the same way: it is left out, and neither the breaker of
//! the whole nor that of a kind hears of it.

use super::{Ask, Permit, Upstream};
use crate::{
    Event, Refusal, Time,
    breaker::{Breaker, State},
};

impl Upstream {
    /// Whether nothing of its own class speaks against a call.
    pub(super) fn class_allows(&mut self, now: Time, ask: &Ask) -> Result<(), Refusal> {
        let index = self.classes.find(ask.class);
        let class = self.classes.at(index);
        if let Some(breaker) = &mut class.breaker {
            breaker.check(now, ask.attempt <= 1, &mut self.rng)?;
        }
        Ok(())
    }

    /// Whether its class holds as many as it may while it hangs: then it waits, and others do not.
    pub(super) fn is_held_apart(&mut self, now: Time, ask: &Ask) -> bool {
        if !self.in_flight.is_adaptive() {
            return false; // as written by hand, so it is
        }
        let index = self.classes.find(ask.class);
        let class = self.classes.get(index);
        class.in_trouble && !class.has_room(now, self.endpoints.ghosts_of(index))
    }

    /// The state of its class's own breaker.
    pub(super) fn class_state(&mut self, now: Time, class: u64) -> State {
        let index = self.classes.find(class);
        let breaker = self.classes.at(index).breaker.as_mut();
        breaker.map_or(State::Closed, |breaker| breaker.applied(now))
    }

    /// What became of an attempt, for its class; answers with what it says of the whole.
    #[cold]
    pub(super) fn judge_class(
        &mut self,
        now: Time,
        permit: &Permit,
        good: Option<bool>,
    ) -> Option<bool> {
        let bad = good == Some(false);
        if bad {
            self.in_flight.failed();
            self.classes.at(permit.class).fails(now);
        }
        let most_fail = self.classes.most_fail(now);
        let is_mixed = self.classes.is_mixed(permit.class);
        let class = self.classes.at(permit.class);
        if let Some(breaker) = &mut class.breaker {
            let changed = breaker.judge(now, &permit.own(), good, &mut self.rng);
            let until = breaker.next_change().unwrap_or(now);
            let key = class.key;
            match changed {
                None => {}
                Some(State::Closed) => self.events.push(Event::ClassClosed { class: key }),
                Some(_) => self.events.push(Event::ClassOpened { class: key, until }),
            }
            let closed = breaker.state(now) == State::Closed;
            if closed && !bad && !class.has_failed() {
                class.set_breaker(None);
            }
        } else if bad && !most_fail && !is_mixed && class.is_failing() {
            class.set_breaker(Breaker::new(*self.breaker.spec(), now).ok().map(Box::new));
        }
        good.filter(|good| *good || most_fail)
    }

    /// Whether a failure of this attempt may be its endpoint's: not where its kind fails everywhere.
    pub(super) fn blames_endpoint(&self, now: Time, permit: &Permit) -> bool {
        !self.classes.get(permit.class).is_failing() || self.classes.most_fail(now)
    }

    /// Hands back what an attempt held of its class's own breaker.
    #[cold]
    pub(super) fn free_class(&mut self, now: Time, permit: &Permit) {
        if let Some(breaker) = &mut self.classes.at(permit.class).breaker {
            breaker.free(now, &permit.own());
        }
    }
}

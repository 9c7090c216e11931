//! Notes: what observers are told, and the hint that holds everybody's retries back.

use core::time::Duration;

use super::{LONGEST_HOLD, MOST_HELD_BACK, Upstream};
use crate::{
    Time,
    breaker::State,
    budget::purse::{Change, Changes, Child},
    event::Event,
};

impl Upstream {
    /// Holds back the retries of this credential; of everybody, where there is none.
    pub(super) fn hold_back(&mut self, now: Time, hint: Duration, credential: u64) {
        let until = now + hint.min(LONGEST_HOLD);
        if until <= self.not_before(credential) {
            return;
        }
        if credential == 0 {
            self.not_before = until;
            self.events.push(Event::HeldBack { until });
            return;
        }
        self.held_back.retain(|(other, at)| *other != credential && *at > now);
        if self.held_back.len() >= MOST_HELD_BACK {
            let soonest = (0..self.held_back.len()).min_by_key(|i| self.held_back[*i].1);
            soonest.map(|i| self.held_back.swap_remove(i));
        }
        self.held_back.push((credential, until));
    }

    /// Until when this credential is held back.
    pub(crate) fn not_before(&self, credential: u64) -> Time {
        if credential == 0 || self.held_back.is_empty() {
            return self.not_before;
        }
        let own = self.held_back.iter().find(|(other, _)| *other == credential);
        own.map_or(self.not_before, |(_, until)| self.not_before.max(*until))
    }

    #[cold]
    pub(super) fn note_breaker(&mut self, now: Time, state: State) {
        self.events.push(match state {
            State::Closed => Event::BreakerClosed,
            _ => Event::BreakerOpened { until: self.breaker.next_change().unwrap_or(now) },
        });
    }

    /// The breaker may have opened because calls have been running for too long.
    #[cold]
    pub(super) fn note_opened(&mut self, now: Time) {
        if let Some(state) = self.breaker.opened_by_itself() {
            self.note_breaker(now, state);
        }
    }

    #[inline]
    pub(super) fn note_budget(&mut self, changes: Changes) {
        match changes.parent {
            None => {}
            Some(Change::Exhausted) => self.events.push(Event::BudgetExhausted),
            Some(Change::Recovered) => self.events.push(Event::BudgetRecovered),
        }
    }

    /// The same, and what became of a route's or tenant's own.
    #[cold]
    pub(super) fn note_budgets(&mut self, child: Child, changes: Changes) {
        self.note_budget(changes);
        let Some(change) = changes.child else { return };
        let key = self.purse.key_of(child);
        self.events.push(match change {
            Change::Exhausted => Event::ChildBudgetExhausted { key },
            Change::Recovered => Event::ChildBudgetRecovered { key },
        });
    }

    /// Whether there is trouble may have changed since the last look.
    pub(super) fn note_trouble(&mut self) {
        let trouble = self.in_flight.evidence();
        if self.told_trouble != trouble {
            self.told_trouble = trouble;
            self.events.push(trouble.map_or(Event::Calm, |evidence| Event::Trouble { evidence }));
        }
    }

    #[cold]
    pub(super) fn note_limit(&mut self) {
        let (from, to) = (self.told_limit, self.in_flight.limit());
        if from.abs_diff(to) > from / 10 {
            self.told_limit = to;
            // A loose limit that settles refuses nobody: nothing to wake people for.
            if !self.in_flight.is_adaptive() || !self.in_flight.is_loose() {
                self.events.push(Event::LimitMoved { from, to });
            }
        }
    }
}

//! Judged: what an attempt came to, and what all of them learn from it.

use super::{Permit, Upstream};
use crate::{Failure, Outcome, Time, endpoints::Ghost, event::Event};

impl Upstream {
    /// What an attempt came to, as soon as that is known. Every judged permit is released as well.
    #[inline]
    pub fn judge(&mut self, now: Time, permit: &Permit, outcome: &Outcome) {
        if !matches!(outcome, Outcome::Success) {
            return self.judge_other(now, permit, outcome);
        }
        if self.endpoints.answered(now) {
            self.tell_apart(now, permit, true);
            self.endpoints.judge(permit.endpoint, Some(true), now);
        }
        self.served(now, permit, true);
        let changes = self.purse.earn(now);
        self.note_budget(changes);
        if self.curbs.is_some() {
            return self.judge_curbed(now, permit, &Outcome::Success, Some(true));
        }
        if let Some(state) = self.breaker.judge(now, &permit.pass, Some(true), &mut self.rng) {
            self.note_breaker(now, state);
        }
    }

    /// What is no success, and is not to slow down what is.
    #[cold]
    fn judge_other(&mut self, now: Time, permit: &Permit, outcome: &Outcome) {
        if outcome.is_answer() && self.endpoints.answered(now) {
            self.tell_apart(now, permit, outcome.is_served());
        }
        if outcome.is_served() {
            self.served(now, permit, false);
        } else if let Outcome::Failed(Failure { code: Some(_), .. }) = outcome {
            self.in_flight.declined(now);
        }
        if let Outcome::Failed(Failure { hint: Some(hint), .. }) = outcome {
            self.hold_back(now, *hint, permit.credential);
        }
        if outcome.is_retryable() {
            self.purse.failed(now);
        }
        let good = self.breaker.spec().record.verdict(outcome);
        let blamed = good.filter(|good| *good || self.blames_endpoint(now, permit));
        if self.endpoints.judge(permit.endpoint, blamed, now) {
            self.would_refuse.ejection += u64::from(self.modes.ejection.is_report());
            self.events.push(Event::Ejected { endpoint: permit.endpoint });
        }
        let good = good.filter(|good| *good || !self.endpoints.fails_alone(permit.endpoint));
        let good = self.judge_class(now, permit, good);
        if self.curbs.is_some() {
            return self.judge_curbed(now, permit, outcome, good);
        }
        if let Some(state) = self.breaker.judge(now, &permit.pass, good, &mut self.rng) {
            self.note_breaker(now, state);
        }
    }

    /// The upstream did its work, whatever came of it.
    #[inline]
    fn served(&mut self, now: Time, permit: &Permit, good: bool) {
        self.in_flight.replied(now);
        if !permit.is_whole() {
            return self.served_early(now, permit, good);
        }
        let class = self.classes.at(permit.class);
        if now.is_past(permit.since, class.patience) {
            self.in_flight.waits(now, permit.since, class);
        }
        if self.in_flight.served(now, permit.pass.sent_at(), good, class) && good {
            self.judge_class(now, permit, Some(true));
        }
        if !self.in_flight.is_loose() {
            self.find_limit(now, permit);
        }
    }

    /// The same before it had all of the request: how long that took says nothing.
    #[cold]
    fn served_early(&mut self, now: Time, permit: &Permit, good: bool) {
        if good {
            self.judge_class(now, permit, Some(true));
        }
    }

    /// What a tight limit learns from an answer.
    #[cold]
    fn find_limit(&mut self, now: Time, permit: &Permit) {
        let (load, class) = (self.load(), self.classes.get(permit.class));
        if self.in_flight.found(now, permit.pass.sent_at(), load, class) {
            self.note_limit();
        }
    }

    /// Where there are ghosts, or several endpoints: one of them has got past all that was sent before; what is held apart with
    /// its class only if that answers.
    #[inline(never)]
    fn tell_apart(&mut self, now: Time, permit: &Permit, is_served: bool) {
        self.endpoints.get_past(permit.endpoint, permit.number, |class| {
            class != permit.class && self.classes.get(class).in_trouble
        });
        if is_served && permit.is_whole() && !self.endpoints.is_one() {
            let took = now.nanos_since(permit.pass.sent_at());
            let times = self.classes.get(permit.class).times(took);
            self.endpoints.took(permit.endpoint, now, times);
        }
    }

    /// Looks at all classes, and at what is due.
    #[cold]
    pub(super) fn look(&mut self, now: Time) {
        let load = self.load();
        self.endpoints.end_due(now);
        let ghosts = self.endpoints.ghosts();
        if self.in_flight.look(now, &mut self.classes, load, ghosts) {
            self.note_limit();
        }
        if !self.in_flight.is_loose() {
            self.callers.look();
        }
        self.note_trouble();
        self.size_queue();
    }

    /// Nobody waits for an attempt any more that was sent.
    #[cold]
    pub(super) fn haunt(&mut self, now: Time, permit: &Permit) {
        let (load, sent_at) = (self.load(), permit.pass.sent_at());
        let limit = self.in_flight.limit();
        let due = self.in_flight.left(now, sent_at, load, self.classes.at(permit.class));
        if self.in_flight.limit() != limit {
            self.note_limit();
        }
        let ghost = Ghost {
            number: permit.number,
            pool: permit.pool,
            class: permit.class,
            due: due.unwrap_or(Time::MAX),
        };
        self.endpoints.haunt(permit.endpoint, ghost);
    }
}

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
        self.answered(now, permit);
        self.endpoints.judge(permit.endpoint, Some(true), now);
        self.served(now, permit, true);
        let changes = self.purse.earn(now);
        self.note_budget(changes);
        if self.classes.get(permit.class).breaker.is_some() {
            self.judge_class(now, permit, Some(true));
        }
        if self.curbs.is_some() {
            return self.judge_curbed(now, permit, outcome, Some(true));
        }
        if let Some(state) = self.breaker.judge(now, &permit.pass, Some(true), &mut self.rng) {
            self.note_breaker(now, state);
        }
    }

    /// What is no success, and is not to slow down what is.
    #[cold]
    fn judge_other(&mut self, now: Time, permit: &Permit, outcome: &Outcome) {
        if outcome.is_answer() {
            self.answered(now, permit);
        }
        if outcome.is_served() {
            self.served(now, permit, false);
        } else if let Outcome::Failed(Failure { code: Some(_), .. }) = outcome {
            self.in_flight.replied(now);
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
        if !permit.whole {
            return; // it answered before it had all of the request
        }
        let (load, sent_at) = (self.load(), permit.pass.sent_at());
        let class = self.classes.at(permit.class);
        if good {
            class.latency.record(now, now.since(sent_at));
        }
        if self.in_flight.served(now, sent_at, load, class) {
            self.note_limit();
        }
        let class = self.classes.at(permit.class);
        if now.nanos_since(permit.since) > class.patience {
            // A late answer that was still taken teaches the same.
            self.in_flight.waited(now, permit.since, class);
        }
        if self.endpoints.is_one() {
            return;
        }
        self.endpoints.took(permit.endpoint, now, class.times(now.nanos_since(sent_at)));
    }

    /// The endpoint has got past all that was sent before; what is held apart with its class only if that answers.
    #[inline]
    fn answered(&mut self, now: Time, permit: &Permit) {
        self.endpoints.answered(permit.endpoint, permit.number, now, |class| {
            class != permit.class && self.classes.get(class).in_trouble
        });
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

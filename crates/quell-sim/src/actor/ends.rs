//! How a call of Quell's ends: who waits for it, and what they are told.

use quell_core::{Answer, Finish, Reason, Time, credit::Sends};

use super::{
    callers::User,
    quell::{Running, Whose},
};
use crate::{
    slab::Key,
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

impl World {
    /// A call is over.
    pub(super) fn finishes(&mut self, key: Key, finish: Finish) {
        let Some(running) = self.hosts.calls.remove(key) else { return };
        self.hangs_up(key, &running);
        let good = finish.reason.is_none();
        self.ended(&running, finish.attempts, good);
        if finish.answer == Answer::Refusal {
            self.refused(&running, finish.reason);
        }
        match running.whose {
            Whose::Own { since, resubmitted } => {
                if good {
                    self.user_served(since, running.key);
                }
                self.over(good, User::new(since, running.key, resubmitted));
            }
            Whose::Record(record) if finish.answer == Answer::Refusal => {
                self.record_refused(record, finish.retry_at.unwrap_or(self.now));
            }
            Whose::Record(record) => {
                let reply = if good { Reply::Good } else { running.told.unwrap_or(Reply::Error) };
                let hint = self.shops[usize::from(running.to)].service.hint;
                self.record_handled(record, reply, hint);
            }
            Whose::Attempt(to) => {
                if let (Some(credit), Origin::Call { call, slot, .. }) = (running.call.credit(), to)
                {
                    self.hosts.debit(call, slot, credit.sends(), credit.returned());
                }
                self.gateway_answers(to, running.reply(good));
            }
            Whose::User(user) => {
                let reply = running.reply(good);
                self.agenda.soon(self.now, Event::Answers { to: Origin::User(user), reply });
            }
            Whose::Job { shop, job } => {
                let marked = self.hosts.link(running.host).marks;
                if let Some(credit) = running.call.credit()
                    && let Some(chain) = self.shops[usize::from(shop)].chain(job)
                {
                    // Every further call of the job adds what it sent beyond its first.
                    let before = chain.told.map_or(0, |(sends, _)| sends.get().saturating_sub(1));
                    let sends = u32::from(before) + u32::from(credit.sends().get());
                    chain.told = Some((Sends::new(sends), credit.returned()));
                }
                self.agenda.soon(self.now, Event::Returns { shop, job, good, marked });
            }
        }
    }

    /// A call of so many attempts is over.
    pub(super) fn ended(&mut self, running: &Running, attempts: u32, good: bool) {
        if running.whose.is_outside() {
            return self.observed.ended(attempts, good);
        }
        let retries = u64::from(attempts.saturating_sub(1));
        let books = &mut self.shops[usize::from(running.to)].books;
        books.retries += retries;
        books.useful += if good { retries } else { 0 };
    }

    /// A caller's patience ended in Quell's queue.
    pub(super) fn left_queued(&mut self, key: u32) {
        let at = self.now.since(Time::ZERO);
        if let Some(kinds) = &mut self.kinds {
            if kinds.is_early(key) {
                return; // it was about to leave anyway
            }
            kinds.crowd(key).left_queued(self.timing, at);
        }
        let part = self.timing.part(at.as_secs() as usize);
        self.observed.refusals.left_queued[part] += 1;
    }

    /// A call was refused before it reached a service.
    fn refused(&mut self, running: &Running, reason: Option<Reason>) {
        if running.whose.is_outside() {
            if let Some(reason) = reason {
                let part = self.timing.part(self.now.since(Time::ZERO).as_secs() as usize);
                self.observed.refusals.add(part, reason);
                if let Some(kinds) = &mut self.kinds {
                    kinds.count(self.now, running.key, Count::Refused);
                    kinds.crowd(running.key).refusals.add(part, reason);
                }
            }
            return self.count(Count::Refused);
        }
        self.shops[usize::from(running.to)].books.refused += 1;
    }
}

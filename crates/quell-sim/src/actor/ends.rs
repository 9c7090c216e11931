//! How a call of Quell's ends: who waits for it, and what they are told.

use quell_core::{Answer, Finish, credit::Sends};

use super::{callers::User, quell::Whose};
use crate::{
    slab::Key,
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
            self.refused(&running);
        }
        match running.whose {
            Whose::Own { since, resubmitted } => {
                if good {
                    self.user_served(since);
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
}

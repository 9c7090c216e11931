//! News: who hears of an attempt's end.

use quell_core::{Outcome, Reason};

use super::Driving;
use crate::{
    observe::{Event, Next, Tried},
    run::{Sender, Try},
    upstream::Terms,
};

impl<T: Terms, S: Sender> Driving<'_, T, S> {
    /// Tells the sender and observers that an attempt has ended.
    #[inline(always)]
    pub(super) fn tell(
        &mut self,
        this: &Try,
        slot: u8,
        outcome: Outcome,
        reply: Option<&S::Reply>,
        next: Next,
    ) {
        // Made twice, for almost nobody looks: most senders do not, nor is there always an observer.
        let tried = self.tried(this, slot, outcome, next);
        self.sender.tried(&tried, reply);
        if self.guard.upstream().is_observed() {
            let tried = self.tried(this, slot, outcome, next);
            self.guard.upstream().tell(&Event::Tried(&tried));
        }
    }

    /// Tells the sender and observers of the attempts that nobody waits for any more: the caller left, or another one was
    /// faster.
    #[cold]
    pub(super) fn leave(&mut self, reason: Option<Reason>) {
        for slot in 0..2 {
            if let Some(left) = self.tries[usize::from(slot)].take() {
                self.tell(&left, slot, Outcome::Abandoned, None, Next::Stop(reason));
            }
        }
    }

    #[inline(always)]
    fn tried(&self, this: &Try, slot: u8, outcome: Outcome, next: Next) -> Tried {
        let Try { number: attempt, endpoint, queued, started, .. } = *this;
        let (hedge, ended) = (slot > 0, self.guard.now());
        Tried { attempt, hedge, endpoint, queued, started, ended, outcome, next }
    }
}

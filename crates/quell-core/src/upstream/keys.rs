//! Keys: calls that go by the breaker of their key, where keys have one of their own.
//!
//! A call without a key goes by everybody's breaker, and one with a key by that of its key and no other. What becomes of an
//! attempt is told to the breaker it was let through by, and to nobody if that has made room since.

use super::{Ask, Permit, Upstream, Wake};
use crate::{
    Event, Reason, Refusal, Time,
    breaker::{Keyed, Pass, State},
    keyed::Seat,
};

impl Upstream {
    pub(super) fn has_keys(&self) -> bool {
        self.curbs.as_ref().is_some_and(|curbs| curbs.shards.is_some())
    }

    /// Where the breaker of whoever asks is; nowhere for everybody's.
    pub(super) fn seat(&mut self, now: Time, ask: &Ask) -> Seat {
        match (self.shards(), ask.key) {
            (Some(shards), Some(key)) => shards.enter(now, key),
            _ => Seat::NOWHERE,
        }
    }

    /// The state that traffic of this key meets, or all that has none.
    pub(super) fn applied(&mut self, now: Time, key: Option<u64>) -> State {
        match (self.shards(), key) {
            (Some(shards), Some(key)) => shards.applied(now, key),
            _ => self.breaker.applied(now),
        }
    }

    #[cold]
    pub(super) fn check_key(
        &mut self,
        now: Time,
        seat: Seat,
        first: bool,
    ) -> Result<State, Refusal> {
        let Some(curbs) = &mut self.curbs else { return Ok(State::Closed) };
        let Some(shards) = &mut curbs.shards else { return Ok(State::Closed) };
        let checked = shards.check(now, seat, first, &mut self.rng);
        if checked.is_err()
            && let Some(state) = shards.at(seat).and_then(|breaker| breaker.opened_by_itself())
        {
            self.note_key(now, seat, state);
        }
        checked
    }

    #[cold]
    pub(super) fn take_key(&mut self, now: Time, seat: Seat) -> Pass {
        match self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut()) {
            Some(shards) => shards.take(now, seat),
            None => self.breaker.take(now),
        }
    }

    /// Tells the breaker that let this attempt through what became of it.
    pub(super) fn judge_key(&mut self, now: Time, permit: &Permit, good: Option<bool>) {
        if permit.seat == Seat::NOWHERE {
            if let Some(state) = self.breaker.judge(now, &permit.pass, good, &mut self.rng) {
                self.note_breaker(now, state);
            }
            return;
        }
        let Some(shards) = self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut()) else {
            return;
        };
        if let Some(state) = shards.judge(now, permit.seat, &permit.pass, good, &mut self.rng) {
            self.note_key(now, permit.seat, state);
        }
    }

    pub(super) fn free_key(&mut self, now: Time, permit: &Permit) {
        if permit.seat == Seat::NOWHERE {
            self.breaker.free(now, &permit.pass);
        } else if let Some(shards) = self.shards() {
            shards.free(now, permit.seat, &permit.pass);
        }
    }

    /// Tells those in the queue whose own breaker, or everybody's, is not closed: their turn will not come.
    pub(super) fn flush_by_key(&mut self, now: Time, wake: &mut Vec<Wake>) {
        let everybody = self.breaker.applied(now) != State::Closed;
        loop {
            let mut shards = self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut());
            let next = self.queue.take_if(|ask| match (&mut shards, ask.key) {
                (Some(shards), Some(key)) => shards.applied(now, key) != State::Closed,
                _ => everybody,
            });
            let Some((ticket, ask)) = next else { return };
            let seat = self.seat(now, &ask);
            let refusal = match self.gates(now, &ask, seat) {
                Err(refusal) => refusal,
                Ok(_) => self.refuse(now, Reason::BreakerOpen),
            };
            wake.push(Wake { ticket, result: Err(refusal) });
        }
    }

    fn shards(&mut self) -> Option<&mut Keyed> {
        self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut())
    }

    fn note_key(&mut self, now: Time, seat: Seat, state: State) {
        let Some(shards) = self.shards() else { return };
        let key = shards.key_of(seat);
        let until = shards.at(seat).and_then(|breaker| breaker.next_change()).unwrap_or(now);
        self.events.push(match state {
            State::Closed => Event::KeyClosed { key },
            _ => Event::KeyOpened { key, until },
        });
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;

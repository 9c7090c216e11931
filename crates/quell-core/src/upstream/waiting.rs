//! Waiting: who joins the queue, who is let go, and when to look again.

use core::time::Duration;

use super::{Admission, Ask, Permit, Place, Refusal, Upstream, Wake};
use crate::{
    Reason, Time,
    breaker::State,
    callers::Callers,
    keyed::Seat,
    queue::{Entry, Pushed, Ticket},
};

/// The least time a call may wait in the queue.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// As many may wait as are answered in so many seconds.
const QUEUED: f64 = 1.0;
/// Never more than so many.
const MOST_QUEUED: usize = 4096;

impl Upstream {
    #[cold]
    pub(super) fn enqueue(&mut self, now: Time, ask: &Ask) -> Admission {
        if ask.attempt > 1 && self.queue.is_pressed(now) {
            return Admission::No(self.refuse(now, Reason::Shed));
        }
        let class = self.classes.get(self.classes.find(ask.class));
        if class.in_trouble && self.queue.is_half_full() {
            return Admission::No(self.refuse(now, Reason::InFlightFull)); // others need a place too
        }
        let margin = class.latency.p90().unwrap_or_default();
        let patience = match class.is_known() {
            true => Duration::from_nanos(class.patience),
            false => self.in_flight.patience(),
        };
        let leaves = if ask.told { ask.deadline } else { ask.deadline.min(ask.since + patience) };
        let useful_until = Time::ZERO + leaves.since(Time::ZERO + margin);
        if useful_until <= now {
            return Admission::No(self.refuse(now, Reason::DeadlineMargin));
        }
        let usual = (patience / 2).saturating_sub(margin).max(patience / 8).max(LEAST_WAIT);
        let wait_until = now + self.queue_wait.unwrap_or(usual);
        let caller = Callers::group(ask.caller);
        let entry = Entry { item: *ask, rank: ask.rank(), caller, wait_until, useful_until };
        match self.queue.push(now, entry) {
            Pushed::In(ticket) => Admission::Queued(ticket, self.next_wake().unwrap_or(wait_until)),
            Pushed::Instead { ticket, shed: (shed, _) } => {
                self.shed.push(shed);
                Admission::Queued(ticket, now) // somebody else is to be told, now
            }
            Pushed::Full if self.queue.is_empty() => {
                Admission::No(self.refuse(now, Reason::InFlightFull)) // no place at all
            }
            Pushed::Full => Admission::No(self.refuse(now, Reason::QueueFull)),
        }
    }

    /// Whether a burst may go beyond the limit for now.
    #[cold]
    pub(super) fn stretches(&mut self, now: Time) -> bool {
        self.in_flight.stretch(now);
        self.has_slot()
    }

    /// Whether a slot is free. Without evidence of trouble nobody waits for those that have left.
    #[inline]
    pub(super) fn has_slot(&self) -> bool {
        let limit = self.in_flight.limit();
        match self.in_flight.is_haunted() {
            true => {
                let apart = |class| self.classes.get(class).in_trouble;
                let apart = self.classes.any_in_trouble().then_some(apart);
                self.endpoints.taken(limit, apart) < limit
            }
            false => self.endpoints.under_way() < limit,
        }
    }

    /// Whether more is free than what a caller with most of the slots leaves to others.
    #[inline]
    pub(super) fn has_many_slots(&self) -> bool {
        let limit = self.in_flight.limit();
        self.endpoints.under_way() < limit - limit / 8
    }

    /// Whether the last slots are not for this caller.
    pub(super) fn is_to_leave_some(&self, now: Time, ask: &Ask) -> bool {
        let (caller, limit) = (Callers::group(ask.caller), self.in_flight.limit());
        self.in_flight.is_haunted()
            && !self.has_many_slots()
            && self.callers.is_to_leave_some(caller, limit, now)
    }

    /// Whose calls fill all slots, while others have less than is theirs.
    fn crowds_out(&self) -> Option<u8> {
        let limit = self.in_flight.limit();
        let is_found = self.in_flight.is_adaptive() && !self.in_flight.is_loose();
        is_found.then(|| self.callers.fills(limit, self.endpoints.under_way())).flatten()
    }

    /// Whether there is no slot for this caller because of another one alone.
    pub(super) fn is_crowded_out(&self, ask: &Ask) -> bool {
        self.crowds_out().is_some_and(|biggest| biggest != Callers::group(ask.caller))
    }

    /// As many may wait as are answered in a while, and at least as many as is written; without evidence of trouble nobody is
    /// sent away for want of a place.
    pub(super) fn size_queue(&mut self) {
        if self.least_queue == 0 || !self.in_flight.is_adaptive() {
            return;
        }
        let most = match self.in_flight.is_loose() {
            true => MOST_QUEUED,
            false => self.in_flight.known().map_or(0, |known| (known.rate * QUEUED) as usize),
        };
        self.queue.set_most(most.min(MOST_QUEUED).max(self.least_queue));
    }

    /// Refuses whoever can wait no longer, then hands free slots to those whose turn it is.
    #[cold]
    pub(super) fn grant(&mut self, now: Time, wake: &mut Vec<Wake>) {
        self.end_levers(now);
        if self.in_flight.wake(now) {
            self.note_limit();
        }
        if now >= self.in_flight.next_look() {
            self.look(now);
        }
        while let Some(ticket) = self.shed.pop() {
            wake.push(Wake { ticket, result: Err(self.refuse(now, Reason::Shed)) });
        }
        while let Some((ticket, _, reason)) = self.queue.expired(now) {
            wake.push(Wake { ticket, result: Err(self.refuse(now, reason)) });
        }
        // With the breaker not closed nobody's turn will come: all are told at once.
        let flush = if self.has_keys() {
            self.flush_by_key(now, wake);
            false
        } else {
            self.breaker.applied(now) != State::Closed
        };
        while !self.queue.is_empty() {
            let found = self.place(now);
            let aside = if found.is_none() { self.crowds_out() } else { None };
            let place = found.or(aside.map(|_| Place::Free));
            let next = match place {
                _ if flush => self.queue.pop(now),
                None => return,
                Some(Place::Ghost(_)) => self.queue.pop_newest(),
                Some(_) => self.pop(now, aside),
            };
            let Some((ticket, ask)) = next else { return };
            let seat = self.seat(now, &ask);
            let gates = self.gates(now, &ask, seat).and_then(|state| {
                self.rate_allows(now, &ask)?;
                Ok(state)
            });
            let result = match (gates, place) {
                (Ok(State::Closed), Some(place)) => self.grant_place(now, &ask, place, seat),
                (Err(refusal), _) => Err(refusal),
                (Ok(_), _) => Err(self.refuse(now, Reason::BreakerOpen)),
            };
            wake.push(Wake { ticket, result });
        }
    }

    /// Whose turn it is: that of the caller with the least under way; among such callers, first a class that has less than its
    /// share of a tight limit, so that a kind that became slow does not take all slots; nobody of a class that is held apart, nor the
    /// caller that is put aside.
    fn pop(&mut self, now: Time, aside: Option<u8>) -> Option<(Ticket, Ask)> {
        let few = self.in_flight.is_haunted() && !self.has_many_slots();
        let limit = self.in_flight.limit();
        let Self { callers, classes, endpoints, .. } = self;
        let mixed = !classes.is_one();
        self.queue.pop_fairly(now, |group, ask| {
            if aside == Some(group) {
                return None;
            }
            if few && callers.is_to_leave_some(group, limit, now) {
                return None;
            }
            let held = 2 * callers.held(group);
            if !mixed {
                return Some(held);
            }
            let index = classes.find(ask.class);
            let class = classes.get(index);
            let has_room = !class.in_trouble || class.has_room(now, endpoints.ghosts_of(index));
            has_room.then_some(held + u32::from(class.live() >= class.share))
        })
    }

    /// Sends whoever passed every gate but that of its pool, which may have filled up since.
    fn grant_place(
        &mut self,
        now: Time,
        ask: &Ask,
        place: Place,
        seat: Seat,
    ) -> Result<Permit, Refusal> {
        let place = match self.endpoints.is_full(ask.pool) {
            true => self.place_in_full(now, ask.pool)?,
            false => place,
        };
        let mut permit = self.send(now, ask, place, seat);
        self.charge(now, ask, &mut permit);
        Ok(permit)
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let or_never = |at: Option<Time>| at.unwrap_or(Time::MAX);
        let due = match self.endpoints.ghosts() {
            0 => None,
            _ => self.endpoints.next_due(self.probe_every()),
        };
        let at = self.in_flight.looks_at().min(or_never(self.queue.next_expiry()));
        let at = at.min(or_never(due)).min(or_never(self.limit_ends()));
        (at < Time::MAX).then_some(at)
    }
}

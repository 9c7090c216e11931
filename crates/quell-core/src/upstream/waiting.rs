//! Waiting: who joins the queue, who is let go, and when to look again.

use core::time::Duration;

use super::{Admission, Ask, Permit, Place, Refusal, Upstream, Wake};
use crate::{
    Reason, Time,
    breaker::State,
    keyed::Seat,
    queue::{Entry, Pushed},
};

/// The least time a call may wait in the queue.
const LEAST_WAIT: Duration = Duration::from_millis(50);

impl Upstream {
    #[cold]
    pub(super) fn enqueue(&mut self, now: Time, ask: &Ask) -> Admission {
        if ask.attempt > 1 && self.queue.is_pressed(now) {
            return Admission::No(self.refuse(now, Reason::Shed));
        }
        let margin = self.latency.p90().unwrap_or_default();
        let patience = self.in_flight.patience();
        let leaves = if ask.told { ask.deadline } else { ask.deadline.min(ask.since + patience) };
        let useful_until = Time::ZERO + leaves.since(Time::ZERO + margin);
        if useful_until <= now {
            return Admission::No(self.refuse(now, Reason::DeadlineMargin));
        }
        let usual = (patience / 2).saturating_sub(margin).max(LEAST_WAIT);
        let wait_until = now + self.queue_wait.unwrap_or(usual);
        let entry = Entry { item: *ask, rank: ask.rank(), wait_until, useful_until };
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
        let limit = self.in_flight.stretch(now);
        self.endpoints.taken(limit) < limit
    }

    /// Refuses whoever can wait no longer, then hands free slots to those whose turn it is.
    #[cold]
    pub(super) fn grant(&mut self, now: Time, wake: &mut Vec<Wake>) {
        self.end_levers(now);
        if self.in_flight.look(now) {
            self.note_limit(now);
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
            let place = self.place(now);
            let next = match place {
                _ if flush => self.queue.pop(now),
                None => return,
                Some(Place::Ghost(_)) => self.queue.pop_newest(),
                Some(_) => self.queue.pop(now),
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

//! Agenda: what happens next.
//!
//! **Why.** A simulation is a loop over the earliest event. Most events of a retry storm lie a constant
//! time ahead (a timeout, a pause, a service time), so they come due in the order they were written down:
//! a ring per constant delay is all they need, and only the rest pays for a heap.
//!
//! **How.** Ties are settled by the order of insertion, so the same seed gives the same trace everywhere. When the first
//! event of each ring, and of the heap, is due is kept in one short row, which is all that is looked at to find the next.

use core::{cmp::Reverse, time::Duration};
use std::collections::BinaryHeap;

use quell_core::Time;

use crate::ring::Ring;

/// Where events are kept: the heap, the ring of those that come in turn, and a ring for each of the first constant delays.
/// Later delays go to the heap.
const PLACES: usize = 8;
const HEAP: usize = 0;
const TURN: usize = 1;
/// Later than anything.
const NEVER: u64 = u64::MAX;

/// An event, when it is due, and as which it was written down.
#[derive(Debug, Clone, Copy)]
struct Due<E> {
    at: u64,
    order: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<E> Eq for Due<E> {}
impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Due<E>>>,
    /// By place; the heap's is empty.
    rings: [Ring<Due<E>>; PLACES],
    /// The delay that each place is for.
    delays: [u64; PLACES],
    /// When the first event at each place is due.
    firsts: [u64; PLACES],
    /// As which it was written down.
    orders: [u64; PLACES],
    /// How many of the places are in use.
    used: usize,
    order: u64,
}

impl<E: Copy> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            rings: core::array::from_fn(|_| Ring::new()),
            delays: [NEVER; PLACES],
            firsts: [NEVER; PLACES],
            orders: [NEVER; PLACES],
            used: TURN + 1,
            order: 0,
        }
    }

    /// At an instant.
    #[inline(always)]
    pub(crate) fn at(&mut self, at: Time, event: E) {
        self.write(HEAP, at.as_nanos(), event);
    }

    /// At an instant that is no earlier than that of any event that was written down in this way before.
    #[inline(always)]
    pub(crate) fn in_turn(&mut self, at: Time, event: E) {
        self.write(TURN, at.as_nanos(), event);
    }

    /// Now, but after all that was written down for now before.
    #[inline(always)]
    pub(crate) fn soon(&mut self, now: Time, event: E) {
        self.after(now, Duration::ZERO, event);
    }

    /// A constant delay from now. `now` must never run backwards.
    #[inline(always)]
    pub(crate) fn after(&mut self, now: Time, delay: Duration, event: E) {
        let seconds = delay.as_secs().saturating_mul(1_000_000_000);
        let delay = seconds.saturating_add(u64::from(delay.subsec_nanos()));
        let place = self.place(delay);
        self.write(place, now.as_nanos().saturating_add(delay), event);
    }

    /// The earliest event: when it is, and it itself in the place given. As part of an answer that may be none it would be taken
    /// apart and put together again, and a processor has to wait for that.
    #[inline(always)]
    pub(crate) fn next(&mut self, event: &mut E) -> Option<Time> {
        let place = self.first();
        let (due, next) = if place == HEAP {
            let Reverse(due) = *self.heap.peek()?;
            self.heap.pop();
            (due, self.heap.peek().map(|Reverse(next)| next))
        } else {
            let ring = &mut self.rings[place];
            let due = *ring.first()?;
            ring.drop_first();
            (due, ring.first())
        };
        (self.firsts[place], self.orders[place]) =
            next.map_or((NEVER, NEVER), |next| (next.at, next.order));
        *event = due.event;
        Some(Time::from_nanos(due.at))
    }

    /// Events written down so far.
    pub(crate) fn written(&self) -> u64 {
        self.order
    }

    /// The place of the earliest event.
    #[inline(always)]
    fn first(&self) -> usize {
        let (mut place, mut first) = (HEAP, self.firsts[HEAP]);
        for i in 1..PLACES {
            // Without a branch: which place is next is anybody's guess.
            place = if self.firsts[i] < first { i } else { place };
            first = first.min(self.firsts[i]);
        }
        for i in 0..PLACES {
            if self.firsts[i] == first && self.orders[i] < self.orders[place] {
                place = i;
            }
        }
        place
    }

    /// The ring for a delay, or the heap.
    #[inline]
    fn place(&mut self, delay: u64) -> usize {
        match self.delays.iter().position(|&of| of == delay) {
            Some(place) => place,
            None if self.used < PLACES => {
                self.delays[self.used] = delay;
                self.used += 1;
                self.used - 1
            }
            None => HEAP,
        }
    }

    /// Inlined, so that an event is put together where it will lie.
    #[inline(always)]
    fn write(&mut self, place: usize, at: u64, event: E) {
        self.order += 1;
        let order = self.order;
        if at < self.firsts[place] {
            (self.firsts[place], self.orders[place]) = (at, order);
        }
        if place == HEAP {
            self.heap.push(Reverse(Due { at, order, event }));
        } else {
            self.rings[place].push(Due { at, order, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<E: Copy + Default>(mut agenda: Agenda<E>) -> Vec<E> {
        let mut event = E::default();
        core::iter::from_fn(|| agenda.next(&mut event).map(|_| event)).collect()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn events_come_by_time_and_ties_by_insertion_wherever_they_were_kept() {
        let mut agenda = Agenda::new();
        agenda.at(Time::ZERO + ms(20), "b");
        agenda.after(Time::ZERO, ms(20), "c");
        agenda.at(Time::ZERO + ms(20), "d");
        agenda.after(Time::ZERO + ms(5), ms(10), "a");
        agenda.in_turn(Time::ZERO + ms(20), "e");
        let order: Vec<_> = all(agenda);
        assert_eq!(order, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn more_delays_than_rings_are_still_in_order() {
        let mut agenda = Agenda::new();
        for i in (0..2 * PLACES as u64).rev() {
            agenda.after(Time::ZERO, ms(i), i);
        }
        let order: Vec<_> = all(agenda);
        assert_eq!(order, (0..2 * PLACES as u64).collect::<Vec<_>>());
    }
}

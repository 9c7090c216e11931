//! Agenda: what happens next.
//!
//! **Why.** A simulation is a loop over the earliest event. Most events of a retry storm lie a constant
//! time ahead (a timeout, a pause, a service time), so they come due in the order they were written down:
//! a ring per constant delay is all they need, and only the rest pays for a heap.
//!
//! **How.** Ties are settled by the order of insertion, so the same seed gives the same trace everywhere.

use core::{cmp::Reverse, time::Duration};
use std::collections::{BinaryHeap, VecDeque};

use quell_core::Time;

/// Constant delays that get a ring of their own; what finds no free ring goes to the heap.
const RINGS: usize = 8;

#[derive(Debug)]
struct Due<E> {
    at: Time,
    order: u64,
    event: E,
}

impl<E> Due<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.order)
    }
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
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
        self.key().cmp(&other.key())
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Reverse<Due<E>>>,
    rings: Vec<(Duration, VecDeque<Due<E>>)>,
    order: u64,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), rings: Vec::new(), order: 0 }
    }

    /// At an instant.
    pub(crate) fn at(&mut self, at: Time, event: E) {
        let due = self.due(at, event);
        self.heap.push(Reverse(due));
    }

    /// A constant delay from now. `now` must never run backwards.
    pub(crate) fn after(&mut self, now: Time, delay: Duration, event: E) {
        let due = self.due(now + delay, event);
        let ring = match self.rings.iter().position(|(ring, _)| *ring == delay) {
            Some(ring) => ring,
            None if self.rings.len() < RINGS => {
                self.rings.push((delay, VecDeque::new()));
                self.rings.len() - 1
            }
            None => return self.heap.push(Reverse(due)),
        };
        self.rings[ring].1.push_back(due);
    }

    /// The earliest event.
    pub(crate) fn next(&mut self) -> Option<(Time, E)> {
        let mut first = self.heap.peek().map(|Reverse(due)| due.key());
        let mut from = None;
        for (i, (_, ring)) in self.rings.iter().enumerate() {
            if let Some(due) = ring.front()
                && first.is_none_or(|first| due.key() < first)
            {
                (first, from) = (Some(due.key()), Some(i));
            }
        }
        let due = match from {
            Some(ring) => self.rings[ring].1.pop_front(),
            None => self.heap.pop().map(|Reverse(due)| due),
        };
        due.map(|due| (due.at, due.event))
    }

    /// Events written down so far.
    pub(crate) fn written(&self) -> u64 {
        self.order
    }

    fn due(&mut self, at: Time, event: E) -> Due<E> {
        self.order += 1;
        Due { at, order: self.order, event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let order: Vec<_> = core::iter::from_fn(|| agenda.next()).map(|(_, e)| e).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }

    #[test]
    fn more_delays_than_rings_are_still_in_order() {
        let mut agenda = Agenda::new();
        for i in (0..2 * RINGS as u64).rev() {
            agenda.after(Time::ZERO, ms(i), i);
        }
        let order: Vec<_> = core::iter::from_fn(|| agenda.next()).map(|(_, e)| e).collect();
        assert_eq!(order, (0..2 * RINGS as u64).collect::<Vec<_>>());
    }
}

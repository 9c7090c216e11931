//! Queue: where a call waits for a slot, and where it is not left to wait in vain.
//!
//! **Why.** A short burst deserves a short wait instead of a refusal. But a queue that is long, or that serves
//! first whoever waited longest, hands its slots to callers about to leave, and then the service works
//! for nobody: that is what a storm is.
//!
//! **How.** Bounded by count and by wait. First come, first served in calm; once it has been non-empty for
//! 100 ms there is *pressure*, and the newest goes first, as its caller will wait longest. Whoever cannot be
//! served in time any more (each entry knows its last useful instant) is refused before its turn.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, queue::{Entry, Queue}};
//!
//! let mut queue: Queue<&str> = Queue::new(2);
//! let entry = |item| Entry { item, wait_until: Time::MAX, useful_until: Time::MAX };
//! let first = queue.push(Time::ZERO, entry("first")).unwrap();
//! let _second = queue.push(Time::ZERO, entry("second")).unwrap();
//! assert!(queue.push(Time::ZERO, entry("third")).is_none());
//! assert_eq!(queue.leave(first), Some("first"));
//! let under_pressure = Time::ZERO + Duration::from_millis(100);
//! assert_eq!(queue.pop(under_pressure).map(|(_, item)| item), Some("second"));
//! ```

use core::time::Duration;
use std::collections::VecDeque;

use crate::{Reason, Time};

/// Non-empty for this long is pressure.
const PRESSURE: Duration = Duration::from_millis(100);

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What waits, and until when.
#[derive(Debug)]
pub struct Entry<T> {
    /// What is to be served.
    pub item: T,
    /// The longest it should wait ([`Reason::QueueWait`]).
    pub wait_until: Time,
    /// The last instant at which serving it still makes sense ([`Reason::DeadlineMargin`]).
    pub useful_until: Time,
}

impl<T> Entry<T> {
    fn until(&self) -> Time {
        self.wait_until.min(self.useful_until)
    }

    fn reason(&self) -> Reason {
        if self.useful_until <= self.wait_until {
            Reason::DeadlineMargin
        } else {
            Reason::QueueWait
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Queue<T> {
    entries: VecDeque<(Ticket, Entry<T>)>,
    most: usize,
    next: u64,
    waiting_since: Time,
}

impl<T> Queue<T> {
    /// An empty queue of at most `most`.
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), most, next: 0, waiting_since: Time::ZERO }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether somebody has been waiting all the last while.
    pub fn is_pressed(&self, now: Time) -> bool {
        !self.is_empty() && now >= self.waiting_since + PRESSURE
    }

    /// Takes a place, if there is one.
    pub fn push(&mut self, now: Time, entry: Entry<T>) -> Option<Ticket> {
        if self.entries.len() >= self.most {
            return None;
        }
        if self.entries.is_empty() {
            self.waiting_since = now;
        }
        self.next += 1;
        let ticket = Ticket(self.next);
        self.entries.push_back((ticket, entry));
        Some(ticket)
    }

    /// Gives up a place. `None` if it was already served or refused.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.entries.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()?;
        self.entries.remove(place).map(|(_, entry)| entry.item)
    }

    /// Whose turn it is. Ask [`Queue::expired`] first: the useless are not to be served.
    pub fn pop(&mut self, now: Time) -> Option<(Ticket, T)> {
        let newest = self.is_pressed(now);
        let next = if newest { self.entries.pop_back() } else { self.entries.pop_front() };
        next.map(|(ticket, entry)| (ticket, entry.item))
    }

    /// The newest, for a probe that needs a caller who will wait for its answer.
    pub fn pop_newest(&mut self) -> Option<(Ticket, T)> {
        self.entries.pop_back().map(|(ticket, entry)| (ticket, entry.item))
    }

    /// One entry whose time has passed, with the reason; call until `None`.
    pub fn expired(&mut self, now: Time) -> Option<(Ticket, T, Reason)> {
        let place = self.entries.iter().position(|(_, entry)| entry.until() <= now)?;
        let (ticket, entry) = self.entries.remove(place)?;
        let reason = entry.reason();
        Some((ticket, entry.item, reason))
    }

    /// When the next entry's time will have passed.
    pub fn next_expiry(&self) -> Option<Time> {
        self.entries.iter().map(|(_, entry)| entry.until()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn entry(item: u32) -> Entry<u32> {
        Entry { item, wait_until: at(1_000), useful_until: Time::MAX }
    }

    fn items(queue: &mut Queue<u32>, now: Time) -> Vec<u32> {
        core::iter::from_fn(|| queue.pop(now)).map(|(_, item)| item).collect()
    }

    /// P9.
    #[test]
    fn in_calm_the_oldest_goes_first_and_under_pressure_the_newest() {
        for (now, expected) in [(at(99), [1, 2, 3]), (at(100), [3, 2, 1])] {
            let mut queue = Queue::new(8);
            for (ms, item) in [(0, 1), (40, 2), (80, 3)] {
                queue.push(at(ms), entry(item)).unwrap();
            }
            assert_eq!(items(&mut queue, now), expected);
        }
    }

    #[test]
    fn pressure_ends_when_the_queue_was_empty() {
        let mut queue = Queue::new(8);
        queue.push(at(0), entry(1)).unwrap();
        assert!(queue.is_pressed(at(100)));
        queue.pop(at(100)).unwrap();
        queue.push(at(150), entry(2)).unwrap();
        assert!(!queue.is_pressed(at(200)));
        assert!(queue.is_pressed(at(250)));
    }

    #[test]
    fn whoever_waited_too_long_or_cannot_be_served_in_time_is_refused_with_the_right_reason() {
        let mut queue = Queue::new(8);
        queue.push(at(0), Entry { item: 1, wait_until: at(50), useful_until: at(70) }).unwrap();
        queue.push(at(0), Entry { item: 2, wait_until: at(90), useful_until: at(60) }).unwrap();
        assert_eq!(queue.next_expiry(), Some(at(50)));
        assert!(queue.expired(at(49)).is_none());
        let gone: Vec<_> = core::iter::from_fn(|| queue.expired(at(60))).collect();
        let gone: Vec<_> = gone.into_iter().map(|(_, item, reason)| (item, reason)).collect();
        assert_eq!(gone, [(1, Reason::QueueWait), (2, Reason::DeadlineMargin)]);
    }

    #[test]
    fn leaving_twice_or_after_ones_turn_changes_nothing() {
        let mut queue = Queue::new(2);
        let (a, b) = (queue.push(at(0), entry(1)).unwrap(), queue.push(at(0), entry(2)).unwrap());
        assert_eq!(queue.leave(a), Some(1));
        assert_eq!(queue.leave(a), None);
        assert_eq!(queue.pop(at(1)), Some((b, 2)));
        assert_eq!(queue.leave(b), None);
    }
}

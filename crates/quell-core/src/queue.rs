//! Queue: where a call waits for a slot, and where it is not left to wait in vain.
//!
//! **Why.** A short burst deserves a short wait instead of a refusal. But a queue that is long, or that serves
//! first whoever waited longest, hands its slots to callers about to leave, and then the service works
//! for nobody: that is what a storm is.
//!
//! **How.** Bounded by count and by wait. In calm, first come, first served. Once it has been non-empty for
//! 100 ms there is *pressure*: the more important goes first, and a full queue makes room for it by shedding the least
//! important. Once somebody has waited for 100 ms it is, among equals, the newest, as its caller will wait longest
//! ([`Order`] can say otherwise); as long as nobody has, everybody's turn comes soon, and the newest first would only
//! starve the others. Whoever cannot be served in time any more (each entry knows its last useful instant) is refused
//! before its turn.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, queue::{Entry, Order, Pushed, Queue}};
//!
//! let mut queue: Queue<&str> = Queue::new(2, Order::AdaptiveLifo);
//! let entry = |item| Entry { item, rank: 0, caller: 0, wait_until: Time::MAX, useful_until: Time::MAX };
//! let Pushed::In(first) = queue.push(Time::ZERO, entry("first")) else { panic!() };
//! queue.push(Time::ZERO, entry("second"));
//! assert!(matches!(queue.push(Time::ZERO, entry("third")), Pushed::Full));
//! assert_eq!(queue.leave(first), Some("first"));
//! let under_pressure = Time::ZERO + Duration::from_millis(100);
//! assert_eq!(queue.pop(under_pressure).map(|(_, item)| item), Some("second"));
//! ```

use core::time::Duration;
use std::collections::VecDeque;

use crate::{Reason, Time};

/// Non-empty for this long is pressure, and who waits for this long waits long.
const PRESSURE: Duration = Duration::from_millis(100);

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Always the oldest.
    Fifo,
    /// Always the newest.
    Lifo,
    /// The oldest, and the newest once somebody has waited long.
    #[default]
    AdaptiveLifo,
}

/// What waits, and until when.
#[derive(Debug)]
pub struct Entry<T> {
    /// What is to be served.
    pub item: T,
    /// How important it is: under pressure a higher rank goes first, and a lower one is shed first.
    pub rank: u8,
    /// Whose it is, by group: under pressure callers take turns.
    pub caller: u8,
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

/// What came of asking for a place.
#[derive(Debug)]
#[must_use]
pub enum Pushed<T> {
    /// There was one.
    In(Ticket),
    /// Somebody less important had to go for it.
    Instead {
        /// The place.
        ticket: Ticket,
        /// Who had to go ([`Reason::Shed`]).
        shed: (Ticket, T),
    },
    /// There was none.
    Full,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Queue<T> {
    /// Oldest first.
    entries: VecDeque<Place<T>>,
    most: usize,
    order: Order,
    next: u64,
    waiting_since: Time,
    /// No entry's time passes before this.
    soonest: Time,
    /// The rank of all who wait, if it is one, and their caller: then nobody has to be looked for.
    rank: Option<u8>,
    caller: Option<u8>,
}

#[derive(Debug)]
struct Place<T> {
    ticket: Ticket,
    since: Time,
    entry: Entry<T>,
}

impl<T> Place<T> {
    fn served(self) -> (Ticket, T) {
        (self.ticket, self.entry.item)
    }
}

impl<T> Queue<T> {
    /// An empty queue of at most `most`.
    pub fn new(most: usize, order: Order) -> Self {
        let (waiting_since, soonest) = (Time::ZERO, Time::MAX);
        let entries = VecDeque::new();
        Self { entries, most, order, next: 0, waiting_since, soonest, rank: None, caller: None }
    }

    /// Takes on the size and order of one just made. Whoever waits goes on waiting: a queue that is longer than it may be
    /// takes nobody until it is shorter.
    pub fn adopt(&mut self, fresh: &Self) {
        (self.most, self.order) = (fresh.most, fresh.order);
    }

    /// From now on so many may wait.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Whether half of the places are taken.
    pub fn is_half_full(&self) -> bool {
        2 * self.entries.len() >= self.most
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

    /// Whether somebody has waited long.
    fn is_slow(&self, now: Time) -> bool {
        self.entries.front().is_some_and(|oldest| {
            let wait = oldest.entry.wait_until.since(oldest.since);
            now >= oldest.since + PRESSURE.max(wait / 5)
        })
    }

    /// Takes a place, if there is one, or if somebody less important can go under pressure.
    pub fn push(&mut self, now: Time, entry: Entry<T>) -> Pushed<T> {
        let shed = if self.entries.len() < self.most {
            None
        } else {
            let gone = self.less_important(now, entry.rank).or_else(|| self.too_many(&entry));
            match gone.and_then(|i| self.entries.remove(i)) {
                Some(shed) => Some(shed.served()),
                None => return Pushed::Full,
            }
        };
        if self.entries.is_empty() && shed.is_none() {
            self.waiting_since = now;
        }
        let is_alone = self.entries.is_empty();
        self.rank = Some(entry.rank).filter(|_| is_alone || self.rank == Some(entry.rank));
        self.caller = Some(entry.caller).filter(|_| is_alone || self.caller == Some(entry.caller));
        self.next += 1;
        let ticket = Ticket(self.next);
        self.soonest = self.soonest.min(entry.until());
        self.entries.push_back(Place { ticket, since: now, entry });
        match shed {
            None => Pushed::In(ticket),
            Some(shed) => Pushed::Instead { ticket, shed },
        }
    }

    /// Gives up a place. `None` if it was already served or refused.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        let place = self.entries.binary_search_by_key(&ticket, |place| place.ticket).ok()?;
        self.entries.remove(place).map(|place| place.entry.item)
    }

    /// Whose turn it is, in the order of the queue. Ask [`Queue::expired`] first: the useless are not to be served.
    pub fn pop(&mut self, now: Time) -> Option<(Ticket, T)> {
        self.pop_fairly(now, |_, _| Some(0))
    }

    /// The same among those who have the least, by their caller's group and what they are; nobody of whom that cannot be said.
    pub fn pop_fairly(
        &mut self,
        now: Time,
        has: impl Fn(u8, &T) -> Option<u32>,
    ) -> Option<(Ticket, T)> {
        let newest = match self.order {
            Order::Fifo => false,
            Order::Lifo => true,
            Order::AdaptiveLifo => self.is_slow(now),
        };
        let best = self.best_under_pressure(now);
        let of = |place: &Place<T>| match best {
            Some(best) if place.entry.rank != best => None,
            _ => has(place.entry.caller, &place.entry.item),
        };
        let has = self.entries.iter().enumerate().filter_map(|(i, place)| Some((i, of(place)?)));
        // The first of the least, or the last of them.
        let turn = has.reduce(|a, b| if b.1 < a.1 || newest && b.1 == a.1 { b } else { a });
        self.entries.remove(turn?.0).map(Place::served)
    }

    /// In a full queue: the newest of the caller who has most in it, if that has at least two more than whoever comes.
    fn too_many(&self, coming: &Entry<T>) -> Option<usize> {
        if self.caller == Some(coming.caller) {
            return None;
        }
        let mut waiting = [0u32; 256];
        let callers = self.entries.iter().map(|place| usize::from(place.entry.caller));
        callers.for_each(|caller| waiting[caller] += 1);
        let own = waiting[usize::from(coming.caller)];
        let most = *waiting.iter().max()?;
        let crowd = |place: &Place<T>| {
            waiting[usize::from(place.entry.caller)] == most && place.entry.rank <= coming.rank
        };
        (most >= own + 2).then(|| self.entries.iter().rposition(crowd))?
    }

    /// The highest rank, where ranks count and are not all the same.
    fn best_under_pressure(&self, now: Time) -> Option<u8> {
        let ranks = self.entries.iter().map(|place| place.entry.rank);
        if self.rank.is_none() && self.is_pressed(now) { ranks.max() } else { None }
    }

    /// The newest, for a probe that needs a caller who will wait for its answer.
    pub fn pop_newest(&mut self) -> Option<(Ticket, T)> {
        self.entries.pop_back().map(Place::served)
    }

    /// Takes out the oldest of whom this is true; call until `None`.
    pub fn take_if(&mut self, mut of: impl FnMut(&T) -> bool) -> Option<(Ticket, T)> {
        let place = self.entries.iter().position(|place| of(&place.entry.item))?;
        self.entries.remove(place).map(Place::served)
    }

    /// One entry whose time has passed, with the reason; call until `None`.
    pub fn expired(&mut self, now: Time) -> Option<(Ticket, T, Reason)> {
        if now < self.soonest {
            return None;
        }
        let Some(place) = self.entries.iter().position(|place| place.entry.until() <= now) else {
            self.soonest =
                self.entries.iter().map(|place| place.entry.until()).min().unwrap_or(Time::MAX);
            return None;
        };
        let Place { ticket, entry, .. } = self.entries.remove(place)?;
        let reason = entry.reason();
        Some((ticket, entry.item, reason))
    }

    /// The oldest of the least important, if under pressure there is anybody below this rank.
    fn less_important(&self, now: Time, rank: u8) -> Option<usize> {
        let ranks = self.entries.iter().map(|place| place.entry.rank);
        let least = ranks.clone().min().filter(|&least| least < rank && self.is_pressed(now))?;
        ranks.clone().position(|rank| rank == least)
    }

    /// When to ask [`Queue::expired`] again: no later than the next entry's time passes, and seldom earlier.
    pub fn next_expiry(&self) -> Option<Time> {
        (!self.is_empty()).then_some(self.soonest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn entry(item: u32) -> Entry<u32> {
        ranked(item, 0)
    }

    fn ranked(item: u32, rank: u8) -> Entry<u32> {
        Entry { item, rank, caller: 0, wait_until: at(500), useful_until: Time::MAX }
    }

    fn queue(most: usize) -> Queue<u32> {
        Queue::new(most, Order::AdaptiveLifo)
    }

    fn push(queue: &mut Queue<u32>, now: Time, entry: Entry<u32>) -> Ticket {
        match queue.push(now, entry) {
            Pushed::In(ticket) => ticket,
            other => panic!("expected a place, got {other:?}"),
        }
    }

    fn items(queue: &mut Queue<u32>, now: Time) -> Vec<u32> {
        core::iter::from_fn(|| queue.pop(now)).map(|(_, item)| item).collect()
    }

    /// P9.
    #[test]
    fn in_calm_the_oldest_goes_first_and_under_pressure_the_newest() {
        for (now, expected) in [(at(99), [1, 2, 3]), (at(100), [3, 2, 1])] {
            let mut queue = queue(8);
            for (ms, item) in [(0, 1), (40, 2), (80, 3)] {
                push(&mut queue, at(ms), entry(item));
            }
            assert_eq!(items(&mut queue, now), expected);
        }
    }

    #[test]
    fn in_calm_nobody_is_more_important() {
        for (now, expected) in [(at(99), [1, 2]), (at(100), [2, 1])] {
            let mut queue = queue(8);
            push(&mut queue, at(0), Entry { rank: 0, ..entry(1) });
            push(&mut queue, at(0), Entry { rank: 5, ..entry(2) });
            assert_eq!(items(&mut queue, now), expected);
        }
    }

    #[test]
    fn where_everybodys_turn_comes_soon_the_oldest_goes_first_however_long_it_has_been_so() {
        let mut queue = queue(8);
        push(&mut queue, at(0), entry(0));
        for ms in 1..=1_000 {
            push(&mut queue, at(ms), entry(ms as u32));
            assert_eq!(queue.pop(at(ms)).map(|(_, item)| item), Some(ms as u32 - 1));
        }
        assert!(queue.is_pressed(at(1_000)));
        push(&mut queue, at(1_001), Entry { rank: 5, ..entry(7) });
        assert_eq!(queue.pop(at(1_002)).map(|(_, item)| item), Some(7), "ranks count all the same");
    }

    #[test]
    fn whoever_leaves_takes_its_time_along_and_nobody_is_forgotten() {
        let mut queue = queue(8);
        let first = push(&mut queue, at(0), Entry { wait_until: at(10), ..entry(1) });
        push(&mut queue, at(0), Entry { wait_until: at(20), ..entry(2) });
        queue.leave(first).unwrap();
        assert!(queue.expired(at(10)).is_none());
        assert_eq!(queue.next_expiry(), Some(at(20)));
        assert_eq!(queue.expired(at(20)).map(|(_, item, _)| item), Some(2));
        assert!(queue.expired(at(20)).is_none() && queue.next_expiry().is_none());
        push(&mut queue, at(30), Entry { wait_until: at(40), ..entry(3) });
        assert_eq!(queue.next_expiry(), Some(at(40)));
    }

    #[test]
    fn pressure_ends_when_the_queue_was_empty() {
        let mut queue = queue(8);
        push(&mut queue, at(0), entry(1));
        assert!(queue.is_pressed(at(100)));
        queue.pop(at(100)).unwrap();
        push(&mut queue, at(150), entry(2));
        assert!(!queue.is_pressed(at(200)));
        assert!(queue.is_pressed(at(250)));
    }

    #[test]
    fn whoever_waited_too_long_or_cannot_be_served_in_time_is_refused_with_the_right_reason() {
        let mut queue = queue(8);
        push(&mut queue, at(0), Entry { wait_until: at(50), useful_until: at(70), ..entry(1) });
        push(&mut queue, at(0), Entry { wait_until: at(90), useful_until: at(60), ..entry(2) });
        assert_eq!(queue.next_expiry(), Some(at(50)));
        assert!(queue.expired(at(49)).is_none());
        let gone: Vec<_> = core::iter::from_fn(|| queue.expired(at(60))).collect();
        let gone: Vec<_> = gone.into_iter().map(|(_, item, reason)| (item, reason)).collect();
        assert_eq!(gone, [(1, Reason::QueueWait), (2, Reason::DeadlineMargin)]);
    }

    #[test]
    fn leaving_twice_or_after_ones_turn_changes_nothing() {
        let mut queue = queue(2);
        let (a, b) = (push(&mut queue, at(0), entry(1)), push(&mut queue, at(0), entry(2)));
        assert_eq!(queue.leave(a), Some(1));
        assert_eq!(queue.leave(a), None);
        assert_eq!(queue.pop(at(1)), Some((b, 2)));
        assert_eq!(queue.leave(b), None);
    }

    #[test]
    fn each_order_serves_as_it_says_in_calm_and_under_pressure() {
        for (order, calm, pressed) in [
            (Order::Fifo, [1, 2, 3], [1, 2, 3]),
            (Order::Lifo, [3, 2, 1], [3, 2, 1]),
            (Order::AdaptiveLifo, [1, 2, 3], [3, 2, 1]),
        ] {
            for (now, expected) in [(at(10), calm), (at(100), pressed)] {
                let mut queue = Queue::new(8, order);
                for item in 1..=3 {
                    push(&mut queue, at(0), entry(item));
                }
                assert_eq!(items(&mut queue, now), expected, "{order:?} at {now:?}");
            }
        }
    }

    /// X9.
    #[test]
    fn a_smaller_queue_sheds_nobody_and_takes_nobody_until_it_is_shorter() {
        let mut queue = queue(3);
        let first = push(&mut queue, at(0), entry(1));
        (2..=3).for_each(|item| {
            push(&mut queue, at(0), entry(item));
        });
        queue.adopt(&Queue::new(2, Order::Lifo));
        assert!(matches!(queue.push(at(1), entry(4)), Pushed::Full));
        assert_eq!(queue.leave(first), Some(1));
        assert!(matches!(queue.push(at(1), entry(4)), Pushed::Full));
        assert_eq!(queue.pop(at(1)).map(|(_, item)| item), Some(3), "in the new order");
        push(&mut queue, at(1), entry(5));
        assert_eq!(items(&mut queue, at(1)), [5, 2]);
    }

    #[test]
    fn under_pressure_the_more_important_goes_first() {
        let mut queue = queue(8);
        for (item, rank) in [(1, 2), (2, 0), (3, 1), (4, 2)] {
            push(&mut queue, at(0), ranked(item, rank));
        }
        assert_eq!(items(&mut queue, at(100)), [4, 1, 3, 2]);
    }

    #[test]
    fn a_full_queue_sheds_the_oldest_of_the_least_important_and_only_under_pressure() {
        let mut queue = queue(3);
        for (item, rank) in [(1, 1), (2, 0), (3, 0)] {
            push(&mut queue, at(0), ranked(item, rank));
        }
        assert!(matches!(queue.push(at(99), ranked(4, 1)), Pushed::Full));
        assert!(matches!(queue.push(at(100), ranked(4, 0)), Pushed::Full));
        let Pushed::Instead { shed, .. } = queue.push(at(100), ranked(5, 1)) else { panic!() };
        assert_eq!(shed.1, 2);
        assert_eq!(queue.len(), 3);
    }
}

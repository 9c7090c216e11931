//! Work that is shared: every request inside gets on, all equally fast.
//!
//! One clock counts the service that each of them had so far, and a request is done when that clock reaches its start plus its
//! work. Between two events the clock's speed is constant, so the next to be done is known, and when. Whatever changes the speed
//! (somebody comes, is done or leaves, workers are lost, a stall) first lets the time until then pass at the old one.

use core::time::Duration;
use std::collections::BTreeMap;

use quell_core::Time;

use super::shop::Shop;
use crate::{
    scenario::Sharing,
    slab::Key,
    world::{Event, World},
};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Shared {
    sharing: Sharing,
    /// When it was last looked at, and the service each request had had by then since the beginning, in nanoseconds.
    at: Time,
    clock: f64,
    /// Who is done where the clock stands so, the departed included; equals in the order they began.
    due: BTreeMap<(Clock, u64), Key>,
    begun: u64,
    /// Those who are worked on: not the departed, nor whoever waits for a service behind this one.
    busy: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Clock(f64);

impl Eq for Clock {}

impl Ord for Clock {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Clock {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Shared {
    pub(super) fn new(sharing: Sharing) -> Self {
        Self { sharing, at: Time::ZERO, clock: 0.0, due: BTreeMap::new(), begun: 0, busy: 0 }
    }

    /// One more is worked on.
    pub(super) fn begins(&mut self, job: Key, work: Duration) {
        self.begun += 1;
        self.busy += 1;
        self.due.insert((Clock(self.clock + work.as_nanos() as f64), self.begun), job);
    }

    /// The first is done.
    fn ends(&mut self) {
        self.due.pop_first();
        self.busy -= 1;
    }

    /// One of them has left.
    pub(super) fn loses(&mut self) {
        self.busy -= 1;
    }

    /// Takes out whoever stands still from now on; each with the work that is left of it.
    pub(super) fn takes_out(&mut self, stands: impl Fn(Key) -> bool) -> Vec<(Key, Duration)> {
        let left = |due: f64| Duration::from_nanos((due - self.clock).max(0.0) as u64);
        let out: Vec<_> = self
            .due
            .iter()
            .filter(|(_, job)| stands(**job))
            .map(|(&at, &job)| (at, job, left(at.0.0)))
            .collect();
        for (at, ..) in &out {
            self.due.remove(at);
            self.busy -= 1;
        }
        out.into_iter().map(|(_, job, left)| (job, left)).collect()
    }

    /// Those who would wait if each worker took one.
    pub(super) fn beyond(&self, workers: usize) -> usize {
        self.busy.saturating_sub(workers)
    }
}

impl Shop {
    /// How fast each gets on.
    fn speed(&self, shared: &Shared) -> f64 {
        if self.trouble.stall {
            0.0
        } else {
            shared.sharing.speed(shared.busy, self.trouble.workers)
        }
    }

    /// Time passes for what is shared: before anything about it changes.
    #[inline(always)]
    pub(super) fn passes(&mut self, now: Time) {
        if self.shared.is_some() {
            self.passes_for_all(now);
        }
    }

    #[cold]
    fn passes_for_all(&mut self, now: Time) {
        if let Some(mut shared) = self.shared.take() {
            shared.clock += now.nanos_since(shared.at) as f64 * self.speed(&shared);
            shared.at = now;
            self.shared = Some(shared);
        }
    }

    /// Where work is shared, the first is done with its own part.
    pub(super) fn parts(&mut self, now: Time) {
        self.passes(now);
        if let Some(shared) = &mut self.shared {
            shared.ends();
        }
    }
}

impl World {
    /// Writes down who is done next. What was written down before no longer holds.
    #[inline(always)]
    pub(super) fn shares(&mut self, at: u16) {
        if self.shops[usize::from(at)].shared.is_some() {
            self.next_of_all(at);
        }
    }

    #[cold]
    fn next_of_all(&mut self, at: u16) {
        let shop = &mut self.shops[usize::from(at)];
        let Some(shared) = &mut shop.shared else { return };
        shop.stalls = shop.stalls.wrapping_add(1);
        while let Some(first) = shared.due.first_entry()
            && !shop.jobs.has(*first.get())
        {
            first.remove(); // its caller has left
        }
        let Some(shared) = &shop.shared else { return };
        let Some((&(Clock(due), _), &job)) = shared.due.first_key_value() else { return };
        let left = (due - shared.clock).max(0.0) / shop.speed(shared);
        if left.is_finite() {
            let done = self.now + Duration::from_nanos(left.ceil() as u64);
            self.agenda.at(done, Event::Served { shop: at, job, stalls: shop.stalls });
        }
    }
}

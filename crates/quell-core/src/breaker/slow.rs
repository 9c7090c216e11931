//! Slow: calls that took too long, or have been running for too long already.
//!
//! **Why.** An upstream that hangs fails nobody for as long as callers are willing to wait. If slow calls counted only
//! when they end, the breaker would learn of it one timeout too late, with everything stuck by then.
//!
//! **How.** Calls under way stand in a list in the order they started. Whoever looks takes those from its front that have
//! become slow and counts each once; a call that ends sooner leaves the list from wherever it stands. Both
//! cost the same however many there are. The list is bounded: of more than [`MOST`] calls that are under way and not
//! slow yet, those beyond count when they end and not before, so in a crowd it is a sample that is seen early.

use super::{Spec, tally::Tally};
use crate::{Time, time::nanos};

/// Calls that are watched while they run. A ticket has ten bits for the place, and neither 0 nor the last is one.
pub(super) const MOST: usize = (1 << PLACE_BITS) - 2;
const PLACE_BITS: u32 = 10;

/// A call that is not watched.
const UNWATCHED: u32 = 0;

#[derive(Debug, Clone)]
pub(super) struct Slow {
    after: u64,
    speed: Tally,
    running: Running,
}

impl Slow {
    pub(super) fn new(spec: &Spec, now: Time) -> Option<Box<Self>> {
        let after = nanos(spec.slow?);
        Some(Box::new(Self { after, speed: Tally::new(spec, now), running: Running::default() }))
    }

    /// Takes on the rule of one just made. Calls under way go on being watched, from now on by that.
    pub(super) fn adopt(&mut self, fresh: Self, now: Time) {
        self.after = fresh.after;
        self.speed.adopt(fresh.speed, now);
    }

    /// A call starts.
    pub(super) fn start(&mut self, now: Time) -> u32 {
        self.running.push(now)
    }

    /// A call is over and nobody says how it went.
    pub(super) fn left(&mut self, ticket: u32) {
        self.running.remove(ticket);
    }

    /// Nobody will say how those under way went.
    pub(super) fn forget_running(&mut self) {
        self.running = Running::default();
    }

    /// A call is over; counted by what it took, unless it was while it ran.
    pub(super) fn ended(&mut self, now: Time, ticket: u32, took: u64) {
        if ticket == UNWATCHED || self.running.remove(ticket) {
            self.speed.add(now, !self.is_slow(took));
        }
    }

    /// Counts those that have become slow since somebody looked; false if there are none.
    pub(super) fn catch_up(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((ticket, start)) = self.running.first()
            && self.is_slow(now.nanos_since(start))
        {
            self.running.remove(ticket);
            self.speed.add(now, false);
            any = true;
        }
        any
    }

    pub(super) fn is_slow(&self, took: u64) -> bool {
        took >= self.after
    }

    pub(super) fn is_too_much(&mut self, spec: &Spec, now: Time) -> bool {
        self.speed.forget(now);
        self.speed.reaches(spec.min_calls, spec.slow_rate)
    }

    /// Whether nothing is counted, nor about to be.
    pub(super) fn is_empty(&self, now: Time) -> bool {
        self.speed.is_empty(now) && self.running.first().is_none()
    }

    /// When the next running call becomes slow.
    pub(super) fn next(&self) -> Option<Time> {
        let (_, start) = self.running.first()?;
        Some(start + core::time::Duration::from_nanos(self.after))
    }
}

/// Calls under way, oldest first: a linked list inside a vector. A ticket names a place and its tenant's number, so
/// that one which is no longer there is not taken for the next.
#[derive(Debug, Clone)]
struct Running {
    /// The first entry is the list's end on both sides and no call.
    entries: Vec<Entry>,
    free: Vec<u16>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: Time,
    tenant: u32,
    before: u16,
    after: u16,
}

impl Default for Running {
    fn default() -> Self {
        let end = Entry { start: Time::ZERO, tenant: 0, before: 0, after: 0 };
        Self { entries: vec![end], free: Vec::new() }
    }
}

impl Running {
    fn push(&mut self, start: Time) -> u32 {
        let last = self.entries[0].before;
        // In order even if the clock steps back, or one that is overdue could stand behind one that is not.
        let start = start.max(self.entries[usize::from(last)].start);
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.entries.len() > MOST => return UNWATCHED,
            None => {
                self.entries.push(self.entries[0]);
                (self.entries.len() - 1) as u16
            }
        };
        let tenant = self.entries[usize::from(place)].tenant;
        self.entries[usize::from(place)] = Entry { start, tenant, before: last, after: 0 };
        self.entries[usize::from(last)].after = place;
        self.entries[0].before = place;
        ticket(place, tenant)
    }

    /// False if it is not there any more.
    fn remove(&mut self, ticket: u32) -> bool {
        let place = (ticket & ((1 << PLACE_BITS) - 1)) as u16;
        let Some(entry) = self.entries.get_mut(usize::from(place)) else { return false };
        if place == 0 || entry.tenant != ticket >> PLACE_BITS {
            return false;
        }
        entry.tenant = (entry.tenant + 1) & (u32::MAX >> PLACE_BITS);
        let Entry { before, after, .. } = *entry;
        self.entries[usize::from(before)].after = after;
        self.entries[usize::from(after)].before = before;
        self.free.push(place);
        true
    }

    fn first(&self) -> Option<(u32, Time)> {
        let place = self.entries[0].after;
        let entry = self.entries[usize::from(place)];
        (place != 0).then(|| (ticket(place, entry.tenant), entry.start))
    }
}

fn ticket(place: u16, tenant: u32) -> u32 {
    tenant << PLACE_BITS | u32::from(place)
}

#[cfg(test)]
#[path = "slow_tests.rs"]
mod tests;

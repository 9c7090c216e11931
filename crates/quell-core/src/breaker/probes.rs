//! Probes: the few calls that find out whether an upstream is back.
//!
//! **Why.** A probe that hangs must not keep the others out for ever, so its slot is a lease; one that is cancelled hands
//! its slot back, once. Between being judged and being released its slot may already be somebody else's, within the
//! same instant even, so a slot is told by the number of its tenant and not by when its lease ends.

use super::{OUTSIDE, spec::MAX_PROBES};
use crate::Time;

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Probes {
    leases: [Time; MAX_PROBES],
    /// Whose they are.
    tickets: [u32; MAX_PROBES],
    /// Probes so far.
    count: u32,
    pub(super) successes: u32,
    pub(super) failures: u32,
}

impl Probes {
    pub(super) const fn none() -> Self {
        let (leases, tickets) = ([Time::ZERO; MAX_PROBES], [OUTSIDE; MAX_PROBES]);
        Self { leases, tickets, count: 0, successes: 0, failures: 0 }
    }

    /// When fewer than `most` are out; in the past if it is so now. There may be more after a reload.
    pub(super) fn soonest(&self, most: u8) -> Time {
        let mut leases = self.leases;
        leases.sort_unstable();
        leases.iter().rev().nth(usize::from(most).saturating_sub(1)).copied().unwrap_or(Time::ZERO)
    }

    /// No lease lasts longer than this.
    pub(super) fn shorten(&mut self, until: Time) {
        self.leases.iter_mut().for_each(|lease| *lease = until.min(*lease));
    }

    /// Takes a slot, if fewer than `most` are out.
    pub(super) fn take(&mut self, most: u8, now: Time, until: Time) -> Option<u32> {
        if self.soonest(most) > now {
            return None;
        }
        let slot = self.leases.iter().position(|&lease| lease <= now)?;
        self.count = (self.count + 1) % (OUTSIDE / MAX_PROBES as u32);
        let ticket = self.count * MAX_PROBES as u32 + slot as u32;
        self.leases[slot] = until;
        self.tickets[slot] = ticket;
        Some(ticket)
    }

    /// Hands a slot back, if it is still its.
    pub(super) fn free(&mut self, ticket: u32) {
        let slot = ticket as usize % MAX_PROBES;
        if self.tickets[slot] == ticket {
            self.tickets[slot] = OUTSIDE;
            self.leases[slot] = Time::ZERO;
        }
    }

    /// Whether this probe's slot is taken by it and has not run out.
    #[cfg(test)]
    pub(super) fn is_out(&self, now: Time, ticket: u32) -> bool {
        let slot = ticket as usize % MAX_PROBES;
        self.tickets[slot] == ticket && self.leases[slot] > now
    }

    /// Slots that are taken and have not run out.
    #[cfg(test)]
    pub(super) fn out(&self, now: Time) -> usize {
        self.leases.iter().filter(|&&lease| lease > now).count()
    }
}

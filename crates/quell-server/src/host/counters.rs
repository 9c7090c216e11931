//! Counters: one set per core and route, written by that core alone and summed when somebody asks.
//!
//! **Why.** Every call is counted, so a count must cost next to nothing: no lock, and no memory that two cores write.
//!
//! **How.** Each core, or each thread that works, has [`Counters`] of its own for each route. The metrics add them up.

use std::sync::atomic::{AtomicU64, Ordering};

use quell::core::Reason;
use quell::observe::labels::is_denial;
pub(crate) use quell::observe::labels::{Came, Keyed, Verdict};

/// How many reasons there are.
pub(crate) const REASONS: usize = Reason::ALL.len();
/// How many things can come of an attempt.
pub(crate) const CAME: usize = Came::WORDS.len();

/// One core's counts of one route. Cores write side by side, so each has its own lines of memory.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) requests: [Count; Verdict::WORDS.len()],
    pub(crate) first: [Count; CAME],
    pub(crate) retries: [Count; CAME],
    pub(crate) hedges: [Count; CAME],
    pub(crate) denied: [Count; REASONS],
    pub(crate) refusals: [Count; REASONS],
    pub(crate) keyed: [Count; Keyed::WORDS.len()],
}

/// A count with one writer, so adding needs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn request(&self, verdict: Verdict) {
        self.requests[verdict as usize].add();
    }

    /// One for each core.
    pub(crate) fn per_core(cores: usize) -> std::sync::Arc<[Self]> {
        (0..cores).map(|_| Self::default()).collect()
    }

    pub(crate) fn attempt(&self, number: u32, is_hedge: bool, came: Came) {
        let kind = match number {
            _ if is_hedge => &self.hedges,
            ..=1 => &self.first,
            _ => &self.retries,
        };
        kind[came as usize].add();
    }

    /// A retry that somebody could have wished for was not made.
    pub(crate) fn deny(&self, reason: Reason) {
        if is_denial(reason) {
            self.denied[reason as usize].add();
        }
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refusals[reason as usize].add();
    }

    /// What became of a request where idempotency keys count.
    pub(crate) fn keyed(&self, keyed: Keyed) {
        self.keyed[keyed as usize].add();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_in_the_order_of_their_table() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index, "{reason}");
        }
    }
}

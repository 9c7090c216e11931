//! Counters: one set per core and route, written by that core alone and summed when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quell::core::Reason;
use quell::http::Word;
use quell::observe::labels::is_denial;
pub(crate) use quell::observe::labels::{Came, Keyed, Verdict};

use super::access::Line;

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

/// One core's counts of what belongs to no route.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CoreCounters {
    /// Requests that came back unsent from a connection the upstream had closed, and went out on a fresh one.
    pub(crate) stale: Count,
    pub(crate) connects: Count,
    pub(crate) connections: Count,
    /// Callers with whom no TLS was agreed on.
    pub(crate) handshakes: Count,
    /// Requests that found no route, or could be read in two ways.
    pub(crate) unrouted: Counters,
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

/// A request that counts as abandoned unless it is said otherwise.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) counters: &'a Counters,
    pub(crate) verdict: Verdict,
    /// Why there was no further attempt.
    pub(crate) reason: Option<Reason>,
    /// What its caller is told about coming back.
    pub(crate) word: Option<Word>,
    /// Where that is noted, if it is.
    pub(super) line: Option<&'a Line>,
}

/// Why there was no further attempt, and whether to come back, as its caller is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) reason: Option<Reason>,
    pub(crate) word: Option<Word>,
}

impl<'a> Pending<'a> {
    pub(super) fn new(counters: &'a Counters, line: Option<&'a Line>) -> Self {
        Self { counters, verdict: Verdict::Abandoned, reason: None, word: None, line }
    }

    /// It was refused before there was a call.
    pub(crate) fn refuse(&mut self, reason: Reason, wait: Option<Duration>) {
        self.counters.refuse(reason);
        (self.verdict, self.reason) = (Verdict::Refused, Some(reason));
        self.word = Word::on(reason, wait);
    }

    /// What the caller is told in the end. What is only for logs, it is not told.
    pub(crate) fn told(&self) -> Told {
        let reason = self.reason.filter(|_| self.verdict != Verdict::Abandoned);
        Told { reason, word: self.word }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.counters.request(self.verdict);
        if let Some(line) = self.line {
            line.ended(self.verdict, self.reason);
        }
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

    #[test]
    fn a_request_that_is_dropped_was_abandoned() {
        let counters = Counters::default();
        drop(Pending::new(&counters, None));
        Pending::new(&counters, None).verdict = Verdict::Success;
        let counts: Vec<_> = counters.requests.iter().map(Count::get).collect();
        assert_eq!(counts, [1, 0, 0, 0, 0, 1]);
    }
}

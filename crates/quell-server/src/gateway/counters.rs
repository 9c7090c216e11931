//! Counters that only a gateway has: what belongs to no route, and a request that is under way.

use std::time::Duration;

use quell::core::Reason;
use quell::http::Word;

use super::access::Line;
pub(crate) use crate::host::counters::{Came, Count, Counters, Keyed, Verdict};

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
    fn a_request_that_is_dropped_was_abandoned() {
        let counters = Counters::default();
        drop(Pending::new(&counters, None));
        Pending::new(&counters, None).verdict = Verdict::Success;
        let counts: Vec<_> = counters.requests.iter().map(Count::get).collect();
        assert_eq!(counts, [1, 0, 0, 0, 0, 1]);
    }
}

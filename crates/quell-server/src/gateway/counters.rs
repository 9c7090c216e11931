//! Counters: one set per core, written by that core alone and summed when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};

use quell::core::{Failure, Fault, Outcome, Reason};

macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $each:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[doc = $each])+ $variant,)+ }

        impl $name {
            pub(crate) const WORDS: &[&str] = &[$($text,)+];
        }
    };
}

words! {
    /// What a request came to.
    Verdict {
        /// The upstream did it.
        Success = "success",
        /// The upstream found the request at fault.
        Rejected = "rejected",
        /// The upstream's failure, or none of its replies, was passed on.
        Failed = "failed",
        /// Refused by us.
        Refused = "refused",
        /// Refused by us because it could be read in two ways.
        Malformed = "malformed",
        /// The caller left before the reply.
        Abandoned = "abandoned",
    }
}

words! {
    /// What an attempt came to: the exact code where it is one that is retried.
    Came {
        /// 2xx, 3xx.
        Success = "success",
        /// 408.
        S408 = "408",
        /// 429.
        S429 = "429",
        /// 500.
        S500 = "500",
        /// 502.
        S502 = "502",
        /// 503.
        S503 = "503",
        /// 504.
        S504 = "504",
        /// Any other failure at the request's expense.
        Other4xx = "other_4xx",
        /// Any other failure at the server's expense.
        Other5xx = "other_5xx",
        /// No connection.
        Connect = "connect",
        /// No reply in time.
        Timeout = "timeout",
        /// The connection broke before the reply's head.
        Broken = "broken",
        /// The caller left meanwhile.
        Abandoned = "abandoned",
    }
}

impl Came {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let Outcome::Failed(Failure { code, fault, .. }) = outcome else {
            return if *outcome == Outcome::Success { Self::Success } else { Self::Abandoned };
        };
        match (code, fault) {
            (Some(408), _) => Self::S408,
            (Some(429), _) => Self::S429,
            (Some(500), _) => Self::S500,
            (Some(502), _) => Self::S502,
            (Some(503), _) => Self::S503,
            (Some(504), _) => Self::S504,
            (Some(code), _) if *code >= 500 => Self::Other5xx,
            (Some(_), _) => Self::Other4xx,
            (None, Fault::Connect) => Self::Connect,
            (None, Fault::Timeout) => Self::Timeout,
            (None, _) => Self::Broken,
        }
    }
}

/// How many reasons there are.
pub(crate) const REASONS: usize = Reason::ALL.len();
/// How many things can come of an attempt.
pub(crate) const CAME: usize = Came::WORDS.len();

/// One core's counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: [Count; Verdict::WORDS.len()],
    pub(crate) first: [Count; CAME],
    pub(crate) retries: [Count; CAME],
    pub(crate) denied: [Count; REASONS],
    pub(crate) refusals: [Count; REASONS],
    /// Requests that came back unsent from a connection the upstream had closed, and went out on a fresh one.
    pub(crate) stale: Count,
    pub(crate) connects: Count,
    pub(crate) connections: Count,
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

    pub(crate) fn attempt(&self, number: u32, came: Came) {
        let kind = if number <= 1 { &self.first } else { &self.retries };
        kind[came as usize].add();
    }

    /// A retry that somebody could have wished for was not made.
    pub(crate) fn deny(&self, reason: Reason) {
        if !matches!(reason, Reason::NotRetryable | Reason::ClientGone) {
            self.denied[reason as usize].add();
        }
    }

    pub(crate) fn refuse(&self, reason: Reason) {
        self.refusals[reason as usize].add();
    }
}

/// A request that counts as abandoned unless it is said otherwise.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) counters: &'a Counters,
    pub(crate) verdict: Verdict,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(counters: &'a Counters) -> Self {
        Self { counters, verdict: Verdict::Abandoned }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.counters.request(self.verdict);
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
    fn words_stand_at_the_place_of_their_variant() {
        assert_eq!(Verdict::WORDS[Verdict::Abandoned as usize], "abandoned");
        assert_eq!(Came::WORDS[Came::Abandoned as usize], "abandoned");
        assert_eq!(Came::WORDS[Came::S503 as usize], "503");
    }

    #[test]
    fn a_request_that_is_dropped_was_abandoned() {
        let counters = Counters::default();
        drop(Pending::new(&counters));
        Pending::new(&counters).verdict = Verdict::Success;
        let counts: Vec<_> = counters.requests.iter().map(Count::get).collect();
        assert_eq!(counts, [1, 0, 0, 0, 0, 1]);
    }
}

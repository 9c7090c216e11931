//! Labels: the names of the metrics and the words that stand in their labels and in log lines.
//!
//! **Why.** A library and a gateway that name the same thing differently need two dashboards and two sets of alerts.
//! The names are here once, for everybody who counts. Every word of a label is from a closed set, so that what is
//! counted cannot outgrow the memory of whoever stores it, and nothing that a caller or an upstream wrote gets in.
//!
//! ```
//! use quell::{Failure, Fault, Outcome, observe::labels::{ATTEMPTS, Came}};
//!
//! assert_eq!(ATTEMPTS.name, "quell_attempts_total");
//! let overloaded = Outcome::Failed(Failure::of(Fault::Server).with_code(503));
//! assert_eq!(Came::of(&overloaded).as_str(), "503");
//! let odd = Outcome::Failed(Failure::of(Fault::Server).with_code(599));
//! assert_eq!(Came::of(&odd).as_str(), "other_5xx");
//! ```

use quell_core::{Failure, Fault, Outcome, Reason, Snapshot, Time, breaker::State};

use super::Finished;

/// One metric: what it is called and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its full name, with the unit, and `_total` if it is a counter.
    pub name: &'static str,
    /// One line for whoever sees it on a dashboard.
    pub help: &'static str,
}

impl Metric {
    /// The name for exporters that add the `_total` of a counter themselves.
    pub fn stem(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }
}

macro_rules! metrics {
    ($($const:ident = $name:literal, $help:literal;)+) => {
        $(#[doc = concat!("`", $name, "`: ", $help, ".")]
        pub const $const: Metric = Metric { name: $name, help: $help };)+

        /// Every metric that is named here.
        pub const ALL: &[Metric] = &[$($const,)+];
    };
}

metrics! {
    REQUESTS = "quell_requests_total", "Requests by what came of them";
    ATTEMPTS = "quell_attempts_total", "Attempts sent to the upstream";
    RETRIES_DENIED = "quell_retries_denied_total", "Failures after which there was no further attempt";
    REFUSALS = "quell_refusals_total", "Requests refused without an attempt";
    IDEMPOTENCY = "quell_idempotency_total", "Requests to routes with idempotency keys by what became of them";
    RETRY_DELAY = "quell_retry_delay_seconds", "How long retries wait before they are made";
    QUEUE_WAIT = "quell_queue_wait_seconds", "How long attempts waited for a slot, those that had to";
    BREAKER_STATE = "quell_breaker_state", "The breaker's state: 1 for the one it is in";
    BREAKER_TRANSITIONS = "quell_breaker_transitions_total", "Changes of the breaker, by the state it went to";
    BUDGET_TOKENS = "quell_retry_budget_tokens", "Retries that are paid for";
    BUDGET_MAX_TOKENS = "quell_retry_budget_max_tokens", "Tokens the budget can hold";
    IN_FLIGHT = "quell_in_flight", "Attempts under way";
    IN_FLIGHT_LIMIT = "quell_in_flight_limit", "Attempts that may be";
    GHOSTS = "quell_ghosts", "Slots held for attempts that nobody waits for";
    QUEUED = "quell_queued", "Calls waiting for a slot";
    NOT_BEFORE = "quell_not_before_seconds", "How long retries are held back";
}

macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $each:literal])+ $variant:ident = $text:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $each])+ $variant,)+ }

        impl $name {
            /// The word of every variant, in their order.
            pub const WORDS: &[&str] = &[$($text,)+];

            /// The word that stands in labels.
            pub const fn as_str(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }
    };
}

words! {
    /// What a request came to.
    Verdict {
        /// The upstream did it.
        Success = "success",
        /// The upstream's reply is final: no attempt could change it.
        Rejected = "rejected",
        /// The upstream's failure, or none of its replies, was passed on.
        Failed = "failed",
        /// Refused by us.
        Refused = "refused",
        /// Refused by a gateway because it could be read in two ways.
        Malformed = "malformed",
        /// The caller left before the reply.
        Abandoned = "abandoned",
    }
}

words! {
    /// What an attempt came to: the exact code where it is one that is usually retried.
    Came {
        /// 2xx, 3xx, or whatever else counts as one.
        Success = "success",
        /// 408.
        S408 = "408",
        /// 425.
        S425 = "425",
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
        /// The upstream said that it has too much to do, and no HTTP status.
        Overload = "overload",
        /// The request was at fault, by a word that is no HTTP status.
        Fatal = "fatal",
        /// The connection broke before the reply's head, or an error says nothing more exact.
        Broken = "broken",
        /// The upstream did nothing yet and asked to be called again.
        Deferred = "deferred",
        /// The caller left meanwhile.
        Abandoned = "abandoned",
    }
}

words! {
    /// What became of a request where idempotency keys count.
    Keyed {
        /// It was done, under its key.
        Claimed = "claimed",
        /// It was done before, and got the same reply.
        Replayed = "replayed",
        /// The same request is under way, or its reply is gone.
        InFlight = "in_flight",
        /// Its key was used with another payload.
        Mismatch = "mismatch",
        /// It had no key where one is required, or one that cannot be used.
        Missing = "missing",
        /// Its body is longer than what is read for a key.
        TooLong = "too_long",
        /// There was no memory left for its body.
        NoRoom = "no_room",
        /// The store could not answer.
        StoreDown = "store_down",
    }
}

impl Verdict {
    /// What a call came to whose end observers were told of.
    pub fn of(finished: &Finished) -> Self {
        match finished.reason {
            None => Self::Success,
            Some(Reason::ClientGone) => Self::Abandoned,
            Some(_) if finished.attempts == 0 => Self::Refused,
            Some(Reason::NotRetryable) => Self::Rejected,
            Some(_) => Self::Failed,
        }
    }
}

impl Came {
    /// The word for an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        let Failure { code, fault, .. } = match outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Success => return Self::Success,
            Outcome::Defer { .. } => return Self::Deferred,
            Outcome::Abandoned => return Self::Abandoned,
        };
        match (code, fault) {
            (Some(408), _) => Self::S408,
            (Some(425), _) => Self::S425,
            (Some(429), _) => Self::S429,
            (Some(500), _) => Self::S500,
            (Some(502), _) => Self::S502,
            (Some(503), _) => Self::S503,
            (Some(504), _) => Self::S504,
            (Some(500..), _) => Self::Other5xx,
            (Some(100..), _) => Self::Other4xx,
            // Codes of other protocols are told apart by their fault.
            (_, Fault::Connect) => Self::Connect,
            (_, Fault::Timeout) => Self::Timeout,
            (_, Fault::Overload) => Self::Overload,
            (_, Fault::Fatal) => Self::Fatal,
            (_, Fault::Server) => Self::Broken,
        }
    }
}

/// The word for a kind of failure.
pub const fn fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Connect => "connect",
        Fault::Timeout => "timeout",
        Fault::Overload => "overload",
        Fault::Server => "server",
        Fault::Fatal => "fatal",
    }
}

/// The breaker's states and their words. Whoever shows the one it is in shows that it is not in the others.
pub const STATES: [(State, &str); 3] =
    [(State::Closed, "closed"), (State::Open, "open"), (State::HalfOpen, "half_open")];

/// The levels that an upstream is at: what has no events and is read when somebody asks.
///
/// ```
/// use quell::{Clock, Quell, observe::labels};
///
/// let stock = Quell::upstream("stock").clock(Clock::manual()).build()?;
/// let levels = labels::levels(&stock.snapshot(), stock.shared().clock().now());
/// assert!(levels.contains(&(labels::BUDGET_TOKENS, 100.0)));
/// # Ok::<_, quell::Invalid>(())
/// ```
pub fn levels(state: &Snapshot, now: Time) -> [(Metric, f64); 7] {
    [
        (BUDGET_TOKENS, state.retries.level),
        (BUDGET_MAX_TOKENS, state.retries.max),
        (IN_FLIGHT, f64::from(state.in_flight)),
        (IN_FLIGHT_LIMIT, f64::from(state.limit)),
        (GHOSTS, state.ghosts as f64),
        (QUEUED, state.queued as f64),
        (NOT_BEFORE, state.not_before.since(now).as_secs_f64()),
    ]
}

/// Whether somebody could have wished for the retry that was not made for this reason: if not, nothing was denied.
pub const fn is_denial(reason: Reason) -> bool {
    !matches!(reason, Reason::NotRetryable | Reason::ClientGone)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn words_stand_at_the_place_of_their_variant() {
        assert_eq!(Verdict::Abandoned.as_str(), "abandoned");
        assert_eq!(Came::Abandoned.as_str(), "abandoned");
        assert_eq!(Came::S503.as_str(), "503");
    }

    /// O2.
    #[test]
    fn every_outcome_has_one_word_of_a_closed_set() {
        let faults = [Fault::Connect, Fault::Timeout, Fault::Overload, Fault::Server, Fault::Fatal];
        for fault in faults {
            for code in (0..=u16::MAX).map(Some).chain([None]) {
                let failure = Failure { code, ..Failure::of(fault) };
                let word = Came::of(&Outcome::Failed(failure)).as_str();
                let exact = code.is_some_and(|code| word == code.to_string());
                let usual = crate::http::Statuses::default();
                assert_eq!(exact, code.is_some_and(|code| usual.contains(code)), "{code:?}");
                assert!(Came::WORDS.contains(&word));
            }
        }
    }

    #[test]
    fn a_call_has_one_verdict() {
        let verdict = |attempts, reason| {
            Verdict::of(&Finished { attempts, reason, elapsed: Duration::ZERO }).as_str()
        };
        assert_eq!(verdict(1, None), "success");
        assert_eq!(verdict(0, Some(Reason::BreakerOpen)), "refused");
        assert_eq!(verdict(2, Some(Reason::BreakerOpen)), "failed");
        assert_eq!(verdict(1, Some(Reason::NotRetryable)), "rejected");
        assert_eq!(verdict(0, Some(Reason::ClientGone)), "abandoned");
        assert_eq!(verdict(1, Some(Reason::ClientGone)), "abandoned");
    }

    #[test]
    fn names_are_distinct_say_their_unit_and_lose_only_their_total() {
        for (i, metric) in ALL.iter().enumerate() {
            assert!(metric.name.starts_with("quell_") && !metric.stem().ends_with("_total"));
            assert!(ALL[i + 1..].iter().all(|other| other.name != metric.name));
            assert!(!metric.help.is_empty() && !metric.name.ends_with("_ms"));
        }
    }
}

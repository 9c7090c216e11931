//! Reason: why no (further) attempt was made, from one closed set.
//!
//! **Why.** "It failed" wakes people at night; "it failed because the budget was empty" lets them sleep
//! again. Every refusal, everywhere, is one of these words: in logs, metrics, spans, response headers, dead
//! letters and on the page. The set is closed so that dashboards and runbooks can be complete.
//!
//! ```
//! use quell_core::Reason;
//!
//! assert_eq!(Reason::BudgetEmpty.as_str(), "budget_empty");
//! assert_eq!(Reason::RateLimited.status(), 429);
//! assert!(Reason::RateLimited.sends_retry_after());
//! ```

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $status:literal, $grpc:literal;)+) => {
        /// See the [module](self).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)+ }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word that stands in logs, metrics and headers.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The HTTP status of a reply that is ours to send. 499 is for logs only: nobody is there to read it.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }

            /// The gRPC status code of a reply that is ours to send.
            pub const fn grpc_code(self) -> u8 {
                match self { $(Self::$name => $grpc,)+ }
            }
        }
    };
}

reasons! {
    /// The breaker is open.
    BreakerOpen = "breaker_open", 503, 14;
    /// The breaker is half-open and all its probes are out.
    ProbeLimit = "probe_limit", 503, 14;
    /// The in-flight limit is reached and there is no queue to wait in.
    InFlightFull = "in_flight_full", 503, 14;
    /// The queue is full.
    QueueFull = "queue_full", 503, 14;
    /// Waited in the queue for as long as waiting makes sense.
    QueueWait = "queue_wait", 503, 14;
    /// Too little time is left to be served in.
    DeadlineMargin = "deadline_margin", 503, 14;
    /// The rate limit is reached.
    RateLimited = "rate_limited", 429, 8;
    /// The upstream asked everybody to hold back.
    NotBefore = "not_before", 503, 14;
    /// Dropped under pressure in favour of more important work.
    Shed = "shed", 503, 14;
    /// The retry budget is empty.
    BudgetEmpty = "budget_empty", 503, 14;
    /// All attempts are used up.
    AttemptsSpent = "attempts_spent", 503, 14;
    /// The chain's retry credit is used up.
    CreditSpent = "credit_spent", 503, 14;
    /// A hop inside a chain leaves retrying to the edge.
    Interior = "interior", 503, 14;
    /// The upstream said not to retry.
    ToldNotTo = "told_not_to", 503, 14;
    /// The upstream's hint lies beyond what a caller should wait.
    HintTooLong = "hint_too_long", 503, 14;
    /// The deadline has passed, or no attempt fits before it.
    Deadline = "deadline", 504, 4;
    /// Another attempt could not help.
    NotRetryable = "not_retryable", 503, 14;
    /// The request may have been acted on and may not be repeated.
    NotSafe = "not_safe", 503, 14;
    /// The request or the kept reply is too long to be replayed.
    NotReplayable = "not_replayable", 503, 14;
    /// Retries are switched off.
    RetriesOff = "retries_off", 503, 14;
    /// The route requires an idempotency key.
    KeyMissing = "key_missing", 400, 3;
    /// Another request with the same idempotency key is being worked on.
    KeyInFlight = "key_in_flight", 409, 10;
    /// The idempotency key was used with another payload.
    KeyMismatch = "key_mismatch", 422, 9;
    /// The store that this decision needs is away.
    StoreDown = "store_down", 503, 14;
    /// The tenant's spending limit is reached.
    CostCeiling = "cost_ceiling", 429, 8;
    /// Unknown or missing credentials.
    Unauthorized = "unauthorized", 401, 16;
    /// No route matches.
    NoRoute = "no_route", 404, 5;
    /// The upstream has no endpoint to send to.
    NoEndpoint = "no_endpoint", 503, 14;
    /// The pool of long-lived streams is full.
    PoolFull = "pool_full", 503, 14;
    /// This process is shutting down.
    Draining = "draining", 503, 14;
    /// The caller left first.
    ClientGone = "client_gone", 499, 1;
}

impl Reason {
    /// Whether our own refusal says when to come back.
    pub const fn sends_retry_after(self) -> bool {
        !matches!(self, Self::NoEndpoint) && matches!(self.status(), 429 | 409 | 503)
    }

    /// Whether a substitute may stand in for the reply: the upstream is in trouble or has too much to do. A request that was
    /// wrong, or may not be repeated, is no better for a substitute.
    pub const fn allows_fallback(self) -> bool {
        matches!(
            self,
            Self::BreakerOpen
                | Self::ProbeLimit
                | Self::InFlightFull
                | Self::QueueFull
                | Self::QueueWait
                | Self::DeadlineMargin
                | Self::Shed
                | Self::BudgetEmpty
                | Self::AttemptsSpent
                | Self::Deadline
        )
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_closed_and_its_words_are_distinct() {
        assert_eq!(Reason::ALL.len(), 31);
        for (i, a) in Reason::ALL.iter().enumerate() {
            assert!(Reason::ALL[i + 1..].iter().all(|b| a.as_str() != b.as_str()));
        }
    }

    #[test]
    fn a_reason_prints_as_its_word() {
        assert!(Reason::ALL.iter().all(|reason| reason.to_string() == reason.as_str()));
    }

    #[test]
    fn retry_after_stands_on_429_409_and_503_but_no_endpoint() {
        for reason in Reason::ALL {
            let expected =
                [429, 409, 503].contains(&reason.status()) && *reason != Reason::NoEndpoint;
            assert_eq!(reason.sends_retry_after(), expected, "{reason}");
        }
    }
}

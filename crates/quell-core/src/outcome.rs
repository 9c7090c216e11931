//! Outcome: what one attempt came to, in the words the policies understand.
//!
//! **Why.** A status code means different things to different policies: a 429 must not trip the breaker, a
//! 404 must not be retried yet proves that the upstream works, a caller who left proves nothing. Hosts
//! translate what they saw into an [`Outcome`] once; every policy reads its own column from it.
//!
//! | outcome | breaker | budget | in-flight estimate |
//! |---|---|---|---|
//! | success | good | earns | counts |
//! | server fault, timeout, connect failure | bad | – | – |
//! | overload | ignored; closes the not-before gate | – | – |
//! | fatal | ignored | – | counts: the upstream did its work |
//! | abandoned, defer | ignored | – | – |
//!
//! ```
//! use quell_core::{Failure, Fault, Outcome};
//!
//! let outcome = Outcome::Failed(Failure::of(Fault::Server).with_code(503));
//! assert!(outcome.is_bad() && outcome.is_retryable());
//! ```

use core::time::Duration;

use crate::Reason;

/// How one attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The upstream did what was asked.
    Success,
    /// It did not, or nobody knows.
    Failed(Failure),
    /// The handler did nothing yet and asks to be called again later; burns no attempt.
    Defer {
        /// How much later.
        after: Duration,
    },
    /// The caller went away: says nothing about the upstream.
    Abandoned,
}

/// A failed attempt, with all that decides whether another one may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub fault: Fault,
    /// The upstream's status code, if it answered.
    pub code: Option<u16>,
    /// Whether the upstream may have acted on the request.
    pub delivery: Delivery,
    /// The upstream's own word on when to come back.
    pub hint: Option<Duration>,
    /// Whether another attempt could help.
    pub retryable: bool,
    /// Whether the breaker counts it.
    pub bad: bool,
    /// Another attempt could have helped, but the upstream said not to make it; then it is not retryable.
    pub told_not_to: bool,
}

/// What kind of failure: prices and delays may differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No connection: the request was never sent.
    Connect,
    /// No answer in time.
    Timeout,
    /// The upstream said that it has too much to do.
    Overload,
    /// The upstream broke.
    Server,
    /// The request itself is at fault; no attempt will change that.
    Fatal,
}

/// What is known of the request's effect. Only hosts can know; when in doubt it is [`Delivery::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Not one byte reached the upstream: sending again is always safe.
    NeverSent,
    /// It may or may not have been acted on.
    Unknown,
    /// The upstream answered: it saw the request.
    Processed,
}

impl Failure {
    /// A failure with the usual traits of its kind.
    pub const fn of(fault: Fault) -> Self {
        let delivery = match fault {
            Fault::Connect => Delivery::NeverSent,
            Fault::Timeout | Fault::Server | Fault::Overload => Delivery::Unknown,
            Fault::Fatal => Delivery::Processed,
        };
        Self {
            fault,
            code: None,
            delivery,
            hint: None,
            retryable: !matches!(fault, Fault::Fatal),
            bad: matches!(fault, Fault::Connect | Fault::Timeout | Fault::Server),
            told_not_to: false,
        }
    }

    /// The same failure with the status code that the upstream sent.
    pub const fn with_code(self, code: u16) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same failure with the upstream's word on when to come back.
    pub const fn with_hint(self, hint: Duration) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The same failure of an upstream that asks not to be tried again. What could not be helped anyway stays so.
    ///
    /// ```
    /// use quell_core::{Failure, Fault, Reason};
    ///
    /// let forbidden = Failure::of(Fault::Server).forbidden();
    /// assert_eq!(forbidden.allows_another(), Err(Reason::ToldNotTo));
    /// assert_eq!(Failure::of(Fault::Fatal).forbidden().allows_another(), Err(Reason::NotRetryable));
    /// ```
    pub const fn forbidden(self) -> Self {
        Self { retryable: false, told_not_to: self.retryable || self.told_not_to, ..self }
    }

    /// As far as the failure itself goes: whether there may be another attempt, or why not.
    pub const fn allows_another(&self) -> Result<(), Reason> {
        match (self.retryable, self.told_not_to) {
            (true, _) => Ok(()),
            (false, true) => Err(Reason::ToldNotTo),
            (false, false) => Err(Reason::NotRetryable),
        }
    }
}

impl Outcome {
    /// How long the upstream asks to be left alone.
    pub const fn hint(&self) -> Option<Duration> {
        match self {
            Self::Failed(failure) => failure.hint,
            Self::Defer { after } => Some(*after),
            Self::Success | Self::Abandoned => None,
        }
    }

    /// The upstream did its work: success, or a refusal that is the request's own fault.
    pub const fn is_served(&self) -> bool {
        match self {
            Self::Success => true,
            Self::Failed(failure) => matches!(failure.fault, Fault::Fatal) && !failure.bad,
            Self::Defer { .. } | Self::Abandoned => false,
        }
    }

    /// The breaker counts it against the upstream.
    pub const fn is_bad(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.bad)
    }

    /// Another attempt could help.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.retryable)
    }

    /// The endpoint itself answered, so it has worked its way past all that was sent before. A refusal by a
    /// proxy or a full queue (429, 502, 503, 504) is no such proof.
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Success | Self::Defer { .. } => true,
            Self::Failed(failure) => {
                matches!(failure.code, Some(code) if !matches!(code, 429 | 502 | 503 | 504))
            }
            Self::Abandoned => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fatal_reply_is_served_and_neither_bad_nor_retryable() {
        let outcome = Outcome::Failed(Failure::of(Fault::Fatal).with_code(404));
        assert!(outcome.is_served() && outcome.is_answer());
        assert!(!outcome.is_bad() && !outcome.is_retryable());
    }

    #[test]
    fn a_forbidden_retry_is_still_a_failure_of_the_upstream() {
        let told = Outcome::Failed(Failure::of(Fault::Server).forbidden());
        assert!(told.is_bad() && !told.is_retryable() && !told.is_served());
    }

    #[test]
    fn refusals_of_proxies_prove_no_progress() {
        for code in [429, 502, 503, 504] {
            assert!(!Outcome::Failed(Failure::of(Fault::Server).with_code(code)).is_answer());
        }
        assert!(Outcome::Failed(Failure::of(Fault::Server).with_code(500)).is_answer());
        assert!(!Outcome::Failed(Failure::of(Fault::Timeout)).is_answer());
        assert!(!Outcome::Abandoned.is_answer());
    }
}

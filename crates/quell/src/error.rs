//! CallError: what a caller is told when there is no reply to use.
//!
//! **Why.** "It failed" is where debugging starts at night. Which call, how often it was tried, how long that
//! took, what came back last and why nobody tried again: with these five there is often nothing left to ask.
//!
//! ```
//! use quell::{Clock, Quell, Reason};
//!
//! let payments = Quell::upstream("payments").clock(Clock::manual()).build()?;
//! let error = payments
//!     .call_blocking(|_| Err::<(), _>("connection reset"))
//!     .operation("charge")
//!     .wait()
//!     .unwrap_err();
//! assert_eq!((error.attempts(), error.reason()), (1, Reason::NotSafe));
//! let line = error.to_string();
//! assert_eq!(line, "charge failed after 1 attempt in 0.0ns (not_safe): connection reset");
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::{error::Error, fmt, time::Duration};

use quell_core::Reason;

/// See the [module](self). `T` is the reply that a call was to give, `E` its own error.
pub struct CallError<T, E>(Box<Parts<T, E>>);

/// Everything that a [`CallError`] knows, to be taken apart.
#[derive(Debug)]
pub struct Parts<T, E> {
    /// What was called: the upstream's name, unless the call was given another.
    pub operation: String,
    /// How many attempts were made; none if the call was refused.
    pub attempts: u32,
    /// From the call's first moment to its end.
    pub elapsed: Duration,
    /// Why there was no further attempt.
    pub reason: Reason,
    /// When it may make sense to come back, if the call was refused.
    pub retry_in: Option<Duration>,
    /// What came back last.
    pub cause: Cause<T, E>,
}

/// What came back last.
#[derive(Debug)]
pub enum Cause<T, E> {
    /// A reply that counts as a failure, with its status if it had one.
    Reply(T, Option<u16>),
    /// An error.
    Error(E),
    /// Nothing in time.
    TimedOut,
    /// Nothing was ever sent.
    Refused,
}

/// What went wrong with one attempt; displays as a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem<'a, E> {
    /// A reply with this status, or one that counts as a failure without it.
    Reply(Option<u16>),
    /// An error.
    Error(&'a E),
    /// No reply in time.
    TimedOut,
}

impl<T, E> CallError<T, E> {
    /// The service that was to be called said that it cannot be.
    pub(crate) fn not_ready(name: &str, error: E) -> Self {
        Self::new(Parts {
            operation: name.to_owned(),
            attempts: 0,
            elapsed: Duration::ZERO,
            reason: Reason::NotRetryable,
            retry_in: None,
            cause: Cause::Error(error),
        })
    }

    pub(crate) fn new(parts: Parts<T, E>) -> Self {
        Self(Box::new(parts))
    }

    /// What was called.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// How many attempts were made; none if the call was refused.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// From the call's first moment to its end.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// Why there was no further attempt.
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// When it may make sense to come back, if the call was refused.
    pub fn retry_in(&self) -> Option<Duration> {
        self.0.retry_in
    }

    /// What came back last.
    pub fn cause(&self) -> &Cause<T, E> {
        &self.0.cause
    }

    /// The last reply, if that is what came back: a 503 has a body, too.
    pub fn into_reply(self) -> Result<T, Self> {
        match *self.0 {
            Parts { cause: Cause::Reply(reply, _), .. } => Ok(reply),
            parts => Err(Self::new(parts)),
        }
    }

    /// The status of a reply that passes this failure on: that of the last reply, 504 if there was none in time, 502 for
    /// an error, and otherwise that of the reason.
    pub fn status(&self) -> u16 {
        match &self.0.cause {
            Cause::Reply(_, Some(code)) if (400..600).contains(code) => *code,
            Cause::Reply(..) | Cause::Error(_) => 502,
            Cause::TimedOut => 504,
            Cause::Refused => self.0.reason.status(),
        }
    }

    /// A reply for one's own caller that says why, and whether to try again: retries that were refused here must not be
    /// made one hop further up. Neither the last reply's body nor the error's text is in it.
    ///
    /// ```
    /// use quell::{Clock, Quell};
    ///
    /// let stock = Quell::upstream("stock").idempotent().clock(Clock::manual()).build()?;
    /// let error = stock.call_blocking(|_| Err::<(), _>("reset")).wait().unwrap_err();
    /// let reply = error.to_response();
    /// assert_eq!(reply.status(), 502);
    /// assert_eq!(reply.headers()["quell-stop"], "attempts_spent");
    /// assert_eq!(reply.headers()["quell-retry"], "no");
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn to_response(&self) -> http::Response<bytes::Bytes> {
        let Parts { reason, attempts, retry_in, .. } = &*self.0;
        crate::http::refusal(self.status(), *reason, *attempts, *retry_in)
    }

    /// Everything it knows.
    pub fn into_parts(self) -> Parts<T, E> {
        *self.0
    }

    pub(crate) fn problem(&self) -> Option<Problem<'_, E>> {
        match &self.0.cause {
            Cause::Reply(_, code) => Some(Problem::Reply(*code)),
            Cause::Error(error) => Some(Problem::Error(error)),
            Cause::TimedOut => Some(Problem::TimedOut),
            Cause::Refused => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for Problem<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(Some(code)) => write!(f, "status {code}"),
            Self::Reply(None) => f.write_str("a reply that counts as a failure"),
            Self::Error(error) => error.fmt(f),
            Self::TimedOut => f.write_str("no reply in time"),
        }
    }
}

impl<T, E: fmt::Display> fmt::Display for CallError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { operation, attempts, elapsed, reason, .. } = &*self.0;
        match attempts {
            0 => write!(f, "{operation} was refused after {elapsed:.1?} ({reason})")?,
            1 => write!(f, "{operation} failed after 1 attempt in {elapsed:.1?} ({reason})")?,
            n => write!(f, "{operation} failed after {n} attempts in {elapsed:.1?} ({reason})")?,
        }
        match self.problem() {
            Some(problem) => write!(f, ": {problem}"),
            None => Ok(()),
        }
    }
}

/// Without the reply, which need not be printable and is seldom worth printing.
impl<T, E: fmt::Debug> fmt::Debug for CallError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("operation", &self.0.operation)
            .field("attempts", &self.0.attempts)
            .field("elapsed", &self.0.elapsed)
            .field("reason", &self.0.reason)
            .field("retry_in", &self.0.retry_in)
            .field("cause", &self.problem())
            .finish()
    }
}

/// The message already contains the last error, so the source is what lies behind *that*: no report says it twice.
impl<T, E: Error> Error for CallError<T, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.cause {
            Cause::Error(error) => error.source(),
            _ => None,
        }
    }
}

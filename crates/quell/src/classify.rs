//! Classify: what an attempt came to when nobody said otherwise.
//!
//! **Why.** The policies need an [`Outcome`]; a closure gives a `Result`. For types this crate knows it looks
//! inside. For all others the careful reading applies: `Ok` is a success, and `Err` is a fault of the server that
//! may or may not have acted on the request.
//!
//! **How.** Stable Rust cannot choose an implementation by type and fall back to another one, so the known types are
//! found by [`Any`](std::any::Any), which is why replies and errors have to be `'static`. The comparison is between
//! constants and costs nothing once compiled.
//!
//! Whoever knows more than that says so, for one call by [`Prepared::classify`](crate::Prepared::classify):
//!
//! ```
//! use quell::{Clock, Failure, Fault, Outcome, Quell, classify, http::Statuses};
//!
//! let stock = Quell::upstream("stock").idempotent().clock(Clock::manual()).build()?;
//! let (clock, statuses) = (Clock::manual(), Statuses::default());
//! let call = stock.call_blocking(|_| Err::<(), _>("no such pen")).classify(|result| match result {
//!     Err("no such pen") => Outcome::Failed(Failure::of(Fault::Fatal)), // it would say the same again
//!     other => classify::usual(other, &clock, &statuses),
//! });
//! assert_eq!(call.wait().unwrap_err().attempts(), 1);
//! # Ok::<_, quell::Invalid>(())
//! ```
//!
//! | known with feature | types |
//! |---|---|
//! | `reqwest` | `Result<reqwest::Response, reqwest::Error>` |
//! | `test` | what a `test::Script` answers |

use quell_core::{Failure, Fault, Outcome};

use crate::{Clock, http::Statuses};

/// What an attempt with this result came to by the usual rules.
///
/// ```
/// use quell::{Clock, Outcome, classify, http::Statuses};
///
/// let (clock, statuses) = (Clock::manual(), Statuses::default());
/// assert_eq!(classify::usual(&Ok::<_, String>(7), &clock, &statuses), Outcome::Success);
/// assert!(classify::usual(&Err::<(), _>("reset"), &clock, &statuses).is_retryable());
/// ```
pub fn usual<T: 'static, E: 'static>(
    result: &Result<T, E>,
    clock: &Clock,
    statuses: &Statuses,
) -> Outcome {
    #[cfg(feature = "reqwest")]
    if let Some(result) = (result as &dyn std::any::Any).downcast_ref() {
        return crate::reqwest::classify(result, clock, statuses);
    }
    #[cfg(feature = "test")]
    if let Some(result) = (result as &dyn std::any::Any).downcast_ref() {
        return crate::test::classify(result, clock);
    }
    let _ = (clock, statuses);
    match result {
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Failed(Failure::of(Fault::Server)),
    }
}

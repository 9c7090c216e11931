//! Observe: how metrics, logs and pages learn what happened.
//!
//! **Why.** An observer that runs under a policy's lock makes every caller wait for a log line. Observers are
//! therefore told afterwards, when the lock is free; what they see is complete, but two threads may tell
//! their news in either order.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use quell::observe::{Event, Observe};
//!
//! #[derive(Default)]
//! struct Refusals(AtomicU32);
//!
//! impl Observe for Refusals {
//!     fn observe(&self, _upstream: &str, event: &Event<'_>) {
//!         if let Event::Finished(finished) = event && finished.attempts == 0 {
//!             self.0.fetch_add(1, Ordering::Relaxed);
//!         }
//!     }
//! }
//! ```

use std::time::Duration;

use quell_core::{Outcome, Reason, Time};

/// Somebody who watches. Called by whoever made the news, so it should be quick.
pub trait Observe: Send + Sync {
    /// Something happened at this upstream.
    fn observe(&self, upstream: &str, event: &Event<'_>);
}

/// One piece of news.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The upstream's state changed.
    Changed(quell_core::Event),
    /// An attempt came to an end.
    Tried(&'a Tried),
    /// A call is over, well or not.
    Finished(&'a Finished),
}

/// One attempt, after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Its number within the call; the first is 1.
    pub attempt: u32,
    /// Which endpoint it went to.
    pub endpoint: u16,
    /// When it was let go.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// What it came to; a timeout is a failure of that kind.
    pub outcome: Outcome,
    /// What follows.
    pub next: Next,
}

impl Tried {
    /// How long it took.
    pub fn took(&self) -> Duration {
        self.ended.since(self.started)
    }
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another one, at this instant at the earliest.
    Retry {
        /// When.
        at: Time,
    },
    /// None: this is why, or it succeeded.
    Stop(Option<Reason>),
}

/// One call, after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Attempts made; none if it was refused.
    pub attempts: u32,
    /// Why there was no further attempt; `None` after a success.
    pub reason: Option<Reason>,
    /// From the caller's arrival to the end.
    pub elapsed: Duration,
}

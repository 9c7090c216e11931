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
//!
//! **How.** Features bring the observers that most people want: `Tracing` (feature `tracing`) logs, `Metrics` (feature
//! `metrics`) counts. An upstream has one observer; two are one as a pair, and one that many upstreams share is cloned
//! or put into an [`Arc`]:
//!
//! ```
//! use std::sync::Arc;
//! use quell::{Clock, Quell, observe::{Event, Observe}};
//!
//! struct Print(&'static str);
//!
//! impl Observe for Print {
//!     fn observe(&self, upstream: &str, _: &Event<'_>) {
//!         println!("{}: news from {upstream}", self.0);
//!     }
//! }
//!
//! let shared: Arc<dyn Observe> = Arc::new(Print("all"));
//! let stock = Quell::upstream("stock").observe((Print("stock only"), Arc::clone(&shared))).build()?;
//! let users = Quell::upstream("users").observe(shared).build()?;
//! # Ok::<_, quell::Invalid>(())
//! ```

pub mod labels;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod tracing;

use std::{sync::Arc, time::Duration};

use quell_core::{Outcome, Reason, Time};

#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
#[cfg(feature = "tracing")]
pub use self::tracing::Tracing;

/// Somebody who watches. Called by whoever made the news, so it should be quick.
pub trait Observe: Send + Sync {
    /// Something happened at this upstream.
    fn observe(&self, upstream: &str, event: &Event<'_>);
}

/// Both are told, the left one first. A third is the pair of a pair.
impl<A: Observe, B: Observe> Observe for (A, B) {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        self.0.observe(upstream, event);
        self.1.observe(upstream, event);
    }
}

impl<O: Observe + ?Sized> Observe for Arc<O> {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        (**self).observe(upstream, event);
    }
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
    /// Whether it was made beside another one that took long.
    pub hedge: bool,
    /// Which endpoint it went to.
    pub endpoint: u16,
    /// How long it waited for a slot before.
    pub queued: Duration,
    /// When it was let go.
    pub started: Time,
    /// When it ended, or nobody waited for it any more: as of the call's last step.
    pub ended: Time,
    /// What it came to; a timeout is a failure of that kind, and one that nobody waited for is abandoned.
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

//! Lease: one limit for a whole fleet, moved to where it is used.
//!
//! **Why.** A limit that many processes share is counted in one place, such as a database. A decision that waits for that
//! place is as slow and as fragile as the place is. So tokens are moved to each process in the background, ahead of
//! need. A decision takes what is already here. While the place is away, each process lives on its share of the limit.
//!
//! **How.** A [`Holder`] is the place that counts. A [`Mover`] serves one process: [`Mover::take`] decides at once and never
//! waits, and [`Mover::run`] is the background task that asks the holder. What to ask for, how long tokens are good and
//! how much an outage allows is decided by [`quell_core::lease`]; [`overshoot_bound`](quell_core::lease::overshoot_bound)
//! says what the fleet can take beyond its limit.
//!
//! When an answer comes late, the mover has already given the request up, and nobody gets the tokens of that answer. What the
//! process took from its share stays owed until an answer in time says that it is booked. So a late answer can cost the
//! fleet tokens, and never gives it more.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! use quell::lease::{Holder, Mover, Spec};
//! use tokio::sync::oneshot;
//!
//! # async fn serve(holder: Arc<dyn Holder>) -> Result<(), Box<dyn std::error::Error>> {
//! let spec = Spec { per_second: 100, burst: 50, instances: 4, ..Spec::default() };
//! let mover = Arc::new(Mover::new(spec, holder)?);
//! let (stop, stopped) = oneshot::channel::<()>();
//! let moving = tokio::spawn({
//!     let mover = Arc::clone(&mover);
//!     async move { mover.run(stopped).await }
//! });
//!
//! if let Err(refusal) = mover.take(1) {
//!     println!("refused: {}", refusal.reason.as_str()); // no waiting: the caller is told when to come back
//! }
//!
//! drop(stop); // the process ends: what is unused goes back
//! moving.await?;
//! # Ok(())
//! # }
//! ```

mod mover;

pub use mover::Mover;
pub use quell_core::lease::{Grant, Invalid, Pool, Request, Return, Rules, Spec};

pub use crate::store::{Answer, Down};

/// The place that counts a fleet's tokens, such as a database. See the [module](self).
///
/// A mover gives up on an answer after the limit's timeout and drops the future. The verb then either takes place as a
/// whole or not at all, now or later. What comes later than its `until` must change nothing; [`Pool`] sees to that.
pub trait Holder: Send + Sync {
    /// Gives up to as many tokens as the request asks for, and books what is owed: [`Pool::lease`], in one atomic step.
    fn take<'a>(&'a self, request: &'a Request) -> Answer<'a, Result<Grant, Down>>;

    /// Takes back what a process did not use: [`Pool::give_back`], in one atomic step. The mover says it once, and does not
    /// repeat it when it fails: tokens that are not given back run out.
    fn give_back<'a>(&'a self, back: &'a Return) -> Answer<'a, Result<(), Down>>;
}

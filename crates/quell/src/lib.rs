//! Retries that cannot cause a retry storm.
//!
//! Retrying helps a caller and hurts an upstream that is already in trouble. This library makes calls with a
//! deadline, backoff and a *budget* for retries, a circuit breaker, and if asked an in-flight limit with a short
//! queue, all shared by everybody in the process who calls the same upstream. It never sends twice what must
//! not be sent twice, never comes back before the upstream asked it to, and says why it stopped.
//!
#![cfg_attr(feature = "reqwest", doc = "```no_run")]
#![cfg_attr(not(feature = "reqwest"), doc = "```text")]
//! use std::time::Duration;
//! use quell::Quell;
//!
//! # async fn pay(client: reqwest::Client, url: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let payments = Quell::upstream("payments").attempts(3).timeout(Duration::from_secs(4)).build()?;
//! let receipt = payments
//!     .call(|attempt| client.post(url).header("idempotency-key", attempt.key()).send())
//!     .on_retry(|r| tracing::warn!(attempt = r.attempt, delay = ?r.delay, "retrying"))
//!     .await?;
//! // Err keeps operation, attempts, elapsed, the last cause and the reason it stopped
//! # Ok(())
//! # }
//! ```
//!
//! Start with [`Quell`]. Services of tower, hyper's client included, take one [layer](tower); with features there are a
//! `reqwest` client, a layer for `tonic` clients, layers for `axum` servers, handles from a `config` file that is followed
//! while the process runs, observers for `tracing` and `metrics`, and a kit for one's own `test`s. Whoever builds a host of
//! their own, such as a proxy, starts with [`run`] and [`upstream`]. The decisions are in [`core`], which does nothing but
//! decide.
//!
//! Async calls need a tokio runtime with its timer; [`Quell::call_blocking`] needs none.

pub mod attempt;
#[cfg(feature = "axum")]
pub mod axum;
pub mod builder;
mod caller;
pub mod classes;
pub mod classify;
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
pub mod context;
pub mod error;
mod host;
pub mod http;
mod key;
pub mod lease;
pub mod levers;
pub mod observe;
mod prepared;
mod quell;
#[cfg(feature = "reqwest")]
pub mod reqwest;
pub mod run;
pub mod store;
#[cfg(feature = "test")]
pub mod test;
#[cfg(feature = "tonic")]
pub mod tonic;
pub mod tower;
pub mod upstream;
#[cfg(test)]
mod upstream_shuttle;

/// Pages whose snippets are tests, like any other example.
#[cfg(all(
    doctest,
    feature = "axum",
    feature = "config",
    feature = "metrics",
    feature = "reqwest",
    feature = "test",
    feature = "tonic",
    feature = "tracing"
))]
mod pages {
    #[doc = include_str!("../../../docs/library.md")]
    mod library {}
    #[doc = include_str!("../../../docs/migrate.md")]
    mod migrate {}
}

/// The lock around an upstream.
mod sync {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
}

pub use quell_core as core;
pub use quell_core::{
    Delivery, Failure, Fault, Outcome, Reason, Snapshot, in_flight::Limit, spec::Invalid,
};

pub use attempt::Attempt;
pub use builder::Builder;
pub use caller::{Answer, Denied, Retry};
pub use clock::Clock;
pub use error::{CallError, Cause, Problem};
pub use observe::Observe;
pub use prepared::{CallFuture, Prepared};
pub use quell::{Owned, Quell, Rules};
pub use upstream::Upstream;

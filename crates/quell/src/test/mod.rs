//! Test: what it takes to show that your own client cannot cause a storm.
//!
//! **Why.** Retries are tried out in outages, and outages are rare, so the code that makes them is seldom run before it
//! matters. Here is a bad day for a unit test: an upstream that fails as [scripted](Script), hundreds of
//! [callers](storm()) on paused time, and a [ledger](Ledger) of every attempt, whose assertions print the seed and the
//! ledger when they fail.
//!
//! **How.** Say what the upstream does, make calls, look at the ledger. A script serves as a closure's body in async and
//! blocking calls, and as a `tower` service over HTTP requests. Time comes from a [`Clock`]:
//!
//! | clock | for | who moves it |
//! |---|---|---|
//! | [`Clock::tokio`] | async tests with `#[tokio::test(start_paused = true)]` | tokio, to the next timer whenever all tasks wait |
//! | [`Clock::manual`] | blocking calls | a blocking wait moves it to its end |
//! | [`Clock::manual`] | async tests that look at one instant | the test, by [`Clock::advance`] |
//!
//! Give the handle, by [`Builder::clock`](crate::Builder::clock), a clock of the same kind as the script's, and with
//! [`Builder::seed`](crate::Builder::seed) the same chance in every run.
//!
//! ```
//! use std::time::Duration;
//! use quell::{Quell, test::{Clock, Script}};
//!
//! let clock = Clock::manual();
//! let script = Script::on(clock.clone()).status(503).hint(Duration::from_secs(2)).then_ok();
//! let stock = Quell::upstream("stock").clock(clock).seed(1).idempotent().build()?;
//!
//! let reply = stock.call_blocking(|attempt| script.answer_blocking(attempt)).wait().unwrap();
//! assert_eq!(reply.status(), 200);
//! let ledger = script.ledger();
//! assert_eq!(ledger.attempts(), 2);
//! ledger.assert_no_attempt_before(Duration::from_secs(2));
//! # Ok::<_, quell::Invalid>(())
//! ```

mod ledger;
mod line;
mod script;
mod storm;

pub use ledger::{Entry, Ledger};
pub use line::{Line, Reply, classify};
pub use script::{Answering, Script};
pub use storm::{Storm, storm};

pub use crate::Clock;

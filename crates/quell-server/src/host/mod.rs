//! Host: what every process of the command needs that runs until it is told to end.
//!
//! **Why.** A gateway answers requests, a worker takes records from a queue. Both are started, watched, reloaded, drained, asked how
//! they are and told what to do by hand. An operator learns that once, so it is written once.
//!
//! **How.** A host has a `life` and [`Process`] keeps it until its end. It tells and counts what happens in `log`, `tally` and
//! `counters`, writes each call to `access` and sends spans by `trace`. It follows its file by `reload` and its certificates by
//! `tls`; the `side` thread does both, and serves `admin`, which a host joins by `admin::operations`.
//!
//! Nothing here and nothing in `admin` knows what the host's work is: `cargo xtask tidy` sees that neither names the gateway. The smallest
//! host is the one in `admin/tests`.

pub(crate) mod access;
pub(crate) mod bind;
pub(crate) mod counters;
#[cfg(test)]
pub(crate) mod kit;
pub(crate) mod life;
pub(crate) mod log;
mod notify;
mod process;
pub(crate) mod reload;
pub(crate) mod side;
pub(crate) mod tally;
pub(crate) mod tls;
pub(crate) mod trace;
mod twice;

pub use notify::Notify;
pub use process::{Host, Process};

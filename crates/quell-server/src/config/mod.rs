//! Config: what the command reads from its file.
//!
//! **Why.** The same text means the same in every host, so one engine reads it. All of the command asks here, and not where a
//! table happens to be read.

pub use quell::config::*;

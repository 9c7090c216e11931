//! Reads the config file: the engine that reads any table of it, and the two tables that every host shares.
//!
//! **Why.** What protects an upstream is agreed on by people, and people agree on text. The same text has to mean the same in
//! a library, in a gateway and in the simulator that is asked beforehand, so one engine reads it. It is strict: a setting
//! that is misspelt, has no unit or makes no sense is told with its line and what to write, all of them at once. A host
//! has tables of its own, such as the gateway's `[[route]]`. It reads them with the same engine, in its own crate.
//!
//! **How.** TOML, version 1. A flag goes over a variable of the environment
//! (`QUELL__UPSTREAM__PAYMENTS__BUDGET__MAX=50`), that over the file, and that over the [preset](Preset). [`parse`] hands the
//! outermost table to a reader as [`Fields`](fields::Fields). The reader asks for settings by name and type. What nobody
//! asked for is a mistake. A [`Table`](table::Table) declares each setting once, for all that is done with settings.
//!
//! This crate is a part of `quell` and of the `quell` command. Users of the library find what they need in `quell::config`.
//!
//! ```
//! let text = "version = 1\n[policy.payments]\nattempts = 3\n[cache]\nsize = 7\n";
//! let (payments, _) = quell_config::parse("quell.toml", text, &[], |root| {
//!     quell_config::version(root);
//!     root.leave_to_others("cache");
//!     quell_config::Policy::all(root).remove("payments")
//! })?;
//! assert_eq!(payments.unwrap().spec.attempts, 3);
//!
//! let problems = quell_config::parse("quell.toml", &text.replace("attempts", "attemps"), &[], |root| {
//!     quell_config::version(root);
//!     root.leave_to_others("cache");
//!     quell_config::Policy::all(root)
//! });
//! assert_eq!(problems.unwrap_err().to_string(), "\
//! policy.payments.attemps is not known here
//!   --> quell.toml:3:1
//!    |
//!  3 | attemps = 3
//!    | ^^^^^^^
//!    |
//!    = help: did you mean `attempts`?");
//! # Ok::<_, quell_config::Problems>(())
//! ```

mod backoff;
mod breaker;
mod budget;
mod document;
pub mod fields;
mod file;
pub mod limit;
#[cfg(test)]
mod mistakes_tests;
mod node;
mod policy;
mod preset;
mod problem;
mod reach;
pub mod read;
mod schema;
#[cfg(test)]
mod schema_tests;
mod secret;
pub mod setting;
pub mod shape;
pub mod table;
mod target;
#[cfg(test)]
mod tests;
mod upstream;
pub mod value;

pub use backoff::backoff;
pub use breaker::{Breaker, Counted};
pub use budget::Budget;
pub use document::{Idle, Override};
pub use file::{Error, load, parse, text, version};
pub use policy::{Hedged, Policy, Repeats, RetryOn};
pub use preset::Preset;
pub use problem::{Place, Problem, Problems};
pub use reach::{ClientTls, HostField, Protocol};
pub use schema::schema;
pub use secret::{NoPlace, Secret, Unreadable};
pub use target::{InvalidTarget, Target};
pub use upstream::Upstream;

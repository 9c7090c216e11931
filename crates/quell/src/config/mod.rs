//! Config: one file that means the same in every host.
//!
//! **Why.** What protects an upstream is agreed on by people, and people agree on text. The same text has to mean the same in
//! a library, in a gateway and in the simulator that is asked beforehand, so it is read in one place. It is read
//! strictly: a setting that is misspelt, has no unit or makes no sense is told with its line and what to write, all of
//! them at once; and one that nothing acts on yet is [told as well](Config::idle).
//!
//! **How.** TOML, version 1. A flag goes over a variable of the environment
//! (`QUELL__UPSTREAM__PAYMENTS__BUDGET__MAX=50`), that over the file, and that over the [preset](Preset). What comes
//! out has passed the core's own checks, and [`Config::effective`] writes all of it down again. The tables that only a
//! gateway acts on, such as `[gateway]` and `[[route]]`, may stand in the file; the gateway reads them.
//!
//! ```
//! use quell::config::Config;
//!
//! let text = r#"
//! version = 1
//! [policy.payments]
//! attempts = 3
//! timeout = "4s"
//! [upstream.payments]
//! endpoints = ["http://10.0.0.5:9000"]
//! budget = { max = 100, ratio = 0.1, instances = 50 }
//! "#;
//! let config = Config::parse("quell.toml", text, &[])?;
//! let payments = config.quell("payments")?;
//! assert_eq!(payments.name(), "payments");
//!
//! let problems = Config::parse("quell.toml", &text.replace("attempts", "attemps"), &[]).unwrap_err();
//! assert_eq!(problems.to_string(), "\
//! policy.payments.attemps is not known here
//!   --> quell.toml:4:1
//!    |
//!  4 | attemps = 3
//!    | ^^^^^^^
//!    |
//!    = help: did you mean `attempts`?");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod handle;
pub mod live;
#[cfg(test)]
mod tests;
mod watch;

use std::{collections::BTreeMap, path::Path};

pub use handle::{NotCallable, Unusable};
pub use live::{Changes, Live};
pub use quell_config::{
    Breaker, Budget, ClientTls, Counted, Error, Hedged, HostField, Idle, InvalidTarget, Override,
    Place, Policy, Preset, Problem, Problems, Protocol, Repeats, RetryOn, Target, Upstream,
};
pub use watch::Watch;

use quell_config::fields::Fields;

use crate::http::{Statuses, UnsafeMethods};

/// A file that was read and makes sense. See the [module](self).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// How calls behave.
    pub policies: BTreeMap<String, Policy>,
    /// What everybody who calls an upstream shares.
    pub upstreams: BTreeMap<String, Upstream>,
    /// What nothing acts on yet.
    pub idle: Vec<Idle>,
}

impl Config {
    /// Reads a file, with the environment over it and flags over both.
    pub fn load(path: &Path, flags: &[Override]) -> Result<Self, Error> {
        let (config, idle) = quell_config::load(path, flags, Self::read)?;
        Ok(Self { idle, ..config })
    }

    /// Reads a text. Later overrides go over earlier ones; the name stands in problems.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, Problems> {
        let (config, idle) = quell_config::parse(name, text, overrides, Self::read)?;
        Ok(Self { idle, ..config })
    }

    fn read(root: &Fields<'_>) -> Self {
        quell_config::version(root);
        root.leave_to_others("gateway");
        let config =
            Self { policies: Policy::all(root), upstreams: Upstream::all(root), idle: Vec::new() };
        for table in ["tenant", "route", "store", "worker", "scenario"] {
            root.leave_to_others(table);
        }
        config
    }

    /// The policy of calls to an upstream: that of the same name, or the defaults.
    pub fn policy_for(&self, upstream: &str) -> Policy {
        Policy::for_upstream(upstream, &self.policies, &self.upstreams)
    }

    /// All that is in force here, as a file that means the same.
    pub fn effective(&self) -> String {
        let mut text = String::from("version = 1\n");
        for (name, policy) in &self.policies {
            policy.written().section(&format!("[policy.{name}]"), &mut text);
        }
        for (name, upstream) in &self.upstreams {
            upstream.written().section(&format!("[upstream.{name}]"), &mut text);
        }
        text
    }
}

/// The statuses that are worth another attempt.
impl From<&Policy> for Statuses {
    fn from(policy: &Policy) -> Self {
        Self::of(&policy.codes())
    }
}

/// As the file says it.
impl From<Repeats> for UnsafeMethods {
    fn from(repeats: Repeats) -> Self {
        match repeats {
            Repeats::Never => Self::Never,
            Repeats::WithKey => Self::WithKey,
            Repeats::Always => Self::Always,
        }
    }
}

//! Config: one file that means the same in every host.
//!
//! **Why.** What protects an upstream is agreed on by people, and people agree on text. The same text has to mean the same in
//! a library, in a gateway and in the simulator that is asked beforehand, so it is read in one place. It is read
//! strictly: a setting that is misspelt, has no unit or makes no sense is told with its line and what to write, all of
//! them at once; and one that nothing acts on yet is [told as well](Config::idle).
//!
//! **How.** TOML, version 1. A flag goes over a variable of the environment
//! (`QUELL__UPSTREAM__PAYMENTS__BUDGET__MAX=50`), that over the file, and that over the [preset](Preset). What comes
//! out has passed the core's own checks, and [`Config::effective`] writes all of it down again.
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

mod breaker;
mod budget;
mod described;
pub mod document;
pub mod fields;
mod gateway;
#[cfg(test)]
mod gateway_mistakes_tests;
#[cfg(test)]
mod gateway_tests;
mod handle;
mod later;
pub mod live;
mod matches;
#[cfg(test)]
mod mistakes_tests;
mod node;
mod policy;
mod preset;
mod print;
mod problem;
mod reach;
pub mod read;
mod route;
mod schema;
#[cfg(test)]
mod schema_tests;
mod secret;
pub mod shape;
mod target;
mod tenant;
#[cfg(test)]
mod tests;
mod upstream;
pub mod value;
mod watch;

use std::{collections::BTreeMap, io::Read as _, path::Path};

pub use crate::http::UnsafeMethods;
pub use breaker::{Breaker, Counted};
pub use budget::Budget;
pub use document::{Idle, Override};
pub use gateway::{AccessLog, Gateway, Listen, NotListen, ServerTls};
pub use handle::{NotCallable, Unusable};
pub use later::{Store, Worker};
pub use live::{Changes, Live};
pub use matches::{Match, PathMatch};
pub use policy::{Hedged, Policy, RetryOn, backoff};
pub use preset::Preset;
pub use problem::{Place, Problem, Problems};
pub use reach::{ClientTls, HostField, Protocol};
pub use route::{Fallback, Keys, LimitKey, Route, RouteLimit, RouteProtocol, TenantsNeed};
pub use schema::schema;
pub use secret::{NoPlace, Secret, Unreadable};
pub use target::{InvalidTarget, Target};
pub use tenant::Tenant;
pub use upstream::Upstream;
pub use watch::Watch;

use document::{Document, LONGEST};
use fields::Fields;

/// The version that is read.
const VERSION: u32 = 1;

/// A file that was read and makes sense. See the [module](self).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Where a gateway listens.
    pub gateway: Gateway,
    /// How calls behave.
    pub policies: BTreeMap<String, Policy>,
    /// What everybody who calls an upstream shares.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Which requests go where, first match first.
    pub routes: Vec<Route>,
    /// Who calls.
    pub tenants: BTreeMap<String, Tenant>,
    /// Where keys and events are kept.
    pub store: Option<Store>,
    /// Consumers of events.
    pub workers: BTreeMap<String, Worker>,
    /// Scenarios by name; whoever runs them [reads](Config::parse_with) what is in them.
    pub scenarios: Vec<String>,
    /// What nothing acts on yet.
    pub idle: Vec<Idle>,
}

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be had.
    #[error("cannot read {name}: {error}")]
    Read {
        /// Which file.
        name: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

impl Config {
    /// Reads a file, with the environment over it and flags over both.
    pub fn load(path: &Path, flags: &[Override]) -> Result<Self, Error> {
        Self::load_with(path, flags, &mut leave)
    }

    /// The same for whoever reads scenarios, as in [`Config::parse_with`].
    pub fn load_with(
        path: &Path,
        flags: &[Override],
        scenario: &mut dyn FnMut(&Self, &str, Fields<'_>),
    ) -> Result<Self, Error> {
        Ok(Self::parse_with(&name(path), &text(path)?, &over(flags), scenario)?)
    }

    /// Reads a text. Later overrides go over earlier ones; the name stands in problems.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, Problems> {
        Self::parse_with(name, text, overrides, &mut leave)
    }

    /// The same for whoever reads scenarios: each is handed over with its name once all else was read, and what is wrong
    /// in it is told along with all that is wrong elsewhere.
    pub fn parse_with(
        name: &str,
        text: &str,
        overrides: &[Override],
        scenario: &mut dyn FnMut(&Self, &str, Fields<'_>),
    ) -> Result<Self, Problems> {
        let document = Document::parse(name, text, overrides)?;
        let mut config = Self::default();
        let root = document.root();
        config.read(&root);
        for (name, fields) in root.named("scenario") {
            scenario(&config, &name, fields);
            config.scenarios.push(name);
        }
        drop(root);
        document.finish()?;
        config.idle = document.idle();
        Ok(config)
    }

    fn read(&mut self, root: &Fields<'_>) {
        root.needs("version", "version = 1 in the first line");
        if let Some(other) = root.get::<u32>("version").filter(|version| *version != VERSION) {
            root.wrong(
                "version",
                format_args!("is {other}: write 1, which is what this quell reads"),
            );
        }
        if let Some(gateway) = root.table("gateway") {
            self.gateway = Gateway::read(&gateway);
        }
        for (name, fields) in root.named("policy") {
            self.policies.insert(name, Policy::read(&fields));
        }
        for (name, fields) in root.named("upstream") {
            let upstream = Upstream::read(&fields);
            upstream.check(&fields);
            self.upstreams.insert(name, upstream);
        }
        for (name, fields) in root.named("tenant") {
            self.tenants.insert(name, Tenant::read(&fields));
        }
        for row in root.rows("route") {
            self.routes.extend(Route::read(&row, self));
        }
        self.store = root.table("store").map(|fields| Store::read(&fields));
        for (name, fields) in root.named("worker") {
            self.workers.extend(Worker::read(&fields).map(|worker| (name, worker)));
        }
    }

    /// The policy of calls to an upstream, where a route names none: that of the same name, or the defaults.
    pub fn policy_for(&self, upstream: &str) -> Policy {
        self.policies.get(upstream).cloned().unwrap_or_else(|| {
            let preset =
                self.upstreams.get(upstream).map_or_else(Preset::default, |found| found.preset);
            Policy::of(preset)
        })
    }

    /// All that is in force, as a file that means the same.
    pub fn effective(&self) -> String {
        print::effective(self)
    }
}

/// What a file is called in problems.
fn name(path: &Path) -> String {
    path.display().to_string()
}

fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    // No more than it takes to see that it is too long.
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text))
        .map_err(|error| Error::Read { name: name(path), error })?;
    Ok(text)
}

/// All that goes over the file: the environment, and flags over that.
fn over(flags: &[Override]) -> Vec<Override> {
    let mut overrides = Override::env();
    overrides.extend_from_slice(flags);
    overrides
}

/// Scenarios are for somebody else to read.
fn leave(_: &Config, _: &str, fields: Fields<'_>) {
    fields.leave();
}

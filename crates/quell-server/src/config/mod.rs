//! Config: what the command reads from its file.
//!
//! **Why.** One file says how calls behave, what their callers share, and which requests go where. The first two mean the
//! same in every host, so the engine and the tables `[policy]` and `[upstream]` are in a crate of their own. The rest is
//! the gateway's alone, and is read here.
//!
//! ```
//! use quell_server::config::Config;
//!
//! let text = "version = 1\n[upstream.payments]\n[[route]]\nmatch = { path = \"/pay\" }\nupstream = \"payments\"\n";
//! let config = Config::parse("quell.toml", text, &[])?;
//! assert_eq!(config.routes[0].name, "/pay");
//! assert_eq!(config.policy_of(&config.routes[0]).spec.attempts, 2);
//! # Ok::<_, quell_server::config::Problems>(())
//! ```

mod gateway;
#[cfg(test)]
mod gateway_mistakes_tests;
#[cfg(test)]
mod gateway_tests;
mod later;
mod matches;
mod print;
mod route;
#[cfg(test)]
mod schema_tests;
mod tenant;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path};

pub use gateway::{AccessLog, Gateway, Listen, NotListen, ServerTls};
pub use later::{Store, Worker};
pub use matches::{Match, PathMatch};
pub use quell_config::{
    Breaker, Budget, ClientTls, Counted, Error, Hedged, HostField, Idle, InvalidTarget, NoPlace,
    Override, Place, Policy, Preset, Problem, Problems, Protocol, Repeats, RetryOn, Secret, Target,
    Unreadable, Upstream, backoff, fields, read, shape, value,
};
pub use route::{Fallback, Keys, LimitKey, Route, RouteLimit, RouteProtocol, TenantsNeed};
pub use tenant::Tenant;

use fields::Fields;
use quell_config::print::section;

/// Every table there is.
const TABLES: &str = include_str!("schema.toml");

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
    /// Scenarios by name; the simulator [reads](Config::parse_with) what is in them.
    pub scenarios: Vec<String>,
    /// What nothing acts on yet.
    pub idle: Vec<Idle>,
}

/// Reads what is in one scenario, by its name. All else of the file was read before.
pub type Scenario<'a> = &'a mut dyn FnMut(&Config, &str, Fields<'_>);

impl Config {
    /// Reads a file, with the environment over it and flags over both.
    pub fn load(path: &Path, flags: &[Override]) -> Result<Self, Error> {
        Self::load_with(path, flags, &mut leave)
    }

    /// The same for a reader of scenarios, as in [`Config::parse_with`].
    pub fn load_with(
        path: &Path,
        flags: &[Override],
        scenario: Scenario<'_>,
    ) -> Result<Self, Error> {
        let read = quell_config::load(path, flags, |root| Self::read(root, scenario));
        read.map(|(config, idle)| Self { idle, ..config })
    }

    /// Reads a text. Later overrides go over earlier ones; the name stands in problems.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, Problems> {
        Self::parse_with(name, text, overrides, &mut leave)
    }

    /// The same for a reader of scenarios: each is handed over with its name once all else was read, and what is wrong
    /// in it is told along with all that is wrong elsewhere.
    pub fn parse_with(
        name: &str,
        text: &str,
        overrides: &[Override],
        scenario: Scenario<'_>,
    ) -> Result<Self, Problems> {
        let read = quell_config::parse(name, text, overrides, |root| Self::read(root, scenario));
        read.map(|(config, idle)| Self { idle, ..config })
    }

    fn read(root: &Fields<'_>, scenario: Scenario<'_>) -> Self {
        quell_config::version(root);
        let gateway = root.table("gateway").map(|fields| Gateway::read(&fields));
        let mut config = Self {
            gateway: gateway.unwrap_or_default(),
            policies: Policy::all(root),
            upstreams: Upstream::all(root),
            ..Self::default()
        };
        for (name, fields) in root.named("tenant") {
            config.tenants.insert(name, Tenant::read(&fields));
        }
        for row in root.rows("route") {
            let route = Route::read(&row, &config);
            config.routes.extend(route);
        }
        config.store = root.table("store").map(|fields| Store::read(&fields));
        for (name, fields) in root.named("worker") {
            config.workers.extend(Worker::read(&fields).map(|worker| (name, worker)));
        }
        for (name, fields) in root.named("scenario") {
            scenario(&config, &name, fields);
            config.scenarios.push(name);
        }
        config
    }

    /// The policy of calls to an upstream, where a route names none: that of the same name, or the defaults.
    pub fn policy_for(&self, upstream: &str) -> Policy {
        Policy::for_upstream(upstream, &self.policies, &self.upstreams)
    }

    /// All that is in force, as a file that means the same.
    pub fn effective(&self) -> String {
        let mut text = String::from("version = 1\n");
        section(&mut text, "[gateway]", print::gateway(&self.gateway));
        for (name, policy) in &self.policies {
            section(&mut text, &format!("[policy.{name}]"), quell_config::print::policy(policy));
        }
        for (name, upstream) in &self.upstreams {
            let settings = quell_config::print::upstream(upstream);
            section(&mut text, &format!("[upstream.{name}]"), settings);
        }
        for (name, tenant) in &self.tenants {
            section(&mut text, &format!("[tenant.{name}]"), print::tenant(tenant));
        }
        for route in &self.routes {
            section(&mut text, "[[route]]", print::route(route));
        }
        if let Some(store) = &self.store {
            section(&mut text, "[store]", print::store(store));
        }
        for (name, worker) in &self.workers {
            section(&mut text, &format!("[worker.{name}]"), print::worker(worker));
        }
        text
    }
}

/// What the file can hold, as a JSON Schema.
///
/// What depends on something else, such as the numbers of a budget on its kind, is allowed with either; reading the file
/// is stricter.
///
/// ```
/// let schema = quell_server::config::schema();
/// assert!(schema.contains("\"per_try_timeout\""));
/// ```
pub fn schema() -> String {
    quell_config::schema(TABLES, &|root| {
        Config::read(root, &mut leave);
    })
}

/// Scenarios are for the simulator to read.
fn leave(_: &Config, _: &str, fields: Fields<'_>) {
    fields.leave();
}

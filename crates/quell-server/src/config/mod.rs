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

mod changes;
mod gateway;
#[cfg(test)]
mod gateway_mistakes_tests;
#[cfg(test)]
mod gateway_tests;
mod later;
mod matches;
mod places;
mod route;
#[cfg(test)]
mod schema_tests;
mod tenant;
mod terms;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path};

pub use gateway::{Gateway, ServerTls};
pub use later::{Store, Worker};
pub use matches::{Match, PathMatch};
pub use places::{AccessLog, Listen, NotListen};
pub use quell_config::{
    Breaker, Budget, ClientTls, Counted, Error, Hedged, HostField, Idle, InvalidTarget, NoPlace,
    Override, Place, Policy, Preset, Problem, Problems, Protocol, Repeats, RetryOn, Secret, Target,
    Unreadable, Upstream, backoff, fields, read, shape, value,
};
pub use route::{Route, RouteProtocol, TenantsNeed};
pub use tenant::Tenant;
pub use terms::{Fallback, Keys, LimitKey, RouteLimit};

use fields::Fields;
use quell_config::{setting::Settings, table::Table};

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
        let mut config = Self::default();
        root.means("gateway", "where callers come in, and what the process keeps to itself");
        if let Some(fields) = root.table("gateway") {
            config.gateway.settings(&Table::reading(&fields));
        }
        config.policies = Policy::all(root);
        config.upstreams = Upstream::all(root);
        config.read_routes(root);
        config.read_hosts(root, scenario);
        config
    }

    /// Which requests go where, and who may send them.
    fn read_routes(&mut self, root: &Fields<'_>) {
        root.means("tenant", "who calls, by name");
        for (name, fields) in root.named("tenant") {
            self.tenants.entry(name).or_default().settings(&Table::reading(&fields));
        }
        root.means("route", "which requests go where; the first that matches takes the request");
        for row in root.rows("route") {
            let route = Route::read(&row, self);
            self.routes.extend(route);
        }
    }

    /// What only some hosts act on.
    fn read_hosts(&mut self, root: &Fields<'_>, scenario: Scenario<'_>) {
        root.means("store", "where keys and events are kept");
        if let Some(fields) = root.table("store") {
            self.store.get_or_insert_default().settings(&Table::reading(&fields));
        }
        root.means("worker", "consumers of events, by name");
        for (name, fields) in root.named("worker") {
            let mut worker = Worker::default();
            let is_whole = worker.settings(&Table::reading(&fields));
            self.workers.extend(is_whole.then_some((name, worker)));
        }
        root.means("scenario", "outages for quell sim to try this file's policies on, by name");
        for (name, fields) in root.named("scenario") {
            scenario(self, &name, fields);
            self.scenarios.push(name);
        }
    }

    /// The policy of calls to an upstream, where a route names none: that of the same name, or the defaults.
    pub fn policy_for(&self, upstream: &str) -> Policy {
        Policy::for_upstream(upstream, &self.policies, &self.upstreams)
    }

    /// All that is in force, as a file that means the same.
    pub fn effective(&self) -> String {
        let mut text = String::from("version = 1\n");
        for part in self.parts() {
            part.settings.section(&part.heading(), &mut text);
        }
        text
    }

    /// All tables with the settings in force, in the order in which they are written.
    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::new("gateway", self.gateway.written())];
        for (name, policy) in &self.policies {
            parts.push(Part::new(format!("policy.{name}"), policy.written()));
        }
        for (name, upstream) in &self.upstreams {
            parts.push(Part::new(format!("upstream.{name}"), upstream.written()));
        }
        for (name, tenant) in &self.tenants {
            parts.push(Part::new(format!("tenant.{name}"), tenant.written()));
        }
        for (place, route) in self.routes.iter().enumerate() {
            let place = Some(place + 1);
            parts.push(Part { place, ..Part::new("route", route.written()) });
        }
        parts.extend(self.store.iter().map(|store| Part::new("store", store.written())));
        for (name, worker) in &self.workers {
            parts.push(Part::new(format!("worker.{name}"), worker.written()));
        }
        parts
    }
}

/// One table with the settings in force.
struct Part {
    /// `upstream.payments`.
    table: String,
    /// Which of several, from 1, where tables stand in a row.
    place: Option<usize>,
    settings: Settings,
}

impl Part {
    fn new(table: impl Into<String>, settings: Settings) -> Self {
        Self { table: table.into(), place: None, settings }
    }

    fn heading(&self) -> String {
        match self.place {
            Some(_) => format!("[[{}]]", self.table),
            None => format!("[{}]", self.table),
        }
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

//! `[[route]]`: which requests go where, and how.

use std::time::Duration;

use quell_config::{
    setting::{Settings, Value, Write},
    table::{self, Table},
};

use super::{
    Config, Policy,
    fields::{self, Fields},
    matches::{self, Match},
    terms::{Fallback, Keys, RouteLimit},
};

/// Which requests go where, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Route {
    /// What it is called in logs, metrics and levers: no other route is called that.
    pub name: String,
    /// Which requests.
    pub matches: Match,
    /// Which upstream.
    pub upstream: String,
    /// Which policy; that of the upstream's name, or the defaults, if there is none.
    pub policy: Option<String>,
    /// What stands in place of the matched prefix, without a slash at its end; empty where the prefix is taken away.
    pub rewrite: Option<String>,
    /// Over the policy's: see [`Config::policy_of`].
    pub timeout: Option<Duration>,
    /// Over the policy's.
    pub per_try_timeout: Option<Duration>,
    /// What it speaks.
    pub protocol: RouteProtocol,
    /// Whether callers must say who they are.
    pub tenants: TenantsNeed,
    /// How often it may be asked.
    pub rate_limit: Option<RouteLimit>,
    /// How repeated requests are recognised.
    pub idempotency: Option<Keys>,
    /// What is answered where nothing else can be.
    pub fallback: Option<Fallback>,
}

/// What a route speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RouteProtocol {
    /// HTTP; gRPC where a request says so by its content type.
    #[default]
    Http,
    /// gRPC only.
    Grpc,
}

/// Whether callers must say who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenantsNeed {
    /// Nobody is asked.
    #[default]
    Off,
    /// Whoever shows a key is asked for a right one.
    Optional,
    /// Nobody passes without.
    Required,
}

/// What routes speak, by the words for it.
const PROTOCOLS: [(&str, RouteProtocol); 2] =
    [("http", RouteProtocol::Http), ("grpc", RouteProtocol::Grpc)];
/// Whether callers must say who they are, by the words for it.
const NEEDS: [(&str, TenantsNeed); 3] = [
    ("off", TenantsNeed::Off),
    ("optional", TenantsNeed::Optional),
    ("required", TenantsNeed::Required),
];

/// In a file a route begins with its name, which is read once it is known what it matches.
const WRITTEN_LAST: [&str; 12] = [
    "match",
    "upstream",
    "policy",
    "strip_prefix",
    "rewrite",
    "timeout",
    "per_try_timeout",
    "protocol",
    "tenants",
    "rate_limit",
    "idempotency",
    "fallback",
];

impl Route {
    pub(super) fn read(fields: &Fields<'_>, config: &Config) -> Option<Self> {
        let mut route = Self::default();
        route.settings(&Table::reading(fields), config);
        if route.upstream.is_empty() {
            return None; // which was told
        }
        route.check(fields, config);
        Some(route)
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        // Names of other tables are looked up where the route is read.
        table::written(|table| self.clone().settings(table, &Config::default()))
    }

    fn settings(&mut self, table: &Table<'_>, config: &Config) {
        table.written_last(&WRITTEN_LAST);
        table.inside("match", "which requests", |inside| self.matches.settings(inside));
        let read = table.setting(
            "name",
            "what it is called in logs, metrics and levers; methods, host and path if not written",
            |fields| name(fields, &self.matches, config),
            || self.name.write(),
        );
        self.name = read.unwrap_or_default();
        self.goes(table, config);
        self.tenants(table, config);
        self.path(table);
        table.set("timeout", &mut self.timeout, "goes over the policy's");
        table.set("per_try_timeout", &mut self.per_try_timeout, "goes over the policy's");
        let means = "grpc: all of it is gRPC; http: what says so by its content type";
        table.word("protocol", &mut self.protocol, &PROTOCOLS, means);
        RouteLimit::settings(&mut self.rate_limit, table, self.tenants);
        let means = "how repeated requests are recognised by their Idempotency-Key";
        table.maybe("idempotency", &mut self.idempotency, means, |inside, written| {
            Keys::settings(table, inside, written)
        });
        let means = "what is answered where we would refuse or give up";
        table.maybe("fallback", &mut self.fallback, means, |inside, written| {
            let mut fallback = written.unwrap_or_default();
            fallback.settings(inside);
            Some(fallback)
        });
    }

    /// Where requests go, and by which policy.
    fn goes(&mut self, table: &Table<'_>, config: &Config) {
        let upstream = table.setting(
            "upstream",
            "where they go: the name of an upstream",
            |fields| fields.reference("upstream", "upstream", config.upstreams.keys()),
            || self.upstream.write(),
        );
        table.needs("upstream", "the name of an upstream");
        let policy = table.setting(
            "policy",
            "how they behave: the name of a policy; that with the upstream's name if not written",
            |fields| fields.reference("policy", "policy", config.policies.keys()),
            || self.policy.write(),
        );
        self.upstream = upstream.flatten().unwrap_or_default();
        self.policy = policy.flatten();
    }

    fn tenants(&mut self, table: &Table<'_>, config: &Config) {
        let has_none = config.tenants.is_empty();
        if table.reads() {
            self.tenants = if has_none { TenantsNeed::Off } else { TenantsNeed::Required };
        }
        let means = "whether callers must say who they are; required where the file has tenants";
        table.word("tenants", &mut self.tenants, &NEEDS, means);
        if has_none && self.tenants != TenantsNeed::Off {
            table.wrong(
                "tenants",
                "asks for one, and the file has none: write [tenant.NAME] with keys, or \"off\"",
            );
        }
    }

    /// What becomes of the path on its way.
    fn path(&mut self, table: &Table<'_>) {
        let (strips, rewrites) = match self.rewrite.as_deref() {
            Some("") => (true, None),
            other => (false, other),
        };
        let strip = table.setting(
            "strip_prefix",
            "takes what path or exact matched away",
            |fields| fields.get("strip_prefix").unwrap_or_default(),
            || strips.then_some(Value::Bool(true)),
        );
        let rewrite = table.setting(
            "rewrite",
            "puts something else in its place",
            |fields| matches::path(fields, "rewrite"),
            || rewrites.map(Value::text),
        );
        let strip = strip.unwrap_or_default();
        if strip && table.has("rewrite") {
            table.wrong("rewrite", "is written beside strip_prefix: write one of them");
        }
        let rewrite = rewrite.flatten().map(|path| path.trim_end_matches('/').to_owned());
        self.rewrite = rewrite.or_else(|| strip.then(String::new));
    }

    /// Whether anything ever comes here; and asks the core about the timeouts, which mean nothing without their policy.
    fn check(&self, fields: &Fields<'_>, config: &Config) {
        let mut earlier = config.routes.iter();
        if let Some(earlier) = earlier.find(|earlier| earlier.matches.covers(&self.matches)) {
            let name = &earlier.name;
            fields.wrong(
                "match",
                format_args!("is never reached, as route \"{name}\" takes all of it: write this route before that one"),
            );
        }
        if self.timeout.is_none() && self.per_try_timeout.is_none() {
            return; // the policy has been looked at
        }
        if let Err(error) = quell::core::Policy::new(config.policy_of(self).spec) {
            fields.invalid(&error);
        }
    }
}

impl Config {
    /// The policy of a route, with the timeouts that the route itself says. An attempt's that it does not say is the policy's,
    /// and at most an equal share of a timeout that it does, unless it was all of it before.
    pub fn policy_of(&self, route: &Route) -> Policy {
        let named = route.policy.as_ref().and_then(|name| self.policies.get(name));
        let mut policy = named.cloned().unwrap_or_else(|| self.policy_for(&route.upstream));
        if let Some(written) = route.timeout {
            policy.set_timeout(written);
        }
        if route.per_try_timeout.is_some() {
            policy.spec.per_try_timeout = route.per_try_timeout;
        }
        policy
    }
}

/// As written, or what it matches; it can stand in a label and is nobody else's.
fn name(fields: &Fields<'_>, matches: &Match, config: &Config) -> String {
    let written = fields.get("name");
    let is_written = written.is_some();
    let name: String = written.unwrap_or_else(|| matches.shown());
    let legal = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let fits = (1..=fields::LONGEST_NAME).contains(&name.len());
    if !fits || name.trim() != name || !name.bytes().all(legal) {
        let which = if is_written {
            "cannot stand in a label"
        } else {
            "is missing, and what it matches cannot stand for it"
        };
        fields.wrong(
            "name",
            format_args!(
                "{which}: write 1 to {} plain characters, such as \"pay\"",
                fields::LONGEST_NAME
            ),
        );
    } else if config.routes.iter().any(|other| other.name == name) {
        let which = if is_written { "is" } else { "is missing, and would be" };
        fields.wrong(
            "name",
            format_args!("{which} \"{name}\", as another route is called: write another"),
        );
    }
    name
}

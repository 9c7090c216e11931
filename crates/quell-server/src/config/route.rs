//! `[[route]]`: which requests go where, and how.

use std::time::Duration;

use http::HeaderValue;
use quell::core::{
    idempotency::{OnExpiry, Rules, Spec},
    limiter,
    mode::Mode,
};

use quell_config::limit::limited;

use super::{
    Config, Policy,
    fields::{self, Fields},
    matches::{self, Match},
    read::{Raw, Read},
    shape::Shape,
};

/// Longest body of a fallback: it is kept in memory.
const LONGEST_BODY: usize = 64 * 1024;

/// Which requests go where, and how.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantsNeed {
    /// Nobody is asked.
    Off,
    /// Whoever shows a key is asked for a right one.
    Optional,
    /// Nobody passes without.
    Required,
}

/// How often a route may be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteLimit {
    /// By each; it is valid.
    pub spec: limiter::Spec,
    /// Whether it is obeyed or only counted.
    pub mode: Mode,
    /// What shares one count.
    pub key: LimitKey,
}

/// What shares one count of a rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LimitKey {
    /// All requests of the route.
    #[default]
    Route,
    /// Those of a tenant.
    Tenant,
    /// Those from an address.
    Ip,
    /// Those with the same value of this field, its name in small letters.
    Header(String),
}

/// How repeated requests are recognised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keys {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// How they are kept; it is valid.
    pub spec: Spec,
}

/// An answer of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// From 200 to 599.
    pub status: u16,
    /// At most 64 KiB.
    pub body: String,
    /// As it stands in the field of that name.
    pub content_type: String,
}

/// What routes speak, by the words for it.
pub(super) const PROTOCOLS: [(&str, RouteProtocol); 2] =
    [("http", RouteProtocol::Http), ("grpc", RouteProtocol::Grpc)];
/// Whether callers must say who they are, by the words for it.
pub(super) const NEEDS: [(&str, TenantsNeed); 3] = [
    ("off", TenantsNeed::Off),
    ("optional", TenantsNeed::Optional),
    ("required", TenantsNeed::Required),
];

impl Route {
    pub(super) fn read(fields: &Fields<'_>, config: &Config) -> Option<Self> {
        let matches = fields.table("match").map(|inside| Match::read(&inside)).unwrap_or_default();
        let name = name(fields, &matches, config);
        let upstream = fields.reference("upstream", "upstream", config.upstreams.keys());
        fields.needs("upstream", "the name of an upstream");
        let policy = fields.reference("policy", "policy", config.policies.keys());
        let tenants = tenants(fields, config);
        let route = Self {
            name,
            matches,
            upstream: upstream.clone().unwrap_or_default(),
            policy,
            rewrite: rewrite(fields),
            timeout: fields.get("timeout"),
            per_try_timeout: fields.get("per_try_timeout"),
            protocol: fields.word("protocol", &PROTOCOLS).unwrap_or_default(),
            tenants,
            rate_limit: rate_limit(fields, tenants),
            idempotency: fields.table("idempotency").and_then(|inside| keys(fields, &inside)),
            fallback: fields.table("fallback").and_then(|inside| Fallback::read(&inside)),
        };
        upstream?;
        route.check(fields, config);
        Some(route)
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

fn rewrite(fields: &Fields<'_>) -> Option<String> {
    let strip: bool = fields.get("strip_prefix").unwrap_or_default();
    let rewrite = matches::path(fields, "rewrite");
    if strip && fields.has("rewrite") {
        fields.wrong("rewrite", "is written beside strip_prefix: write one of them");
    }
    let rewrite = rewrite.map(|path| path.trim_end_matches('/').to_owned());
    rewrite.or_else(|| strip.then(String::new))
}

fn tenants(fields: &Fields<'_>, config: &Config) -> TenantsNeed {
    let usual = match config.tenants.is_empty() {
        true => TenantsNeed::Off,
        false => TenantsNeed::Required,
    };
    let need = fields.word("tenants", &NEEDS).unwrap_or(usual);
    if config.tenants.is_empty() && need != TenantsNeed::Off {
        fields.wrong(
            "tenants",
            "asks for one, and the file has none: write [tenant.NAME] with keys, or \"off\"",
        );
    }
    need
}

fn rate_limit(fields: &Fields<'_>, tenants: TenantsNeed) -> Option<RouteLimit> {
    let (spec, mode, key) = limited(fields, |inside| {
        let key = inside.get("key").unwrap_or_default();
        if key == LimitKey::Tenant && tenants == TenantsNeed::Off {
            inside.wrong("key", "is \"tenant\", and the route knows none: write tenants = \"optional\" or \"required\" beside rate_limit, or another key");
        }
        key
    })?;
    Some(RouteLimit { spec, mode, key })
}

impl std::fmt::Display for LimitKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Route => f.write_str("route"),
            Self::Tenant => f.write_str("tenant"),
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

impl Read for LimitKey {
    fn expected() -> String {
        "\"route\", \"tenant\", \"ip\" or a field, such as \"header:x-api-key\"".to_owned()
    }

    fn shape() -> Shape {
        Shape::Like("^(route|tenant|ip|header:.+)$")
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text()? {
            "route" => Some(Self::Route),
            "tenant" => Some(Self::Tenant),
            "ip" => Some(Self::Ip),
            text => {
                let name = http::HeaderName::try_from(text.strip_prefix("header:")?).ok()?;
                Some(Self::Header(name.as_str().to_owned()))
            }
        }
    }
}

impl Fallback {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let mut fallback = Self {
            status: 200,
            body: String::new(),
            content_type: "text/plain; charset=utf-8".to_owned(),
        };
        let Self { status, body, content_type } = &mut fallback;
        fields.set("status", status);
        fields.set("body", body);
        fields.set("content_type", content_type);
        if !(200..600).contains(status) {
            fields.wrong("status", format_args!("is {status}: write a status from 200 to 599"));
        }
        if body.len() > LONGEST_BODY {
            let long = body.len();
            fields.wrong("body", format_args!("has {long} bytes: write at most {LONGEST_BODY}"));
        }
        if HeaderValue::try_from(content_type.as_str()).is_err() {
            fields.wrong(
                "content_type",
                "cannot stand in a field: write such as \"application/json\"",
            );
        }
        Some(fallback)
    }
}

/// What becomes of the key of an owner that is gone, by the words for it.
pub(super) const EXPIRES: [(&str, OnExpiry); 2] =
    [("rerun", OnExpiry::Rerun), ("hold", OnExpiry::Hold)];

fn keys(route: &Fields<'_>, fields: &Fields<'_>) -> Option<Keys> {
    let (mut required, mut spec) = (false, Spec::default());
    fields.set("required", &mut required);
    fields.set("ttl", &mut spec.ttl);
    fields.set("lease", &mut spec.lease);
    if let Some(word) = fields.word("on_expiry", &EXPIRES) {
        spec.on_expiry = word;
    }
    match Rules::new(spec) {
        Ok(_) => Some(Keys { required, spec }),
        Err(error) => {
            route.invalid(&error);
            None
        }
    }
}

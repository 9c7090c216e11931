//! `[gateway]`, `[[route]]` and `[tenant.*]`: who comes in, and where it goes.

use std::{net::SocketAddr, time::Duration};

use quell_core::{
    Priority,
    credit::Role,
    idempotency::{OnExpiry, Rules, Spec},
    limiter,
};

use super::{
    Config,
    fields::Fields,
    secret::Secret,
    upstream::{mode, rate_limit},
};

/// Where a gateway listens.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Where callers come in.
    pub listen: SocketAddr,
    /// Where health and metrics are served: loopback only.
    pub admin: SocketAddr,
    /// Where in a chain of calls it stands.
    pub role: Role,
    /// Whose word on deadlines and credit counts.
    pub trusted_hops: Vec<String>,
    /// The longest that a drain waits for what is under way.
    pub drain: Duration,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin: SocketAddr::from(([127, 0, 0, 1], 9901)),
            role: Role::Auto,
            trusted_hops: Vec::new(),
            drain: Duration::from_secs(30),
        }
    }
}

/// The roles, by the words for them.
pub(super) const ROLES: [(&str, Role); 3] =
    [("auto", Role::Auto), ("edge", Role::Edge), ("interior", Role::Interior)];

impl Gateway {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let mut gateway = Self::default();
        fields.set("listen", &mut gateway.listen);
        fields.set("admin", &mut gateway.admin);
        if !gateway.admin.ip().is_loopback() {
            let admin = gateway.admin;
            fields.wrong(
                "admin",
                format_args!(
                    "is {admin}: write an address on loopback, such as \"127.0.0.1:9901\""
                ),
            );
        }
        fields.set("drain", &mut gateway.drain);
        if let Some(role) = fields.word("role", &ROLES) {
            gateway.role = role;
        }
        if gateway.role != Role::Auto {
            fields.idle("role", "the gateway neither reads nor sends retry credit");
        }
        gateway.trusted_hops = fields.list("trusted_hops").unwrap_or_default();
        if !gateway.trusted_hops.is_empty() {
            fields.idle("trusted_hops", "the gateway trusts nobody");
        }
        gateway
    }
}

/// Who calls, and how much.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Where the hashes of its keys are.
    pub keys: Vec<Secret>,
    /// How often it may ask.
    pub rate_limit: Option<limiter::Spec>,
    /// How important it is under pressure.
    pub priority: Priority,
}

/// The priorities, by the words for them.
pub(super) const PRIORITIES: [(&str, Priority); 3] = [
    ("critical", Priority::Critical),
    ("default", Priority::Default),
    ("sheddable", Priority::Sheddable),
];

impl Tenant {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let keys = fields.secrets("keys");
        let rate_limit = fields.table("rate_limit").and_then(|inside| {
            mode(&inside, &mut Default::default());
            let spec = rate_limit(&inside)?;
            if let Err(error) = limiter::Limiter::new(spec, quell_core::Time::ZERO) {
                fields.invalid(&error);
            }
            Some(spec)
        });
        let priority = fields.word("priority", &PRIORITIES).unwrap_or_default();
        fields.all_idle("no host knows tenants, so nobody is limited or preferred");
        Self { keys, rate_limit, priority }
    }
}

/// Which requests go where, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The beginning of their paths.
    pub path: String,
    /// Their methods; all if empty.
    pub methods: Vec<String>,
    /// Which upstream.
    pub upstream: String,
    /// Which policy; that of the upstream's name, or the defaults, if there is none.
    pub policy: Option<String>,
    /// How repeated requests are recognised.
    pub idempotency: Option<Keys>,
}

/// How repeated requests are recognised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keys {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// How they are kept; it is valid.
    pub spec: Spec,
}

impl Route {
    pub(super) fn read(fields: &Fields<'_>, config: &Config) -> Option<Self> {
        let mut path = "/".to_owned();
        let mut methods = Vec::new();
        if let Some(inside) = fields.table("match") {
            inside.set("path", &mut path);
            if !path.starts_with('/') {
                inside.wrong(
                    "path",
                    format_args!("is \"{}\": write a path that begins with /", path.escape_debug()),
                );
            }
            methods = inside.list("methods").unwrap_or_default();
            if path != "/" || !methods.is_empty() {
                inside
                    .all_idle("the gateway cannot tell requests apart, and does not start with it");
            }
        }
        let upstream = fields.reference("upstream", "upstream", config.upstreams.keys());
        if !fields.has("upstream") {
            fields.wrong("upstream", "is missing: write the name of an upstream");
        }
        let policy = fields.reference("policy", "policy", config.policies.keys());
        let idempotency = fields.table("idempotency").and_then(|inside| {
            inside.all_idle("no host stores keys: they are passed on to the upstream");
            keys(fields, &inside)
        });
        Some(Self { path, methods, upstream: upstream?, policy, idempotency })
    }

    /// For people: methods and path.
    pub fn name(&self) -> String {
        match self.methods.as_slice() {
            [] => self.path.clone(),
            methods => format!("{} {}", methods.join(","), self.path),
        }
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

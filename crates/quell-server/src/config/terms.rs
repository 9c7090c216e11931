//! The terms of a route, each a table of its own: how often it may be asked, how repeated requests are recognised, and what
//! is answered where nothing else can be.

use std::fmt;

use http::HeaderValue;
use quell::core::{
    idempotency::{OnExpiry, Rules, Spec},
    limiter,
    mode::Mode,
};
use quell_config::{
    limit::limited,
    setting::{Value, Write},
    table::Table,
};

use super::{
    read::{Raw, Read},
    route::TenantsNeed,
    shape::Shape,
};

/// Longest body of a fallback: it is kept in memory.
const LONGEST_BODY: usize = 64 * 1024;

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

impl RouteLimit {
    pub(super) fn settings(limit: &mut Option<Self>, table: &Table<'_>, tenants: TenantsNeed) {
        let (mut mode, mut key) = match limit {
            Some(limit) => (limit.mode, limit.key.clone()),
            None => Default::default(),
        };
        let mut spec = limit.as_ref().map(|limit| limit.spec);
        let means = "how often it may be asked, or \"off\"";
        limited(table, &mut spec, &mut mode, means, |inside| {
            let means = "what shares one count: the route, a tenant, an ip, or a field's value, \"header:x-api-key\"";
            inside.set("key", &mut key, means);
            if key == LimitKey::Tenant && tenants == TenantsNeed::Off {
                inside.wrong("key", "is \"tenant\", and the route knows none: write tenants = \"optional\" or \"required\" beside rate_limit, or another key");
            }
        });
        *limit = spec.map(|spec| Self { spec, mode, key });
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route => f.write_str("route"),
            Self::Tenant => f.write_str("tenant"),
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

impl Write for LimitKey {
    fn write(&self) -> Option<Value> {
        Some(Value::text(self))
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

impl Default for Fallback {
    fn default() -> Self {
        Self {
            status: 200,
            body: String::new(),
            content_type: "text/plain; charset=utf-8".to_owned(),
        }
    }
}

impl Fallback {
    pub(super) fn settings(&mut self, table: &Table<'_>) {
        let Self { status, body, content_type } = self;
        table.set("status", status, "its status");
        table.set("body", body, "its body, at most 64 KiB");
        table.set("content_type", content_type, "its content type");
        if !(200..600).contains(status) {
            table.wrong("status", format_args!("is {status}: write a status from 200 to 599"));
        }
        if body.len() > LONGEST_BODY {
            let long = body.len();
            table.wrong("body", format_args!("has {long} bytes: write at most {LONGEST_BODY}"));
        }
        if HeaderValue::try_from(content_type.as_str()).is_err() {
            table.wrong(
                "content_type",
                "cannot stand in a field: write such as \"application/json\"",
            );
        }
    }
}

/// What becomes of the key of an owner that is gone, by the words for it.
const EXPIRES: [(&str, OnExpiry); 2] = [("rerun", OnExpiry::Rerun), ("hold", OnExpiry::Hold)];

impl Keys {
    pub(super) fn settings(
        route: &Table<'_>,
        table: &Table<'_>,
        written: Option<Self>,
    ) -> Option<Self> {
        let usual = || Keys { required: false, spec: Spec::default() };
        let Keys { mut required, mut spec } = written.unwrap_or_else(usual);
        table.set("required", &mut required, "whether a request without a key is refused");
        table.set("ttl", &mut spec.ttl, "how long a key is remembered");
        table.set("lease", &mut spec.lease, "how long a request under way holds its key");
        let means = "when whoever held a key went silent: rerun: the next request does it again; hold: nobody does";
        table.word("on_expiry", &mut spec.on_expiry, &EXPIRES, means);
        match Rules::new(spec) {
            Ok(_) => Some(Keys { required, spec }),
            Err(error) => {
                route.invalid(&error);
                None
            }
        }
    }
}

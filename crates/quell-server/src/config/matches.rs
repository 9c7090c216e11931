//! `match = { … }`: which requests a route takes.

use http::{HeaderName, HeaderValue, Method};

use quell_config::{
    setting::{Value, Write},
    table::Table,
};

use super::{
    fields::Fields,
    read::{Raw, Read},
    shape::Shape,
};

/// Fields of a request whose values are secrets, so that no file may hold them.
const SECRET: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Which requests a route takes: all that it says must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// The host they are for, in small letters and without a port; `*.example.com` for all below it.
    pub host: Option<String>,
    /// Their paths.
    pub path: PathMatch,
    /// Their methods; all if empty.
    pub methods: Vec<String>,
    /// Fields that they have, by names in small letters, with exactly these values.
    pub headers: Vec<(String, String)>,
}

/// Which paths a route takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMatch {
    /// Those that begin with these segments; `/` for all, else without a slash at its end.
    Prefix(String),
    /// This one.
    Exact(String),
}

impl Default for PathMatch {
    fn default() -> Self {
        Self::Prefix("/".to_owned())
    }
}

impl PathMatch {
    /// As written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Prefix(path) | Self::Exact(path) => path,
        }
    }
}

impl Match {
    pub(super) fn settings(&mut self, table: &Table<'_>) {
        let means = "for which host, without a port; \"*.example.com\" for all below it";
        let read = table.setting("host", means, host, || self.host.write());
        self.host = read.unwrap_or_default();
        self.path(table);
        let means = "which methods, in capitals; all if empty";
        let read = table.setting(
            "methods",
            means,
            |fields| fields.list::<Verb>("methods").unwrap_or_default(),
            || self.methods.write(),
        );
        self.methods = read.into_iter().flatten().map(|Verb(method)| method).collect();
        let named = || {
            let field = |(name, value): &(String, String)| (name.clone(), Value::text(value));
            let fields: Vec<_> = self.headers.iter().map(field).collect();
            (!fields.is_empty()).then_some(Value::Named(fields))
        };
        let means = "fields that must have exactly these values";
        self.headers = table.setting("headers", means, headers, named).unwrap_or_default();
    }

    fn path(&mut self, table: &Table<'_>) {
        let (exact, prefix) = match &self.path {
            PathMatch::Exact(path) => (Some(path), None),
            PathMatch::Prefix(path) => (None, Some(path)),
        };
        let exact = table.setting(
            "exact",
            "the whole path, in place of path",
            |fields| path(fields, "exact"),
            || exact.map(Value::text),
        );
        let prefix = table.setting(
            "path",
            "the beginning of the path, by whole segments",
            |fields| path(fields, "path").map(trimmed),
            || prefix.map(Value::text),
        );
        self.path = match (prefix.flatten(), exact.flatten()) {
            (Some(_), Some(exact)) => {
                table.wrong("exact", "is written beside path: write one of them");
                PathMatch::Exact(exact)
            }
            (None, Some(exact)) => PathMatch::Exact(exact),
            (Some(prefix), None) => PathMatch::Prefix(prefix),
            (None, None) => PathMatch::default(),
        };
    }

    /// Whether it takes all that another one takes.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let host = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => {
                let below = ours.strip_prefix('*').is_some_and(|below| theirs.ends_with(below));
                ours == theirs || below
            }
        };
        let (ours, theirs) = (self.path.as_str(), other.path.as_str());
        let path = match self.path {
            PathMatch::Exact(_) => self.path == other.path,
            PathMatch::Prefix(_) => theirs
                .strip_prefix(ours.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        let methods = self.methods.is_empty()
            || (!other.methods.is_empty() && holds(&self.methods, &other.methods));
        host && path && methods && holds(&other.headers, &self.headers)
    }

    /// For people: methods, host and path.
    pub(super) fn shown(&self) -> String {
        let at = format!("{}{}", self.host.as_deref().unwrap_or_default(), self.path.as_str());
        match self.methods.as_slice() {
            [] => at,
            methods => format!("{} {at}", methods.join(",")),
        }
    }
}

fn holds<T: PartialEq>(all: &[T], some: &[T]) -> bool {
    some.iter().all(|one| all.contains(one))
}

fn host(fields: &Fields<'_>) -> Option<String> {
    let host: String = fields.get("host")?;
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_address = name.starts_with('[') && name.ends_with(']');
    let inside = name.trim_start_matches('[').trim_end_matches(']');
    let is_name = !name.is_empty() && name.len() <= 253 && name.chars().all(legal);
    if is_name || (is_address && inside.parse::<std::net::Ipv6Addr>().is_ok()) {
        return Some(host.to_ascii_lowercase());
    }
    fields.wrong(
        "host",
        format_args!(
            "is \"{}\": write a name without a port, such as \"api.example.com\" or \"*.example.com\"",
            host.escape_debug()
        ),
    );
    None
}

/// A path as it stands in a request.
pub(super) fn path(fields: &Fields<'_>, name: &'static str) -> Option<String> {
    let path: String = fields.get(name)?;
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#');
    if path.starts_with('/') && path.bytes().all(legal) {
        return Some(path);
    }
    fields.wrong(
        name,
        format_args!(
            "is \"{}\": write a path that begins with / and has no query, such as \"/pay\"",
            path.escape_debug()
        ),
    );
    None
}

/// Without the slash at its end, for a prefix of whole segments.
pub(super) fn trimmed(path: String) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// A method as requests have it.
struct Verb(String);

impl Read for Verb {
    fn expected() -> String {
        "a method in capitals, such as \"GET\"".to_owned()
    }

    fn shape() -> Shape {
        Shape::Like("^[^a-z]+$")
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let text = value.text()?;
        let is_small = text.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_method = !is_small && Method::from_bytes(text.as_bytes()).is_ok();
        is_method.then(|| Self(text.to_owned()))
    }
}

fn headers(fields: &Fields<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, value) in fields.values::<String>("headers") {
        match HeaderName::try_from(name.as_str()) {
            Ok(name) if SECRET.contains(&name.as_str()) => {
                fields.hide("headers");
                fields.wrong("headers", format_args!("has {name}, whose value is a secret: write [tenant.…] to tell callers apart, or another field"));
            }
            Ok(name) if HeaderValue::try_from(value.as_str()).is_ok() => {
                found.push((name.as_str().to_owned(), value));
            }
            Ok(name) => fields.wrong(
                "headers",
                format_args!("has a value for {name} that no request can have: write plain text"),
            ),
            Err(_) => fields.wrong(
                "headers",
                format_args!(
                    "has \"{}\", which no field can be called: write such as \"x-version\"",
                    name.chars().take(60).collect::<String>().escape_debug()
                ),
            ),
        }
    }
    found
}

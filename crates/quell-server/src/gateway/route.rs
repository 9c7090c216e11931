//! Routes: which requests go where, and on what terms.
//!
//! The first route that matches takes the request. A prefix matches whole segments: `/pay` is for `/pay` and `/pay/7`,
//! not for `/payments`.

use std::borrow::Cow;
use std::sync::Arc;

use crate::config::{self, Match, PathMatch};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};
use quell::core::Policy;
use quell::core::budget::purse::Child;
use quell::core::credit::Role;
use quell::http::{Shape, Statuses, UnsafeMethods};
use quell::levers::route_key;

use super::backend::Backend;
use super::counters::Counters;
use super::plan::Terms;
use super::route_limit::RouteLimit;

/// A route as the cores drive it. What it knows is in the plan; what it counts outlives a reload.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    pub(crate) backend: Arc<Backend>,
    /// As written.
    pub(crate) written: config::Route,
    pub(crate) policy: Policy,
    /// Of the kinds of its calls: see [`Route::class_by_shape`].
    seed: u64,
    pub(crate) statuses: Statuses,
    pub(crate) unsafe_methods: UnsafeMethods,
    pub(crate) role: Role,
    /// Its own part of the upstream's retry budget, where there are such parts.
    pub(crate) child: Option<Child>,
    /// How often it may be asked.
    pub(crate) limit: Option<RouteLimit>,
    /// One per core.
    pub(crate) counters: Arc<[Counters]>,
    pub(super) matcher: Matcher,
}

impl Route {
    /// A route that has counted nothing yet, and cannot: see [`Route::counting`] and [`Route::after`].
    pub(super) fn new(
        terms: Terms,
        backend: &Arc<Backend>,
        limit: Option<RouteLimit>,
        file: &config::Config,
    ) -> Self {
        let Terms { route, policy, spec } = terms;
        let children = file.upstreams.get(&route.upstream).and_then(|up| up.spec.children);
        Self {
            name: route.name.as_str().into(),
            child: children.map(|_| backend.upstream.child(&route.name)),
            backend: Arc::clone(backend),
            policy: spec.for_route(route_key(&route.name)),
            seed: route_key(&route.name),
            statuses: (&policy).into(),
            unsafe_methods: policy.unsafe_methods.into(),
            role: file.gateway.role,
            limit,
            counters: Arc::default(),
            matcher: Matcher::new(&route.matches),
            written: route,
        }
    }

    /// Counts from nothing.
    pub(super) fn counting(self, cores: usize) -> Self {
        Self { counters: Counters::per_core(cores), ..self }
    }

    /// Goes on counting, and limiting, where another one was.
    pub(super) fn after(self, known: &Self) -> Self {
        let limit = match (&known.limit, self.limit) {
            (Some(known), Some(fresh)) => Some(known.follow(fresh)),
            (_, fresh) => fresh,
        };
        Self { limit, counters: Arc::clone(&known.counters), ..self }
    }

    /// The class of a request whose whole path says what it asks for, as gRPC's do.
    pub(super) fn class_by_path(&self, path: &str) -> u64 {
        let (upstream, name) = (&self.backend.upstream, &self.name);
        let key = self.seed.rotate_left(1) ^ route_key(path);
        upstream.class(key, || format!("{name} {path}"))
    }

    /// The class of a request by its method and the shape of its path.
    pub(super) fn class_by_shape(&self, method: &Method, path: &str) -> u64 {
        let (upstream, name) = (&self.backend.upstream, &self.name);
        let shape = Shape::new(method, path);
        upstream.class(shape.key(self.seed), || format!("{name} {shape}"))
    }

    /// Takes away or replaces the prefix that matched. `false` if the path is spelt in another way: nobody asked us to spell it
    /// anew, and passing it on as it is would lead around the rule; or if it would begin like another host's.
    #[must_use]
    pub(super) fn rewrite(&self, parts: &mut Parts) -> bool {
        let (Some(instead), PathMatch::Prefix(prefix) | PathMatch::Exact(prefix)) =
            (&self.written.rewrite, &self.written.matches.path)
        else {
            return true;
        };
        let rest = parts.uri.path().strip_prefix(prefix.trim_end_matches('/'));
        let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return false;
        };
        let mut target = format!("{}{rest}", instead.trim_end_matches('/'));
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if target.starts_with("//") {
            return false;
        }
        if let Some(query) = parts.uri.query() {
            target.push('?');
            target.push_str(query);
        }
        if let Ok(target) = PathAndQuery::try_from(target) {
            parts.uri = Uri::from(target);
        }
        true
    }
}

/// Which requests a route is for.
#[derive(Debug)]
pub(crate) struct Matcher {
    host: Option<Host>,
    path: PathMatch,
    methods: Vec<String>,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
enum Host {
    Exact(String),
    /// Ends with this, which begins with a dot.
    Suffix(String),
}

impl Matcher {
    /// As written: what no request can have matches none.
    pub(crate) fn new(written: &Match) -> Self {
        let host = written.host.as_ref().map(|host| match host.strip_prefix('*') {
            Some(suffix) => Host::Suffix(suffix.to_ascii_lowercase()),
            None => Host::Exact(host.to_ascii_lowercase()),
        });
        Self {
            host,
            path: match &written.path {
                PathMatch::Prefix(path) => PathMatch::Prefix(read(path)),
                PathMatch::Exact(path) => PathMatch::Exact(read(path)),
            },
            methods: written.methods.clone(),
            headers: written.headers.clone(),
        }
    }

    pub(super) fn matches(&self, host: Option<&str>, parts: &Seen<'_>) -> bool {
        self.path_matches(parts.path)
            && (self.methods.is_empty()
                || self.methods.iter().any(|method| method == parts.method.as_str()))
            && self.host.as_ref().is_none_or(|wanted| host.is_some_and(|host| wanted.is(host)))
            && self.headers.iter().all(|(name, value)| {
                parts.headers.get_all(name.as_str()).iter().any(|found| found == value.as_str())
            })
    }

    fn path_matches(&self, path: &str) -> bool {
        match &self.path {
            PathMatch::Exact(exact) => path == exact,
            PathMatch::Prefix(prefix) => {
                let prefix = prefix.trim_end_matches('/');
                path.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }

    /// Whether it tells paths apart.
    pub(super) fn is_by_path(&self) -> bool {
        !matches!(&self.path, PathMatch::Prefix(prefix) if prefix == "/")
    }
}

impl Host {
    fn is(&self, host: &str) -> bool {
        match self {
            Self::Exact(wanted) => host.eq_ignore_ascii_case(wanted),
            Self::Suffix(wanted) => {
                let at = host.len().checked_sub(wanted.len());
                at.is_some_and(|at| {
                    at > 0 && host.is_char_boundary(at) && host[at..].eq_ignore_ascii_case(wanted)
                })
            }
        }
    }
}

/// What of a request decides on its route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// The host that a request is for, without its port.
pub(super) fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let named = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => headers.get(http::header::HOST)?.to_str().ok()?,
    };
    Some(match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => named,
    })
}

fn read(path: &str) -> String {
    as_read(path).map_or_else(|| path.to_owned(), Cow::into_owned)
}

/// A path as most services will read it, for choosing a route by it: escapes undone, empty segments left out. What is sent
/// on is the path as it came. `None` is one with `.` or `..` in it, written out or escaped: everybody reads that in their
/// own way, so whoever chose by it could be walked around.
pub(super) fn as_read(path: &str) -> Option<Cow<'_, str>> {
    let is_plain =
        |window: &[u8]| !matches!(window, [b'/', b'/' | b'.'] | [b'%' | b'\\', _] | [_, b'\\']);
    if path.as_bytes().windows(2).all(is_plain) {
        return Some(path.into());
    }
    let decoded = unescape(path.as_bytes());
    let segments = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    let mut read = String::with_capacity(path.len());
    for segment in segments.filter(|segment| !segment.is_empty()) {
        if matches!(segment, b"." | b"..") {
            return None;
        }
        read.push('/');
        read.push_str(&String::from_utf8_lossy(segment));
    }
    if decoded.ends_with(b"/") || read.is_empty() {
        read.push('/');
    }
    Some(read.into())
}

fn unescape(path: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (mut decoded, mut rest) = (Vec::with_capacity(path.len()), path);
    while let [first, after @ ..] = rest {
        let escaped = match after {
            [high, low, ..] if *first == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        decoded.push(escaped.map_or(*first, |(high, low)| high * 16 + low));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

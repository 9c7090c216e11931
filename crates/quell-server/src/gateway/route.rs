//! Routes: which requests go where, and on what terms.
//!
//! The first route that matches takes the request. A prefix matches whole segments: `/pay` is for `/pay` and `/pay/7`,
//! not for `/payments`.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use quell::config::{self, Match, PathMatch};
use quell::core::Policy;
use quell::core::budget::purse::Child;
use quell::core::credit::Role;
use quell::http::{Statuses, UnsafeMethods};
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
            statuses: policy.statuses(),
            unsafe_methods: policy.unsafe_methods,
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

    /// Takes away or replaces the prefix that matched.
    pub(super) fn rewrite(&self, parts: &mut Parts) {
        let (Some(instead), PathMatch::Prefix(prefix) | PathMatch::Exact(prefix)) =
            (&self.written.rewrite, &self.written.matches.path)
        else {
            return;
        };
        let path = parts.uri.path();
        let rest = path.strip_prefix(prefix.trim_end_matches('/')).unwrap_or(path);
        let mut target = format!("{}{rest}", instead.trim_end_matches('/'));
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if let Some(query) = parts.uri.query() {
            target.push('?');
            target.push_str(query);
        }
        if let Ok(target) = PathAndQuery::try_from(target) {
            parts.uri = Uri::from(target);
        }
    }
}

/// Which requests a route is for.
#[derive(Debug)]
pub(crate) struct Matcher {
    host: Option<Host>,
    path: PathMatch,
    methods: Vec<Method>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug)]
enum Host {
    Exact(String),
    /// Ends with this, which begins with a dot.
    Suffix(String),
}

impl Matcher {
    /// What cannot be a name or a value was refused when the file was read; here it matches nothing.
    pub(crate) fn new(written: &Match) -> Self {
        let host = written.host.as_ref().map(|host| match host.strip_prefix('*') {
            Some(suffix) => Host::Suffix(suffix.to_ascii_lowercase()),
            None => Host::Exact(host.to_ascii_lowercase()),
        });
        let header = |(name, value): &(String, String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        };
        Self {
            host,
            path: written.path.clone(),
            methods: written.methods.iter().filter_map(|method| method.parse().ok()).collect(),
            headers: written.headers.iter().filter_map(header).collect(),
        }
    }

    pub(crate) fn matches(&self, host: Option<&str>, parts: &Seen<'_>) -> bool {
        self.path_matches(parts.path)
            && (self.methods.is_empty() || self.methods.contains(parts.method))
            && self.host.as_ref().is_none_or(|wanted| host.is_some_and(|host| wanted.is(host)))
            && self
                .headers
                .iter()
                .all(|(name, value)| parts.headers.get_all(name).iter().any(|found| found == value))
    }

    fn path_matches(&self, path: &str) -> bool {
        match &self.path {
            PathMatch::Prefix(prefix) if prefix == "/" => true,
            _ if !is_plain(path) => false,
            PathMatch::Exact(exact) => path == exact,
            PathMatch::Prefix(prefix) => {
                let prefix = prefix.trim_end_matches('/');
                path.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
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

/// Whether a path means the same to everybody. One with `.` or `..` segments, written out or escaped, does not: whoever
/// chooses by it can be walked around, so only a route for everything takes it.
fn is_plain(path: &str) -> bool {
    if !path.contains("/.") && !path.contains("/%2") {
        return true;
    }
    !path.split('/').any(|segment| {
        let dots: Cow<'_, str> = match segment.contains('%') {
            true => segment.replace("%2e", ".").replace("%2E", ".").into(),
            false => segment.into(),
        };
        dots == "." || dots == ".."
    })
}

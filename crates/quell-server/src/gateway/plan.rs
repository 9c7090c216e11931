//! Plan: what a config file comes to. It does not change; a reload puts another in its place.
//!
//! What is known of an upstream is not in the plan: budget, breaker, estimates, ghosts and counters are found again by
//! name, so that a reload in the middle of an outage forgets nothing. A plan is made whole or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Match, RouteProtocol, TenantsNeed};
use quell::core::Policy;
use quell::levers::route_key;
use quell::upstream::Host;
use quell::{Clock, Upstream};

use super::backend::Backend;
use super::gate::{Malformed, WALKS};
use super::resolve::Names;
use super::route::{Matcher, Route, Seen, as_read, host_of};
use super::route_limit::RouteLimit;
use super::start::Error;
use super::tenants::Tenants;
use crate::host::log::Log;

/// Upstreams that are no longer in the file and are remembered, should they return.
const MOST_GONE: usize = 64;
/// The name of what has none.
const DEFAULT: &str = "default";

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Plan {
    /// Later ones have higher numbers.
    pub(crate) generation: u64,
    /// The file, as read.
    pub(crate) file: config::Config,
    /// The first match takes the request.
    pub(crate) routes: Vec<Arc<Route>>,
    pub(crate) backends: BTreeMap<String, Arc<Backend>>,
    pub(crate) tenants: Tenants,
    gone: VecDeque<Arc<Backend>>,
    /// Places given out so far.
    places: usize,
    /// Who says where names are, if not the system.
    names: Option<Names>,
}

impl Plan {
    /// What a file comes to, with names looked up so, if not the system's way.
    pub(super) fn first(
        file: config::Config,
        names: Option<Names>,
        cores: usize,
        log: &Arc<Log>,
    ) -> Result<Self, Error> {
        Self::new(file, None, names, cores, log)
    }

    /// What a file comes to after this plan. Nothing has changed if it fails.
    pub(super) fn next(
        &self,
        file: config::Config,
        cores: usize,
        log: &Arc<Log>,
    ) -> Result<Self, Error> {
        Self::new(file, Some(self), self.names.clone(), cores, log)
    }

    fn new(
        file: config::Config,
        before: Option<&Self>,
        names: Option<Names>,
        cores: usize,
        log: &Arc<Log>,
    ) -> Result<Self, Error> {
        let routes = routes(&file)?;
        let mut places = before.map_or(0, |before| before.places);
        let mut backends = BTreeMap::new();
        let mut reloads = Vec::new();
        for (name, written) in &file.upstreams {
            let known = before.and_then(|before| before.known(name));
            let per_try = per_try(&routes, name);
            let upstream = match known {
                Some(known) => {
                    reloads.push((known.upstream.clone(), written.spec, per_try));
                    known.upstream.clone()
                }
                None => Upstream::new(name.as_str(), written.spec, per_try, host(log))?,
            };
            let place = known.map_or(places, |known| known.place);
            places = places.max(place + 1);
            let known = known.map(|known| &**known);
            let backend = Backend::new(written, upstream, place, known, names.as_ref())?;
            backends.insert(name.clone(), Arc::new(backend));
        }
        let clock = Clock::system();
        let tenants = Tenants::new(&file, &clock)?;
        let limits = routes.iter().map(|terms| limit(&terms.route, &clock));
        let limits: Vec<_> = limits.collect::<Result<_, Error>>()?;
        // From here on nothing fails: each of these was valid when the file was read.
        for (upstream, spec, per_try) in reloads {
            upstream.reload(spec, per_try)?;
        }
        let made = routes.into_iter().zip(limits).filter_map(|(terms, limit)| {
            let backend = backends.get(&terms.route.upstream)?; // a file names only what it has
            let route = Route::new(terms, backend, limit, &file);
            Some(Arc::new(match before.and_then(|before| before.same(&route)) {
                Some(known) => route.after(known),
                None => route.counting(cores),
            }))
        });
        let made = made.collect();
        let tenants = match before {
            Some(before) => before.tenants.follow(tenants),
            None => tenants,
        };
        let gone = before.map_or_else(VecDeque::new, |before| before.gone_after(&backends));
        let generation = before.map_or(0, |before| before.generation + 1);
        Ok(Self { generation, file, routes: made, backends, tenants, gone, places, names })
    }

    /// The place in [`Plan::routes`] of the first that takes such a request. `Err` is a path that routes cannot be chosen by.
    pub(super) fn find<B>(&self, request: &http::Request<B>) -> Result<Option<usize>, Walks> {
        let (uri, headers) = (request.uri(), request.headers());
        let seen = Seen { method: request.method(), path: uri.path(), headers };
        choose(self.routes.iter().map(|route| &route.matcher), host_of(uri, headers), &seen)
    }

    /// Whether a hop's word on deadlines, credit and who came before it counts.
    pub(super) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let hops = &self.file.gateway.trusted_hops;
        !hops.is_empty() && peer.is_some_and(|peer| hops.iter().any(|hop| hop.contains(&peer)))
    }

    /// The route of the same name to the same upstream.
    fn same(&self, route: &Route) -> Option<&Route> {
        let upstream = |route: &Route| route.backend.upstream.name().to_owned();
        let same =
            |known: &&Arc<Route>| known.name == route.name && upstream(known) == upstream(route);
        self.routes.iter().find(same).map(|known| &**known)
    }

    fn known(&self, name: &str) -> Option<&Arc<Backend>> {
        let gone = || self.gone.iter().find(|gone| gone.upstream.name() == name);
        self.backends.get(name).or_else(gone)
    }

    fn gone_after(&self, now: &BTreeMap<String, Arc<Backend>>) -> VecDeque<Arc<Backend>> {
        let left = self.backends.values().chain(&self.gone);
        let left = left.filter(|backend| !now.contains_key(backend.upstream.name()));
        left.take(MOST_GONE).map(Arc::clone).collect()
    }
}

/// A path with `.` or `..` in it, where routes are chosen by paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walks;

impl fmt::Display for Walks {
    /// The reply that whoever asks so gets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { status, code, error } = WALKS;
        write!(f, "{} {code}: {error}", status.as_u16())
    }
}

/// The first that takes a request, its path being as it came.
pub(crate) fn choose<'a>(
    mut matchers: impl Iterator<Item = &'a Matcher> + Clone,
    host: Option<&str>,
    seen: &Seen<'_>,
) -> Result<Option<usize>, Walks> {
    let path = match as_read(seen.path) {
        Some(path) => path,
        None if matchers.clone().any(Matcher::is_by_path) => return Err(Walks),
        None => seen.path.into(),
    };
    let seen = Seen { path: &path, ..*seen };
    Ok(matchers.position(|matcher| matcher.matches(host, &seen)))
}

/// A route and how its calls behave.
pub(crate) struct Terms {
    pub(crate) route: config::Route,
    pub(crate) policy: config::Policy,
    pub(crate) spec: Policy,
}

/// The routes of a file. One without any, and with one upstream, sends everything there.
pub(crate) fn routes(file: &config::Config) -> Result<Vec<Terms>, Error> {
    let mut written = file.routes.clone();
    if written.is_empty() {
        let mut names = file.upstreams.keys();
        let (Some(upstream), None) = (names.next(), names.next()) else {
            return Err(Error::NoRoutes(file.upstreams.len()));
        };
        let tenants = match file.tenants.is_empty() {
            true => TenantsNeed::Off,
            false => TenantsNeed::Required, // as on every route that says nothing of it
        };
        written.push(config::Route { tenants, ..everything(upstream) });
    }
    let terms = |route: config::Route| {
        let policy = file.policy_of(&route);
        let spec = Policy::new(policy.spec)?.for_route(route_key(&route.name));
        Ok(Terms { route, policy, spec })
    };
    written.into_iter().map(terms).collect()
}

/// A route that takes every request.
pub(super) fn everything(upstream: &str) -> config::Route {
    config::Route {
        name: DEFAULT.to_owned(),
        matches: Match::default(),
        upstream: upstream.to_owned(),
        policy: None,
        rewrite: None,
        timeout: None,
        per_try_timeout: None,
        protocol: RouteProtocol::Http,
        tenants: TenantsNeed::Off,
        rate_limit: None,
        idempotency: None,
        fallback: None,
    }
}

/// The longest that an attempt of any route may take: how long callers of the upstream may have to wait.
fn per_try(routes: &[Terms], upstream: &str) -> Duration {
    let of_it = routes.iter().filter(|terms| terms.route.upstream == upstream);
    let longest = of_it.map(|terms| terms.spec.per_try()).max();
    longest.unwrap_or(Duration::from_secs(5))
}

/// How often a route may be asked.
fn limit(route: &config::Route, clock: &Clock) -> Result<Option<RouteLimit>, Error> {
    let wrong = |error| Error::Limit { route: route.name.clone(), error };
    let limit = route.rate_limit.as_ref().map(|written| RouteLimit::new(written, clock.clone()));
    limit.transpose().map_err(wrong)
}

/// Each upstream's chance is its own, and other in every process: a fleet must not act in step.
fn host(log: &Arc<Log>) -> Host {
    Host { clock: Clock::system(), observer: Some(Arc::clone(log) as _), ..Host::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_tenants_and_no_routes_asks_everybody_for_a_key() {
        let upstream = "upstream.x.endpoints = [\"http://127.0.0.1:9000\"]";
        let shop = "tenant.shop.keys = [\"env:SHOP\"]";
        for (tenants, need) in [("", TenantsNeed::Off), (shop, TenantsNeed::Required)] {
            let text = format!("version = 1\n{upstream}\n{tenants}");
            let file = config::Config::parse("quell.toml", &text, &[]).unwrap();
            let routes = routes(&file).unwrap();
            assert_eq!((routes.len(), routes[0].route.tenants), (1, need));
        }
    }
}

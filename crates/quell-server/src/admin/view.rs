//! View: the state of everything, as JSON for people and programs.

use std::time::Duration;

use quell::core::breaker::{Mode, State};
use quell::core::credit::Role;
use quell::core::worst::{Given, worst};
use quell::core::{Lever, Time};
use quell::levers::{Pulled, route_key};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::classes;
use super::operations::{InForce, OfRoute, OfUpstream};

#[derive(Debug, Serialize)]
struct Brief<'a> {
    name: &'a str,
    upstream: &'a str,
}

/// One upstream.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    breaker: &'static str,
    breaker_mode: &'static str,
    budget: Budget,
    in_flight: u32,
    limit: Option<u32>,
    /// What speaks for trouble, if anything does: the limit is tight then.
    trouble: Option<&'static str>,
    ghosts: usize,
    queued: usize,
    retrying: u32,
    /// How long retries are still held back.
    not_before_seconds: f64,
    patience_seconds: f64,
    /// What was learned of the service.
    rate_per_second: Option<f64>,
    base_seconds: Option<f64>,
    p50_seconds: Option<f64>,
    margin: Option<f64>,
    levers: Vec<ShownLever<'a>>,
    endpoints: Vec<ShownEndpoint>,
    classes: Vec<classes::Shown>,
}

/// Numbers without bound are left out.
#[derive(Debug, Serialize)]
struct Budget {
    tokens: Option<f64>,
    max: Option<f64>,
    asked: u64,
    allowed: u64,
    denied: u64,
}

#[derive(Debug, Serialize)]
struct ShownEndpoint {
    address: Option<String>,
    in_flight: u32,
    ghosts: usize,
    failures_in_a_row: u32,
    ejected_for_seconds: Option<f64>,
}

/// A lever that is pulled.
#[derive(Debug, Serialize)]
pub(super) struct ShownLever<'a> {
    pub(super) lever: &'static str,
    pub(super) value: Option<u32>,
    /// The name of the route, if it is about one.
    pub(super) route: Option<&'a str>,
    pub(super) left_seconds: Option<f64>,
}

/// `GET /state`.
pub(super) fn everything(in_force: &dyn InForce, ready: bool) -> Value {
    let routes = in_force.routes();
    let upstreams = in_force.upstreams();
    let upstreams: Vec<_> = upstreams.iter().map(|each| shown(in_force, each, &routes)).collect();
    let briefs: Vec<_> = routes.iter().map(brief).collect();
    let mut all = Map::new();
    all.insert("ready".to_owned(), json!(ready));
    all.insert("upstreams".to_owned(), json!(upstreams));
    all.extend(in_force.state());
    all.insert("routes".to_owned(), json!(briefs));
    Value::Object(all)
}

fn brief<'a>(route: &OfRoute<'a>) -> Brief<'a> {
    Brief { name: route.name, upstream: route.upstream.name() }
}

fn shown<'a>(in_force: &dyn InForce, each: &OfUpstream<'a>, routes: &[OfRoute<'a>]) -> Shown<'a> {
    let upstream = each.upstream;
    let (state, now) = (upstream.snapshot(), upstream.clock().now());
    let endpoints =
        upstream.endpoints().into_iter().enumerate().map(|(at, endpoint)| ShownEndpoint {
            address: in_force.address(upstream.name(), at),
            in_flight: endpoint.in_flight,
            ghosts: endpoint.ghosts,
            failures_in_a_row: endpoint.failures,
            ejected_for_seconds: endpoint.ejected_until.map(|until| left(until, now)),
        });
    Shown {
        name: upstream.name(),
        breaker: state_word(state.breaker),
        breaker_mode: mode_word(state.breaker_mode),
        budget: Budget {
            tokens: finite(state.retries.level),
            max: finite(state.retries.max),
            asked: state.retries.asked,
            allowed: state.retries.allowed,
            denied: state.retries.denied,
        },
        in_flight: state.in_flight,
        limit: (state.limit < u32::MAX).then_some(state.limit),
        trouble: state.trouble.map(|evidence| evidence.as_str()),
        ghosts: state.ghosts,
        queued: state.queued,
        retrying: state.retrying,
        not_before_seconds: left(state.not_before, now),
        patience_seconds: state.patience.as_secs_f64(),
        rate_per_second: state.known.map(|known| known.rate),
        base_seconds: state.known.map(|known| known.base.as_secs_f64()),
        p50_seconds: upstream.p50().map(|p50| p50.as_secs_f64()),
        margin: margin(each, routes),
        levers: upstream.levers().iter().map(|pulled| lever(routes, pulled)).collect(),
        endpoints: endpoints.collect(),
        classes: classes::of(upstream),
    }
}

/// The live margin of an upstream, once its pace is known, with the largest multiplier of its routes when every attempt fails.
pub(super) fn margin(each: &OfUpstream<'_>, routes: &[OfRoute<'_>]) -> Option<f64> {
    let OfUpstream { upstream, spec } = each;
    let of_it = routes.iter().filter(|route| route.upstream.name() == upstream.name());
    let multiplier = of_it.map(|route| worst(route.policy, spec, &Given::default()).most_load);
    upstream.snapshot().margin(upstream.p50()?, multiplier.fold(1.0, f64::max))
}

fn left(until: Time, now: Time) -> f64 {
    until.since(now).as_secs_f64()
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(super) fn state_word(state: State) -> &'static str {
    match state {
        State::Closed => "closed",
        State::Open => "open",
        State::HalfOpen => "half_open",
    }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Report => "report",
        Mode::Disabled => "disabled",
        Mode::ForcedOpen => "forced_open",
        Mode::ForcedClosed => "forced_closed",
    }
}

/// What a lever is called, and its number.
pub(super) const fn lever_word(lever: Lever) -> (&'static str, Option<u32>) {
    match lever {
        Lever::RetriesOff => ("retries-off", None),
        Lever::Attempts(attempts) => ("attempts", Some(attempts)),
        Lever::Limit(limit) => ("limit", Some(limit)),
        Lever::BreakerOpen => ("open", None),
        Lever::BreakerClosed => ("close", None),
    }
}

fn lever<'a>(routes: &[OfRoute<'a>], pulled: &Pulled) -> ShownLever<'a> {
    let (lever, value) = lever_word(pulled.lever);
    let is_its = |route: &&OfRoute<'_>| Some(route_key(route.name)) == pulled.route;
    let route = routes.iter().find(is_its).map(|route| route.name);
    ShownLever { lever, value, route, left_seconds: pulled.left.map(|left| left.as_secs_f64()) }
}

/// `GET /routes`: how each route's calls behave, and what that comes to on its worst day.
#[derive(Debug, Serialize)]
pub(super) struct Effective<'a> {
    name: &'a str,
    upstream: &'a str,
    role: &'static str,
    attempts: u32,
    timeout_seconds: f64,
    per_try_seconds: f64,
    worst: Worst,
    levers: Vec<ShownLever<'a>>,
    /// What a file would say of `route`, `policy` and `upstream`.
    settings: Value,
}

#[derive(Debug, Serialize)]
struct Worst {
    sends: u32,
    latency_seconds: f64,
    load: f64,
}

pub(super) fn routes(in_force: &dyn InForce) -> Vec<Effective<'_>> {
    let (routes, upstreams) = (in_force.routes(), in_force.upstreams());
    let all = 0..routes.len();
    all.filter_map(|place| effective(in_force, &upstreams, &routes, place)).collect()
}

fn effective<'a>(
    in_force: &'a dyn InForce,
    upstreams: &[OfUpstream<'a>],
    routes: &[OfRoute<'a>],
    place: usize,
) -> Option<Effective<'a>> {
    let OfRoute { name, upstream, policy, role, .. } = *routes.get(place)?;
    let spec = upstreams.iter().find(|each| each.upstream.name() == upstream.name())?.spec;
    let day = worst(policy, spec, &Given::default());
    let pulled = upstream.levers();
    let of_it = pulled.iter().filter(|own| own.route.is_none_or(|key| key == route_key(name)));
    Some(Effective {
        name,
        upstream: upstream.name(),
        role: match role {
            Role::Auto => "auto",
            Role::Edge => "edge",
            Role::Interior => "interior",
        },
        attempts: policy.attempts(),
        timeout_seconds: policy.timeout().as_secs_f64(),
        per_try_seconds: policy.per_try().as_secs_f64(),
        worst: Worst {
            sends: day.attempts,
            latency_seconds: day.latency.as_secs_f64(),
            load: day.most_load,
        },
        levers: of_it.map(|pulled| lever(routes, pulled)).collect(),
        settings: in_force.settings(place),
    })
}

/// For how long, as people write it.
pub(super) fn spoken(length: Option<Duration>) -> String {
    length.map_or_else(
        || "until undone".to_owned(),
        |length| format!("for {}", humantime::format_duration(length)),
    )
}

//! View: the state of everything, as JSON for people and programs.

use std::time::Duration;

use crate::config::Config;
use quell::Upstream;
use quell::core::breaker::{Mode, State};
use quell::core::credit::Role;
use quell::core::worst::{Given, worst};
use quell::core::{Lever, Time};
use quell::levers::{Pulled, route_key};
use serde::Serialize;

use super::{classes, settings};
use crate::gateway::backend::Backend;
use crate::gateway::plan::Plan;
use crate::gateway::route::Route;
use crate::gateway::tenants::Tenant;

/// `GET /state`.
#[derive(Debug, Serialize)]
pub(super) struct Everything<'a> {
    ready: bool,
    upstreams: Vec<Shown<'a>>,
    tenants: Vec<ShownTenant<'a>>,
    routes: Vec<Brief<'a>>,
}

/// A tenant and what is left of its limit.
#[derive(Debug, Serialize)]
struct ShownTenant<'a> {
    name: &'a str,
    tokens: Option<u32>,
    capacity: Option<u32>,
}

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

pub(super) fn everything(plan: &Plan, ready: bool) -> Everything<'_> {
    Everything {
        ready,
        upstreams: plan.backends.values().map(|backend| shown(plan, backend)).collect(),
        tenants: plan.tenants.iter().map(|tenant| shown_tenant(tenant)).collect(),
        routes: plan.routes.iter().map(|route| brief(route)).collect(),
    }
}

fn shown_tenant(tenant: &Tenant) -> ShownTenant<'_> {
    let status = tenant.status();
    ShownTenant {
        name: &tenant.name,
        tokens: status.map(|status| status.tokens),
        capacity: status.map(|status| status.capacity),
    }
}

fn brief(route: &Route) -> Brief<'_> {
    Brief { name: &route.name, upstream: route.backend.upstream.name() }
}

fn shown<'a>(plan: &'a Plan, backend: &'a Backend) -> Shown<'a> {
    let upstream = &backend.upstream;
    let (state, now) = (upstream.snapshot(), upstream.clock().now());
    let address = |at: usize| Some(backend.endpoints.get(at)?.target.to_string());
    let endpoints =
        upstream.endpoints().into_iter().enumerate().map(|(at, endpoint)| ShownEndpoint {
            address: address(at),
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
        margin: margin(plan, upstream),
        levers: upstream.levers().iter().map(|pulled| lever(plan, pulled)).collect(),
        endpoints: endpoints.collect(),
        classes: classes::of(backend),
    }
}

/// The live margin of an upstream, once its pace is known, with the largest multiplier of its routes when every attempt fails.
pub(super) fn margin(plan: &Plan, upstream: &Upstream) -> Option<f64> {
    let spec = &plan.file.upstreams.get(upstream.name())?.spec;
    let of_it = plan.routes.iter().filter(|route| route.backend.upstream.name() == upstream.name());
    let multiplier = of_it.map(|route| worst(&route.policy, spec, &Given::default()).most_load);
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

fn lever<'a>(plan: &'a Plan, pulled: &Pulled) -> ShownLever<'a> {
    let (lever, value) = lever_word(pulled.lever);
    let is_its = |route: &&std::sync::Arc<Route>| Some(route_key(&route.name)) == pulled.route;
    let route = plan.routes.iter().find(is_its).map(|route| &*route.name);
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
    settings: serde_json::Value,
}

#[derive(Debug, Serialize)]
struct Worst {
    sends: u32,
    latency_seconds: f64,
    load: f64,
}

pub(super) fn routes(plan: &Plan) -> Vec<Effective<'_>> {
    plan.routes.iter().filter_map(|route| effective(plan, route)).collect()
}

fn effective<'a>(plan: &'a Plan, route: &'a Route) -> Option<Effective<'a>> {
    let (policy, upstream) = (&route.policy, &route.backend.upstream);
    let spec = &plan.file.upstreams.get(upstream.name())?.spec;
    let day = worst(policy, spec, &Given::default());
    let pulled = upstream.levers();
    let of_it =
        pulled.iter().filter(|own| own.route.is_none_or(|key| key == route_key(&route.name)));
    Some(Effective {
        name: &route.name,
        upstream: upstream.name(),
        role: match route.role {
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
        levers: of_it.map(|pulled| lever(plan, pulled)).collect(),
        settings: settings::of(&plan.file, &route.written),
    })
}

/// `GET /config`: all that is in force, secrets as their places.
pub(super) fn config(file: &Config) -> String {
    file.effective()
}

/// For how long, as people write it.
pub(super) fn spoken(length: Option<Duration>) -> String {
    length.map_or_else(
        || "until undone".to_owned(),
        |length| format!("for {}", humantime::format_duration(length)),
    )
}

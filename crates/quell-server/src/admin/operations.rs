//! Operations: what a host has to say and to do for the admin side to serve it.
//!
//! **Why.** An operator asks a gateway and a worker the same: are you ready, what is in force, who is in trouble, stop the retries.
//! The answers look the same only if one admin side gives them, and that is possible only if it does not know who asks it to.
//!
//! **How.** A host implements [`Operations`] for what stays the same while it runs, and [`InForce`] for what a reload swaps. Each
//! request takes what is in force once, so that it never sees half of a reload. What only this host has comes as it is: more JSON,
//! more metrics, settings of a route as its file would write them.

use std::sync::Arc;

use quell::Upstream;
use quell::core::Policy;
use quell::core::credit::Role;
use quell::core::spec::UpstreamSpec;
use serde_json::{Map, Value};

use super::exposition::{Page, Row};
use crate::config::Secret;
use crate::host::access::Access;
use crate::host::counters::Counters;
use crate::host::side::Chores;

/// A host, as the admin side needs it.
pub(crate) trait Operations: Chores {
    /// Whether it takes work.
    fn is_ready(&self) -> bool;

    /// Takes no more work, finishes what is under way and ends. Nothing happens the second time.
    fn drain(&self);

    /// All that a reload may change, as it is now.
    fn in_force(&self) -> Arc<dyn InForce>;

    /// Counts of work that no route took.
    fn unrouted(&self) -> Vec<&Counters>;

    /// Its access log, if it has one.
    fn access(&self) -> Option<&Access>;

    /// Metrics that only this host has, in the order in which [`Operations::count`] shows them.
    fn rows(&self) -> &'static [Row];

    /// Shows each of its [rows](Operations::rows).
    fn count(&self, page: &mut Page);
}

/// What is in force between two reloads.
pub(crate) trait InForce: Send + Sync {
    /// What an operator has to know to change something.
    fn token(&self) -> Token<'_>;

    /// In the order in which they are shown.
    fn upstreams(&self) -> Vec<OfUpstream<'_>>;

    /// Where the endpoint with this number of an upstream is.
    fn address(&self, upstream: &str, endpoint: usize) -> Option<String>;

    /// In the order in which they are tried. A worker's routes are its pipelines.
    fn routes(&self) -> Vec<OfRoute<'_>>;

    /// What a file would say of the route at this place, every default written out.
    fn settings(&self, route: usize) -> Value;

    /// What `/state` shows besides upstreams and routes.
    fn state(&self) -> Map<String, Value>;

    /// The whole file as it is in force, secrets as their places.
    fn config(&self) -> String;
}

/// What has to be shown by whoever changes something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    /// Where it is written, such as `gateway.admin_token`.
    pub(crate) setting: &'static str,
    /// Nothing can be changed without one.
    pub(crate) secret: Option<&'a Secret>,
}

/// One upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfUpstream<'a> {
    pub(crate) upstream: &'a Upstream,
    /// What its callers share, as written.
    pub(crate) spec: &'a UpstreamSpec,
}

/// One route, or one pipeline of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfRoute<'a> {
    pub(crate) name: &'a str,
    pub(crate) upstream: &'a Upstream,
    /// How its calls behave.
    pub(crate) policy: &'a Policy,
    /// Where in a chain of hosts its calls are.
    pub(crate) role: Role,
    /// What its calls came to, one set for each thread that makes them.
    pub(crate) counters: &'a [Counters],
}

//! Operations: a gateway as the admin side and the side thread see it.
//!
//! **Why.** Admin side, metrics, levers and reloads are the same for every host. Here stands what they have to know of a gateway, and
//! nowhere else.

use std::sync::Arc;
use std::time::Duration;

use quell::core::Reason;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::counters::Counters;
use super::per_core::Gateway;
use super::plan::Plan;
use super::{metrics, settings};
use crate::admin::exposition::{Page, Row};
use crate::admin::operations::{InForce, OfRoute, OfUpstream, Operations, Token};
use crate::host::access::Access;
use crate::host::life::Life;
use crate::host::log::Log;
use crate::host::reload::Source;
use crate::host::side::Chores;

/// A gateway and where it stands in its life.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) gateway: Arc<Gateway>,
    pub(super) life: Life,
}

impl Chores for Served {
    fn log(&self) -> &Log {
        &self.gateway.log
    }

    fn source(&self) -> &Source {
        &self.gateway.source
    }

    fn watch(&self) -> Option<Duration> {
        self.gateway.plan.load().file.gateway.watch
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        self.gateway.reload().map_err(|error| error.to_string())
    }

    fn refused(&self, reason: Reason) -> u64 {
        self.gateway.sum(|counters| &counters.refusals[reason as usize])
    }

    fn look_at_certificates(&self) {
        self.gateway.look_at_certificates();
    }
}

impl Operations for Served {
    fn is_ready(&self) -> bool {
        self.life.is_serving()
    }

    fn drain(&self) {
        self.life.drain();
    }

    fn in_force(&self) -> Arc<dyn InForce> {
        self.gateway.plan.load_full()
    }

    fn unrouted(&self) -> Vec<&Counters> {
        self.gateway.cores.iter().map(|core| &core.unrouted).collect()
    }

    fn access(&self) -> Option<&Access> {
        self.gateway.access.as_deref()
    }

    fn rows(&self) -> &'static [Row] {
        metrics::ROWS
    }

    fn count(&self, page: &mut Page) {
        metrics::show(&self.gateway, page);
    }
}

/// A tenant and what is left of its limit.
#[derive(Debug, Serialize)]
struct ShownTenant<'a> {
    name: &'a str,
    tokens: Option<u32>,
    capacity: Option<u32>,
}

impl InForce for Plan {
    fn token(&self) -> Token<'_> {
        let secret = self.file.gateway.admin_token.as_ref();
        Token { setting: "gateway.admin_token", secret }
    }

    fn upstreams(&self) -> Vec<OfUpstream<'_>> {
        let all = self.backends.values().filter_map(|backend| {
            let upstream = &backend.upstream;
            let spec = &self.file.upstreams.get(upstream.name())?.spec; // backends are made of these
            Some(OfUpstream { upstream, spec })
        });
        all.collect()
    }

    fn address(&self, upstream: &str, endpoint: usize) -> Option<String> {
        let endpoints = &self.backends.get(upstream)?.endpoints;
        endpoints.get(endpoint).map(|endpoint| endpoint.target.to_string())
    }

    fn routes(&self) -> Vec<OfRoute<'_>> {
        let all = self.routes.iter().map(|route| OfRoute {
            name: &route.name,
            upstream: &route.backend.upstream,
            policy: &route.policy,
            role: route.role,
            counters: &route.counters,
        });
        all.collect()
    }

    fn settings(&self, route: usize) -> Value {
        let route = self.routes.get(route);
        route.map_or(Value::Null, |route| settings::of(&self.file, &route.written))
    }

    fn state(&self) -> Map<String, Value> {
        let tenants = self.tenants.iter().map(|tenant| {
            let status = tenant.status();
            ShownTenant {
                name: &tenant.name,
                tokens: status.map(|status| status.tokens),
                capacity: status.map(|status| status.capacity),
            }
        });
        Map::from_iter([("tenants".to_owned(), json!(tenants.collect::<Vec<_>>()))])
    }

    fn config(&self) -> String {
        self.file.effective()
    }
}

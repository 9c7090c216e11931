//! Policies by name: those of the file, exactly.

use quell::core::spec::{PolicySpec, UpstreamSpec};

use crate::config::{Config, Policy, Repeats, Route, fields::Fields};

/// How calls behave and what they share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) policy: PolicySpec,
    pub(super) upstream: UpstreamSpec,
    /// Whether requests that are not safe to repeat are repeated.
    pub(super) always: bool,
    /// How many processes share the upstream's budget, if it says so.
    pub(super) instances: Option<u32>,
}

/// Reads `policy` and `upstream`, or `route`, which names both; `None` if none of them is written, or if one is wrong. A policy
/// without an upstream has `usual` beside it; an upstream without a policy has the one that the file has for it.
pub(super) fn read(config: &Config, fields: &Fields<'_>, usual: UpstreamSpec) -> Option<Named> {
    let policy = fields.reference("policy", "policy", config.policies.keys());
    let mut routed = None;
    let mut upstream = fields.reference("upstream", "upstream", config.upstreams.keys());
    if let Some(written) = fields.get::<String>("route") {
        let path = |route: &Route| route.matches.path.as_str().to_owned();
        let route = config.routes.iter().find(|it| path(it) == written || it.name == written);
        let Some(route) = route else {
            let known: Vec<_> = config.routes.iter().map(path).collect();
            let fix = match known.as_slice() {
                [] => "write [[route]] with match = { path = … } and upstream".to_owned(),
                known => format!("write {}", known.join(" or ")),
            };
            fields.wrong(
                "route",
                format_args!(
                    "is \"{}\", and no route has that path: {fix}",
                    written.escape_debug()
                ),
            );
            return None;
        };
        if policy.is_some() || upstream.is_some() {
            fields.wrong("route", "names both policy and upstream: write either it or them");
        }
        upstream = Some(route.upstream.clone());
        routed = Some(config.policy_of(route));
    }
    let written = match (&policy, &upstream) {
        _ if routed.is_some() => routed,
        (Some(policy), _) => config.policies.get(policy).cloned(),
        (None, Some(upstream)) => Some(config.policy_for(upstream)),
        (None, None) => None,
    };
    let Policy { spec: policy, unsafe_methods, .. } = written?;
    let found = upstream.and_then(|upstream| config.upstreams.get(&upstream));
    // A service of the model is one endpoint.
    let spec = found.map_or(usual, |found| UpstreamSpec { endpoints: 1, ..found.spec });
    Some(Named {
        policy,
        upstream: spec,
        always: unsafe_methods == Repeats::Always,
        instances: found.and_then(|found| found.budget.instances),
    })
}

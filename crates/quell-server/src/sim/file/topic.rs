//! Records of a topic instead of users who wait.

use quell::core::{
    ladder,
    spec::{PolicySpec, UpstreamSpec},
};
use quell_sim::{
    Scenario,
    scenario::{Callers, Topic},
};

use super::policies;
use crate::config::{Config, fields::Fields};

/// Reads `{ tiers = ["30s", "5m"], concurrency = 8, upstream = "…" }`, or `worker`, which has tiers; over what the scenario has.
pub(super) fn read(config: &Config, fields: &Fields<'_>, scenario: Scenario) -> Scenario {
    let mut topic = scenario.topic.clone().unwrap_or_default();
    let worker = fields.reference("worker", "worker", config.workers.keys());
    if let Some(worker) = worker.and_then(|name| config.workers.get(&name)) {
        topic.tiers = ladder::Spec::Tiers(worker.tiers.clone());
    }
    if let Some(tiers) = fields.list("tiers") {
        topic.tiers = ladder::Spec::Tiers(tiers);
    }
    fields.set("concurrency", &mut topic.concurrency);
    if let Some(named) = policies::read(config, fields, UpstreamSpec::background()) {
        // What fails waits on a tier and not in a hand.
        topic.policy = PolicySpec { attempts: 1, ..named.policy };
        topic.upstream = named.upstream;
    }
    of(topic, scenario)
}

/// The scenario with records of this topic.
pub(super) fn of(topic: Topic, scenario: Scenario) -> Scenario {
    // Nobody calls; but what theory expects is said of callers.
    let callers = Callers::Quell { policy: topic.policy, upstream: topic.upstream };
    Scenario { topic: Some(topic), callers, ..scenario }
}

//! Ways to face a scenario: those that everybody knows, and those of the file.

use std::time::Duration;

use quell::core::{backoff, spec::UpstreamSpec};
use quell_sim::{
    Scenario,
    scenario::{Callers, Gateway},
};

use super::{
    plan::Way,
    policies::{self, Named},
    store, topic,
};
use crate::config::{self, Config, fields::Fields};
use crate::sim::rungs::{self, Rung};

/// A way that everybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Naive,
    NoRetries,
    TenTimes,
    RateLimit,
    Backoff,
    Rung(Rung),
    Client,
    Front,
    Worker,
}

/// Each with its word and its label; the word of the usual ones is marked.
const KNOWN: [(Known, &str, &str, bool); 12] = [
    (Known::Naive, "naive", "naive retries", true),
    (Known::NoRetries, "no-retries", "no retries", true),
    (Known::TenTimes, "ten-times", "10 × capacity", false),
    (Known::RateLimit, "rate-limit", "rate limit alone", false),
    (Known::Backoff, "backoff", "backoff + jitter", true),
    (Known::Rung(Rung::Budget), "budget", "budget", false),
    (Known::Rung(Rung::AllThree), "all-three", "all three", false),
    (Known::Rung(Rung::Breaker), "breaker", "+ breaker", false),
    (Known::Rung(Rung::Queue), "queue", "+ queue", false),
    (Known::Client, "client", "Quell in the callers", true),
    (Known::Front, "front", "Quell in front", true),
    (Known::Worker, "worker", "Quell's worker", false),
];

/// Whether a word stands for callers without Quell, or with a part of it, that are there to be compared with.
pub(super) fn is_compared_with(word: &str) -> bool {
    let quell = [Known::Client, Known::Front, Known::Worker];
    KNOWN.iter().any(|known| known.1 == word && !quell.contains(&known.0))
}

/// Reads `against` and `way`: who faces this, and who else could.
pub(super) fn read(
    config: &Config,
    fields: &Fields<'_>,
    scenario: &Scenario,
    named: Option<Named>,
) -> (Vec<Way>, Vec<Way>) {
    let mut starts = Duration::ZERO;
    if let Some(gateway) = fields.table("gateway") {
        gateway.set("starts", &mut starts);
    }
    let known = KNOWN.map(|(known, word, label, _)| Way {
        word: word.to_owned(),
        label: label.to_owned(),
        scenario: faced(known, scenario.clone(), named, starts),
    });
    let own = fields.named("way").into_iter().map(|(word, inside)| {
        if KNOWN.iter().any(|(_, known, ..)| *known == word) {
            inside.wrong(
                "label",
                format_args!(
                    "cannot be set: \"{word}\" is a way that everybody knows; write another name"
                ),
            );
        }
        own(config, word, &inside, scenario.clone())
    });
    let own: Vec<_> = own.collect();
    let usual: Vec<_> = match own.len() {
        0 if scenario.topic.is_some() => vec![KNOWN.len() - 1],
        // Kinds say for themselves who tries again.
        0 if !scenario.kinds.is_empty() => {
            let usual = [Known::Naive, Known::Front];
            (0..KNOWN.len()).filter(|&i| usual.contains(&KNOWN[i].0)).collect()
        }
        0 => (0..KNOWN.len()).filter(|&i| KNOWN[i].3).collect(),
        own => (KNOWN.len()..KNOWN.len() + own).collect(),
    };
    let all: Vec<_> = known.into_iter().chain(own).collect();
    let words: Vec<_> = all.iter().map(|way| way.word.as_str()).collect();
    let written = fields.words("against", &words);
    let chosen = written.filter(|written| !written.is_empty()).unwrap_or(usual);
    let others = (0..all.len()).filter(|i| !chosen.contains(i)).map(|i| all[i].clone());
    let others = others.collect();
    (chosen.into_iter().map(|i| all[i].clone()).collect(), others)
}

/// The scenario as one of those faces it who everybody knows; `named` is what Quell does in it.
fn faced(known: Known, scenario: Scenario, named: Option<Named>, starts: Duration) -> Scenario {
    match known {
        Known::Naive => scenario,
        Known::NoRetries => scenario.with_callers(Callers::NO_RETRIES),
        Known::Backoff => scenario.with_callers(Callers::backoff()),
        Known::TenTimes => rungs::ten_times(scenario),
        Known::RateLimit => rungs::rate_limit(scenario),
        Known::Rung(rung) => rungs::up_to(rung, scenario),
        Known::Client => match named {
            Some(named) => inside(scenario, named),
            None => {
                let quell = Callers::quell(scenario.patience);
                scenario.with_callers(quell)
            }
        },
        Known::Front => in_front(scenario, named, named_gateway(named, starts)),
        Known::Worker => topic::of(scenario.topic.clone().unwrap_or_default(), scenario),
    }
}

fn inside(scenario: Scenario, named: Named) -> Scenario {
    let Named { mut policy, upstream, always, .. } = named;
    let writes = if always { 0.0 } else { scenario.writes };
    // Whoever calls through the library is as patient as anybody else in the scenario.
    let own = quell::core::Policy::new(policy).map_or(policy.timeout, |valid| valid.per_try());
    policy.per_try_timeout = Some(own.min(scenario.patience));
    Scenario { writes, callers: Callers::Quell { policy, upstream }, ..scenario }
}

fn in_front(scenario: Scenario, named: Option<Named>, gateway: Gateway) -> Scenario {
    let always = named.is_some_and(|named| named.always);
    let writes = if always { 0.0 } else { scenario.writes };
    Scenario { writes, gateway: Some(gateway), ..scenario }
}

fn named_gateway(named: Option<Named>, starts: Duration) -> Gateway {
    let usual = Gateway { starts, ..Gateway::default() };
    named.map_or(usual, |named| Gateway { policy: named.policy, upstream: named.upstream, ..usual })
}

/// `{ policy = "…", upstream = "…", starts = "60s" }`, all of which may be left out.
pub(super) fn gateway(config: &Config, fields: &Fields<'_>) -> (Option<Named>, Gateway) {
    let mut starts = Duration::ZERO;
    fields.set("starts", &mut starts);
    let named = policies::read(config, fields, UpstreamSpec::gateway());
    (named, named_gateway(named, starts))
}

/// A way of the file.
fn own(config: &Config, word: String, fields: &Fields<'_>, scenario: Scenario) -> Way {
    let label = fields.get("label").unwrap_or_else(|| word.clone());
    let mut scenario = match fields.is_table("callers") {
        true => match fields.table("callers") {
            Some(table) => callers(config, &table, scenario),
            None => scenario,
        },
        false => {
            let words = [
                ("naive", Known::Naive),
                ("no-retries", Known::NoRetries),
                ("backoff", Known::Backoff),
                ("client", Known::Client),
            ];
            let known = fields.word("callers", &words).unwrap_or(Known::Naive);
            faced(known, scenario, None, Duration::ZERO)
        }
    };
    if let Some(table) = fields.table("gateway") {
        let (named, gateway) = gateway(config, &table);
        scenario = in_front(scenario, named, gateway);
    }
    if let Some(table) = fields.table("topic") {
        scenario = topic::read(config, &table, scenario);
    }
    if let Some(table) = fields.table("store") {
        scenario.store = Some(store::read(&table));
        if let Err(error) = scenario.check() {
            fields.invalid(&error);
        }
    }
    fields.set("credit", &mut scenario.credit);
    Way { word, label, scenario }
}

/// `{ retries = 3, pause = "1s" }`, `{ retries = 3, backoff = { … } }` or `{ policy = "…", upstream = "…" }`.
fn callers(config: &Config, fields: &Fields<'_>, scenario: Scenario) -> Scenario {
    let retries = fields.get("retries");
    if fields.has("retries") {
        let mut pause = Duration::from_secs(1);
        let callers = match fields.table("backoff") {
            Some(table) => {
                let mut backoff = backoff::Spec::default();
                config::backoff(&table, &mut backoff);
                if let Err(error) = backoff::Backoff::new(backoff) {
                    fields.invalid(&error);
                }
                Callers::Backoff { retries: retries.unwrap_or(0), backoff }
            }
            None => {
                fields.set("pause", &mut pause);
                Callers::Fixed { retries: retries.unwrap_or(0), pause }
            }
        };
        return scenario.with_callers(callers);
    }
    if let Some(named) = policies::read(config, fields, UpstreamSpec::library()) {
        return inside(scenario, named);
    }
    if !["policy", "upstream", "route"].iter().any(|key| fields.has(key)) {
        fields.wrong("retries", "is missing: write how often they try again, or the policy and the upstream of a file's own");
    }
    scenario
}

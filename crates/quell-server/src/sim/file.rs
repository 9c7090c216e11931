//! Scenario files: what people write, and what the simulator gets.
//!
//! ```
//! use quell_server::sim::file;
//!
//! let plans = file::parse(file::STORM)?;
//! assert_eq!(plans.len(), 3);
//! let error = file::parse("version = 1\n[scenario.x]\nload = \"10\"").unwrap_err();
//! assert!(error.to_string().contains("line 3"), "{error}");
//! # Ok::<_, file::Invalid>(())
//! ```

use std::{collections::BTreeMap, time::Duration};

use quell_sim::{
    Scenario,
    dist::Dist,
    scenario::{Callers, Outage, OutageKind, Service},
};
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    gate::Promises,
    rungs::{self, Rung},
};

/// The storm that ships with Quell.
pub const STORM: &str = include_str!("../../../quell-sim/scenarios/storm.toml");
/// The storm against every cure, one more at a time.
pub const LADDER: &str = include_str!("../../../quell-sim/scenarios/ladder.toml");
/// What the demo does, for the simulator.
pub const DEMO: &str = include_str!("../../../quell-sim/scenarios/demo.toml");

/// A scenario file that ships with Quell, by its name.
pub fn shipped(name: &str) -> Option<&'static str> {
    Some(match name {
        "storm" => STORM,
        "ladder" => LADDER,
        "demo" => DEMO,
        _ => return None,
    })
}

/// Why a text is not a scenario file: says where and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// Not TOML, or not these fields.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// Another format.
    #[error("version is {0}: this quell reads version 1")]
    Version(u32),
    /// Nothing to do.
    #[error("no scenario: write a table such as [scenario.stall]")]
    Empty,
    /// A value that makes no sense.
    #[error("scenario.{name}.{field}: {fix}")]
    Field {
        /// Which scenario.
        name: String,
        /// Which field.
        field: &'static str,
        /// What to write.
        fix: String,
    },
}

/// Who faces the outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// Three retries, a second apart.
    Naive,
    /// One try.
    NoRetries,
    /// Three retries a second apart, and ten times the workers.
    TenTimes,
    /// Three retries a second apart, and a rate limit in front that lets through what the service can do.
    RateLimit,
    /// Three retries with exponential backoff and full jitter.
    Backoff,
    /// A retry budget in the callers, with three retries a second apart.
    Budget,
    /// Backoff, a budget and a rate limit in the callers.
    AllThree,
    /// The same and a breaker.
    Breaker,
    /// The same and an in-flight limit with a queue.
    Queue,
    /// Quell's library inside the callers.
    Client,
    /// Naive callers, and Quell in front of the service.
    Front,
}

impl Against {
    /// Who faces a scenario that does not say it, worst first.
    pub const USUAL: [Self; 5] =
        [Self::Naive, Self::NoRetries, Self::Backoff, Self::Client, Self::Front];

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Naive => "naive retries",
            Self::NoRetries => "no retries",
            Self::TenTimes => "10 × capacity",
            Self::RateLimit => "rate limit alone",
            Self::Backoff => "backoff + jitter",
            Self::Budget => "budget",
            Self::AllThree => "all three",
            Self::Breaker => "+ breaker",
            Self::Queue => "+ queue",
            Self::Client => "Quell in the callers",
            Self::Front => "Quell in front",
        }
    }

    /// For machines: the word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::NoRetries => "no-retries",
            Self::TenTimes => "ten-times",
            Self::RateLimit => "rate-limit",
            Self::Backoff => "backoff",
            Self::Budget => "budget",
            Self::AllThree => "all-three",
            Self::Breaker => "breaker",
            Self::Queue => "queue",
            Self::Client => "client",
            Self::Front => "front",
        }
    }
}

/// A scenario by name, and who is to face it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name in the file.
    pub name: String,
    /// The scenario with naive callers.
    pub scenario: Scenario,
    /// Who faces it.
    pub against: Vec<Against>,
    /// What must hold with `--gate`.
    pub promises: Option<Promises>,
}

impl Plan {
    /// The scenario as one of them faces it.
    pub fn faced_by(&self, who: Against) -> Scenario {
        let scenario = self.scenario.clone();
        match who {
            Against::Naive => scenario,
            Against::NoRetries => scenario.with_callers(Callers::NO_RETRIES),
            Against::Backoff => scenario.with_callers(Callers::backoff()),
            Against::TenTimes => rungs::ten_times(scenario),
            Against::RateLimit => rungs::rate_limit(scenario),
            Against::Budget => rungs::up_to(Rung::Budget, scenario),
            Against::AllThree => rungs::up_to(Rung::AllThree, scenario),
            Against::Breaker => rungs::up_to(Rung::Breaker, scenario),
            Against::Queue => rungs::up_to(Rung::Queue, scenario),
            Against::Client => {
                let quell = Callers::quell(scenario.patience);
                scenario.with_callers(quell)
            }
            Against::Front => scenario.with_gateway(),
        }
    }
}

/// Reads a scenario file.
pub fn parse(text: &str) -> Result<Vec<Plan>, Invalid> {
    let file: File = toml::from_str(text)?;
    if file.version != 1 {
        return Err(Invalid::Version(file.version));
    }
    if file.scenario.is_empty() {
        return Err(Invalid::Empty);
    }
    file.scenario.into_iter().map(|(name, written)| written.check(name)).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    scenario: BTreeMap<String, Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(deserialize_with = "rate")]
    load: f64,
    #[serde(default = "one")]
    instances: u32,
    #[serde(deserialize_with = "duration")]
    patience: Duration,
    service: WrittenService,
    outage: WrittenOutage,
    #[serde(deserialize_with = "duration")]
    watch: Duration,
    #[serde(default = "everybody")]
    against: Vec<Against>,
    #[serde(rename = "assert")]
    promises: Option<Promises>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenService {
    workers: u32,
    #[serde(deserialize_with = "duration")]
    time: Duration,
    #[serde(default)]
    spread: WrittenSpread,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum WrittenSpread {
    #[default]
    Constant,
    Exponential,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOutage {
    kind: WrittenKind,
    #[serde(deserialize_with = "duration")]
    at: Duration,
    #[serde(deserialize_with = "duration")]
    length: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenKind {
    Fail,
    Hole,
    Stall,
}

impl Written {
    fn check(self, name: String) -> Result<Plan, Invalid> {
        let wrong = |field, fix: &str| {
            Err(Invalid::Field { name: name.clone(), field, fix: fix.to_owned() })
        };
        if self.instances == 0 {
            return wrong("instances", "is 0, so nobody would call: write at least 1");
        }
        if self.patience.is_zero() {
            return wrong("patience", "is 0s, so everybody leaves at once: write such as \"1s\"");
        }
        if self.service.workers == 0 || self.service.time.is_zero() {
            return wrong("service", "does nothing: write workers and time above 0");
        }
        let whole = |duration: Duration| duration.subsec_nanos() == 0;
        if !whole(self.outage.at) || !whole(self.outage.length) || !whole(self.watch) {
            return wrong(
                "outage",
                "is judged by whole seconds: write at, length and watch as such",
            );
        }
        if self.watch < Duration::from_secs(25) {
            return wrong("watch", "is too short to believe a recovery: write at least \"25s\"");
        }
        let kind = match self.outage.kind {
            WrittenKind::Fail => OutageKind::Fail,
            WrittenKind::Hole => OutageKind::Hole,
            WrittenKind::Stall => OutageKind::Stall,
        };
        let time = match self.service.spread {
            WrittenSpread::Constant => Dist::Constant(self.service.time),
            WrittenSpread::Exponential => Dist::Exponential { mean: self.service.time },
        };
        let scenario = Scenario {
            load: self.load,
            instances: self.instances,
            patience: self.patience,
            callers: Callers::NAIVE,
            gateway: None,
            service: Service::new(self.service.workers, time),
            outage: Outage { kind, at: self.outage.at, length: self.outage.length },
            watch: self.watch,
            ..Scenario::storm(kind)
        };
        Ok(Plan { name, scenario, against: self.against, promises: self.promises })
    }
}

fn one() -> u32 {
    1
}

fn everybody() -> Vec<Against> {
    Against::USUAL.to_vec()
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text)
        .map_err(|error| D::Error::custom(format!("{error}: write a duration such as \"10s\"")))
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Requests per second, written as `300/s`.
fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let text = String::deserialize(from)?;
    let number = text.strip_suffix("/s").and_then(|number| number.trim().parse::<f64>().ok());
    number
        .filter(|rate| (0.001..=1e7).contains(rate))
        .ok_or_else(|| D::Error::custom(format!("\"{text}\" is no load: write such as \"300/s\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_storm_is_the_storm() {
        for plan in parse(STORM).unwrap() {
            assert_eq!(plan.scenario, Scenario::storm(plan.scenario.outage.kind), "{}", plan.name);
            assert_eq!(plan.against, Against::USUAL);
        }
        for plan in parse(LADDER).unwrap() {
            assert_eq!(plan.scenario, Scenario::storm(plan.scenario.outage.kind), "{}", plan.name);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_fix() {
        let with =
            |from: &str, to: &str| parse(&DEMO.replacen(from, to, 1)).unwrap_err().to_string();
        for (from, to, expected) in [
            ("version = 1", "version = 2", "this quell reads version 1"),
            ("load = \"300/s\"", "laod = \"300/s\"", "unknown field `laod`"),
            ("300/s", "300", "write such as \"300/s\""),
            ("patience = \"1s\"", "patience = \"1x\"", "write a duration such as"),
            ("watch = \"30s\"", "watch = \"3s\"", "at least \"25s\""),
            ("workers = 36", "workers = 0", "workers and time above 0"),
            ("at = \"10s\"", "at = \"10500ms\"", "whole seconds"),
            ("\"naive\"", "\"naif\"", "unknown variant `naif`"),
        ] {
            let message = with(from, to);
            assert!(message.contains(expected), "{to}: {message}");
        }
        assert!(matches!(parse("version = 1"), Err(Invalid::Empty)));
    }
}

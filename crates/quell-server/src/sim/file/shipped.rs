//! Scenario files that ship with the command.

use crate::config::value;

/// A scenario file that ships with Quell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// What to write after `quell sim`.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

impl Shipped {
    /// What it is about: its first line.
    pub fn about(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        /// All of them.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../quell-sim/scenarios/", $name, ".toml")),
        }),+];
    };
}

shipped![
    "storm",
    "ladder",
    "demo",
    "gateways",
    "slow-gateway",
    "refusals",
    "cascade",
    "clients",
    "earned",
    "bound",
    "chains",
    "herd",
    "brooker",
    "hotos",
    "queues",
    "drained",
    "low-traffic",
    "drift",
    "deadline",
    "fleets",
    "shared-budget",
    "shards",
    "jitter",
    "hint",
    "fatal",
    "topic",
    "hops",
    "mixed-health",
    "long-polls",
    "hang-ups",
    "bursts",
    "uploads",
    "failing-path",
    "hostile-caller",
];

/// The storm.
pub const STORM: &str = include_str!("../../../../quell-sim/scenarios/storm.toml");
/// The storm against every cure, one more at a time.
pub const LADDER: &str = include_str!("../../../../quell-sim/scenarios/ladder.toml");
/// What the demo does, for the simulator.
pub const DEMO: &str = include_str!("../../../../quell-sim/scenarios/demo.toml");
/// What the demo does with three gateways in a row.
pub const GATEWAYS: &str = include_str!("../../../../quell-sim/scenarios/gateways.toml");

/// What somebody who wrote this may have meant.
pub fn nearest(written: &str) -> String {
    match value::nearest(written, SHIPPED.iter().map(|shipped| shipped.name)) {
        Some(near) => format!("write {near}"),
        None => "one that `quell sim --list` shows".to_owned(),
    }
}

/// One of them, by its name.
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|shipped| shipped.name == name).map(|shipped| shipped.text)
}

//! Worlds: services and the troubles that befall them.
//!
//! [`all`] are the worlds of the first edition: one kind of request, and every trouble. [`health`] are services with nothing wrong,
//! [`mixed`] several kinds of requests in every trouble.

pub mod health;
pub mod mixed;

use core::time::Duration;

use crate::{
    dist::Dist,
    scenario::{Arrivals, Callers, Curve, Gateway, Outage, OutageKind, Scenario, Service, Sharing},
};

/// What worlds are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edition {
    /// One kind of request, in every trouble.
    Old,
    /// Nothing is wrong, and nobody may be refused.
    Health,
    /// Several kinds of requests, or callers who hang up, in every trouble.
    Mixed,
}

impl Edition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Old, Self::Health, Self::Mixed];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Old => "old",
            Self::Health => "health",
            Self::Mixed => "mixed",
        }
    }

    /// Its worlds.
    pub fn worlds(self) -> Vec<World> {
        match self {
            Self::Old => all(),
            Self::Health => health::all(),
            Self::Mixed => mixed::all(),
        }
    }
}

/// A service, its callers and a trouble, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// Such as `fifo/stall-10`.
    pub name: String,
    /// All of it but the gateway.
    pub scenario: Scenario,
    /// Requests per second the service can do after the trouble.
    pub capacity_after: f64,
    /// How long work takes after the trouble: an answer cannot come any sooner.
    pub time_after: Duration,
    /// What it is about.
    pub edition: Edition,
    /// Quell in front, but for the rule.
    pub gateway: Gateway,
    /// In health: the share of good callers who may go without.
    pub allowed: f64,
    /// The kind that alone is hit, if one is: the others have to be served all the while.
    pub hit: Option<usize>,
}

/// How a service treats those inside.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Fifo,
    Sharing(f64),
}

/// What befalls it.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Down(OutageKind, u64),
    /// From this share of its load to the whole of it.
    Step(f64),
    /// This many times its load, for good.
    Overload(f64),
    /// Slower, and as many times larger.
    Larger(f64),
    Halved,
}

#[derive(Debug, Clone, Copy)]
struct Recipe {
    kind: Kind,
    spread: &'static str,
    workers: u32,
    time_ms: u64,
    load: f64,
    patience_ms: u64,
    trouble: Trouble,
}

const BASE: Recipe = Recipe {
    kind: Kind::Fifo,
    spread: "constant",
    workers: 36,
    time_ms: 100,
    load: 0.83,
    patience_ms: 1000,
    trouble: Trouble::Down(OutageKind::Stall, 10),
};

const AT: u64 = 30;
const WATCH: u64 = 46;

fn dist(spread: &str, mean: Duration) -> Dist {
    match spread {
        "constant" => Dist::Constant(mean),
        // A p99 of eight times the median has a mean of 1.49 times the median.
        "lognormal" => {
            let p50 = mean.mul_f64(0.670);
            Dist::Lognormal { p50, p99: p50.mul_f64(8.0) }
        }
        "bimodal" => Dist::Bimodal { fast: mean.mul_f64(0.2), slow: mean.mul_f64(8.2), share: 0.1 },
        _ => Dist::Exponential { mean },
    }
}

impl Recipe {
    fn world(self) -> World {
        let s = Duration::from_secs;
        let time = Duration::from_millis(self.time_ms);
        let mut service = Service::new(self.workers, dist(self.spread, time));
        if let Kind::Sharing(loss) = self.kind {
            service.sharing = Some(Sharing { loss });
        }
        let capacity = f64::from(self.workers) / time.as_secs_f64();
        let load = capacity * self.load;
        let shaped = |before: f64| {
            let at = AT as f64;
            Arrivals::Shaped(Curve(vec![(0.0, before), (at, before), (at, 1.0), (at + 1e6, 1.0)]))
        };
        let none = OutageKind::Latency { factor: 1.0 };
        let forever = |kind| Outage { kind, at: s(AT), length: s(100_000) };
        let (mut faults, mut arrivals, mut factor, mut capacity_after) =
            (vec![], Arrivals::Random, 1.0, capacity);
        let (kind, length) = match self.trouble {
            Trouble::Down(kind, length) => (kind, length),
            Trouble::Step(before) => {
                arrivals = shaped(before);
                (none, 0)
            }
            Trouble::Overload(times) => {
                (arrivals, factor) = (shaped(1.0 / times), times);
                (none, 0)
            }
            Trouble::Larger(times) => {
                faults.push(forever(OutageKind::Grown { factor: times }));
                faults.push(forever(OutageKind::Latency { factor: times }));
                // Nothing that starts from now on can be answered any sooner.
                (none, time.mul_f64(times).as_secs_f64().ceil() as u64)
            }
            Trouble::Halved => {
                capacity_after = capacity / 2.0;
                faults.push(forever(OutageKind::Partial { share: 0.5 }));
                (none, 0)
            }
        };
        let patience = Duration::from_millis(self.patience_ms).max(time * 3);
        let time_after = match self.trouble {
            Trouble::Larger(times) => time.mul_f64(times),
            _ => time,
        };
        let patience = patience.max(time_after * 3);
        let scenario = Scenario {
            load: load * factor,
            arrivals,
            instances: 1,
            patience,
            callers: Callers::NAIVE,
            service,
            outage: Outage { kind, at: s(AT), length: s(length) },
            faults,
            watch: s(WATCH),
            ..Scenario::storm(OutageKind::Stall)
        };
        World {
            name: self.name(),
            scenario,
            capacity_after,
            time_after,
            edition: Edition::Old,
            gateway: Gateway::default(),
            allowed: 0.0,
            hit: None,
        }
    }

    fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Fifo => "fifo".to_owned(),
            Kind::Sharing(0.0) => "sharing".to_owned(),
            Kind::Sharing(loss) => format!("degrading-{loss}"),
        };
        let trouble = match self.trouble {
            Trouble::Down(OutageKind::Latency { .. }, length) => format!("slow-{length}"),
            Trouble::Down(kind, length) => format!("{}-{length}", kind.as_str()),
            Trouble::Step(before) => format!("step-{:.2}", 1.0 / before),
            Trouble::Overload(times) => format!("overload-{times}"),
            Trouble::Larger(times) => format!("larger-{times}"),
            Trouble::Halved => "halved".to_owned(),
        };
        let mut name = format!("{kind}/{trouble}");
        let mut add = |differs: bool, what: String| {
            if differs {
                name = format!("{name}/{what}");
            }
        };
        add(self.spread != BASE.spread, self.spread.to_owned());
        add(self.workers != BASE.workers, format!("{}-workers", self.workers));
        add(self.time_ms != BASE.time_ms, format!("{}ms", self.time_ms));
        add(self.load != BASE.load, format!("load-{:.0}", self.load * 100.0));
        add(self.patience_ms != BASE.patience_ms, format!("patience-{}ms", self.patience_ms));
        name
    }
}

/// All worlds: every service under every trouble, then the other axes one at a time.
pub fn all() -> Vec<World> {
    let kinds = [
        Kind::Fifo,
        Kind::Sharing(0.0),
        Kind::Sharing(0.2),
        Kind::Sharing(0.5),
        Kind::Sharing(1.0),
    ];
    let troubles = [
        Trouble::Down(OutageKind::Stall, 10),
        Trouble::Down(OutageKind::Stall, 30),
        Trouble::Down(OutageKind::Hole, 10),
        Trouble::Down(OutageKind::Hole, 30),
        Trouble::Down(OutageKind::Fail, 10),
        Trouble::Down(OutageKind::Fail, 30),
        Trouble::Down(OutageKind::Latency { factor: 10.0 }, 10),
        Trouble::Step(1.0 / 1.15),
        Trouble::Step(0.01),
        Trouble::Step(0.1),
        Trouble::Overload(1.5),
        Trouble::Overload(3.0),
        Trouble::Larger(5.0),
        Trouble::Larger(20.0),
        Trouble::Halved,
    ];
    let mut recipes = Vec::new();
    for kind in kinds {
        recipes.extend(troubles.map(|trouble| Recipe { kind, trouble, ..BASE }));
    }
    for kind in [Kind::Fifo, Kind::Sharing(0.5)] {
        for trouble in [troubles[0], troubles[4]] {
            let base = Recipe { kind, trouble, ..BASE };
            recipes.extend(
                ["exponential", "lognormal", "bimodal"].map(|spread| Recipe { spread, ..base }),
            );
            recipes.extend([4, 400].map(|workers| Recipe { workers, ..base }));
            recipes.extend([10, 1000].map(|time_ms| Recipe { time_ms, ..base }));
            recipes.extend([0.5, 0.95].map(|load| Recipe { load, ..base }));
            recipes.extend([300, 4000].map(|patience_ms| Recipe { patience_ms, ..base }));
        }
    }
    recipes.into_iter().map(Recipe::world).collect()
}

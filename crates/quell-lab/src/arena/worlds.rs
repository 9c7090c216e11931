//! Worlds: services and the troubles that befall them.
//!
//! [`all`] are the worlds of the first edition: one kind of request, and every trouble. [`health`] are services with nothing wrong,
//! [`mixed`] several kinds of requests in every trouble.

pub mod health;
pub mod mixed;

use core::time::Duration;

use quell_sim::scenario::{
    Arrivals, Curve, Down, Gateway, Outage, OutageKind, Scenario, Sharing, Spread,
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

/// What befalls a service.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It is down for a while.
    Down,
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
    /// The service, and how it is down where that is its trouble.
    down: Down,
    trouble: Trouble,
}

const AT: u64 = Down::AT;
const WATCH: u64 = Down::WATCH;

impl Recipe {
    fn world(self) -> World {
        let (capacity, time) = (self.down.capacity(), self.down.time());
        let mut world = World {
            name: self.name(),
            scenario: self.down.scenario(),
            capacity_after: capacity,
            time_after: time,
            edition: Edition::Old,
            gateway: Gateway::default(),
            allowed: 0.0,
            hit: None,
        };
        let scenario = &mut world.scenario;
        let shaped = |before: f64| {
            let at = AT as f64;
            Arrivals::Shaped(Curve(vec![(0.0, before), (at, before), (at, 1.0), (at + 1e6, 1.0)]))
        };
        let mut nothing_down = scenario.outage;
        nothing_down.kind = OutageKind::Latency { factor: 1.0 };
        nothing_down.length = Duration::ZERO;
        let forever = |kind| Outage { kind, length: Duration::from_secs(100_000), ..nothing_down };
        match self.trouble {
            Trouble::Down => return world,
            Trouble::Step(before) => scenario.arrivals = shaped(before),
            Trouble::Overload(times) => {
                scenario.arrivals = shaped(1.0 / times);
                scenario.load *= times;
            }
            Trouble::Larger(times) => {
                scenario.faults.push(forever(OutageKind::Grown { factor: times }));
                scenario.faults.push(forever(OutageKind::Latency { factor: times }));
                world.time_after = time.mul_f64(times);
                // Nothing that starts from now on can be answered any sooner.
                let length = world.time_after.as_secs_f64().ceil() as u64;
                nothing_down.length = Duration::from_secs(length);
                scenario.patience = scenario.patience.max(world.time_after * 3);
            }
            Trouble::Halved => {
                world.capacity_after = capacity / 2.0;
                scenario.faults.push(forever(OutageKind::Partial { share: 0.5 }));
            }
        }
        scenario.outage = nothing_down;
        world
    }

    fn name(&self) -> String {
        let trouble = match self.trouble {
            Trouble::Down => return self.down.to_string(),
            Trouble::Step(before) => format!("step-{:.2}", 1.0 / before),
            Trouble::Overload(times) => format!("overload-{times}"),
            Trouble::Larger(times) => format!("larger-{times}"),
            Trouble::Halved => "halved".to_owned(),
        };
        format!("{}/{trouble}", self.down.service())
    }
}

/// All worlds: every service under every trouble, then the other axes one at a time.
pub fn all() -> Vec<World> {
    let sharing = |loss| Some(Sharing { loss });
    let services = [None, sharing(0.0), sharing(0.2), sharing(0.5), sharing(1.0)];
    let downs = [
        (OutageKind::Stall, 10),
        (OutageKind::Stall, 30),
        (OutageKind::Hole, 10),
        (OutageKind::Hole, 30),
        (OutageKind::Fail, 10),
        (OutageKind::Fail, 30),
        (OutageKind::Latency { factor: 10.0 }, 10),
    ];
    let troubles = [
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
    let down = |down| Recipe { down, trouble: Trouble::Down };
    for sharing in services {
        let base = Down { sharing, ..Down::BASE };
        recipes.extend(downs.map(|(kind, seconds)| down(Down { kind, seconds, ..base })));
        recipes.extend(troubles.map(|trouble| Recipe { down: base, trouble }));
    }
    for sharing in [None, sharing(0.5)] {
        for kind in [OutageKind::Stall, OutageKind::Fail] {
            let base = Down { sharing, kind, ..Down::BASE };
            let spreads = [Spread::Exponential, Spread::Lognormal, Spread::Bimodal];
            recipes.extend(spreads.map(|spread| down(Down { spread, ..base })));
            recipes.extend([4, 400].map(|workers| down(Down { workers, ..base })));
            recipes.extend([10, 1000].map(|time_ms| down(Down { time_ms, ..base })));
            recipes.extend([0.5, 0.95].map(|load| down(Down { load, ..base })));
            recipes.extend([300, 4000].map(|patience_ms| down(Down { patience_ms, ..base })));
        }
    }
    recipes.into_iter().map(Recipe::world).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `quell demo --world` shows on sockets is what rules are tried in.
    #[test]
    fn a_world_that_is_down_for_a_while_is_the_one_of_that_name() {
        let worlds = all();
        let named: Vec<_> =
            worlds.iter().filter_map(|world| Some((world, Down::named(&world.name)?))).collect();
        assert_eq!(named.len(), 5 * 7 + 2 * 2 * 11);
        for (world, down) in named {
            assert_eq!(world.scenario, down.scenario(), "{}", world.name);
        }
    }
}

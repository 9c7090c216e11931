//! Defaults: looked for, not asserted.
//!
//! **Why.** A default is a claim about everybody's traffic. It is believed when one can see what its neighbours would have done, in
//! which worlds, and by which rule it was taken.
//!
//! **How.** Every [`Setting`] has a list of candidates and a [`Rule`]. Each candidate, all else as shipped, lives through the same
//! [worlds](World) with the same seeds; the rule looks at the figures and picks. What ships is whatever `quell-core` ships: where the rule
//! picks something else, the page says so.
//!
//! ```no_run
//! use quell_lab::defaults::{Sweep, settings};
//!
//! let sweep = Sweep::new(settings());
//! let seen = sweep.trials().iter().map(|trial| trial.run()).collect::<Result<Vec<_>, _>>()?;
//! for derived in sweep.derived(&seen) {
//!     println!("{}: {:?}", derived.setting.name, derived.picked);
//! }
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

mod figures;
mod rule;
mod settings;
mod worlds;

pub use figures::{Figure, Figures, Seen};
pub use rule::{Must, Rule, Then};
pub use settings::{Setting, settings};
pub use worlds::{Side, Specs, World};

use quell_sim::{Run, Scenario, scenario::Invalid};

/// Every trial is made with each of these.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// One run of a sweep.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What is run.
    pub scenario: Scenario,
    /// With which seed.
    pub seed: u64,
    world: World,
}

impl Trial {
    /// Runs it, and keeps what the rules look at.
    pub fn run(&self) -> Result<Seen, Invalid> {
        let run: Run = quell_sim::run(&self.scenario, self.seed)?;
        Ok(Seen::of(self.world, &run))
    }
}

/// A candidate of a setting, and where its trials are.
#[derive(Debug)]
struct Candidate {
    says: String,
    ships: bool,
    trials: Vec<usize>,
}

/// All settings, and all trials that they take.
#[derive(Debug)]
pub struct Sweep {
    settings: Vec<(Setting, Vec<Candidate>)>,
    trials: Vec<Trial>,
}

/// What a sweep says of one setting.
#[derive(Debug)]
pub struct Derived<'a> {
    /// Which.
    pub setting: &'a Setting,
    /// Every candidate as written, with its figures.
    pub rows: Vec<(&'a str, Figures)>,
    /// The candidate that ships, if it is among them.
    pub ships: Option<usize>,
    /// The candidate that the rule picks, if any satisfies it.
    pub picked: Option<usize>,
}

impl Sweep {
    /// Of these settings. What ships is tried once, however many settings have it among their candidates.
    pub fn new(settings: Vec<Setting>) -> Self {
        let mut sweep = Self { settings: vec![], trials: vec![] };
        let shipped: Vec<_> =
            Side::ALL.map(|side| (side, sweep.trials_of(side, side.specs()))).into();
        for setting in settings {
            let candidates = setting.values.iter().map(|&value| {
                let mut candidate =
                    Candidate { says: (setting.says)(value), ships: true, trials: vec![] };
                for (side, as_shipped) in
                    shipped.iter().filter(|(side, _)| setting.sides.contains(side))
                {
                    let mut specs = side.specs();
                    (setting.set)(&mut specs, value);
                    let ships = specs == side.specs();
                    candidate.ships &= ships;
                    let trials =
                        if ships { as_shipped.clone() } else { sweep.trials_of(*side, specs) };
                    candidate.trials.extend(trials);
                }
                candidate
            });
            let candidates = candidates.collect();
            sweep.settings.push((setting, candidates));
        }
        sweep
    }

    fn trials_of(&mut self, side: Side, specs: worlds::Specs) -> Vec<usize> {
        let first = self.trials.len();
        for world in World::ALL {
            let scenario = world.scenario(side, specs);
            let trial = |seed| Trial { scenario: scenario.clone(), seed, world };
            self.trials.extend(SEEDS.map(trial));
        }
        (first..self.trials.len()).collect()
    }

    /// All that is to be run, in any order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// How many of the trials, the first ones, are of what ships.
    pub fn shipped() -> usize {
        Side::ALL.len() * World::ALL.len() * SEEDS.len()
    }

    /// What ships, by what its trials came to: the candidates among all settings that need no others.
    pub fn of_shipped(&self, seen: &[Seen]) -> Vec<(&Setting, &str, Figures)> {
        let rows = self.settings.iter().flat_map(|(setting, candidates)| {
            let ships = candidates.iter().filter(|candidate| candidate.ships);
            ships.map(move |candidate| (setting, candidate.says.as_str(), figures(candidate, seen)))
        });
        rows.collect()
    }

    /// What the rules make of what was seen, trial by trial.
    pub fn derived(&self, seen: &[Seen]) -> Vec<Derived<'_>> {
        let derived = self.settings.iter().map(|(setting, candidates)| {
            let rows: Vec<_> =
                candidates.iter().map(|one| (one.says.as_str(), figures(one, seen))).collect();
            let all: Vec<_> = rows.iter().map(|(_, figures)| *figures).collect();
            let ships = candidates.iter().position(|candidate| candidate.ships);
            Derived { setting, rows, ships, picked: setting.rule.pick(&all) }
        });
        derived.collect()
    }
}

fn figures(candidate: &Candidate, seen: &[Seen]) -> Figures {
    let mine: Vec<_> = candidate.trials.iter().filter_map(|&trial| seen.get(trial)).collect();
    Figures::of(&mine)
}

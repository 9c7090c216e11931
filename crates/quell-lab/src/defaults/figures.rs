//! What is looked at: one figure per question.

use quell_sim::{
    Run,
    verdict::{Count, Verdict},
};

use super::World;

/// What one run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    world: World,
    /// Seconds; infinite if it did not.
    healed_in: f64,
    load: f64,
    goodput: f64,
    goodput_after: f64,
    unanswered: f64,
    refused: f64,
    p99_ms: f64,
}

impl Seen {
    pub(super) fn of(world: World, run: &Run) -> Self {
        let during = run.summary.phases[1];
        let total = |what| run.series.sum(what, run.timing.parts()[1].clone()) as f64;
        Self {
            world,
            healed_in: match run.summary.verdict {
                Verdict::Healed { after } => after.as_secs_f64(),
                _ => f64::INFINITY,
            },
            load: during.amplification,
            goodput: during.goodput,
            goodput_after: run.summary.goodput_after,
            unanswered: 1.0 - (total(Count::Good) / total(Count::Demand)).min(1.0),
            refused: during.refused,
            p99_ms: during.p99.map_or(f64::INFINITY, |p99| p99.as_secs_f64() * 1e3),
        }
    }
}

/// A question that is asked of every candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Seconds until users are back after an outage, half the time.
    Recovery,
    /// The same at worst.
    RecoveryWorst,
    /// Attempts per call while something is wrong, at worst.
    Load,
    /// The share of users served while a part still works.
    Goodput,
    /// The share of users served while there are blips.
    Blips,
    /// The share of users who fail while 5 % of the attempts do.
    Unanswered,
    /// The share of users served in the 40 seconds after an outage, at worst.
    After,
    /// The same where the service comes back slow.
    Cold,
    /// The share refused while nothing is wrong but noise, at worst.
    Refused,
    /// Milliseconds, the slowest in a hundred of those who were answered while 5 % fail, at worst.
    P99,
    /// Attempts per call in an outage with little traffic.
    Trickle,
}

impl Figure {
    /// All of them, in the order of the page's columns.
    pub const ALL: [Self; 11] = [
        Self::Recovery,
        Self::RecoveryWorst,
        Self::Load,
        Self::Goodput,
        Self::Blips,
        Self::Unanswered,
        Self::After,
        Self::Cold,
        Self::Refused,
        Self::P99,
        Self::Trickle,
    ];

    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::RecoveryWorst => "worst recovery",
            Self::Load => "load in the fault",
            Self::Goodput => "goodput in partial faults",
            Self::Blips => "goodput in blips",
            Self::Unanswered => "unanswered at 5 %",
            Self::After => "goodput after",
            Self::Cold => "goodput after a cold start",
            Self::Refused => "refused in health",
            Self::P99 => "p99",
            Self::Trickle => "load at a trickle",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Goodput | Self::Blips | Self::After | Self::Cold)
    }

    /// A value for people.
    pub fn says(self, value: f64) -> String {
        match self {
            _ if value.is_infinite() => "never".to_owned(),
            Self::Recovery | Self::RecoveryWorst => format!("{value:.1} s"),
            Self::Load | Self::Trickle => format!("{value:.2}"),
            Self::Goodput | Self::Blips | Self::After | Self::Cold => {
                format!("{:.1} %", value * 100.0)
            }
            Self::Unanswered | Self::Refused => format!("{:.2} %", value * 100.0),
            Self::P99 => format!("{value:.0} ms"),
        }
    }
}

/// All figures of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures([f64; 11]);

impl Figures {
    /// One of them.
    pub fn get(&self, figure: Figure) -> f64 {
        self.0[figure as usize]
    }

    pub(super) fn of(seen: &[&Seen]) -> Self {
        let of = |worlds: &dyn Fn(World) -> bool, what: fn(&Seen) -> f64| -> Vec<f64> {
            let mut all: Vec<_> =
                seen.iter().filter(|one| worlds(one.world)).map(|one| what(one)).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let one = |world: World| move |other: World| other == world;
        let mean = |all: Vec<f64>| all.iter().sum::<f64>() / all.len().max(1) as f64;
        let most = |all: Vec<f64>| all.last().copied().unwrap_or(0.0);
        let least = |all: Vec<f64>| all.first().copied().unwrap_or(0.0);
        let median = |all: Vec<f64>| all.get(all.len() / 2).copied().unwrap_or(0.0);
        Self(Figure::ALL.map(|figure| match figure {
            Figure::Recovery => median(of(&World::is_outage, |one| one.healed_in)),
            Figure::RecoveryWorst => most(of(&World::is_outage, |one| one.healed_in)),
            Figure::Load => {
                most(of(&|world| world.is_outage() || world.is_partial(), |one| one.load))
            }
            Figure::Goodput => mean(of(&World::is_partial, |one| one.goodput)),
            Figure::Blips => mean(of(&one(World::Blips), |one| one.goodput)),
            Figure::Unanswered => mean(of(&one(World::Flaky), |one| one.unanswered)),
            Figure::After => least(of(&World::is_outage, |one| one.goodput_after)),
            Figure::Refused => most(of(&World::is_noise, |one| one.refused)),
            Figure::Cold => mean(of(&one(World::Cold), |one| one.goodput_after)),
            Figure::P99 => most(of(&one(World::Flaky), |one| one.p99_ms)),
            Figure::Trickle => mean(of(&one(World::Trickle), |one| one.load)),
        }))
    }
}

#[cfg(test)]
impl Figures {
    pub(super) fn with(figures: &[(Figure, f64)]) -> Self {
        let value = |figure| {
            figures.iter().find(|(name, _)| *name == figure).map_or(0.0, |(_, value)| *value)
        };
        Self(Figure::ALL.map(value))
    }
}

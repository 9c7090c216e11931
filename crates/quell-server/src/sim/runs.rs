//! Runs: many scenarios and seeds on all cores.
//!
//! **Why.** One seed is an anecdote. Several say how much of a figure is chance, and they cost no more time than there are
//! cores to share them.
//!
//! **How.** Threads take the next job that nobody has, and put its result where the job was: what comes out is the same for
//! any number of threads. The simulator itself knows of no thread.

use std::{
    io::IsTerminal,
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::config::Override;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use quell_sim::{Run, Scenario, verdict::Early};
use serde::Serialize;

/// From this watch on a hopeless run ends early unless told otherwise.
const LONG: u64 = 600;

/// What all simulations of the command have in common.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct How {
    /// The same seed gives the same result, on every machine
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many seeds to run, from --seed on; shows medians and how far the seeds lie apart
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seeds: NonZeroUsize,
    /// Threads to run on; one per core if not given, and the same result for any number
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Whether a hopeless run may end early; `auto` means: where more than ten minutes are watched
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) early: When,
    /// A setting that goes over file and environment, such as scenario.stall.load=500/s; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::check::set)]
    pub(crate) set: Vec<Override>,
}

/// Whether a hopeless run may end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// If it is long.
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

impl How {
    fn early(&self, scenario: &Scenario) -> Early {
        match self.early {
            When::Never => Early::Never,
            When::Auto if scenario.watch.as_secs() <= LONG => Early::Never,
            When::Auto | When::Always => Early::Hopeless,
        }
    }

    /// For the last line.
    pub(crate) fn says(&self) -> String {
        match self.seeds.get() as u64 {
            1 => format!("seed {}", self.seed),
            n => format!("seeds {} to {}", self.seed, self.seed.wrapping_add(n - 1)),
        }
    }

    /// The seeds.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let first = self.seed;
        (0..self.seeds.get() as u64).map(move |i| first.wrapping_add(i))
    }

    /// Runs every scenario with every seed: for each scenario its runs, in the order of the seeds.
    pub(crate) fn run(&self, scenarios: &[Scenario]) -> anyhow::Result<Vec<Vec<Run>>> {
        let jobs: Vec<_> = scenarios
            .iter()
            .flat_map(|scenario| self.seeds().map(move |seed| (scenario, seed)))
            .collect();
        let bar =
            bar(jobs.iter().map(|(scenario, _)| seconds(scenario)).sum(), "simulated seconds");
        let runs = self.each(&jobs, |&(scenario, seed)| {
            let mut told = 0;
            let run = quell_sim::run_while(scenario, seed, self.early(scenario), &mut |second| {
                told = second as u64;
                bar.inc(1);
            });
            bar.inc(seconds(scenario).saturating_sub(told));
            run
        });
        bar.finish_and_clear();
        let mut runs = runs.into_iter();
        scenarios
            .iter()
            .map(|_| Ok(runs.by_ref().take(self.seeds.get()).collect::<Result<_, _>>()?))
            .collect()
    }

    /// Whether a scenario heals with every seed.
    pub(crate) fn heals(&self, scenario: &Scenario) -> anyhow::Result<bool> {
        for seed in self.seeds() {
            let run = quell_sim::run_while(scenario, seed, self.early(scenario), &mut |_| {})?;
            if !run.summary.verdict.healed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does all jobs on all threads, in any order; results come in the jobs' order.
    pub(crate) fn each<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        does: impl Fn(&J) -> R + Sync,
    ) -> Vec<R> {
        each(self.threads, jobs, does)
    }
}

/// Does all jobs on so many threads, one per core if not given; results come in the jobs' order.
pub(crate) fn each<J: Sync, R: Send>(
    threads: Option<NonZeroUsize>,
    jobs: &[J],
    does: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or_else(cores, usize::from);
    let next = AtomicUsize::new(0);
    let results: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                let mine = || {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    Some((jobs.get(i)?, results.get(i)?))
                };
                while let Some((job, result)) = mine() {
                    *result.lock() = Some(does(job));
                }
            });
        }
    });
    results.into_iter().filter_map(Mutex::into_inner).collect()
}

/// Simulated seconds of a run.
fn seconds(scenario: &Scenario) -> u64 {
    (scenario.outage.at + scenario.outage.length + scenario.watch).as_secs()
}

/// A bar, for people who wait; nobody sees it in a file or a pipe.
pub(crate) fn bar(seconds: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(seconds), ProgressDrawTarget::hidden());
    if std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template(&format!(
            "{{bar:32}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left"
        ));
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▌░"));
        }
    }
    bar
}

/// A figure over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of the seeds are at or below it.
    pub(crate) median: f64,
    /// One seed in twenty is below it; below twenty seeds, the lowest.
    pub(crate) low: f64,
    /// One seed in twenty is above it; below twenty seeds, the highest.
    pub(crate) high: f64,
}

impl Spread {
    /// Of these figures; `None` if there are none, or if half of them or more are not there.
    pub(crate) fn of(figures: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut all: Vec<_> =
            figures.into_iter().map(|figure| figure.unwrap_or(f64::INFINITY)).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all.get(((all.len() as f64 - 1.0) * share).round() as usize).copied();
        let tail = if all.len() < 20 { 0.0 } else { 0.05 };
        let (median, low, high) = (at(0.5)?, at(tail)?, at(1.0 - tail)?);
        median.is_finite().then_some(Self { median, low, high })
    }

    /// The same in another unit that grows with this one.
    pub(crate) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { median: of(self.median), low: of(self.low), high: of(self.high) }
    }

    /// For people, with so many digits.
    pub(crate) fn says(&self, digits: usize) -> String {
        let Self { median, low, high } = self;
        if low == high {
            return format!("{median:.digits$}");
        }
        let high = if high.is_finite() { format!("{high:.digits$}") } else { "∞".to_owned() };
        format!("{median:.digits$} [{low:.digits$}, {high}]")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quell_sim::scenario::{Arrivals, Callers, Outage, OutageKind};

    use super::*;

    #[test]
    fn a_spread_is_the_median_and_the_ends_without_what_is_rare() {
        let few = Spread::of([3.0, 1.0, 2.0].map(Some)).unwrap();
        assert_eq!((few.median, few.low, few.high), (2.0, 1.0, 3.0));
        let many = Spread::of((0..=100).map(|i| Some(f64::from(i)))).unwrap();
        assert_eq!((many.median, many.low, many.high), (50.0, 5.0, 95.0));
        assert_eq!(few.says(1), "2.0 [1.0, 3.0]");
        assert_eq!(Spread::of([Some(1.0)]).unwrap().says(0), "1");
    }

    #[test]
    fn what_never_happens_in_half_of_the_seeds_has_no_median() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([Some(1.0), None, None]), None);
        assert_eq!(Spread::of([Some(1.0), Some(1.0), None]).unwrap().says(1), "1.0 [1.0, ∞]");
    }

    fn how(seed: u64, seeds: usize, early: When) -> How {
        let seeds = NonZeroUsize::new(seeds).unwrap();
        How { seed, seeds, threads: None, early, set: vec![] }
    }

    #[test]
    fn only_a_run_that_is_watched_for_more_than_ten_minutes_may_end_early_by_itself() {
        let early = |when, secs| {
            let watch = Duration::from_secs(secs);
            how(1, 1, when).early(&Scenario { watch, ..Scenario::storm(OutageKind::Stall) })
        };
        assert_eq!([600, 601].map(|s| early(When::Auto, s)), [Early::Never, Early::Hopeless]);
        assert_eq!([600, 601].map(|s| early(When::Always, s)), [Early::Hopeless; 2]);
        assert_eq!([600, 601].map(|s| early(When::Never, s)), [Early::Never; 2]);
    }

    /// A tenth of a hundred users fails, by chance more or fewer; ten are forgiven.
    #[test]
    fn a_scenario_heals_if_it_does_with_every_seed() {
        let second = Duration::from_secs(1);
        let kind = OutageKind::Brownout { share: 0.1 };
        let scenario = Scenario {
            callers: Callers::NO_RETRIES,
            arrivals: Arrivals::Burst { users: 100, at: 2 * second },
            outage: Outage { kind, at: second, length: Duration::ZERO },
            faults: vec![Outage { kind, at: second, length: 5 * second }],
            watch: 5 * second,
            ..Scenario::storm(kind)
        };
        let heals = |seed, seeds| how(seed, seeds, When::Never).heals(&scenario).unwrap();
        let alone: Vec<_> = (1..=16).map(|seed| heals(seed, 1)).collect();
        let both = |of: [bool; 2]| alone.windows(2).any(|pair| pair == of);
        assert!(both([true, false]) && both([false, true]), "{alone:?}");
        for (pair, seed) in alone.windows(2).zip(1..) {
            assert_eq!(heals(seed, 2), pair[0] && pair[1], "seeds {seed} and the next");
        }
    }
}

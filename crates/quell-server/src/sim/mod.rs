//! `quell sim`: an outage on virtual time.

mod figures;
pub mod file;
mod runs;
mod spark;
pub mod validate;

use std::{collections::BTreeSet, path::PathBuf, process::ExitCode};

use anyhow::Context;
use quell_sim::{Run, Scenario, precheck::Precheck, verdict::Count};
use serde::Serialize;

use self::{
    figures::{OverSeeds, Row},
    file::{Against, Plan},
    runs::{How, Spread},
    spark::Ink,
};
use crate::table::{Table, percent};

/// Characters of a sparkline.
const SPARK: usize = 32;

/// Replays an outage against the policies of Quell, on virtual time.
///
/// Without a file, the storm: 10,000 requests per second, 50 instances, capacity 12,000, callers who
/// wait a second, 30 seconds of outage in three kinds (fail, hole, stall).
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,
    /// `storm`, `demo`, or a file of scenarios
    #[arg(default_value = "storm", value_name = "storm | demo | FILE")]
    scenario: PathBuf,
    #[command(flatten)]
    how: How,
    /// Print one JSON document instead of a table, with every figure of every run by the second
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    Validate(validate::Args),
}

/// Who faces which scenario.
#[derive(Debug)]
struct Job<'a> {
    plan: &'a Plan,
    who: Against,
    check: Precheck,
    /// One per seed.
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Report<'a> {
    seed: u64,
    seeds: usize,
    hash: String,
    runs: Vec<Row<'a>>,
    over_seeds: Vec<OverSeeds<'a>>,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(Tool::Validate(args)) = &args.tool {
        return validate::main(args).map(|()| ExitCode::SUCCESS);
    }
    let plans = read(&args.scenario)?;
    let jobs = run(&plans, &args.how, args.json)?;
    let hash = jobs
        .iter()
        .flat_map(|job| &job.runs)
        .fold(0, |hash: u64, run| hash.rotate_left(5) ^ run.hash);
    if args.json {
        let report = Report {
            seed: args.how.seed,
            seeds: args.how.seeds.get(),
            hash: format!("{hash:016x}"),
            runs: jobs.iter().flat_map(|job| job.rows(&args.how)).collect(),
            over_seeds: jobs
                .iter()
                .map(|job| OverSeeds::of(&job.plan.name, job.who.word(), &job.runs))
                .collect(),
        };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&jobs, Ink::of_stdout());
        println!("{}, result {hash:016x}", args.how.says());
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &PathBuf) -> anyhow::Result<Vec<Plan>> {
    let text = match path.to_str().and_then(file::shipped) {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(path).with_context(|| {
            format!("cannot read {}: name a file, or write storm", path.display())
        })?,
    };
    file::parse(&text).with_context(|| path.display().to_string())
}

/// Says what theory expects, then runs it all.
fn run<'a>(plans: &'a [Plan], how: &How, quiet: bool) -> anyhow::Result<Vec<Job<'a>>> {
    let mut scenarios = Vec::new();
    let mut jobs = Vec::new();
    let mut said = BTreeSet::new();
    for plan in plans {
        for &who in &plan.against {
            let scenario = plan.faced_by(who);
            let check = Precheck::of(&scenario)?;
            let line = format!("{}: {check}", who.label());
            if !quiet && said.insert(line.clone()) {
                eprintln!("{line}");
            }
            scenarios.push(scenario);
            jobs.push(Job { plan, who, check, runs: Vec::new() });
        }
    }
    for (job, runs) in jobs.iter_mut().zip(how.run(&scenarios)?) {
        job.runs = runs;
    }
    Ok(jobs)
}

impl Job<'_> {
    fn rows(&self, how: &How) -> impl Iterator<Item = Row<'_>> {
        let name =
            (self.plan.name.as_str(), self.plan.scenario.outage.kind.as_str(), self.who.word());
        let w_rho = self.check.w_rho();
        how.seeds().zip(&self.runs).map(move |(seed, run)| Row::of(name, (seed, w_rho), run))
    }

    fn cells(&self, ink: Ink) -> Vec<String> {
        let seeds = OverSeeds::of(&self.plan.name, self.who.word(), &self.runs);
        let says = |spread: Option<Spread>, digits| {
            spread.map_or("–".to_owned(), |spread| spread.says(digits))
        };
        let share = |spread: Option<Spread>| match spread {
            Some(Spread { median, low, high }) if low == high => percent(median),
            Some(Spread { median, low, high }) => {
                format!("{} [{:.0}, {:.0}]", percent(median), low * 100.0, high * 100.0)
            }
            None => "–".to_owned(),
        };
        let useful = self.runs.first().and_then(|run| run.summary.retries_useful);
        let mut cells = vec![
            self.verdict(&seeds),
            format!("{:.2}", self.check.w_rho()),
            says(seeds.amplification, 2),
            says(seeds.attempts_per_user, 2),
            share(seeds.wasted),
            share(seeds.goodput_after),
            says(seeds.p99_after_ms, 0),
            useful.map_or("–".to_owned(), percent),
        ];
        cells.push(self.runs.first().map_or(String::new(), |run| {
            ink.line(&goodput(run, &self.plan.faced_by(self.who)), SPARK)
        }));
        cells
    }

    fn verdict(&self, seeds: &OverSeeds<'_>) -> String {
        match self.runs.as_slice() {
            [one] => one.summary.verdict.to_string(),
            all => {
                let mut words: Vec<_> =
                    all.iter().map(|run| run.summary.verdict.as_str()).collect();
                words.dedup();
                let took = seeds
                    .recovered_s
                    .map_or(String::new(), |spread| format!(" in {} s", spread.says(1)));
                match words.as_slice() {
                    [word] => format!("{word}{took}"),
                    _ => format!(
                        "healed in {} of {}{}",
                        seeds.healed,
                        seeds.seeds,
                        took.replacen(" in", ":", 1)
                    ),
                }
            }
        }
    }
}

/// The columns of [`Job::cells`].
const COLUMNS: [&str; 9] = [
    "verdict",
    "w·ρ",
    "amplification",
    "sends/user",
    "wasted",
    "goodput after",
    "p99 ms after",
    "useful",
    "goodput over time",
];

/// The share of what was achievable that users got, second by second.
fn goodput(run: &Run, scenario: &Scenario) -> Vec<f64> {
    let capacity = scenario.service.capacity();
    let second = |second| {
        let achievable = (run.series.at(Count::Demand, second) as f64).min(capacity);
        let good = run.series.at(Count::Good, second) as f64;
        if achievable > 0.0 { (good / achievable).min(1.0) } else { 0.0 }
    };
    (0..run.timing.end).map(second).collect()
}

fn print(jobs: &[Job<'_>], ink: Ink) {
    for jobs in jobs.chunk_by(|a, b| a.plan.name == b.plan.name) {
        let Some(Job { plan, .. }) = jobs.first() else { continue };
        let mut table = Table::new(&heading(plan), COLUMNS);
        for job in jobs {
            table.row(job.who.label(), job.cells(ink));
        }
        println!("{table}");
    }
}

fn heading(plan: &Plan) -> String {
    let scenario = &plan.scenario;
    format!(
        "{}: {}/s, capacity {}/s, callers leave after {:?}; {} for {:?}",
        plan.name,
        scenario.load,
        scenario.service.capacity().round(),
        scenario.patience,
        scenario.outage.kind.as_str(),
        scenario.outage.length,
    )
}

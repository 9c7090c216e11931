//! `quell sim`: an outage on virtual time.

mod compare;
mod crowds;
pub(crate) mod figures;
pub mod file;
pub mod gate;
mod layers;
mod report;
mod rungs;
mod runs;
mod sweep;
mod tip;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::config::{Error, Override};
use anyhow::ensure;
use quell_charts::{
    Ink, Table,
    number::{percent, thousands},
};
use quell_sim::{Run, Scenario, precheck::Precheck, verdict::Count};
use serde::Serialize;

use self::{
    figures::{OverSeeds, Row},
    file::{Plan, Way},
    layers::LayerRow,
    runs::{How, Spread},
};
use crate::terminal;

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
    further: Option<Further>,
    #[command(flatten)]
    plain: Plain,
}

#[derive(Debug, clap::Subcommand)]
enum Further {
    Compare(compare::Args),
    Tip(tip::Args),
    Sweep(sweep::Args),
}

#[derive(Debug, clap::Args)]
struct Plain {
    /// One that ships with Quell (see --list), or a config file with scenarios in it
    #[arg(default_value = "storm", value_name = "NAME | FILE")]
    scenario: PathBuf,
    /// Show the scenarios that ship with Quell
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    how: How,
    /// What one attempt at the service costs, in any currency: shows what 1,000 answered users cost
    #[arg(long, value_name = "PRICE")]
    price: Option<f64>,
    /// Also show what the others change for the very same users, against the first
    #[arg(long)]
    compare: bool,
    /// Exit with 1 if what a scenario's `assert` promises does not hold, and say which
    #[arg(long)]
    gate: bool,
    /// Print one JSON document instead of a table, with every figure of every run by the second
    #[arg(long)]
    json: bool,
    /// Write one HTML file with charts of it all
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Who faces which scenario.
#[derive(Debug)]
struct Job<'a> {
    plan: &'a Plan,
    who: &'a Way,
    check: Precheck,
    /// One per seed.
    runs: Vec<Run>,
    /// Of one attempt.
    price: Option<f64>,
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
    match &args.further {
        None => return plain(&args.plain),
        Some(Further::Compare(args)) => compare::main(args)?,
        Some(Further::Tip(args)) => tip::main(args)?,
        Some(Further::Sweep(args)) => sweep::main(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(args: &Plain) -> anyhow::Result<ExitCode> {
    if args.list {
        let wide = file::SHIPPED.iter().map(|shipped| shipped.name.len()).max().unwrap_or(0);
        for shipped in file::SHIPPED {
            println!("{:wide$}  {}", shipped.name, shipped.about());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let plans = read(&args.scenario, &args.how)?;
    ensure!(
        !args.gate || plans.iter().any(|plan| !plan.promises.is_empty()),
        "nothing to hold a run to: write assert = {{ recovered_within = \"1s\" }} into a scenario"
    );
    let mut jobs = run(&plans, &args.how, args.json)?;
    jobs.iter_mut().for_each(|job| job.price = args.price);
    let runs = jobs.iter().flat_map(|job| &job.runs);
    let hash = runs.fold(0, |hash: u64, run| hash.rotate_left(5) ^ run.hash);
    if args.json {
        let report = Report {
            seed: args.how.seed,
            seeds: args.how.seeds.get(),
            hash: format!("{hash:016x}"),
            runs: jobs.iter().flat_map(|job| job.rows(&args.how)).collect(),
            over_seeds: jobs.iter().map(Job::over_seeds).collect(),
        };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&jobs, terminal::ink());
        if args.compare {
            compare::print_against_first(&jobs);
        }
        println!("{}, result {hash:016x}", args.how.says());
    }
    if let Some(path) = &args.report {
        let mut page = report::Page::new(
            &format!("Outage report: {}", args.scenario.display()),
            "Callers and services are simulated; every decision of Quell is made by the code that runs in production. \
             The outage is shaded.",
        );
        page.jobs(&jobs);
        page.write(path, &format!("quell sim, {}, result {hash:016x}", args.how.says()))?;
    }
    let broken = if args.gate { broken(&jobs, &args.how) } else { Vec::new() };
    for line in &broken {
        eprintln!("broken: {line}");
    }
    Ok(ExitCode::from(u8::from(!broken.is_empty())))
}

/// Promises that were not kept.
fn broken(jobs: &[Job<'_>], how: &How) -> Vec<String> {
    let mut broken = Vec::new();
    for job in jobs {
        for (seed, run) in how.seeds().zip(&job.runs) {
            let promises = job.plan.promises.iter();
            for what in promises.flat_map(|promises| promises.broken(job.who.word(), run)) {
                broken.push(format!("{}, {}, seed {seed}: {what}", job.plan.name, job.who.label()));
            }
        }
    }
    broken
}

/// The scenarios of one that ships with Quell, or of a file.
fn read(path: &Path, how: &How) -> anyhow::Result<Vec<Plan>> {
    let plans = match path.to_str().and_then(|name| Some((name, file::shipped(name)?))) {
        Some((name, text)) => {
            let overrides: Vec<_> = Override::env().into_iter().chain(how.set.clone()).collect();
            file::parse_with(name, text, &overrides)?.1
        }
        None => {
            file::load(path, &how.set)
                .map_err(|error| match error {
                    Error::Read { .. } => {
                        let near = file::nearest(&path.to_string_lossy());
                        anyhow::anyhow!("{error}: name a file, or {near}")
                    }
                    Error::Wrong(problems) => problems.into(),
                })?
                .1
        }
    };
    ensure!(
        !plans.is_empty(),
        "{} has no scenario: write a table such as [scenario.stall]",
        path.display()
    );
    Ok(plans)
}

/// Says what theory expects, then runs it all.
fn run<'a>(plans: &'a [Plan], how: &How, quiet: bool) -> anyhow::Result<Vec<Job<'a>>> {
    let mut scenarios = Vec::new();
    let mut jobs = Vec::new();
    let mut said = BTreeSet::new();
    for plan in plans {
        for who in &plan.against {
            let check = Precheck::of(&who.scenario)?;
            let line = format!("{}: {check}", who.label());
            if !quiet && said.insert(line.clone()) {
                eprintln!("{line}");
            }
            scenarios.push(who.scenario.clone());
            jobs.push(Job { plan, who, check, runs: Vec::new(), price: None });
        }
    }
    for (job, runs) in jobs.iter_mut().zip(how.run(&scenarios)?) {
        job.runs = runs;
    }
    Ok(jobs)
}

impl Job<'_> {
    fn rows(&self, how: &How) -> impl Iterator<Item = Row<'_>> {
        let name = (self.plan.name.as_str(), self.plan.trouble.as_str(), self.who.word());
        let w_rho = self.check.w_rho();
        let row = move |(seed, run)| {
            let layers = LayerRow::all(self.plan, run);
            Row::of(name, (seed, w_rho), (run, self.price), layers)
        };
        how.seeds().zip(&self.runs).map(row)
    }

    fn capacity(&self) -> f64 {
        self.who.scenario.service.capacity()
    }

    /// What the service, and each of those behind it, can do.
    fn capacities(&self) -> Vec<f64> {
        let scenario = &self.who.scenario;
        let below = scenario.below.iter().map(|node| node.service.capacity());
        std::iter::once(scenario.service.capacity()).chain(below).collect()
    }

    fn over_seeds(&self) -> OverSeeds<'_> {
        OverSeeds::of(&self.plan.name, self.who.word(), &self.runs)
    }

    fn cells(&self, ink: Ink) -> Vec<String> {
        let mut cells = vec![self.verdict()];
        cells.extend(self.figures());
        let line = |run| ink.line(&goodput(run, self.capacity()), SPARK);
        cells.push(self.runs.first().map_or(String::new(), line));
        cells
    }

    /// What stands between verdict and sparkline.
    fn figures(&self) -> Vec<String> {
        let seeds = self.over_seeds();
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
            format!("{:.2}", self.check.w_rho()),
            says(seeds.amplification_during, 2),
            says(seeds.amplification_after, 2),
            says(seeds.attempts_per_user, 2),
            share(seeds.wasted),
            share(seeds.goodput_after),
            says(seeds.p99_after_ms, 0),
            useful.map_or("–".to_owned(), percent),
            says(seeds.work_ms_per_answer, 0),
        ];
        if let Some(price) = self.price {
            let per_1000 = |attempts: f64| attempts * price * 1e3;
            cells.push(says(seeds.attempts_per_answer.map(|spread| spread.map(per_1000)), 2));
        }
        cells
    }

    fn verdict(&self) -> String {
        let seeds = self.over_seeds();
        match self.runs.as_slice() {
            [one] if (one.timing.end as u64) < self.who.scenario.end().as_secs() => {
                format!("{}, ended at {} s", one.summary.verdict, one.timing.end)
            }
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

/// The columns of [`Job::figures`], after that of its verdict.
fn columns(jobs: &[Job<'_>]) -> Vec<&'static str> {
    let priced = jobs.iter().any(|job| job.price.is_some());
    let price = priced.then_some("cost/1,000");
    FIGURES.into_iter().chain(price).collect()
}

const FIGURES: [&str; 10] = [
    "verdict",
    "w·ρ",
    "ampl. in fault",
    "ampl. after",
    "sends/user",
    "wasted",
    "goodput after",
    "p99 ms after",
    "useful",
    "work ms/answer",
];

/// The share of what was achievable that users got, second by second.
fn goodput(run: &Run, capacity: f64) -> Vec<f64> {
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
        let columns = columns(jobs).into_iter().chain(["goodput over time"]);
        let mut table = Table::new(&heading(plan), columns);
        for job in jobs {
            table.row(job.who.label(), job.cells(ink));
        }
        println!("{table}");
        for more in [layers::table(jobs), crowds::table(jobs)].into_iter().flatten() {
            println!("{more}");
        }
        let refused = crowds::lines(jobs);
        refused.iter().for_each(|line| println!("{line}"));
        if !refused.is_empty() {
            println!();
        }
    }
}

fn heading(plan: &Plan) -> String {
    let facts = heading_facts(plan).map(|(name, value)| format!("{name} {value}"));
    format!("{}: {}", plan.name, facts.join(", "))
}

/// What a scenario is, in a few words.
fn heading_facts(plan: &Plan) -> [(&str, String); 5] {
    let Scenario { load, instances, patience, service, outage, kinds, .. } = &plan.scenario;
    let leaves =
        if kinds.is_empty() { format!("{patience:?}") } else { "what each kind says".to_owned() };
    [
        ("load", format!("{}/s", thousands(*load))),
        ("capacity", format!("{}/s", thousands(service.capacity()))),
        ("instances", instances.to_string()),
        ("callers leave after", leaves),
        (
            &plan.trouble,
            format!(
                "for {:?}",
                if outage.length.is_zero() { plan.scenario.watch } else { outage.length }
            ),
        ),
    ]
}

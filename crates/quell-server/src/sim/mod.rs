//! `quell sim`: an outage on virtual time.

pub mod file;
pub mod validate;

use std::{
    io::IsTerminal,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Context;
use parking_lot::Mutex;
use quell_sim::{Run, Scenario};
use serde::Serialize;

use self::file::{Against, Plan};
use crate::table::{Figures, Table};

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
    /// The same seed gives the same result, on every machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    Validate(validate::Args),
}

#[derive(Serialize)]
struct Report<'a> {
    seed: u64,
    hash: String,
    runs: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    scenario: &'a str,
    kind: &'static str,
    against: &'static str,
    #[serde(flatten)]
    figures: Figures,
    events: u64,
    hash: String,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<()> {
    if let Some(Tool::Validate(args)) = &args.tool {
        return validate::main(args);
    }
    let text = match args.scenario.to_str() {
        Some("storm") => file::STORM.to_owned(),
        Some("demo") => file::DEMO.to_owned(),
        _ => std::fs::read_to_string(&args.scenario).with_context(|| {
            format!("cannot read {}: name a file, or write storm", args.scenario.display())
        })?,
    };
    let plans = file::parse(&text).with_context(|| args.scenario.display().to_string())?;
    let jobs: Vec<_> = plans
        .iter()
        .flat_map(|plan| plan.against.iter().map(move |&who| (plan, who, plan.faced_by(who))))
        .collect();
    let runs = run_all(&jobs, args.seed)?;
    let hash = runs.iter().fold(0, |hash: u64, run| hash.rotate_left(5) ^ run.hash);
    if args.json {
        let runs = jobs.iter().zip(&runs).map(|((plan, who, _), run)| row(plan, *who, run));
        let report = Report { seed: args.seed, hash: format!("{hash:016x}"), runs: runs.collect() };
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&jobs, &runs);
        println!("\nseed {}, result {hash:016x}", args.seed);
    }
    Ok(())
}

fn row<'a>(plan: &'a Plan, who: Against, run: &Run) -> Row<'a> {
    Row {
        scenario: &plan.name,
        kind: plan.scenario.outage.kind.as_str(),
        against: who.word(),
        figures: Figures::from(&run.summary),
        events: run.events,
        hash: format!("{:016x}", run.hash),
    }
}

fn print(jobs: &[(&Plan, Against, Scenario)], runs: &[Run]) {
    let mut last = "";
    let mut table = Table::default();
    for ((plan, who, scenario), run) in jobs.iter().zip(runs) {
        if plan.name != last {
            if !last.is_empty() {
                println!("{table}");
            }
            last = &plan.name;
            table = Table::new(&heading(&plan.name, scenario));
        }
        table.row(who.label(), &Figures::from(&run.summary));
    }
    print!("{table}");
}

fn heading(name: &str, scenario: &Scenario) -> String {
    format!(
        "{name}: {}/s, capacity {}/s, callers leave after {:?}; {} for {:?}",
        scenario.load,
        scenario.service.capacity().round(),
        scenario.patience,
        scenario.outage.kind.as_str(),
        scenario.outage.length,
    )
}

/// Runs all jobs on all cores, in any order; results come in the jobs' order.
fn run_all(jobs: &[(&Plan, Against, Scenario)], seed: u64) -> anyhow::Result<Vec<Run>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let progress = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                while let Some(i) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < jobs.len())
                {
                    *results[i].lock() = Some(quell_sim::run(&jobs[i].2, seed));
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if progress {
                        eprint!("\r{done} of {} runs ", jobs.len());
                    }
                }
            });
        }
    });
    if progress {
        eprint!("\r\x1b[K");
    }
    let results = results.into_iter().filter_map(Mutex::into_inner);
    Ok(results.collect::<Result<_, _>>()?)
}

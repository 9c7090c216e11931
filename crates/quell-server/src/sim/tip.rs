//! Tip: how much a way to face an outage bears.

use std::path::PathBuf;

use anyhow::ensure;
use quell_charts::{Table, number::thousands};
use quell_sim::{
    sweep::Knob,
    tip::{Tip, steps, tip},
};
use serde::Serialize;

use super::{read, runs::How};

/// Looks for the shortest outage, or the lowest load, from which a scenario does not heal any more.
///
/// By bisection, in whole seconds or in hundredths of the capacity. Healed means: as long as the scenario watches, with every seed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One that `quell sim --list` shows, or a config file with scenarios in it
    #[arg(value_name = "NAME | FILE")]
    scenario: PathBuf,
    /// What to make worse
    #[arg(long, value_enum)]
    over: Over,
    /// The most to try: seconds of outage, or percent of the capacity
    #[arg(long, value_name = "N")]
    most: Option<u64>,
    /// Only these of those who face it
    #[arg(long, value_name = "WHO")]
    against: Vec<String>,
    #[command(flatten)]
    how: How,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Over {
    /// The outage's length
    Outage,
    /// The load
    Load,
}

impl Over {
    /// The knob, the most to try, and what one step of the search is worth.
    const fn knob(self) -> (Knob, u64, f64) {
        match self {
            Self::Outage => (Knob::Outage, 300, 1.0),
            Self::Load => (Knob::Utilisation, 200, 0.01),
        }
    }
}

#[derive(Serialize)]
struct Found {
    scenario: String,
    against: String,
    over: &'static str,
    survives: Option<f64>,
    falls: Option<f64>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let (knob, most, step) = args.over.knob();
    let most = args.most.unwrap_or(most).max(2);
    let plans = read(&args.scenario, &args.how)?;
    let jobs: Vec<_> = plans
        .iter()
        .flat_map(|plan| plan.against.iter().map(move |who| (plan, who)))
        .filter(|(_, who)| args.against.is_empty() || args.against.contains(&who.word))
        .collect();
    ensure!(!jobs.is_empty(), "nobody of that name faces these: write one of their against");
    let bar = super::runs::bar(jobs.len() as u64 * steps(1, most), "runs");
    let found = args.how.each(&jobs, |(_, who)| {
        tip(1, most, &mut |n| {
            let mut scenario = who.scenario.clone();
            knob.set(&mut scenario, n as f64 * step)?;
            bar.inc(1);
            args.how.heals(&scenario)
        })
    });
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for ((plan, who), found) in jobs.iter().zip(found) {
        let value = |n: u64| Some(n as f64 * step);
        let (survives, falls) = match found? {
            Tip::At { survives, falls } => (value(survives), value(falls)),
            Tip::Below(n) => (None, value(n)),
            Tip::Above(n) => (value(n), None),
        };
        let scenario = plan.name.clone();
        rows.push((
            *plan,
            who.label(),
            Found { scenario, against: who.word.clone(), over: knob.as_str(), survives, falls },
        ));
    }
    if args.json {
        let found: Vec<_> = rows.iter().map(|(_, _, found)| found).collect();
        println!("{}", serde_json::to_string(&found)?);
        return Ok(());
    }
    for rows in rows.chunk_by(|a, b| a.2.scenario == b.2.scenario) {
        let Some((plan, ..)) = rows.first() else { continue };
        let mut table = Table::new(&super::heading(plan), ["heals", "does not"]);
        let says = |value: Option<f64>, else_says: &str| match (value, args.over) {
            (None, _) => else_says.to_owned(),
            (Some(seconds), Over::Outage) => format!("{seconds:.0} s"),
            (Some(share), Over::Load) => {
                format!(
                    "{}/s (ρ = {share:.2})",
                    thousands(share * plan.scenario.service.capacity())
                )
            }
        };
        for (_, label, found) in rows {
            let cells = vec![
                says(found.survives, "nothing"),
                says(found.falls, "– (all that was tried heals)"),
            ];
            table.row(label, cells);
        }
        println!("{table}");
    }
    Ok(())
}

//! `quell sim arena`: which rule finds the in-flight limit by itself.

mod charts;
mod figures;

use std::{num::NonZeroUsize, path::PathBuf};

use anyhow::{Context, ensure};
use quell_sim::arena::{Cell, Rule, SEEDS, Standing, judge, worlds};
use worlds::World;

use self::figures::lines;
use super::runs;
use crate::table::{Table, thousands};

/// Tries rules for the in-flight limit in worlds where they are told nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these rules (see --list); may be given more than once. All, if not given
    #[arg(long = "controller", value_name = "NAME", value_parser = rule, num_args = 1.., value_delimiter = ',')]
    controllers: Vec<Rule>,
    /// Only worlds with this in their name, such as degrading or /stall-10
    #[arg(long, value_name = "WORLD")]
    filter: Option<String>,
    /// Seeds such as 11,12,13, or how many of them from 11 on. Rules are tuned on 1 to 3 and 21 to 60
    #[arg(long, value_name = "LIST | N", default_value = "3", value_parser = seeds)]
    seeds: Seeds,
    /// Threads to run on; one per core if not given, and the same result for any number
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Also show every world, one line each
    #[arg(long)]
    verbose: bool,
    /// Print one JSON line per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Show rules and worlds, and run nothing
    #[arg(long)]
    list: bool,
    /// Write charts of what the limit does into this folder, and nothing else: one SVG for each of the six worlds of
    /// docs/limit.md, or for those that --filter names, by the first seed
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["controllers", "verbose", "json", "list"])]
    charts: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
struct Seeds(Vec<u64>);

fn rule(name: &str) -> Result<Rule, String> {
    let known = || Rule::ALL.map(Rule::as_str).join(", ");
    let found = Rule::ALL.into_iter().find(|rule| rule.as_str() == name);
    found.ok_or_else(|| format!("no such rule: write one of {}", known()))
}

fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |text: &str| text.trim().parse::<u64>();
    let seeds = match text.split_once(',') {
        Some(_) => text.split(',').map(number).collect(),
        None => number(text).map(|count| (0..count.min(1000)).map(|i| SEEDS[0] + i).collect()),
    };
    let seeds: Option<Vec<_>> = seeds.ok().filter(|seeds: &Vec<_>| !seeds.is_empty());
    seeds.map(Seeds).ok_or_else(|| "no seeds: write such as 11,12,13, or how many".to_owned())
}

/// Runs the command.
pub(super) fn main(args: &Args) -> anyhow::Result<()> {
    let filter = args.filter.as_deref().unwrap_or("");
    let worlds: Vec<_> =
        worlds::all().into_iter().filter(|world| world.name.contains(filter)).collect();
    ensure!(
        !worlds.is_empty(),
        "no world has \"{filter}\" in its name: see quell sim arena --list"
    );
    if args.list {
        list(&worlds);
        return Ok(());
    }
    if let Some(folder) = &args.charts {
        let worlds = if args.filter.is_some() { worlds } else { charts::shown(worlds) };
        let seed = args.seeds.0.first().context("there is a seed")?;
        for path in charts::write(folder, &worlds, *seed, args.threads)? {
            println!("{}", path.display());
        }
        return Ok(());
    }
    let asked = if args.controllers.is_empty() { &Rule::ALL[..] } else { &args.controllers };
    // Everybody is compared with the oracle.
    let others = asked.iter().filter(|rule| **rule != Rule::Oracle);
    let rules: Vec<_> = std::iter::once(Rule::Oracle).chain(others.copied()).collect();
    let all = standings(&rules, &worlds, args)?;
    let oracle = all.first().context("the oracle is always there")?;
    let shown: Vec<_> = all.iter().filter(|standing| asked.contains(&standing.rule)).collect();
    if args.json {
        for line in shown.iter().flat_map(|standing| lines(standing, oracle, &worlds)) {
            println!("{}", serde_json::to_string(&line)?);
        }
        return Ok(());
    }
    if args.verbose {
        for standing in &shown {
            println!("{}", detail(standing, &worlds));
        }
    }
    print!("{}", table(&shown, oracle, &worlds));
    let seeds: Vec<_> = args.seeds.0.iter().map(u64::to_string).collect();
    println!("{} worlds, each by its median seed of {}", worlds.len(), seeds.join(", "));
    Ok(())
}

/// Runs every rule in every world with every seed.
fn standings(rules: &[Rule], worlds: &[World], args: &Args) -> anyhow::Result<Vec<Standing>> {
    let Seeds(seeds) = &args.seeds;
    let mut jobs = Vec::new();
    for &rule in rules {
        for world in worlds {
            jobs.extend(seeds.iter().map(|&seed| (world, rule, seed)));
        }
    }
    let bar = runs::bar(jobs.len() as u64, "runs");
    let judged = runs::each(args.threads, &jobs, |&(world, rule, seed)| {
        let judged = judge(world, rule, seed);
        bar.inc(1);
        judged
    });
    bar.finish_and_clear();
    let judged = judged.into_iter().collect::<Result<Vec<_>, _>>()?;
    let cells: Vec<_> = judged.chunks(seeds.len()).filter_map(Cell::of).collect();
    let rows = rules.iter().zip(cells.chunks(worlds.len()));
    Ok(rows.map(|(&rule, cells)| Standing { rule, cells: cells.to_vec() }).collect())
}

fn list(worlds: &[World]) {
    println!("rules: {}\n", Rule::ALL.map(Rule::as_str).join(", "));
    let wide = worlds.iter().map(|world| world.name.len()).max().unwrap_or(0);
    for world in worlds {
        println!("{:wide$}  {}", world.name, facts(world));
    }
}

/// What is behind a world's name.
fn facts(World { scenario, .. }: &World) -> String {
    format!(
        "{} workers × {:?}, {}/s, callers leave after {:?}",
        scenario.service.workers,
        scenario.service.mean(),
        thousands(scenario.load),
        scenario.patience
    )
}

fn table(shown: &[&Standing], oracle: &Standing, worlds: &[World]) -> Table {
    let columns = [
        "won",
        "stuck",
        "goodput/oracle",
        "worst",
        "refused healthy",
        "p99 added ms",
        "sent/user",
        "answers lost",
        "worst in",
    ];
    let mut table = Table::new("arena", columns);
    for standing in shown {
        let beside = standing.beside(oracle);
        let share = |share: Option<f64>| share.map_or("–".into(), |share| format!("{share:.3}"));
        let (p99, _) = standing.p99_added(oracle);
        let worst = beside.and_then(|beside| worlds.get(beside.worst_world));
        table.row(
            standing.rule.as_str(),
            vec![
                format!("{} of {}", standing.won(), worlds.len()),
                standing.stuck().to_string(),
                share(beside.map(|beside| beside.median)),
                share(beside.map(|beside| beside.worst)),
                format!("{:.2} %", standing.refused() * 100.0),
                format!("{:.0}", p99 + 0.0), // no minus before a zero
                format!("{:.2}", standing.sent()),
                thousands(standing.lost()),
                worst.map_or("–".into(), |world| world.name.clone()),
            ],
        );
    }
    table
}

fn detail(standing: &Standing, worlds: &[World]) -> Table {
    let columns = ["", "window", "goodput", "last", "refused", "p99 ms", "sent/user", "lost"];
    let mut table = Table::new(standing.rule.as_str(), columns);
    for (world, cell) in worlds.iter().zip(&standing.cells) {
        let word = match (cell.run.won, cell.stuck) {
            (_, true) => "STUCK",
            (true, _) => "won",
            (false, _) => "lost",
        };
        let numbers = [cell.run.worst_window, cell.goodput, cell.run.last];
        let numbers = numbers.map(|number| format!("{number:.3}"));
        let rest = [
            format!("{:.2} %", cell.refused * 100.0),
            format!("{:.0}", cell.p99_before),
            format!("{:.2}", cell.sent),
            thousands(cell.lost),
        ];
        let cells = std::iter::once(word.to_owned()).chain(numbers).chain(rest);
        table.row(&world.name, cells.collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_list_or_how_many() {
        assert_eq!(seeds("3"), Ok(Seeds(SEEDS.to_vec())));
        assert_eq!(seeds("7, 9"), Ok(Seeds(vec![7, 9])));
        for wrong in ["", "0", "x", "1,"] {
            assert!(seeds(wrong).unwrap_err().contains("write such as"), "{wrong}");
        }
    }

    #[test]
    fn every_rule_is_found_by_its_name() {
        for known in Rule::ALL {
            assert_eq!(rule(known.as_str()), Ok(known));
        }
        assert!(rule("magic").unwrap_err().contains("write one of oracle, fixed-256, aimd"));
    }
}

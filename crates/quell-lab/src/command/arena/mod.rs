//! `quell-lab arena`: which rule finds the in-flight limit by itself.

mod charts;
mod figures;
mod shown;

use std::{num::NonZeroUsize, path::PathBuf};

use anyhow::{Context, ensure};
use quell_charts::number::thousands;
use quell_lab::arena::{Cell, Edition, Rule, SEEDS, Standing, judge, worlds::World};
use quell_sim::scenario::Kind;

use self::{
    figures::lines,
    shown::{detail, table},
};
use crate::runs;

/// Tries rules for the in-flight limit in worlds where they are told nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these rules (see --list); may be given more than once. All, if not given
    #[arg(long = "controller", value_name = "NAME", value_parser = rule, num_args = 1.., value_delimiter = ',')]
    controllers: Vec<Rule>,
    /// Only worlds of this edition: old (all requests are alike), health (nothing is wrong) or mixed (kinds of requests, and
    /// callers who hang up, in trouble). All, if not given
    #[arg(long, value_name = "EDITION", value_parser = edition, num_args = 1.., value_delimiter = ',')]
    edition: Vec<Editions>,
    /// Only worlds with this in their name, such as degrading or /stall-10
    #[arg(long, value_name = "WORLD")]
    filter: Option<String>,
    /// Seeds such as 11,12,13, or how many of them from 11 on. Rules are tuned on 1 to 3 and 21 to 60
    #[arg(long, value_name = "LIST | N", default_value = "5", value_parser = seeds)]
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

/// One edition, or all.
type Editions = Option<Edition>;

fn edition(name: &str) -> Result<Editions, String> {
    let found = Edition::ALL.into_iter().find(|edition| edition.as_str() == name);
    match found {
        None if name != "all" => Err(format!(
            "no such edition: write {} or all",
            Edition::ALL.map(Edition::as_str).join(", ")
        )),
        found => Ok(found),
    }
}

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

/// The worlds that are asked for, edition by edition.
fn asked(args: &Args) -> anyhow::Result<Vec<(Edition, Vec<World>)>> {
    let filter = args.filter.as_deref().unwrap_or("");
    // Charts are drawn of worlds in which all requests are alike, unless others are asked for.
    let usual: &[Editions] = if args.charts.is_some() { &[Some(Edition::Old)] } else { &[None] };
    let named = if args.edition.is_empty() { usual } else { &args.edition };
    let wanted = |edition: &Edition| named.iter().any(|one| one.is_none_or(|one| one == *edition));
    let worlds = |edition: Edition| {
        let named = edition.worlds().into_iter().filter(|world| world.name.contains(filter));
        (edition, named.collect::<Vec<_>>())
    };
    let all = Edition::ALL.into_iter().filter(wanted).map(worlds);
    let all: Vec<_> = all.filter(|(_, worlds)| !worlds.is_empty()).collect();
    ensure!(!all.is_empty(), "no world has \"{filter}\" in its name: see quell-lab arena --list");
    Ok(all)
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let editions = asked(args)?;
    if args.list {
        println!("rules: {}\n", Rule::ALL.map(Rule::as_str).join(", "));
        editions.iter().for_each(|(_, worlds)| list(worlds));
        return Ok(());
    }
    if let Some(folder) = &args.charts {
        let worlds: Vec<_> = editions.into_iter().flat_map(|(_, worlds)| worlds).collect();
        let worlds = if args.filter.is_some() { worlds } else { charts::shown(worlds) };
        let seed = args.seeds.0.first().context("there is a seed")?;
        for path in charts::write(folder, &worlds, *seed, args.threads)? {
            println!("{}", path.display());
        }
        return Ok(());
    }
    for (edition, worlds) in &editions {
        tries(*edition, worlds, args)?;
    }
    Ok(())
}

/// Tries the rules in the worlds of one edition.
fn tries(edition: Edition, worlds: &[World], args: &Args) -> anyhow::Result<()> {
    let asked = if args.controllers.is_empty() { &Rule::ALL[..] } else { &args.controllers };
    // Everybody is compared with the oracle.
    let others = asked.iter().filter(|rule| **rule != Rule::Oracle);
    let rules: Vec<_> = std::iter::once(Rule::Oracle).chain(others.copied()).collect();
    let all = standings(&rules, worlds, args)?;
    let oracle = all.first().context("the oracle is always there")?;
    let shown: Vec<_> = all.iter().filter(|standing| asked.contains(&standing.rule)).collect();
    if args.json {
        for line in shown.iter().flat_map(|standing| lines(edition, standing, oracle, worlds)) {
            println!("{}", serde_json::to_string(&line)?);
        }
        return Ok(());
    }
    if args.verbose {
        for standing in &shown {
            println!("{}", detail(edition, standing, worlds));
        }
    }
    print!("{}", table(edition, &shown, oracle, worlds));
    let seeds: Vec<_> = args.seeds.0.iter().map(u64::to_string).collect();
    println!("{} worlds, each by its median seed of {}\n", worlds.len(), seeds.join(", "));
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
    let bar = runs::bar(jobs.len());
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
    let wide = worlds.iter().map(|world| world.name.len()).max().unwrap_or(0);
    for world in worlds {
        println!("{:wide$}  {}", world.name, facts(world));
    }
}

/// So many kinds are told by name.
const FEW: usize = 4;

/// What is behind a world's name.
fn facts(World { scenario, .. }: &World) -> String {
    if !scenario.kinds.is_empty() {
        let kind =
            |kind: &Kind| format!("{}/s {} of {:?}", thousands(kind.load), kind.name, kind.mean());
        let kinds: Vec<_> = scenario.kinds.iter().take(FEW).map(kind).collect();
        let more = scenario.kinds.len().saturating_sub(FEW);
        let more = if more > 0 { format!(" and {more} more kinds") } else { String::new() };
        return format!("{} workers, {}{more}", scenario.service.workers, kinds.join(", "));
    }
    format!(
        "{} workers × {:?}, {}/s, callers leave after {:?}",
        scenario.service.workers,
        scenario.service.mean(),
        thousands(scenario.load),
        scenario.patience
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_list_or_how_many() {
        assert_eq!(seeds("5"), Ok(Seeds(SEEDS.to_vec())));
        assert_eq!(seeds("7, 9"), Ok(Seeds(vec![7, 9])));
        for wrong in ["", "0", "x", "1,"] {
            assert!(seeds(wrong).unwrap_err().contains("write such as"), "{wrong}");
        }
    }

    #[test]
    fn every_edition_is_found_by_its_name_and_all_is_all() {
        for known in Edition::ALL {
            assert_eq!(edition(known.as_str()), Ok(Some(known)));
        }
        assert_eq!(edition("all"), Ok(None));
        assert!(edition("new").unwrap_err().contains("write old, health, mixed or all"));
    }

    #[test]
    fn every_rule_is_found_by_its_name() {
        for known in Rule::ALL {
            assert_eq!(rule(known.as_str()), Ok(known));
        }
        assert!(rule("magic").unwrap_err().contains("write one of oracle, fixed-256, aimd"));
    }
}

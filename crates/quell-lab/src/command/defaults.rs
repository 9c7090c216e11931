//! `quell-lab defaults`: what the defaults were chosen by.

use std::fmt::Write as _;

use anyhow::Context;
use quell_lab::defaults::{Derived, Figure, Figures, SEEDS, Setting, Sweep, World, settings};
use serde::Serialize;

use crate::runs;

/// Where `--write` puts the page.
const PAGE: &str = "docs/defaults.md";

/// Sweeps every main default over its neighbours, and says which one the rule picks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON line per default
    #[arg(long)]
    json: bool,
    /// Write the tables to docs/defaults.md
    #[arg(long)]
    write: bool,
    /// Threads to run on; one per core if not given, and the same result for any number
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
}

/// A default for machines, with the fields that every measurement has.
#[derive(Serialize)]
struct Line<'a> {
    figure: String,
    value: Option<&'a str>,
    unit: &'static str,
    against: Option<&'a str>,
    goal: String,
    met: bool,
    candidates: Vec<Candidate<'a>>,
}

#[derive(Serialize)]
struct Candidate<'a> {
    value: &'a str,
    #[serde(flatten)]
    figures: std::collections::BTreeMap<String, Option<f64>>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let sweep = Sweep::new(settings());
    let trials = sweep.trials();
    let bar = runs::bar(trials.len());
    let seen = runs::each(args.threads, trials, |trial| {
        let seen = trial.run();
        bar.inc(1);
        seen
    });
    bar.finish_and_clear();
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    let derived = sweep.derived(&seen);
    if args.write {
        std::fs::write(PAGE, page(&derived)).with_context(|| format!("cannot write {PAGE}"))?;
    }
    if args.json {
        for derived in &derived {
            println!("{}", serde_json::to_string(&line(derived))?);
        }
    } else {
        print!("{}", short(&derived));
    }
    Ok(())
}

fn line<'a>(derived: &'a Derived<'a>) -> Line<'a> {
    let value = |place: Option<usize>| place.map(|i| derived.rows[i].0);
    let figures = |figures: &Figures| {
        let figure = |figure: Figure| {
            let value = figures.get(figure);
            (figure.as_str().replace(' ', "_"), value.is_finite().then_some(value))
        };
        Figure::ALL.map(figure).into()
    };
    let candidates = derived.rows.iter();
    Line {
        figure: format!("sim.defaults.{}", title(derived.setting).replace(", ", ".")),
        value: value(derived.picked),
        unit: "",
        against: value(derived.ships),
        goal: derived.setting.rule.to_string(),
        met: derived.picked.is_some() && derived.picked == derived.ships,
        candidates: candidates
            .map(|(value, row)| Candidate { value, figures: figures(row) })
            .collect(),
    }
}

fn title(setting: &Setting) -> String {
    match setting.sides {
        [side] => format!("{}, {}", setting.name, side.as_str()),
        _ => setting.name.to_owned(),
    }
}

fn says<'a>(derived: &Derived<'a>, place: Option<usize>) -> &'a str {
    place.map_or("no candidate", |i| derived.rows[i].0)
}

/// For a terminal: what ships and what is picked.
fn short(all: &[Derived<'_>]) -> String {
    let mut table = quell_charts::Table::new("defaults", ["ships", "the rule picks", ""]);
    for derived in all {
        let (ships, picked) = (says(derived, derived.ships), says(derived, derived.picked));
        let verdict = if derived.ships == derived.picked { "same" } else { "differs" };
        table.row(&title(derived.setting), [ships, picked, verdict].map(str::to_owned).into());
    }
    table.to_string()
}

fn page(all: &[Derived<'_>]) -> String {
    let mut text = format!(
        "# Where the defaults come from\n\nMade by `cargo xtask lab defaults --write`; do not edit. Every candidate, all else as shipped, lives through the same {} worlds with the \
         same {} seeds; above each table stands what the setting is for and the rule that follows, and the pick is computed by it. The same on every \
         machine; the tests run what ships anew.\n\n\
         600 requests per second from 4 instances against 72 workers that take 100 ms (ρ = 0.83), callers who wait a second. `library` is Quell inside the callers; `gateway` is Quell in front, of \
         naive callers (3 retries, a second apart) in outages and of callers who try once in everything less.\n\n",
        World::ALL.len(),
        SEEDS.len(),
    );
    text.push_str("| column | |\n|---|---|\n");
    for (figure, meaning) in MEANINGS {
        let _ = writeln!(text, "| {} | {meaning} |", figure.as_str());
    }
    text.push_str("\n| default | ships | the rule picks | |\n|---|---|---|---|\n");
    for derived in all {
        let name = title(derived.setting);
        let (ships, picked) = (says(derived, derived.ships), says(derived, derived.picked));
        let verdict = if derived.ships == derived.picked { "same" } else { "differs, see below" };
        let _ = writeln!(text, "| `{name}` | {ships} | {picked} | {verdict} |");
    }
    text.push_str(REVISED);
    for derived in all {
        section(&mut text, derived);
    }
    text
}

fn section(text: &mut String, derived: &Derived<'_>) {
    let setting = derived.setting;
    let _ = writeln!(
        text,
        "\n## `{}`\n\n{} **Rule:** {}.\n",
        title(setting),
        setting.why,
        setting.rule
    );
    let columns: Vec<_> = Figure::ALL.iter().map(|figure| figure.as_str()).collect();
    let _ = writeln!(text, "| | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for (i, (value, figures)) in derived.rows.iter().enumerate() {
        let marks = [(derived.ships, "ships"), (derived.picked, "picked")];
        let marks: Vec<_> =
            marks.iter().filter(|(place, _)| *place == Some(i)).map(|(_, mark)| *mark).collect();
        let value = match marks.as_slice() {
            [] => (*value).to_owned(),
            marks => format!("**{value}** ({})", marks.join(", ")),
        };
        let _ = writeln!(text, "| {value} | {} |", cells(figures));
    }
    let (ships, picked) = (says(derived, derived.ships), says(derived, derived.picked));
    let _ = match (derived.ships == derived.picked, setting.ships) {
        (true, _) => writeln!(text, "\nThe rule picks {picked}, and that is what ships."),
        (false, why) => writeln!(text, "\nThe rule picks {picked}; {ships} ships. {why}"),
    };
}

fn cells(figures: &Figures) -> String {
    Figure::ALL.map(|figure| figure.says(figures.get(figure))).join(" | ")
}

/// What was not as it is now when the figures were first seen.
const REVISED: &str = "\nWorlds and rules were revised once after a first look at the figures, so these picks are not blind. Then: partial faults lasted 20 s instead of a minute, so \
    that what is saved up in a full budget was a third of the extra load that was measured (shipped: 1.11, above the bound; the rules picked no `attempts` for the library, no jitter, and a \
    `budget.ratio` of 0.05); `budget.max` was judged by partial faults (picked: 10); `breaker.ramp` by worst recovery, the longest (picked: 1 s); the bound on the load at a \
    trickle was 0.5, which no `breaker.window` and no `breaker.min_calls` kept; noise was at two calls per second and instance, p99 was \
    that of varying times too, and no service came back cold.\n";

const MEANINGS: [(Figure, &str); 11] = [
    (
        Figure::Recovery,
        "until users are back after 10 s in which everything fails, vanishes or stalls: the median over kinds and seeds",
    ),
    (Figure::RecoveryWorst, "the same at worst; never: not within the 40 s that are watched"),
    (
        Figure::Load,
        "attempts per call while something is wrong, at worst of outages and partial faults",
    ),
    (
        Figure::Goodput,
        "share of what was achievable that users got, mean of three worlds of a minute: 30 % of attempts fail; 45 % fail; everything takes three times as long (then no more than 40 % can be served)",
    ),
    (Figure::Blips, "the same where everything fails for 150 ms of every 2 s"),
    (Figure::Unanswered, "share of users without an answer while 5 % of the attempts fail"),
    (
        Figure::After,
        "share of what was achievable that users got in the 40 s after an outage, at worst",
    ),
    (
        Figure::Cold,
        "the same after 10 s of failures from which the service comes back at half its speed and warms up over 5 s",
    ),
    (
        Figure::Refused,
        "share refused by Quell in noise, at worst of two worlds: lognormal times (80 ms, p99 400 ms) and 1 % failing; one call per second and instance and 10 % failing",
    ),
    (Figure::P99, "from first send, while 5 % of the attempts fail and an attempt takes 100 ms"),
    (
        Figure::Trickle,
        "attempts per call in an outage of a minute (fail), 2 calls per second and instance",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/defaults.md");
        std::fs::read_to_string(path).unwrap()
    }

    /// Where this fails, `cargo xtask lab defaults --write` writes the page anew.
    #[test]
    fn the_page_shows_what_ships_as_it_behaves_today() {
        let sweep = Sweep::new(settings());
        let shipped = &sweep.trials()[..Sweep::shipped()];
        let seen = runs::each(None, shipped, |trial| trial.run().unwrap());
        let page = written();
        for (setting, value, figures) in sweep.of_shipped(&seen) {
            let section =
                page.split("\n## ").find(|part| part.starts_with(&format!("`{}`", title(setting))));
            let section = section.unwrap_or_else(|| panic!("{} is not there", title(setting)));
            let row =
                section.lines().find(|line| line.starts_with(&format!("| **{value}** (ships")));
            let row = row.unwrap_or_else(|| panic!("{} ships {value}", title(setting)));
            assert!(
                row.ends_with(&format!("| {} |", cells(&figures))),
                "{row}\n{}",
                cells(&figures)
            );
            assert!(section.contains(&setting.rule.to_string()), "{}", setting.rule);
        }
    }

    #[test]
    fn every_default_that_differs_says_why() {
        for part in written().split("\n## ").skip(1).filter(|part| part.contains(" ships. ")) {
            let why = part.split(" ships. ").nth(1).unwrap();
            assert!(why.trim().len() > 40, "{part}");
        }
    }

    #[test]
    fn the_whole_page_is_what_the_command_writes() {
        if std::env::var_os("QUELL_FULL").is_none() {
            return;
        }
        let sweep = Sweep::new(settings());
        let seen = runs::each(None, sweep.trials(), |trial| trial.run().unwrap());
        assert_eq!(page(&sweep.derived(&seen)), written());
    }
}

//! Sweep: a map of where it heals.

use std::{path::PathBuf, str::FromStr};

use anyhow::Context;
use quell_charts::Ink;
use quell_sim::{precheck::Precheck, sweep::Knob};
use serde::Serialize;

use super::{
    read,
    report::{Page, heat},
    runs::How,
};
use crate::terminal;

/// Runs a scenario over a grid of two parameters and draws where it heals, with the line that theory expects (w·ρ = 1).
///
/// Parameters: load, utilisation, capacity, outage (seconds), patience (milliseconds), instances, attempts, budget.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One that `quell sim --list` shows, or a config file; its first scenario is swept unless --name says otherwise
    #[arg(value_name = "NAME | FILE")]
    scenario: PathBuf,
    /// Across, such as utilisation=0.1..1:10 (from, to, how many)
    #[arg(long, value_name = "NAME=FROM..TO:N")]
    x: Axis,
    /// Upwards, such as attempts=1..5:5
    #[arg(long, value_name = "NAME=FROM..TO:N")]
    y: Axis,
    /// Which scenario of the file
    #[arg(long)]
    name: Option<String>,
    /// Who faces it; the first in the file, if left out
    #[arg(long, value_name = "WHO")]
    against: Option<String>,
    #[command(flatten)]
    how: How,
    /// Print one JSON document instead of a map
    #[arg(long)]
    json: bool,
    /// Write one HTML file with the map
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Values of one parameter, evenly apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) knob: Knob,
    pub(crate) values: Vec<f64>,
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            let names = Knob::ALL.map(Knob::as_str).join(", ");
            format!("{what} in \"{text}\": write such as attempts=1..5:5, with one of {names}")
        };
        let (name, range) = text.split_once('=').ok_or_else(|| wrong("no ="))?;
        let (range, count) = range.split_once(':').ok_or_else(|| wrong("no number of steps"))?;
        let (from, to) = range.split_once("..").ok_or_else(|| wrong("no range"))?;
        let knob = Knob::ALL.into_iter().find(|knob| knob.as_str() == name);
        let knob = knob.ok_or_else(|| wrong("no such parameter"))?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong("no number"));
        let (from, to) = (number(from)?, number(to)?);
        let count: usize = count.trim().parse().map_err(|_| wrong("no number of steps"))?;
        let upwards = from < to; // what is no number is not below another
        if !(2..=100).contains(&count) || !upwards {
            return Err(wrong("FROM must be below TO, and N from 2 to 100"));
        }
        let value = |i: usize| {
            let value = from + (to - from) * i as f64 / (count - 1) as f64;
            if knob.is_whole() { value.round() } else { value }
        };
        let mut values: Vec<_> = (0..count).map(value).collect();
        values.dedup();
        Ok(Self { knob, values })
    }
}

impl Axis {
    /// A value for people.
    pub(crate) fn says(&self, value: f64) -> String {
        let digits = if value >= 10.0 || self.knob.is_whole() { 0 } else { 2 };
        format!("{value:.digits$}{}", self.knob.unit())
    }
}

/// One cell of the map.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The first seed's.
    pub(crate) verdict: &'static str,
    /// How many seeds healed.
    pub(crate) healed: usize,
    /// The median over the seeds.
    pub(crate) goodput_after: f64,
    pub(crate) w_rho: f64,
}

/// The map: rows from the lowest `y` up, each from the lowest `x` on.
#[derive(Debug, Serialize)]
pub(crate) struct Map {
    pub(crate) scenario: String,
    pub(crate) against: String,
    #[serde(skip)]
    pub(crate) x: Axis,
    #[serde(skip)]
    pub(crate) y: Axis,
    pub(crate) x_name: &'static str,
    pub(crate) y_name: &'static str,
    pub(crate) seeds: usize,
    pub(crate) cells: Vec<Vec<Cell>>,
}

/// Runs the command.
pub(crate) fn main(args: &Args) -> anyhow::Result<()> {
    let map = sweep(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&map)?);
    } else {
        print!("{}", map.drawn(terminal::ink()));
    }
    if let Some(path) = &args.report {
        let mut page = Page::new(
            &format!("Where it heals: {}, {}", map.scenario, map.against),
            "Every cell is a run of its own, with the same users wherever the load is the same.",
        );
        page.section(heat::section(&map));
        page.write(path, &format!("quell sim sweep, {}", args.how.says()))?;
    }
    Ok(())
}

fn sweep(args: &Args) -> anyhow::Result<Map> {
    let plans = read(&args.scenario, &args.how)?;
    let plan = match &args.name {
        Some(name) => plans.iter().find(|plan| plan.name == *name),
        None => plans.first(),
    };
    let plan = plan.context("no scenario of that name: write one that is in the file")?;
    let who = match &args.against {
        Some(word) => plan.way(word),
        None => plan.against.first(),
    };
    let who =
        who.context("nobody of that name faces this scenario: write such as --against front")?;
    let (mut scenarios, mut grid) = (Vec::new(), Vec::new());
    for &y in &args.y.values {
        for &x in &args.x.values {
            let mut scenario = who.scenario.clone();
            args.x.knob.set(&mut scenario, x)?;
            args.y.knob.set(&mut scenario, y)?;
            grid.push((x, y, Precheck::of(&scenario)?.w_rho()));
            scenarios.push(scenario);
        }
    }
    let runs = args.how.run(&scenarios)?;
    let cells = grid.iter().zip(runs).map(|(&(x, y, w_rho), runs)| {
        let goodput =
            super::runs::Spread::of(runs.iter().map(|run| Some(run.summary.goodput_after)));
        Cell {
            x,
            y,
            verdict: runs.first().map_or("unclear", |run| run.summary.verdict.as_str()),
            healed: runs.iter().filter(|run| run.summary.verdict.healed()).count(),
            goodput_after: goodput.map_or(0.0, |spread| spread.median),
            w_rho,
        }
    });
    let cells: Vec<_> = cells.collect();
    Ok(Map {
        scenario: plan.name.clone(),
        against: who.label().to_owned(),
        x_name: args.x.knob.as_str(),
        y_name: args.y.knob.as_str(),
        seeds: args.how.seeds.get(),
        cells: cells.chunks(args.x.values.len()).map(<[_]>::to_vec).collect(),
        x: args.x.clone(),
        y: args.y.clone(),
    })
}

impl Map {
    fn drawn(&self, ink: Ink) -> String {
        let label = |y: f64| self.y.says(y);
        let wide = self.y.values.iter().map(|&y| label(y).chars().count()).max().unwrap_or(0);
        let mut text = format!(
            "{}, {}: {} up, {} across\n",
            self.scenario, self.against, self.y_name, self.x_name
        );
        for row in self.cells.iter().rev() {
            let Some(first) = row.first() else { continue };
            text.push_str(&format!("  {:>wide$} ", label(first.y)));
            let mut beyond = false;
            for cell in row {
                // The theory line runs between the last cell below 1 and the first that is not.
                let crosses = (cell.w_rho >= 1.0) != beyond;
                beyond = cell.w_rho >= 1.0;
                text.push(if crosses { if ink == Ink::Rich { '│' } else { '|' } } else { ' ' });
                text.push_str(&ink.verdict(cell.verdict, cell.goodput_after));
            }
            text.push('\n');
        }
        let (first, last) = (self.x.values.first(), self.x.values.last());
        let ends = [first, last].map(|x| x.map_or(String::new(), |&x| self.x.says(x)));
        let room = (self.x.values.len() * 3).saturating_sub(ends[0].chars().count());
        text.push_str(&format!("  {:>wide$}  {}{:>room$}\n", "", ends[0], ends[1]));
        text.push_str("  H healed, d draining, s sheds, M metastable, ? unclear; | is where theory expects the edge (w·ρ = 1)\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_read_and_mistakes_say_what_to_write() {
        let axis: Axis = "utilisation=0.2..1:5".parse().unwrap();
        assert_eq!(
            axis.values.iter().map(|&v| axis.says(v)).collect::<Vec<_>>(),
            ["0.20", "0.40", "0.60", "0.80", "1.00"]
        );
        assert_eq!("attempts=1..3:9".parse::<Axis>().unwrap().values, [1.0, 2.0, 3.0]);
        for wrong in
            ["", "load", "load=1..2", "load=2..1:3", "laod=1..2:3", "load=a..2:3", "load=1..2:1"]
        {
            let message = wrong.parse::<Axis>().unwrap_err();
            assert!(message.contains("write such as"), "{message}");
        }
    }

    #[test]
    fn the_theory_line_stands_where_w_rho_crosses_one() {
        let cell = |w_rho: f64| Cell {
            x: w_rho,
            y: 1.0,
            verdict: "healed",
            healed: 1,
            goodput_after: 1.0,
            w_rho,
        };
        let axis = Axis { knob: Knob::Utilisation, values: vec![0.5, 0.9, 1.1] };
        let map = Map {
            scenario: "s".into(),
            against: "naive".into(),
            y: Axis { values: vec![1.0], ..axis.clone() },
            x: axis,
            x_name: "utilisation",
            y_name: "utilisation",
            seeds: 1,
            cells: vec![vec![cell(0.5), cell(0.9), cell(1.1)]],
        };
        let drawn = map.drawn(Ink::Plain);
        assert!(drawn.contains("1.00  HH HH|HH"), "{drawn}");
    }
}

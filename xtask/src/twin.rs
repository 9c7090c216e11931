//! `cargo xtask twin`: the same outage simulated and on real sockets, side by side.
//!
//! **Why.** A simulator is believed because it was right before. This runs `quell demo` for real and `quell sim
//! demo` on virtual time, with the same scenario file, and lays what they say next to each other.
//!
//! **How.** Verdicts must be equal, recoveries within a tenth or half a second, amplification and goodput
//! within a tenth. The kinds of outage run one after the other, 50 seconds each, so that they do not
//! disturb each other. It reports and exits with 0; `--gate` makes a broken promise (verdict, recovery, amplification) an
//! error, after up to three tries: a machine that stops for a quarter of a second spoils a window, and is not
//! what is measured.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    figure::{self, Figure},
    workspace::Workspace,
};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Only this kind of outage: stall, hole or fail
    #[arg(long, value_parser = KINDS)]
    kind: Option<String>,
    /// Print one JSON line per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Fail if a promise of Quell's is not kept on real sockets
    #[arg(long)]
    gate: bool,
    /// Use the profile of the tests, which is already built, instead of a release build
    #[arg(long)]
    dev: bool,
}

impl Args {
    /// As CI runs it.
    pub(crate) fn gate() -> Self {
        Self { gate: true, dev: true, ..Self::default() }
    }
}

/// Ends of the names of figures that are promises.
const PROMISES: [&str; 3] = [".verdict", ".recovery_promise", ".amplification_promise"];
const TRIES: u32 = 3;

const KINDS: [&str; 3] = ["stall", "hole", "fail"];

/// What both programs say of one run.
#[derive(Debug, Clone, Deserialize)]
struct Seen {
    verdict: String,
    recovered_s: Option<f64>,
    amplification: f64,
    goodput_after: f64,
}

#[derive(Deserialize)]
struct Real {
    naive: Seen,
    front: Seen,
}

#[derive(Deserialize)]
struct Simulated {
    runs: Vec<SimulatedRun>,
}

#[derive(Deserialize)]
struct SimulatedRun {
    kind: String,
    against: String,
    #[serde(flatten)]
    seen: Seen,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let profile = if args.dev { "dev" } else { "release" };
    workspace.run(&mut workspace.cargo([
        // As the tests are built, so that nothing is built twice.
        "build",
        "--workspace",
        "--all-features",
        "--bin",
        "quell",
        "--profile",
        profile,
    ]))?;
    let folder = if args.dev { "debug" } else { "release" };
    let quell = workspace.path(&format!("target/{folder}/quell"));
    let simulated: Simulated =
        ask(workspace, Command::new(&quell).args(["sim", "demo", "--json"]))?;
    let mut figures = Vec::new();
    for kind in
        KINDS.into_iter().filter(|kind| args.kind.as_deref().is_none_or(|only| only == *kind))
    {
        let mut seen = measure(workspace, &quell, kind, &simulated)?;
        for again in 2..=if args.gate { TRIES } else { 1 } {
            let broken = broken(&seen);
            if broken.is_empty() {
                break;
            }
            eprintln!("{kind}: {} not as promised; try {again} of {TRIES}", broken.join(", "));
            seen = measure(workspace, &quell, kind, &simulated)?;
        }
        figures.extend(seen);
    }
    figure::print(&figures, args.json)?;
    let broken = broken(&figures);
    if args.gate && !broken.is_empty() {
        bail!("not as promised: {}", broken.join(", "));
    }
    Ok(())
}

/// Promises of ours that were not kept; how close the twins are is reported and no promise.
fn broken(figures: &[Figure]) -> Vec<&str> {
    let missed = figures.iter().filter(|figure| figure.met == Some(false));
    let names = missed.map(|figure| figure.figure.as_str());
    names.filter(|name| PROMISES.iter().any(|promise| name.ends_with(promise))).collect()
}

/// One kind of outage for real, beside what was simulated.
fn measure(
    workspace: &Workspace,
    quell: &Path,
    kind: &str,
    simulated: &Simulated,
) -> Result<Vec<Figure>> {
    eprintln!("{kind}: 50 s on real sockets");
    let real: Real = ask(workspace, Command::new(quell).args(["demo", "--json", "--kind", kind]))?;
    let mut figures = Vec::new();
    for (against, real, promised) in
        [("naive", &real.naive, "metastable"), ("front", &real.front, "healed")]
    {
        let mut runs = simulated.runs.iter();
        let run = runs.find(|run| run.kind == kind && run.against == against);
        let simulated = &run.with_context(|| format!("no simulated {kind} {against}"))?.seen;
        figures.extend(compare(&format!("twin.{kind}.{against}"), real, simulated, promised));
    }
    Ok(figures)
}

/// Runs a program for its JSON. Its exit code speaks of the outcome, not of whether it could be measured.
fn ask<T: serde::de::DeserializeOwned>(workspace: &Workspace, command: &mut Command) -> Result<T> {
    let output = command
        .current_dir(workspace.path(""))
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} gave no figures"))
}

/// Real against simulated.
fn compare(name: &str, real: &Seen, simulated: &Seen, promised: &str) -> Vec<Figure> {
    let within = |off: f64, most: f64| Some(off.abs() <= most + 1e-9);
    let verdict = Figure {
        figure: format!("{name}.verdict"),
        value: f64::from(u8::from(real.verdict == "healed")),
        unit: "healed".into(),
        against: Some(f64::from(u8::from(simulated.verdict == "healed"))),
        goal: Some(format!("both {promised}")),
        met: Some(real.verdict == promised && simulated.verdict == promised),
        ..Figure::default()
    };
    let mut figures = vec![verdict];
    if promised == "healed" {
        let promise = |name: &str, value: f64, unit: &str, most: f64| Figure {
            figure: format!("{name}_promise"),
            value,
            unit: unit.into(),
            goal: Some(format!("at most {most}")),
            met: Some(value <= most),
            ..Figure::default()
        };
        let recovery = real.recovered_s.unwrap_or(f64::MAX);
        figures.push(promise(&format!("{name}.recovery"), recovery, "s", 1.0));
        figures.push(promise(
            &format!("{name}.amplification"),
            real.amplification,
            "sent ÷ received",
            1.1,
        ));
    }
    if let (Some(value), Some(against)) = (real.recovered_s, simulated.recovered_s) {
        figures.push(Figure {
            figure: format!("{name}.recovery"),
            value,
            unit: "s".into(),
            against: Some(against),
            goal: Some("within 10 % or 0.5 s".into()),
            met: within(value - against, (0.1 * against).max(0.5)),
            ..Figure::default()
        });
    }
    figures.push(Figure {
        figure: format!("{name}.amplification"),
        value: real.amplification,
        unit: "sent ÷ received".into(),
        against: Some(simulated.amplification),
        ratio: Some(real.amplification / simulated.amplification),
        goal: Some("within 10 %".into()),
        met: within(real.amplification - simulated.amplification, 0.1 * simulated.amplification),
    });
    figures.push(Figure {
        figure: format!("{name}.goodput"),
        value: real.goodput_after,
        unit: "share of achievable".into(),
        against: Some(simulated.goodput_after),
        goal: Some("within 10 % of what is achievable".into()),
        met: within(real.goodput_after - simulated.goodput_after, 0.1),
        ..Figure::default()
    });
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(verdict: &str, recovered_s: Option<f64>, amplification: f64, goodput: f64) -> Seen {
        Seen { verdict: verdict.into(), recovered_s, amplification, goodput_after: goodput }
    }

    fn met(real: &Seen, simulated: &Seen) -> Vec<bool> {
        let figures = compare("twin.stall.front", real, simulated, "healed");
        figures.into_iter().map(|figure| figure.met.unwrap()).collect()
    }

    #[test]
    fn twins_that_agree_meet_every_goal() {
        let (real, simulated) =
            (seen("healed", Some(0.6), 0.5, 0.97), seen("healed", Some(0.1), 0.52, 1.0));
        assert_eq!(met(&real, &simulated), [true; 6]);
    }

    #[test]
    fn each_difference_misses_its_own_goal() {
        let simulated = seen("healed", Some(0.1), 0.5, 1.0);
        let cases = [
            (seen("metastable", None, 0.5, 1.0), vec![false, false, true, true, true]),
            (seen("healed", Some(0.7), 0.5, 1.0), vec![true, true, true, false, true, true]),
            (seen("healed", Some(1.1), 0.5, 1.0), vec![true, false, true, false, true, true]),
            (seen("healed", Some(0.1), 1.2, 1.0), vec![true, true, false, true, false, true]),
            (seen("healed", Some(0.1), 0.5, 0.8), vec![true, true, true, true, true, false]),
        ];
        for (real, expected) in cases {
            assert_eq!(met(&real, &simulated), expected, "{real:?}");
        }
    }
}

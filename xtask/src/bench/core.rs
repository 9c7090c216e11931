//! One successful call through the core: time, allocations, instructions; and the same beside its peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{callgrind, peers};
use crate::{figure::Figure, workspace::Workspace};

/// One way through the product.
pub(super) struct Kind {
    /// What the program calls it.
    pub(super) name: &'static str,
    /// What its figures are called.
    pub(super) figures: &'static str,
    /// The most it may cost, where we promise something.
    pub(super) most: Most,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Most {
    pub(super) allocations: Option<f64>,
    pub(super) instructions: Option<f64>,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "decide",
        figures: "core.decision",
        most: Most { allocations: Some(0.0), instructions: Some(200.0) },
    },
    Kind {
        name: "call",
        figures: "core.call",
        most: Most { allocations: None, instructions: None },
    },
    Kind {
        name: "guarded",
        figures: STACK,
        most: Most { allocations: Some(0.0), instructions: Some(320.0) },
    },
];

/// The most that ours may take of what the peer takes, where we promise something.
const GOALS: [(&str, f64); 4] =
    [("stack_1t", 0.55), ("stack_2t", 0.8), ("limiter", 1.1), ("refusal", 0.5)];

/// All of it, which is also what is compared with what others put together.
const STACK: &str = "core.stack";
const BY_HAND: &str = "by-hand";

/// What the program says of itself.
#[derive(Debug, PartialEq, Deserialize)]
struct Cost {
    nanos: f64,
    allocations: f64,
}

pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>> {
    let programs = build(workspace)?;
    let around = around(&programs)?;
    let mut figures = costs(&programs.join("quell-bench"), &KINDS, around)?;
    let program = programs.join("peers");
    let by_hand = callgrind::per_iteration(&program, BY_HAND)?;
    compare(&mut figures, &format!("{STACK}_instructions"), by_hand);
    figures.extend(peers::measure(&program, "core", &GOALS)?);
    Ok(figures)
}

/// Instructions of the loop itself, which is not what is measured.
pub(super) fn around(programs: &Path) -> Result<f64> {
    callgrind::per_iteration(&programs.join("quell-bench"), "nothing")
}

/// Time, allocations and instructions of each of these, without the loop.
pub(super) fn costs(program: &Path, kinds: &[Kind], around: f64) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &Kind { name, figures: prefix, most } in kinds {
        eprintln!("{prefix}: time and allocations, then instructions");
        let cost = cost(program, name)?;
        let instructions = callgrind::per_iteration(program, name)? - around;
        figures.extend(name_figures(prefix, &cost, instructions, most));
    }
    Ok(figures)
}

/// Builds the programs that are measured; answers with their folder.
pub(super) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.path("bench");
    let (manifest, target) = (folder.join("Cargo.toml"), folder.join("target"));
    let mut cargo = workspace.cargo(["build", "--release", "--locked"]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target);
    workspace.run(&mut cargo)?;
    Ok(target.join("release"))
}

/// What the program prints when it does this.
pub(super) fn output(program: &Path, kind: &str) -> Result<Vec<u8>> {
    let output = Command::new(program).arg(kind).output().context("cannot run the benchmark")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the benchmark {kind} failed: {}", error.trim());
    Ok(output.stdout)
}

fn cost(program: &Path, kind: &str) -> Result<Cost> {
    serde_json::from_slice(&output(program, kind)?)
        .with_context(|| format!("the benchmark {kind} gave no figures"))
}

fn name_figures(name: &str, cost: &Cost, instructions: f64, most: Most) -> [Figure; 3] {
    let figure = |what: &str, value: f64, unit: &str, most: Option<f64>| Figure {
        figure: format!("{name}_{what}"),
        value,
        unit: unit.into(),
        goal: most.map(|most| format!("at most {most}")),
        met: most.map(|most| value <= most),
        ..Figure::default()
    };
    [
        figure("ns", cost.nanos, "ns per call", None),
        figure("allocations", cost.allocations, "per call", most.allocations),
        figure("instructions", instructions, "per call", most.instructions),
    ]
}

/// Puts a peer's value beside ours.
pub(super) fn compare(figures: &mut [Figure], name: &str, against: f64) {
    for figure in figures.iter_mut().filter(|figure| figure.figure == name) {
        figure.against = Some(against);
        figure.ratio = Some(figure.value / against);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_line_is_understood() {
        let cost: Cost = serde_json::from_str(r#"{"nanos": 28.5, "allocations": 0}"#).unwrap();
        assert_eq!(cost, Cost { nanos: 28.5, allocations: 0.0 });
    }

    #[test]
    fn a_goal_is_met_up_to_its_value_and_what_has_none_is_neither_met_nor_missed() {
        let cost = Cost { nanos: 30.0, allocations: 0.5 };
        let met = |most| name_figures("core.call", &cost, 200.0, most).map(|figure| figure.met);
        let most = Most { allocations: Some(0.0), instructions: Some(200.0) };
        assert_eq!(met(most), [None, Some(false), Some(true)]);
        assert_eq!(met(Most::default()), [None; 3]);
    }

    #[test]
    fn a_peer_stands_beside_the_figure_of_that_name_alone() {
        let cost = Cost { nanos: 30.0, allocations: 0.0 };
        let mut figures = name_figures(STACK, &cost, 500.0, Most::default());
        compare(&mut figures, "core.stack_instructions", 1000.0);
        assert_eq!(figures.map(|figure| figure.ratio), [None, None, Some(0.5)]);
    }
}

//! One successful call through the core: time, allocations, instructions.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::callgrind;
use crate::{figure::Figure, workspace::Workspace};

/// What the program calls it, and what the figures are called.
const KINDS: [(&str, &str); 3] =
    [("decide", "core.decision"), ("call", "core.call"), ("guarded", "core.guarded")];

/// The most that the pure decision may cost.
const MOST_ALLOCATIONS: f64 = 0.0;
const MOST_INSTRUCTIONS: f64 = 200.0;

/// What the program says of itself.
#[derive(Debug, PartialEq, Deserialize)]
struct Cost {
    nanos: f64,
    allocations: f64,
}

pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>> {
    let folder = workspace.path("bench");
    let (manifest, target) = (folder.join("Cargo.toml"), folder.join("target"));
    let mut cargo = workspace.cargo(["build", "--release", "--locked"]);
    cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target);
    workspace.run(&mut cargo)?;
    let program = target.join("release/quell-bench");
    let mut figures = Vec::new();
    for (kind, name) in KINDS {
        eprintln!("{name}: time and allocations, then instructions");
        let cost = cost(&program, kind)?;
        let instructions = callgrind::per_iteration(&program, kind)?;
        figures.extend(name_figures(name, &cost, instructions));
    }
    Ok(figures)
}

fn cost(program: &Path, kind: &str) -> Result<Cost> {
    let output = Command::new(program).arg(kind).output().context("cannot run the benchmark")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`quell-bench {kind}` failed: {}", error.trim());
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`quell-bench {kind}` gave no figures"))
}

/// Goals are for the pure decision; the others say what the rest of the way adds.
fn name_figures(name: &str, cost: &Cost, instructions: f64) -> [Figure; 3] {
    let figure = |what: &str, value: f64, unit: &str, most: Option<f64>| Figure {
        figure: format!("{name}_{what}"),
        value,
        unit: unit.into(),
        goal: most.map(|most| format!("at most {most}")),
        met: most.map(|most| value <= most),
        ..Figure::default()
    };
    let goal = |most: f64| (name == "core.decision").then_some(most);
    [
        figure("ns", cost.nanos, "ns per call", None),
        figure("allocations", cost.allocations, "per call", goal(MOST_ALLOCATIONS)),
        figure("instructions", instructions, "per call", goal(MOST_INSTRUCTIONS)),
    ]
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
    fn the_decision_has_goals_and_the_way_around_it_has_none() {
        let cost = Cost { nanos: 30.0, allocations: 0.5 };
        let met = |name| name_figures(name, &cost, 200.0).map(|figure| figure.met);
        assert_eq!(met("core.decision"), [None, Some(false), Some(true)]);
        assert_eq!(met("core.guarded"), [None; 3]);
    }
}

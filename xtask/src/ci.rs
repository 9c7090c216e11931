//! `cargo xtask ci`: every check, in the order in which they are cheap.
//!
//! **Why.** Whoever runs this at home has run what CI runs: there is no second list of steps to drift.
//!
//! **How.** All steps run even after one failed, because three faults found in one run cost one run. The table
//! at the end says what failed and where the time went. `--only clippy` repeats one step.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::workspace::Workspace;
use crate::{api, deny, health, test, tidy, twin};

/// One check. A new one is one line in [`STEPS`].
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "tidy", run: tidy::run },
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "doc", run: doc },
    Step { name: "api", run: |workspace| api::run(workspace, &api::Args::check()) },
    Step { name: "deny", run: deny::run },
    Step { name: "test", run: |workspace| test::run(workspace, &test::Args::default()) },
    Step { name: "twin", run: |workspace| twin::run(workspace, &twin::Args::gate()) },
    Step { name: "health", run: |workspace| health::run(workspace, &health::Args::gate()) },
];

/// A workspace of its own, which `--workspace` does not see: it would break unnoticed.
const BENCH: &str = "bench/Cargo.toml";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run this step only; may be given more than once
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
}

/// How a step went.
struct Ran {
    name: &'static str,
    passed: bool,
    took: Duration,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let wanted =
        |step: &&Step| args.only.is_empty() || args.only.iter().any(|name| name == step.name);
    let ran: Vec<_> = STEPS.iter().filter(wanted).map(|step| run_step(workspace, step)).collect();
    print!("\n{}", table(&ran));
    let failed: Vec<_> = ran.iter().filter(|ran| !ran.passed).map(|ran| ran.name).collect();
    if !failed.is_empty() {
        bail!(
            "failed: {}; repeat one with `cargo xtask ci --only {}`",
            failed.join(", "),
            failed[0]
        );
    }
    Ok(())
}

fn run_step(workspace: &Workspace, step: &Step) -> Ran {
    println!("\n== {} ==", step.name);
    let start = Instant::now();
    let result = (step.run)(workspace);
    let took = start.elapsed();
    match &result {
        Ok(()) => println!("-- {}: ok in {}", step.name, seconds(took)),
        Err(error) => println!("-- {}: failed in {}: {error:#}", step.name, seconds(took)),
    }
    Ran { name: step.name, passed: result.is_ok(), took }
}

fn table(ran: &[Ran]) -> String {
    let total = ran.iter().map(|ran| ran.took).sum();
    let row = |name: &str, result: &str, took: &str| format!("{name:<8}  {result:<6}  {took:>9}\n");
    let mut table = row("step", "result", "time");
    for ran in ran {
        table += &row(ran.name, if ran.passed { "ok" } else { "FAILED" }, &seconds(ran.took));
    }
    table + &row("total", "", &seconds(total))
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn fmt(workspace: &Workspace) -> Result<()> {
    workspace.run(&mut workspace.cargo(["fmt", "--all", "--check"]))?;
    workspace.run(&mut workspace.cargo(["fmt", "--manifest-path", BENCH, "--check"]))
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let args = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    workspace.run(&mut workspace.cargo(args))?;
    let args = ["clippy", "--locked", "--manifest-path", BENCH, "--", "-D", "warnings"];
    workspace.run(&mut workspace.cargo(args))
}

fn doc(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo([
        "doc",
        "--workspace",
        "--no-deps",
        "--all-features",
        "--document-private-items",
    ]);
    workspace.run(cargo.env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_names_of_their_own() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn a_failing_step_is_seen_as_failed_and_keeps_its_time() {
        let step = Step { name: "planted", run: |_| bail!("on purpose") };
        let ran = run_step(&Workspace::new().unwrap(), &step);
        assert!(!ran.passed);
    }

    #[test]
    fn the_table_shows_each_step_and_the_sum_of_their_times() {
        let ran = [
            Ran { name: "tidy", passed: true, took: Duration::from_millis(100) },
            Ran { name: "clippy", passed: false, took: Duration::from_millis(12_300) },
        ];
        let expected = "step      result       time\n\
                        tidy      ok          0.1 s\n\
                        clippy    FAILED     12.3 s\n\
                        total                12.4 s\n";
        assert_eq!(table(&ran), expected);
    }
}

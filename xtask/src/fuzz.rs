//! `cargo xtask fuzz`: strangers' bytes by the million, for the code that reads them.
//!
//! **Why.** Tests hold what somebody has thought of. What reads bytes from strangers, or files from people, is shown what
//! nobody has thought of, and says when a promise breaks: two readers that disagree, a panic, an endless loop.
//!
//! **How.** Each target is a program of a fuzz workspace, laid out as cargo-fuzz has it, so that cargo-fuzz works there, too.
//! It is built here without cargo-fuzz, by plain cargo with the flags in [`FLAGS`]: these are stable, while cargo-fuzz
//! asks for a nightly compiler, or has to be talked out of it, and would have to be installed first. What is left out
//! is the address sanitizer, which is not stable and finds little in code without `unsafe`.
//! `--smoke` gives each target a few seconds. Seeds are in the tree; inputs found on the way stay in the target folder, and
//! are tried first the next time. A finding is written there, too: give it to the program alone to see it again.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;

use crate::workspace::Workspace;

/// The targets, and the workspaces that they are in.
const TARGETS: &[(&str, &str)] = &[
    ("request_head", "crates/quell-http1/fuzz"),
    ("response_head", "crates/quell-http1/fuzz"),
    ("chunks", "crates/quell-http1/fuzz"),
    ("header_values", "crates/quell-http1/fuzz"),
    ("config", "crates/quell/fuzz"),
];

/// What has code tell which of its branches were taken, and what it compared.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// Seconds that each target has in a smoke test.
const SMOKE: u64 = 5;
/// Seconds after which one input is endless.
const ENDLESS: u64 = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run this target
    #[arg(required_unless_present = "smoke", value_parser = PossibleValuesParser::new(TARGETS.iter().map(|(name, _)| *name)))]
    target: Option<String>,
    /// Run it for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "smoke")]
    seconds: u64,
    /// Run every target, or this one, for a few seconds
    #[arg(long)]
    smoke: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let seconds = if args.smoke { SMOKE } else { args.seconds };
    let wanted = |name: &str| args.target.as_deref().is_none_or(|target| target == name);
    let mut failed = Vec::new();
    for (name, folder) in TARGETS.iter().filter(|(name, _)| wanted(name)) {
        println!("\n== {name}, {seconds} s ==");
        let program = build(workspace, name, folder)?;
        if let Err(error) = fuzz(workspace, name, folder, seconds, program) {
            println!("{error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        let folder = workspace.target("fuzz/found");
        bail!("findings in {}: look into {}", failed.join(", "), folder.display());
    }
    Ok(())
}

/// Builds a target, and tells where its program is.
fn build(workspace: &Workspace, name: &str, folder: &str) -> Result<PathBuf> {
    // With a target of its own the flags are not for build scripts and macros, which could not be linked with them.
    let host = host(&workspace.output(&mut workspace.cargo(["-vV"]))?)?;
    let (manifest, target) = (format!("{folder}/Cargo.toml"), workspace.target("fuzz"));
    let mut cargo = workspace.cargo(["build", "--release", "--locked", "--bin", name]);
    cargo.args(["--manifest-path", &manifest, "--target", &host, "--target-dir"]).arg(&target);
    workspace.run(cargo.env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    Ok(target.join(host).join("release").join(name))
}

/// The machine that cargo runs on, from what it says of itself.
fn host(about: &str) -> Result<String> {
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`cargo -vV` names no host")
}

fn fuzz(
    workspace: &Workspace,
    name: &str,
    folder: &str,
    seconds: u64,
    program: PathBuf,
) -> Result<()> {
    let (corpus, found) = (
        workspace.target(&format!("fuzz/corpus/{name}")),
        workspace.target(&format!("fuzz/found/{name}")),
    );
    for folder in [&corpus, &found] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut program = Command::new(program);
    program.arg(corpus).arg(workspace.path(&seeds(name, folder)));
    program.arg(format!("-artifact_prefix={}/", found.display()));
    program.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={ENDLESS}"));
    program.args(["-verbosity=0", "-print_final_stats=1"]);
    workspace.run(&mut program)
}

/// The folder of a target's seeds.
fn seeds(name: &str, folder: &str) -> String {
    format!("{folder}/corpus/{name}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_in_the_tree_is_run_and_has_seeds() {
        let paths = Workspace::new().unwrap().paths().unwrap();
        let in_tree: BTreeSet<_> =
            paths.iter().filter(|path| path.contains("/fuzz/fuzz_targets/")).cloned().collect();
        let run: BTreeSet<_> = TARGETS
            .iter()
            .map(|(name, folder)| format!("{folder}/fuzz_targets/{name}.rs"))
            .collect();
        assert_eq!(in_tree, run);
        for (name, folder) in TARGETS {
            let seeds = seeds(name, folder) + "/";
            assert!(paths.iter().any(|path| path.starts_with(&seeds)), "{seeds}");
        }
    }

    #[test]
    fn the_host_is_read_from_what_cargo_says_of_itself() {
        let about = "cargo 1.95.0\nrelease: 1.95.0\nhost: x86_64-unknown-linux-gnu\nos: x\n";
        assert_eq!(host(about).unwrap(), "x86_64-unknown-linux-gnu");
        assert!(host("cargo 1.95.0").is_err());
    }
}

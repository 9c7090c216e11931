//! `cargo xtask deny`: licences and duplicate versions, as written in `deny.toml`.
//!
//! **Why.** A licence that cannot be shipped is cheapest to find on the day its crate is added, and a crate that
//! comes in two versions is compiled, audited and shipped twice. Why this is a small reader of ours, and not
//! cargo-deny itself, is told in `docs/decisions/0001-licence-check.md`.
//!
//! **How.** The file keeps cargo-deny's format and meaning. A setting that this reader does not honour is an
//! error, never silently skipped: a rule that is written down is a rule that is checked.

mod config;
mod duplicates;
mod licences;

use anyhow::{Context, Result};

use self::config::Config;
use crate::violation::report;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let text = workspace.read("deny.toml")?;
    let config = Config::parse(&text).context("deny.toml")?;
    let mut args = vec!["--all-features", "--locked"];
    for target in &config.graph.targets {
        args.extend(["--filter-platform", target]);
    }
    let metadata = workspace.metadata(&args)?;
    let lock = workspace.read("Cargo.lock")?;
    let mut violations = licences::check(&config, &metadata, &text, &lock);
    violations.extend(duplicates::check(&config, &metadata, &text, &lock));
    println!("{} crates looked at", metadata.reachable(config.licenses.include_dev).len());
    report(violations)
}

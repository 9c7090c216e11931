//! Automation: everything the project asks of itself, as one program.
//!
//! **Why.** A rule that lives in a reviewer's head is kept until the reviewer is on holiday. Here each rule
//! is code with a test that plants a violation, and the same command runs on a laptop and in CI.
//!
//! **How.** `cargo xtask <command>`. A command is one module with a `run`; adding one takes its `mod` line, a
//! variant of [`Command`] and an arm in [`run`].

mod deny;
mod metadata;
mod tidy;
mod violation;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Checks and chores of this workspace"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check licences and duplicate versions of dependencies against deny.toml
    Deny,
    /// Check the rules that no compiler knows: arrows, purity, sizes, leftovers, links
    Tidy,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    match Workspace::new().and_then(|workspace| run(&workspace, command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(workspace: &Workspace, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Deny => deny::run(workspace),
        Command::Tidy => tidy::run(workspace),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

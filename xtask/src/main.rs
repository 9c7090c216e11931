//! Automation: everything the project asks of itself, as one program.
//!
//! **Why.** A rule that lives in a reviewer's head is kept until the reviewer is on holiday. Here each rule
//! is code with a test that plants a violation, and the same command runs on a laptop and in CI.
//!
//! **How.** `cargo xtask <command>`. A command is one module with a `run`; adding one takes its `mod` line, a
//! variant of [`Command`] and an arm in [`run`]. A step of `ci` is one line in `ci::STEPS`.

mod api;
mod arena;
mod bench;
mod ci;
mod deny;
mod examples;
mod figure;
mod folder;
mod fuzz;
mod health;
mod lab;
mod metadata;
mod nginx;
mod process;
mod program;
mod runs;
mod services;
mod test;
mod tidy;
mod twin;
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
    /// Write down the public API of the libraries, or check that it is what was written down
    Api(api::Args),
    /// Run the arena's worlds on real sockets, beside Envoy and HAProxy
    Arena(arena::Args),
    /// Measure what a decision and a proxied request cost
    Bench(bench::Args),
    /// Run every check in order and print what each took
    Ci(ci::Args),
    /// Check licences and duplicate versions of dependencies against deny.toml
    Deny,
    /// Show strangers' bytes to the code that reads them, and look for what breaks it
    Fuzz(fuzz::Args),
    /// Run healthy services behind Quell and behind nginx, and look for whom Quell refuses or keeps waiting
    Health(health::Args),
    /// Make the evidence that needs the simulator: rules for the limit, defaults, theory
    Lab(lab::Args),
    /// Run the tests of all crates with all features, and the examples
    Test(test::Args),
    /// Run the demo's outage simulated and on real sockets, side by side
    Twin(twin::Args),
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
        Command::Api(args) => api::run(workspace, &args),
        Command::Arena(args) => arena::run(workspace, &args),
        Command::Bench(args) => bench::run(workspace, &args),
        Command::Ci(args) => ci::run(workspace, &args),
        Command::Deny => deny::run(workspace),
        Command::Fuzz(args) => fuzz::run(workspace, &args),
        Command::Health(args) => health::run(workspace, &args),
        Command::Lab(args) => lab::run(workspace, &args),
        Command::Test(args) => test::run(workspace, &args),
        Command::Twin(args) => twin::run(workspace, &args),
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

    #[test]
    fn what_follows_two_dashes_reaches_cargo_test_untouched() {
        let line = ["xtask", "test", "--full", "--", "budget", "--", "--nocapture"];
        let Command::Test(args) = Cli::parse_from(line).command else { panic!("not `test`") };
        assert!(args.full);
        assert_eq!(args.rest, ["budget", "--", "--nocapture"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error =
            Cli::try_parse_from(["xtask", "ci", "--only", "lunch"]).err().unwrap().to_string();
        assert!(error.contains("tidy") && error.contains("clippy"), "{error}");
    }
}

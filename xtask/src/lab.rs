//! `cargo xtask lab`: the evidence that is made on the simulator.
//!
//! **Why.** Which rule finds the in-flight limit, what the defaults were chosen by, and whether the simulator tells the truth: each is a
//! program of minutes that nobody needs who runs `quell`. So it is not in the command, and one line here brings it.
//!
//! **How.** Builds `quell-lab` and hands it all that follows: `cargo xtask lab arena --filter degrading --json`. It runs in the checkout, so
//! that `--write` finds the page. Only figures go to standard output.

use std::{ffi::OsString, path::PathBuf, process::Command};

use anyhow::Result;

use crate::{runs, workspace::Workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use the profile of the tests, which is already built, instead of a release build
    #[arg(long)]
    dev: bool,
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Debug, clap::Subcommand)]
enum Trial {
    /// Try rules for the in-flight limit in worlds where they are told nothing
    #[command(disable_help_flag = true)]
    Arena(Rest),
    /// Sweep every main default over its neighbours, and say which one the rule picks
    #[command(disable_help_flag = true)]
    Defaults(Rest),
    /// Simulate what theory and others' experiments have answers for, and compare
    #[command(disable_help_flag = true)]
    Validate(Rest),
}

/// What `quell-lab` is told.
#[derive(Debug, clap::Args)]
struct Rest {
    #[arg(
        value_name = "ARGS",
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        help = "See --help after the name of a trial"
    )]
    rest: Vec<OsString>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let lab = build(workspace, args.dev)?;
    let (name, rest) = args.trial.told();
    workspace.run(Command::new(lab).arg(name).args(rest))
}

/// Builds the lab alone, and says where it is.
pub(crate) fn build(workspace: &Workspace, dev: bool) -> Result<PathBuf> {
    let profile = if dev { "dev" } else { "release" };
    let args = ["build", "--package", "quell-lab", "--bin", "quell-lab", "--profile", profile];
    workspace.run(&mut workspace.cargo(args))?;
    Ok(runs::built(workspace, dev, "quell-lab"))
}

impl Trial {
    /// The name of the trial, and what follows it.
    fn told(&self) -> (&'static str, &[OsString]) {
        match self {
            Self::Arena(Rest { rest }) => ("arena", rest),
            Self::Defaults(Rest { rest }) => ("defaults", rest),
            Self::Validate(Rest { rest }) => ("validate", rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_follows_a_trial_reaches_it_untouched() {
        let told = |line: &[&str]| {
            let Line { args } = Line::try_parse_from([&["lab"], line].concat()).unwrap();
            let (name, rest) = args.trial.told();
            let rest: Vec<_> =
                rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            (args.dev, name, rest.join(" "))
        };
        assert_eq!(told(&["validate"]), (false, "validate", String::new()));
        let words = ["--dev", "arena", "--json", "--filter", "fifo", "--dev"];
        assert_eq!(told(&words), (true, "arena", "--json --filter fifo --dev".into()));
        assert_eq!(told(&["defaults", "--help"]), (false, "defaults", "--help".into()));
    }
}

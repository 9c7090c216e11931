//! `cargo xtask test`: the tests of all crates, with all features, and the examples.
//!
//! **Why.** One spelling for everyone: a test that runs only with some feature on, or only in one crate's
//! folder, is a test that nobody runs.
//!
//! **How.** Some promises are counted: a million seeds, a hundred thousand calls. They run with small counts by
//! default, so that the loop of edit and test stays short, and with full ones under `--full`, which tests read
//! from the environment variable [`FULL`]. Tests that send others' programs through the gateway find them where
//! [`services::CLIENTS`] says; they are brought first. What follows `--` goes to `cargo test`; whoever asks for some tests only is
//! spared the examples.

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{examples, services};

/// Set to `1` where counts are to be full.
pub(crate) const FULL: &str = "QUELL_FULL";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Run counted tests with their full counts
    #[arg(long)]
    pub(crate) full: bool,
    /// Run the examples only
    #[arg(long, conflicts_with = "rest")]
    pub(crate) examples: bool,
    /// Passed to `cargo test`, such as a part of a test's name
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) rest: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if !args.examples {
        let clients = services::clients(workspace)?;
        workspace.run(command(workspace, args).env(services::CLIENTS, clients))?;
    }
    if args.rest.is_empty() { examples::run(workspace) } else { Ok(()) }
}

fn command(workspace: &Workspace, args: &Args) -> std::process::Command {
    let mut cargo = workspace.cargo(["test", "--workspace", "--all-features"]);
    cargo.args(&args.rest);
    if args.full {
        cargo.env(FULL, "1");
    }
    cargo
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn full_counts_are_asked_for_through_the_environment() {
        let workspace = Workspace::new().unwrap();
        for full in [false, true] {
            let cargo = command(&workspace, &Args { full, ..Args::default() });
            let set =
                cargo.get_envs().any(|pair| pair == (OsStr::new(FULL), Some(OsStr::new("1"))));
            assert_eq!(set, full);
        }
    }

    #[test]
    fn a_filter_comes_after_our_own_words() {
        let args = Args { rest: vec!["budget".into()], ..Args::default() };
        let cargo = command(&Workspace::new().unwrap(), &args);
        assert_eq!(
            cargo.get_args().collect::<Vec<_>>(),
            ["test", "--workspace", "--all-features", "budget"]
        );
    }
}

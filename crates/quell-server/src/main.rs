//! The `quell` command.

use clap::{Parser, Subcommand};

/// Retry infrastructure that cannot cause a retry storm.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sim(quell_server::sim::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Sim(args) => quell_server::sim::main(&args),
    }
}

//! The lab: trials of the built `quell` command, as its users meet it.
//!
//! **Why.** What a gateway does to a service that is well can only be seen on real sockets, with callers and services of
//! many kinds, and beside a gateway that is known to do nothing wrong. All this is no part of what ships, and it knows
//! nothing of the inside of what it tries: the gateway is a process with a port.
//!
//! **How.** `quell-lab health` runs one world and prints what callers saw. Whoever wants more than that runs
//! `cargo xtask health`, which builds, starts the proxies, and judges.

mod health;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "quell-lab", about = "Trials of the quell command on real sockets")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a world in which the service is healthy, through proxies that already listen
    Health(health::Args),
}

fn main() -> ExitCode {
    let Command::Health(args) = Cli::parse().command;
    match health::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! The lab: trials of Quell that are not shipped.
//!
//! **Why.** What a gateway does to a service that is well can only be seen on real sockets, with callers and services of
//! many kinds, and beside a gateway that is known to do nothing wrong. What a rule or a default is worth can only be seen in
//! many worlds, on virtual time. Nobody who runs `quell` needs either.
//!
//! **How.** `quell-lab health` runs one world on sockets and prints what callers saw. It knows nothing of the inside of what
//! it tries: the gateway is a process with a port. `cargo xtask health` builds, starts the proxies, and judges.
//! The other commands show the trials of the library beside this program; `cargo xtask lab` builds and runs them.

mod command;
mod health;
mod runs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use command::{arena, defaults, validate};

#[derive(Parser)]
#[command(name = "quell-lab", about = "Trials of Quell: what we believe, and what it is worth")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a world in which the service is healthy, through proxies that already listen
    Health(health::Args),
    Arena(arena::Args),
    Defaults(defaults::Args),
    Validate(validate::Args),
}

/// What a shell shows for a command that a closed pipe ended.
const CLOSED_PIPE: i32 = 128 + 13;

fn main() -> ExitCode {
    end_with_the_pipe();
    let ended = match Cli::parse().command {
        Command::Health(args) => health::run(&args),
        Command::Arena(args) => arena::main(&args),
        Command::Defaults(args) => defaults::main(&args),
        Command::Validate(args) => validate::main(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// A reader of standard output who has seen enough (`quell-lab arena --list | head`) ends the program, without a word, as it ends others.
fn end_with_the_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if text.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(CLOSED_PIPE);
        }
        usual(panic);
    }));
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

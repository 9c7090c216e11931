//! What `cargo xtask bench` runs to put ours beside the peers.
//!
//! `peers pairs` times every pair in turns; `peers by-hand --iterations 1000` does what a team would put together by
//! hand so often and nothing else, for a profiler that counts from outside.

mod does;
mod pair;
mod policies;
mod rest;
mod services;
mod theirs;

use clap::{Parser, ValueEnum};

#[derive(Parser)]
#[command(about = "Ours beside the peers, measured")]
struct Cli {
    /// What to do
    kind: Kind,
    /// Do it this often after the warm-up and say nothing; not for pairs
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// What a team would put together by hand instead of ours
    ByHand,
    /// Time of ours beside that of each peer
    Pairs,
}

fn main() -> anyhow::Result<()> {
    let Cli { kind, iterations } = Cli::parse();
    match kind {
        Kind::ByHand => quell_bench::measure::run(theirs::by_hand()?, iterations),
        Kind::Pairs => pair::run_all(),
    }
}

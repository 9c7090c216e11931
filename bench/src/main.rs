//! What `cargo xtask bench` runs: one piece of work, measured from inside or run an exact number of times.
//!
//! **Why.** Time on a busy machine is noise, instructions are not, and allocations are exact. So the same work is
//! offered twice: `quell-bench decide` measures itself (time and allocations), and `quell-bench decide
//! --iterations 1000` does the work so often and nothing else, for a profiler that counts from outside.
//!
//! **How.** The work is one successful call after a warm-up in which every policy has learned something. What differs is
//! how much of the product it goes through: see [`Work`](quell_bench::work::Work). The peers
//! are another program, because code beside the work changes how the work is compiled.

use clap::{Parser, ValueEnum};

use quell_bench::{
    measure::run,
    work::{Decide, Guarded, Nothing, Stepped},
};

#[derive(Parser)]
#[command(about = "One piece of work, measured")]
struct Cli {
    /// What to do
    kind: Kind,
    /// Do it this often after the warm-up and say nothing
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The loop around the decision, without it
    Nothing,
    /// Admit, judge and release: the pure decision
    Decide,
    /// The same through the loop's steps
    Call,
    /// The same with the lock and the system's clock
    Guarded,
}

fn main() -> anyhow::Result<()> {
    let Cli { kind, iterations } = Cli::parse();
    match kind {
        Kind::Nothing => run(Nothing::new(), iterations),
        Kind::Decide => run(Decide::new()?, iterations),
        Kind::Call => run(Stepped::new()?, iterations),
        Kind::Guarded => run(Guarded::new()?, iterations),
    }
}

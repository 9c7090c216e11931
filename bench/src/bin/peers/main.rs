//! What `cargo xtask bench` runs to put ours beside the peers.
//!
//! `peers pairs` times every pair in turns; `peers by-hand --iterations 1000` does what a team would put together by
//! hand so often and nothing else, for a profiler that counts from outside.

mod policies;
mod rest;
mod theirs;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use quell_bench::{
    pair::{alone, contended, unpaired},
    services,
    work::Guarded,
};

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

fn main() -> Result<()> {
    let Cli { kind, iterations } = Cli::parse();
    match kind {
        Kind::ByHand => quell_bench::measure::run(theirs::by_hand()?, iterations),
        Kind::Pairs => pairs(),
    }
}

/// Measures every pair and prints a line for each.
fn pairs() -> Result<()> {
    contended("stack_2t", &Guarded::new()?, &theirs::by_hand()?)?;
    alone("stack_1t", Guarded::new()?, theirs::by_hand()?)?;
    alone("stack_vs_tower", Guarded::new()?, services::tower())?;
    alone("stack_vs_tower_resilience", Guarded::new()?, services::tower_resilience()?)?;
    alone("refusal", policies::refusal()?, theirs::recloser_open()?)?;
    alone("limiter", policies::limiter()?, theirs::governor()?)?;
    alone("budget", policies::budget()?, theirs::tps_budget()?)?;
    alone("breaker", policies::breaker()?, theirs::recloser()?)?;
    alone("breaker_vs_failsafe", policies::breaker()?, theirs::failsafe()?)?;
    alone("in_flight", policies::in_flight()?, theirs::semaphore()?)?;
    alone("in_flight_vs_tower", policies::in_flight()?, services::concurrency_limit())?;
    alone("backoff", policies::backoff()?, theirs::random_backoff()?)?;
    unpaired("queue", rest::queue())?;
    unpaired("throttle", rest::throttle()?)?;
    unpaired("endpoints", rest::endpoints()?)?;
    unpaired("credit", rest::credit())?;
    unpaired("limiters", rest::limiters()?)?;
    unpaired("hedge", rest::hedge()?)?;
    unpaired("idempotency", rest::idempotency()?)?;
    unpaired("ladder", rest::ladder()?)?;
    unpaired("lease", rest::lease()?)
}

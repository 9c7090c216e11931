//! What `cargo xtask bench library` runs: a call as a program makes it, through the layer and through the function API.
//!
//! `library layer` measures itself, `library layer --iterations 1000` does the work so often and nothing else, for a
//! profiler that counts from outside, and `library pairs` times ours and the peers in turns. It is a program of its own
//! because code beside the work changes how the work is compiled.

mod ours;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use quell::Limit;
use quell_bench::{
    measure::run,
    pair::alone,
    services::{AtOnce, IN_FLIGHT, Later, tower_resilience_timed, tower_timed},
};

use ours::{call, call_boxed, layer};

/// As tower's is.
const FIXED: Limit = Limit::Fixed(IN_FLIGHT);
const ADAPTIVE: Limit = Limit::Adaptive { ceiling: IN_FLIGHT };

#[derive(Parser)]
#[command(about = "A call through the library, measured")]
struct Cli {
    /// What to do
    kind: Kind,
    /// Do it this often after the warm-up and say nothing; not for pairs
    #[arg(long, value_name = "N")]
    iterations: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// The layer with a fixed limit, around a service that answers at once
    Layer,
    /// The same with the adaptive limit
    LayerAdaptive,
    /// The layer with a fixed limit, around a service that answers at the second look
    LayerLater,
    /// The function API with a fixed limit, awaited
    Call,
    /// The same without a box
    CallRun,
    /// tower's layers around a service that answers at once
    Tower,
    /// The same around one that answers at the second look
    TowerLater,
    /// tower-resilience's layers around a service that answers at once
    TowerResilience,
    /// Time of ours beside that of each peer
    Pairs,
}

fn main() -> Result<()> {
    let Cli { kind, iterations } = Cli::parse();
    // Timers need one, and peers make theirs before they know whether it is needed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let _inside = runtime.enter();
    match kind {
        Kind::Layer => run(layer::<AtOnce>(FIXED)?, iterations),
        Kind::LayerAdaptive => run(layer::<AtOnce>(ADAPTIVE)?, iterations),
        Kind::LayerLater => run(layer::<Later>(FIXED)?, iterations),
        Kind::Call => run(call_boxed(FIXED)?, iterations),
        Kind::CallRun => run(call(FIXED)?, iterations),
        Kind::Tower => run(tower_timed::<AtOnce>(), iterations),
        Kind::TowerLater => run(tower_timed::<Later>(), iterations),
        Kind::TowerResilience => run(tower_resilience_timed::<AtOnce>()?, iterations),
        Kind::Pairs => pairs(),
    }
}

/// Measures every pair and prints a line for each.
fn pairs() -> Result<()> {
    alone("layer_vs_tower", layer::<AtOnce>(FIXED)?, tower_timed::<AtOnce>())?;
    alone("layer_adaptive_vs_tower", layer::<AtOnce>(ADAPTIVE)?, tower_timed::<AtOnce>())?;
    alone("layer_later_vs_tower", layer::<Later>(FIXED)?, tower_timed::<Later>())?;
    let (ours, theirs) = (layer::<AtOnce>(FIXED)?, tower_resilience_timed::<AtOnce>()?);
    alone("layer_vs_tower_resilience", ours, theirs)?;
    let (ours, theirs) = (layer::<Later>(FIXED)?, tower_resilience_timed::<Later>()?);
    alone("layer_later_vs_tower_resilience", ours, theirs)?;
    alone("call_vs_tower", call(FIXED)?, tower_timed::<AtOnce>())
}

//! `quell-lab health`: one world, through every proxy at once.
//!
//! **Why.** Behind a proxy that does nothing, a healthy service loses nobody. Quell decides who may pass, so it can be wrong;
//! here it has to show that it is not, with nothing set, beside a proxy that everyone knows.
//!
//! **How.** Each side is a proxy that already listens, with a service of its own behind it, which is here. A side has a
//! thread to itself for its service and its callers, and all sides meet the same callers at the same instants. The
//! report is one JSON object; who judges it is `cargo xtask health`.
//!
//! ```text
//! quell-lab health --world mixed --side quell=8080,8080,9000 --side nginx=8081,8082,9001
//! ```

mod body;
mod call;
mod dice;
mod late;
mod link;
mod load;
mod schedule;
mod service;
mod side;
mod tally;
mod tunnel;
mod world;
mod worlds;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use self::late::Late;
use self::side::{Side, Told};
use self::world::World;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The world to run
    #[arg(long, required_unless_present = "list")]
    world: Option<String>,
    /// A proxy: NAME=PORT,PORT,PORT... where it listens for HTTP/1.1, for HTTP/2, and where its service is to listen
    #[arg(long, value_name = "NAME=PORTS")]
    side: Vec<Side>,
    /// For how long callers come, in seconds, instead of what the world says
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of the callers
    #[arg(long, default_value_t = 11)]
    seed: u64,
    /// Print all worlds, one JSON object per line
    #[arg(long)]
    list: bool,
}

/// A world, for those who choose among them and start what it needs.
#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    seconds: u64,
    endpoints: usize,
    h2c: bool,
    light: bool,
    short: bool,
    saturated: bool,
    hostile: bool,
}

/// What all sides saw.
#[derive(Debug, Serialize)]
struct Report {
    world: &'static str,
    /// The longest that this machine kept a side waiting.
    late_s: f64,
    /// What one look in a hundred had to wait longer than usual.
    busy_ms: f64,
    sides: Vec<Told>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let worlds = worlds::all();
    if args.list {
        for world in &worlds {
            println!("{}", serde_json::to_string(&Listed::from(world))?);
        }
        return Ok(());
    }
    let name = args.world.as_deref().unwrap_or_default();
    let world = worlds.iter().find(|world| world.name == name);
    let world = world.with_context(|| format!("no world is called {name:?}: see --list"))?;
    // Callers and services of all sides are files of this process.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let length = Duration::from_secs(args.seconds.unwrap_or(world.seconds));
    let begin = std::time::Instant::now() + Duration::from_millis(300);
    let told = std::thread::scope(|scope| {
        let run = |side| scope.spawn(move || side::run(side, world, length, args.seed, begin));
        let threads: Vec<_> = args.side.iter().map(run).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("a side panicked"))).collect::<Result<Vec<_>>>()
    })?;
    let late = told.iter().map(|told| told.late).fold(Late::default(), Late::or);
    let report = Report {
        world: world.name,
        late_s: late.worst.as_secs_f64(),
        busy_ms: late.busy.as_secs_f64() * 1_000.0,
        sides: told,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

impl From<&World> for Listed {
    fn from(world: &World) -> Self {
        Self {
            name: world.name,
            about: world.about,
            seconds: world.seconds,
            endpoints: world.endpoints(),
            h2c: world.service.h2c,
            light: world.light,
            short: world.short,
            saturated: world.saturated,
            hostile: world.is_hostile(),
        }
    }
}

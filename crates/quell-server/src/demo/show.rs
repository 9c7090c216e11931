//! `quell demo`: the same storm twice, side by side, with and without Quell; or once, through a proxy of one's own.
//!
//! Two services that break alike, two crowds of naive callers that behave alike. One crowd calls its service
//! directly, the other through the gateway with nothing configured. After the outage the first stays down.

use std::{
    convert::Infallible,
    io::{IsTerminal, Write},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use quell_charts::Table;
use quell_sim::{Scenario, scenario::Down, verdict::Count};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep_until};

use super::{
    files,
    offer::Offer,
    scripted::Outage,
    side::{Front, Seen, Side, last, trouble},
    tally::Tally,
};
use crate::{figures::Figures, sim::file};

/// How often to look how late timers fire, and what spoils a run.
const TICK: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);

/// Breaks a service on loopback for ten seconds, twice: with naive callers alone, and with Quell in front.
///
/// Takes 50 seconds. Exits with 0 if the service behind Quell recovered, with 1 if it did not.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the service goes down: stall (its queue builds up), hole (packets vanish), fail (instant errors), slow
    /// (work takes ten times as long) or partial (one request in ten does); or chain (instant errors, behind three
    /// gateways in a row, and no naive side)
    #[arg(long, value_enum, default_value = "stall")]
    kind: Kind,
    /// How requests share the workers: fifo (one at a time each), sharing (all at once), or degrading=0.5 (all at
    /// once, and crowds cost); or mixed (one at a time, nine in ten of 20 ms and one in ten of 400 ms)
    #[arg(long, default_value = "fifo", value_name = "SERVICE")]
    service: Offer,
    /// Another service and outage instead, such as degrading-0.5/stall-10 (SERVICE/TROUBLE-SECONDS); runs until 46 seconds
    /// after the outage
    #[arg(long, value_name = "WORLD", conflicts_with_all = ["kind", "service"])]
    world: Option<String>,
    /// Run once, through your own proxy that listens here and sends to what --serve says, instead of through Quell
    #[arg(long, value_name = "ADDR", requires = "serve")]
    through: Option<SocketAddr>,
    /// Where the service listens, for a proxy of your own
    #[arg(long, value_name = "ADDR", requires = "through")]
    serve: Option<SocketAddr>,
    /// Seed of the callers' arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Stall,
    Hole,
    Fail,
    Slow,
    Partial,
    Chain,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Hole => "hole",
            Self::Fail => "fail",
            Self::Slow => "slow",
            Self::Partial => "partial",
            Self::Chain => "chain",
        }
    }
}

#[derive(Serialize)]
struct Report {
    /// The kind of outage, or the world.
    kind: String,
    seed: u64,
    /// The longest that this machine kept the run waiting: beyond a tenth of a second it measured the machine.
    late_s: f64,
    /// Without anybody between; left out where only a proxy was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    naive: Option<Seen>,
    /// Behind Quell, or the proxy.
    front: Seen,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    files::raise_limit().context("cannot raise the limit of open files")?;
    // The simulator's own scenario: what is shown here is what it predicts.
    let (kind, scenario) = scenario(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?; // before there is anything to leave behind
        tokio::select! {
            report = show(args, kind, &scenario) => report.map(Some),
            _ = interrupt.recv() => Ok(None),
        }
    });
    // Whatever still runs ends here, on Ctrl-C too: sockets and threads belong to this process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let Some(report) = ended? else {
        eprintln!("\nstopped");
        return Ok(ExitCode::from(130));
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let length = scenario.outage.length.as_secs();
        let heading = format!("after {length} s of outage ({}):", report.kind);
        let mut table = Table::new(&heading, Figures::COLUMNS);
        if let Some(naive) = &report.naive {
            table.row("naive retries", naive.figures.cells());
        }
        let front = match (args.through, &report.naive) {
            (Some(through), _) => format!("through {through}"),
            (None, Some(_)) => "the same behind Quell".to_owned(),
            (None, None) => "behind Quell".to_owned(),
        };
        table.row(&front, report.front.figures.cells());
        print!("{table}");
    }
    Ok(ExitCode::from(u8::from(report.front.figures.recovered_s.is_none())))
}

/// What was asked for, by name.
fn scenario(args: &Args) -> anyhow::Result<(String, Scenario)> {
    let Some(name) = &args.world else {
        let name = args.kind.name();
        let text = if args.kind == Kind::Chain { file::GATEWAYS } else { file::DEMO };
        let mut plans = file::parse(text)?.into_iter();
        let mut scenario =
            plans.find(|plan| plan.name == name).context("no such scenario")?.scenario;
        args.service.put_into(&mut scenario);
        return Ok((name.to_owned(), scenario));
    };
    let fix = "write one that is down for a while, such as fifo/stall-10";
    let world = Down::named(name).with_context(|| format!("there is no world {name}: {fix}"))?;
    Ok((name.clone(), world.scenario()))
}

async fn show(args: &Args, kind: String, scenario: &Scenario) -> anyhow::Result<Report> {
    let start = Instant::now() + Duration::from_millis(200);
    let outage = Outage::twin_of(trouble(scenario)).context("no such outage")?;
    let fronts = match (args.serve, args.through) {
        (Some(serve), Some(through)) => vec![("", Front::Proxy { serve, through })],
        _ if !scenario.below.is_empty() => vec![("behind Quell", Front::Gateways)],
        _ => vec![("naive", Front::Nobody), ("behind Quell", Front::Gateways)],
    };
    let (mut sides, mut tallies) = (Vec::new(), Vec::new());
    for (name, front) in fronts {
        let side = Side::new(scenario, args.seed, front, start).await?;
        tallies.push((name, Arc::clone(&side.tally)));
        sides.push(side);
    }
    if !args.json {
        let count = if sides.len() == 1 { "one service" } else { "two services" };
        println!(
            "{count} of {} workers × {:?}, {:.0} users per second each, who wait {:?} and retry 3 times;",
            last(scenario).workers,
            last(scenario).mean(),
            scenario.load,
            scenario.patience,
        );
        if args.service == Offer::Mixed {
            println!(
                "nine in ten ask for 20 ms of work (/quick), one in ten for 400 ms (/report);"
            );
        }
        match (args.through, sides.last()) {
            (None, Some(_)) if sides.len() == 1 => println!(
                "it is called through {} quell gateways in a row with nothing configured",
                scenario.below.len() + 1
            ),
            (None, Some(front)) => println!(
                "one is called directly, the other through quell gateway --to {} with nothing configured",
                front.addr()
            ),
            (Some(through), _) => println!("it is called through {through}"),
            _ => {}
        }
    }
    let mut late = Duration::ZERO;
    let mut sides =
        sides.into_iter().map(|side| side.run(scenario, outage, args.service, args.seed));
    let front = sides.next_back().context("there is a front")?;
    let naive = async {
        match sides.next() {
            Some(naive) => naive.await.map(Some),
            None => Ok(None),
        }
    };
    let runs = async { tokio::join!(naive, front, progress(start, &tallies)) };
    let (naive, front, ()) = tokio::select! {
        ends = runs => ends,
        never = lateness(start, &mut late) => match never {},
    };
    let (naive, front) = (naive?, front?);
    if late > LATE {
        eprintln!(
            "this machine was busy and kept the run waiting for up to {late:.1?}: believe nothing"
        );
    }
    Ok(Report { kind, seed: args.seed, late_s: late.as_secs_f64(), naive, front })
}

/// Notes how late timers fire, for ever.
async fn lateness(start: Instant, longest: &mut Duration) -> Infallible {
    let mut due = start;
    loop {
        sleep_until(due).await;
        let now = Instant::now();
        *longest = (*longest).max(now - due);
        due = now + TICK;
    }
}

/// Says once a second how all sides fare.
async fn progress(start: Instant, sides: &[(&str, Arc<Tally>)]) {
    let Some(timing) = sides.first().map(|(_, tally)| tally.timing()) else { return };
    let end = timing.end;
    let terminal = std::io::stderr().is_terminal();
    sleep_until(start).await;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.tick().await;
    for second in 1..=end {
        ticks.tick().await;
        let phase = match second {
            _ if second <= timing.outage_at => "warm-up",
            _ if second <= timing.outage_end() => "outage ",
            _ => "after  ",
        };
        let served = sides.iter().map(|(name, tally)| {
            format!("{name} {:>3}/s", tally.series().at(Count::Good, second - 1))
        });
        let served = served.collect::<Vec<_>>().join(", ");
        let line = format!("{second:>3} of {end} s  {phase}  served: {}", served.trim_start());
        if terminal {
            eprint!("\r\x1b[K{line}");
            let _ = std::io::stderr().flush();
        } else if second % 10 == 0 {
            eprintln!("{line}");
        }
    }
    if terminal {
        eprint!("\r\x1b[K");
    }
}

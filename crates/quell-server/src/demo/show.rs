//! `quell demo`: the same storm twice, side by side, with and without Quell.
//!
//! Two services that break alike, two crowds of naive callers that behave alike. One crowd calls its service
//! directly, the other through the gateway with nothing configured. After the outage the first stays down.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use quell::core::Rng;
use quell_sim::{
    Scenario,
    verdict::{Count, Observed, Summary, Timing},
};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep_until, timeout_at};

use super::{
    callers::Callers,
    files,
    scripted::{Outage, Scripted, Shape},
    tally::Tally,
};
use crate::{
    gateway::{self, Config, Running, Target},
    sim::file::{self, Plan},
    table::{Figures, Table},
};

/// Breaks a service on loopback for ten seconds, twice: with naive callers alone, and with Quell in front.
///
/// Takes 50 seconds. Exits with 0 if the service behind Quell recovered, with 1 if it did not.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the service goes down: stall (its queue builds up), hole (packets vanish) or fail (instant errors)
    #[arg(long, value_enum, default_value = "stall")]
    kind: Kind,
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
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Hole => "hole",
            Self::Fail => "fail",
        }
    }

    const fn outage(self) -> Outage {
        match self {
            Self::Stall => Outage::Stall,
            Self::Hole => Outage::Hole,
            Self::Fail => Outage::Fail,
        }
    }
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    seed: u64,
    naive: Figures,
    front: Figures,
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    files::raise_limit().context("cannot raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?; // before there is anything to leave behind
        tokio::select! {
            report = show(args) => report.map(Some),
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
        let heading = format!("after 10 s of outage ({}):", report.kind);
        let mut table = Table::new(&heading, Figures::COLUMNS);
        table.row("naive retries", report.naive.cells());
        table.row("the same behind Quell", report.front.cells());
        print!("{table}");
    }
    Ok(ExitCode::from(u8::from(report.front.recovered_s.is_none())))
}

async fn show(args: &Args) -> anyhow::Result<Report> {
    // The simulator's own scenario: what is shown here is what it predicts.
    let plan = plan(args.kind)?;
    let scenario = &plan.scenario;
    let start = Instant::now() + Duration::from_millis(200);
    let direct = World::new(scenario, false, start).await?;
    let fronted = World::new(scenario, true, start).await?;
    if !args.json {
        println!(
            "two services of {} workers × {:?}, {} users per second each, who wait {:?} and retry 3 times;\n\
             one is called directly, the other through quell gateway --to {} with nothing configured",
            scenario.service.workers,
            scenario.service.mean(),
            scenario.load,
            scenario.patience,
            fronted.service.addr(),
        );
    }
    let (naive, front, ()) = tokio::join!(
        direct.run(scenario, args.kind.outage(), args.seed),
        fronted.run(scenario, args.kind.outage(), args.seed),
        progress(scenario, start, &direct.tally, &fronted.tally),
    );
    Ok(Report { kind: args.kind.name(), seed: args.seed, naive: naive?, front: front? })
}

fn plan(kind: Kind) -> anyhow::Result<Plan> {
    let plans = file::parse(file::DEMO)?;
    plans.into_iter().find(|plan| plan.name == kind.name()).context("no such scenario")
}

/// One service, its callers, and perhaps a gateway between them.
struct World {
    service: Scripted,
    gateway: Option<Running>,
    tally: Arc<Tally>,
}

impl World {
    async fn new(scenario: &Scenario, fronted: bool, start: Instant) -> anyhow::Result<Self> {
        let shape =
            Shape { workers: scenario.service.workers as usize, service: scenario.service.mean() };
        let service = Scripted::start(shape).await.context("cannot start the service")?;
        let tally = Arc::new(Tally::since(start));
        service.count_into(Arc::clone(&tally));
        let gateway = if fronted {
            let target: Target = format!("http://{}", service.addr()).parse()?;
            Some(gateway::start(Config::local(target))?)
        } else {
            None
        };
        Ok(Self { service, gateway, tally })
    }

    async fn run(&self, scenario: &Scenario, outage: Outage, seed: u64) -> anyhow::Result<Figures> {
        let target = self.gateway.as_ref().map_or(self.service.addr(), Running::addr);
        let callers =
            Callers { rate: scenario.load, patience: scenario.patience, ..Callers::naive(target) };
        let start = self.tally.start();
        let mends = scenario.outage.at + scenario.outage.length;
        let end = mends + scenario.watch;
        sleep_until(start).await;
        let mut rng = Rng::new(seed);
        let load = callers.run(end, Arc::clone(&self.tally), move || rng.unit());
        let trouble = async {
            sleep_until(start + scenario.outage.at).await;
            self.service.begin(outage);
            sleep_until(start + mends).await;
            self.service.end();
        };
        let _ = timeout_at(start + end, async { tokio::join!(load, trouble) }).await;
        ensure!(
            self.tally.unsent() == 0,
            "this machine ran out of sockets ({} attempts): nothing can be said of the service",
            self.tally.unsent()
        );
        let timing = Timing {
            outage_at: scenario.outage.at.as_secs() as usize,
            outage_len: scenario.outage.length.as_secs() as usize,
            end: end.as_secs() as usize,
        };
        let work = self.service.ledger().work();
        let capacity = scenario.service.capacity();
        // Inside a real service nobody looks: what is known is what its callers and its ledger counted.
        let seen = Observed::default();
        let mut summary = Summary::of(&self.tally.series(), timing, capacity, work, &seen);
        if self.gateway.is_none() {
            // Nobody stands between: it is the callers who send more than their users asked for.
            summary.amplification = summary.attempts_per_user;
        }
        Ok(Figures::from(&summary))
    }
}

/// Says once a second how both sides fare.
async fn progress(scenario: &Scenario, start: Instant, direct: &Tally, fronted: &Tally) {
    let (at, length) = (scenario.outage.at.as_secs(), scenario.outage.length.as_secs());
    let end = at + length + scenario.watch.as_secs();
    let terminal = std::io::stderr().is_terminal();
    sleep_until(start).await;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.tick().await;
    for second in 1..=end {
        ticks.tick().await;
        let phase = match second {
            _ if second <= at => "warm-up",
            _ if second <= at + length => "outage ",
            _ => "after  ",
        };
        let good = |tally: &Tally| tally.series().at(Count::Good, second as usize - 1);
        let line = format!(
            "{second:>3} of {end} s  {phase}  served: naive {:>3}/s, behind Quell {:>3}/s",
            good(direct),
            good(fronted)
        );
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

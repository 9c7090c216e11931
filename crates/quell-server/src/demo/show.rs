//! `quell demo`: the same storm twice, side by side, with and without Quell.
//!
//! Two services that break alike, two crowds of naive callers that behave alike. One crowd calls its service
//! directly, the other through the gateway with nothing configured. After the outage the first stays down.

use std::{
    convert::Infallible,
    io::{IsTerminal, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use quell::core::Rng;
use quell_sim::{
    PURPOSE_ARRIVALS, Scenario,
    verdict::{Count, Moment, Observed, Summary, Timeline, Timing, Work},
};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep_until, timeout_at};

use super::{
    callers::Callers,
    files,
    scripted::{Ledger, Outage, Scripted, Shape, Sharing},
    tally::Tally,
};
use crate::{
    gateway::{self, Config, Running, Target},
    sim::{
        figures::Part,
        file::{self, Plan},
    },
    table::{Figures, Table},
};

/// How often to look how late timers fire, and what spoils a run.
const TICK: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);

/// Breaks a service on loopback for ten seconds, twice: with naive callers alone, and with Quell in front.
///
/// Takes 50 seconds. Exits with 0 if the service behind Quell recovered, with 1 if it did not.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How the service goes down: stall (its queue builds up), hole (packets vanish), fail (instant errors), slow
    /// (work takes ten times as long) or partial (one request in ten does)
    #[arg(long, value_enum, default_value = "stall")]
    kind: Kind,
    /// How requests share the workers: fifo (one at a time each), sharing (all at once), or degrading=0.5 (all at
    /// once, and crowds cost)
    #[arg(long, default_value = "fifo", value_name = "SHARING")]
    service: Sharing,
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
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Hole => "hole",
            Self::Fail => "fail",
            Self::Slow => "slow",
            Self::Partial => "partial",
        }
    }
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    seed: u64,
    /// The longest that this machine kept the run waiting: beyond a tenth of a second it measured the machine.
    late_s: f64,
    naive: Side,
    front: Side,
}

/// How one of the two fared: the fields of `quell sim --json` that can be seen from outside a service.
#[derive(Serialize)]
struct Side {
    #[serde(flatten)]
    figures: Figures,
    before: Part,
    during: Part,
    after: Part,
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
        table.row("naive retries", report.naive.figures.cells());
        table.row("the same behind Quell", report.front.figures.cells());
        print!("{table}");
    }
    Ok(ExitCode::from(u8::from(report.front.figures.recovered_s.is_none())))
}

async fn show(args: &Args) -> anyhow::Result<Report> {
    // The simulator's own scenario: what is shown here is what it predicts.
    let plan = plan(args.kind)?;
    let scenario = &plan.scenario;
    let start = Instant::now() + Duration::from_millis(200);
    let outage = Outage::twin_of(scenario.outage.kind).context("no such outage")?;
    let direct = World::new(scenario, args, false, start).await?;
    let fronted = World::new(scenario, args, true, start).await?;
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
    let mut late = Duration::ZERO;
    let runs = async {
        tokio::join!(
            direct.run(scenario, outage, args.seed),
            fronted.run(scenario, outage, args.seed),
            progress(scenario, start, &direct.tally, &fronted.tally),
        )
    };
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
    let (kind, late_s) = (args.kind.name(), late.as_secs_f64());
    Ok(Report { kind, seed: args.seed, late_s, naive, front })
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
    async fn new(
        scenario: &Scenario,
        args: &Args,
        fronted: bool,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let shape = Shape {
            workers: scenario.service.workers as usize,
            service: scenario.service.time.clone(),
            sharing: args.service,
            seed: args.seed,
        };
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

    async fn run(&self, scenario: &Scenario, outage: Outage, seed: u64) -> anyhow::Result<Side> {
        let target = self.gateway.as_ref().map_or(self.service.addr(), Running::addr);
        let callers =
            Callers { rate: scenario.load, patience: scenario.patience, ..Callers::naive(target) };
        let start = self.tally.start();
        let mends = scenario.outage.at + scenario.outage.length;
        let end = mends + scenario.watch;
        sleep_until(start).await;
        let mut rng = Rng::stream(seed, 0, PURPOSE_ARRIVALS); // the simulator's own users
        let load = callers.run(end, Arc::clone(&self.tally), move || rng.unit());
        let trouble = async {
            sleep_until(start + scenario.outage.at).await;
            self.service.begin(outage);
            sleep_until(start + mends).await;
            self.service.end();
        };
        let mut watch = Watch::default();
        let watching = async {
            for second in 1..end.as_secs() {
                sleep_until(start + Duration::from_secs(second)).await;
                watch.look(self.service.ledger(), scenario.service.workers);
            }
        };
        let _ = timeout_at(start + end, async { tokio::join!(load, trouble, watching) }).await;
        let ledger = self.service.ledger();
        watch.look(ledger, scenario.service.workers);
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
        let capacity = scenario.service.capacity();
        // Inside Quell nobody looks: what is known is what the callers and the service's ledger counted.
        let mut seen = Observed::default();
        seen.timeline = watch.timeline;
        let mut summary = Summary::of(&self.tally.series(), timing, capacity, ledger.work(), &seen);
        if self.gateway.is_none() {
            // Nobody stands between: it is the callers who send more than their users asked for.
            summary.amplification = summary.attempts_per_user;
            for phase in &mut summary.phases {
                phase.amplification = phase.attempts_per_user;
            }
        }
        let [before, during, after] = summary.phases.map(Part::from);
        Ok(Side { figures: Figures::from(&summary), before, during, after })
    }
}

/// The service's books, second by second.
#[derive(Default)]
struct Watch {
    timeline: Timeline,
    before: Work,
}

impl Watch {
    fn look(&mut self, ledger: Ledger, workers: u32) {
        let crowd = ledger.in_service.saturating_sub(workers.into()); // of a service that is shared
        self.timeline.push(Moment {
            backlog: ledger.in_queue + crowd,
            served: ledger.served - self.before.served,
            wasted: ledger.wasted - self.before.wasted,
            ..Moment::default()
        });
        self.before = ledger.work();
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

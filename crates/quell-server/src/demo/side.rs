//! One side of a demo: a service that breaks, its callers, and what stands between them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use quell::core::Rng;
use quell_sim::{
    PURPOSE_ARRIVALS, Scenario,
    scenario::{OutageKind, Service},
    verdict::{Moment, Summary, Timeline, Timing, Work},
};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    callers::Callers,
    offer::Offer,
    scripted::{Ledger, Outage, Scripted, Shape, Sharing},
    tally::Tally,
};
use crate::{
    figures::Figures,
    gateway::{self, Config, Running, Target},
    sim::figures::Part,
};

/// Seconds after the outage until users should have what is achievable, and how long that is looked at.
const GRACE: usize = 1;
const WATCHED: usize = 30;

/// What stands between the callers and the service.
#[derive(Debug, Clone, Copy)]
pub(super) enum Front {
    Nobody,
    /// Quell, with nothing configured: a gateway for the service, and one more for each that the scenario has behind it.
    Gateways,
    /// A program that listens at `through` already and sends what it gets to `serve`.
    Proxy {
        serve: SocketAddr,
        through: SocketAddr,
    },
}

/// How it fared: the fields of `quell sim --json` that can be seen from outside a service.
#[derive(Serialize)]
pub(super) struct Seen {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// The share of what was achievable that users got from one second after the outage on, for 30 s.
    goodput_from_1s: f64,
    before: Part,
    during: Part,
    after: Part,
}

/// See the [module](self).
pub(super) struct Side {
    service: Scripted,
    gateways: Vec<Running>,
    target: SocketAddr,
    direct: bool,
    pub(super) tally: Arc<Tally>,
}

impl Side {
    pub(super) async fn new(
        scenario: &Scenario,
        seed: u64,
        front: Front,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let Service { workers, time, sharing, .. } = last(scenario);
        let shape = Shape {
            workers: *workers as usize,
            service: time.clone(),
            sharing: Sharing::of(*sharing),
            seed,
        };
        let service = match front {
            Front::Proxy { serve, .. } => Scripted::start_on(serve, shape).await,
            _ => Scripted::start(shape).await,
        };
        let service = service.context("cannot start the service")?;
        let end = scenario.outage.at + scenario.outage.length + scenario.watch;
        let timing = Timing {
            outage_at: scenario.outage.at.as_secs() as usize,
            outage_len: scenario.outage.length.as_secs() as usize,
            end: end.as_secs() as usize,
        };
        let tally = Arc::new(Tally::since(start, timing));
        service.count_into(Arc::clone(&tally));
        let (mut gateways, mut target) = (Vec::new(), service.addr());
        match front {
            Front::Nobody => {}
            Front::Gateways => {
                for _ in 0..=scenario.below.len() {
                    let to: Target = format!("http://{target}").parse()?;
                    let gateway = gateway::start(Config::local(to))?;
                    target = gateway.addr();
                    gateways.push(gateway);
                }
            }
            Front::Proxy { through, .. } => target = through,
        }
        let direct = matches!(front, Front::Nobody);
        Ok(Self { service, gateways, target, direct, tally })
    }

    /// Where the service listens.
    pub(super) fn addr(&self) -> SocketAddr {
        self.service.addr()
    }

    pub(super) async fn run(
        self,
        scenario: &Scenario,
        outage: Outage,
        offer: Offer,
        seed: u64,
    ) -> anyhow::Result<Seen> {
        let Self { service, gateways, target, direct, tally } = self;
        let Service { workers, .. } = *last(scenario);
        let callers = offer.asks().iter().map(|ask| Callers {
            rate: scenario.load * ask.share,
            patience: scenario.patience,
            path: ask.path.to_owned(),
            ..Callers::naive(target)
        });
        let (start, timing) = (tally.start(), tally.timing());
        let second = |second: usize| Duration::from_secs(second as u64);
        let end = second(timing.end);
        sleep_until(start).await;
        let mut crowds = JoinSet::new();
        for (nth, callers) in (0..).zip(callers) {
            let mut rng = Rng::stream(seed, nth, PURPOSE_ARRIVALS); // of the first, the simulator's own users
            let tally = Arc::clone(&tally);
            crowds.spawn(async move { callers.run(end, tally, move || rng.unit()).await });
        }
        let load = async { while crowds.join_next().await.is_some() {} };
        let trouble = async {
            sleep_until(start + second(timing.outage_at)).await;
            service.begin(outage);
            sleep_until(start + second(timing.outage_end())).await;
            service.end();
        };
        let mut watch = Watch::default();
        let watching = async {
            for passed in 1..timing.end {
                sleep_until(start + second(passed)).await;
                watch.look(service.ledger(), workers);
            }
        };
        let _ = timeout_at(start + end, async { tokio::join!(load, trouble, watching) }).await;
        let ledger = service.ledger();
        watch.look(ledger, workers);
        drop(gateways);
        ensure!(
            tally.unsent() == 0,
            "this machine ran out of sockets ({} attempts): nothing can be said of the service",
            tally.unsent()
        );
        let capacity = last(scenario).capacity();
        // Inside Quell nobody looks: what is known is what the callers and the service's ledger counted.
        let mut seen = tally.seen();
        seen.timeline = watch.timeline;
        let series = tally.series();
        let mut summary = Summary::of(&series, timing, capacity, ledger.work(), &seen);
        if direct {
            // Nobody stands between: it is the callers who send more than their users asked for.
            summary.amplification = summary.attempts_per_user;
            for phase in &mut summary.phases {
                phase.amplification = phase.attempts_per_user;
            }
        }
        let from = timing.outage_end() + GRACE;
        let [before, during, after] = summary.phases.map(Part::from);
        Ok(Seen {
            figures: Figures::from(&summary),
            goodput_from_1s: series.goodput(from..(from + WATCHED).min(timing.end), capacity),
            before,
            during,
            after,
        })
    }
}

/// The service that breaks. Those before it in a chain only hand on: on sockets they are gateways and nothing else.
pub(super) fn last(scenario: &Scenario) -> &Service {
    scenario.below.last().map_or(&scenario.service, |node| &node.service)
}

/// The same, to be changed.
pub(super) fn last_mut(scenario: &mut Scenario) -> &mut Service {
    scenario.below.last_mut().map_or(&mut scenario.service, |node| &mut node.service)
}

/// How it breaks.
pub(super) fn trouble(scenario: &Scenario) -> OutageKind {
    let faults = scenario.below.last().and_then(|node| node.faults.first());
    faults.unwrap_or(&scenario.outage).kind
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

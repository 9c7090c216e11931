//! One core: its listener, its connections, its lanes and its counters. Only the plan and the policies' state are
//! shared.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::server::conn::http2;
use quell::core::Reason;
use quell::http::keyed::Keys;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, interval, sleep};

use super::conversation;
use super::counters::{CoreCounters, Count, Counters};
use super::io::Local;
use super::lane::Lanes;
use super::listen::{Bound, Listener, Peer, Stream};
use super::plan::{Plan, Walks};
use super::route::Route;
use super::watch::{TICK, Told, Watches};
use super::wire::Date;
use crate::host::access::Access;
use crate::host::life::Phase;
use crate::host::log::Log;
use crate::host::reload::Source;
use crate::host::tls;

/// Connections from callers that the process holds at most; beyond it, accepting pauses.
const MOST_CONNECTIONS: usize = 20_000;
/// How long to wait before accepting again when there is no file descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(10);
/// How long an idle connection is kept in a drain: a request may be on its way already.
const LINGER: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// What all cores share.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) plan: ArcSwap<Plan>,
    /// That of the plan: a look at it is cheaper than at the plan.
    pub(super) generation: AtomicU64,
    pub(crate) cores: Vec<CoreCounters>,
    /// Replies on their way and tunnels that one core holds at most, per upstream.
    pub(super) most_streams: u32,
    pub(crate) log: Arc<Log>,
    pub(super) tls: Option<tls::Server>,
    pub(super) source: Source,
    /// Idempotency keys, remembered as long as the process lives.
    pub(super) keys: Keys,
    /// Where a line for each request goes, if one does.
    pub(crate) access: Option<Arc<Access>>,
}

impl Gateway {
    /// A count over all routes and cores.
    pub(crate) fn sum(&self, count: impl Fn(&Counters) -> &Count) -> u64 {
        let plan = self.plan.load();
        let routed = plan.routes.iter().flat_map(|route| route.counters.iter());
        let unrouted = self.cores.iter().map(|core| &core.unrouted);
        routed.chain(unrouted).map(|counters| count(counters).get()).sum()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Core {
    pub(super) index: usize,
    pub(super) gateway: Arc<Gateway>,
    draining: Cell<Drain>,
    pub(super) watches: Watches,
    pub(super) date: Date,
    pub(super) http2: http2::Builder<Local>,
    driven: RefCell<Rc<Driven>>,
}

/// Where a core stands in its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    No,
    /// Whoever is here is served.
    Lingers,
    /// What is under way is finished, and nothing is begun.
    Ends,
}

/// The plan as one core drives it.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) plan: Arc<Plan>,
    routes: Vec<Rc<LocalRoute>>,
    /// By the place of their backend.
    lanes: Vec<Option<Rc<Lanes>>>,
}

/// A route on one core.
#[derive(Debug)]
pub(super) struct LocalRoute {
    pub(super) route: Arc<Route>,
    pub(super) lanes: Rc<Lanes>,
    core: usize,
}

impl Deref for LocalRoute {
    type Target = Route;

    fn deref(&self) -> &Route {
        &self.route
    }
}

impl LocalRoute {
    pub(super) fn counters(&self) -> &Counters {
        &self.route.counters[self.core]
    }
}

impl Driven {
    fn new(plan: Arc<Plan>, before: Option<&Self>, core: usize, tick: &Tick) -> Self {
        let place = |lanes: &mut Vec<Option<Rc<Lanes>>>, route: &Route| {
            let at = route.backend.place;
            if lanes.len() <= at {
                lanes.resize(at + 1, None);
            }
            let known = before.and_then(|before| before.lanes.get(at)?.as_deref());
            Rc::clone(
                lanes[at].get_or_insert_with(|| Rc::new(Lanes::new(&route.backend, known, tick))),
            )
        };
        let mut lanes = Vec::new();
        let local = |route: &Arc<Route>| {
            let lanes = place(&mut lanes, route);
            Rc::new(LocalRoute { route: Arc::clone(route), lanes, core })
        };
        let routes = plan.routes.iter().map(local).collect();
        Self { plan, routes, lanes }
    }

    pub(super) fn route<B>(
        &self,
        request: &http::Request<B>,
    ) -> Result<Option<&Rc<LocalRoute>>, Walks> {
        Ok(self.plan.find(request)?.and_then(|at| self.routes.get(at)))
    }
}

/// The present tick of a core, for whoever measures age.
#[derive(Debug, Clone)]
pub(super) struct Tick(pub(super) Rc<Cell<u32>>);

impl Tick {
    pub(super) fn now(&self) -> u32 {
        self.0.get()
    }
}

impl Core {
    pub(super) fn new(gateway: Arc<Gateway>, index: usize) -> Rc<Self> {
        let watches = Watches::default();
        let tick = Tick(watches.clock());
        let driven = Driven::new(gateway.plan.load_full(), None, index, &tick);
        Rc::new(Self {
            index,
            gateway,
            draining: Cell::new(Drain::No),
            watches,
            date: Date::default(),
            http2: conversation::http2(),
            driven: RefCell::new(Rc::new(driven)),
        })
    }

    pub(super) fn counters(&self) -> &CoreCounters {
        &self.gateway.cores[self.index]
    }

    /// Whether callers are asked to go elsewhere.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.get() != Drain::No
    }

    /// Why nothing can be begun on this route, whatever the policies say.
    pub(super) fn cannot_serve(&self, route: &LocalRoute) -> Option<Reason> {
        if self.draining.get() == Drain::Ends {
            Some(Reason::Draining)
        } else if route.backend.endpoints.is_empty() {
            Some(Reason::NoEndpoint)
        } else {
            let is_full = route.lanes.streams.get() >= self.gateway.most_streams;
            is_full.then_some(Reason::PoolFull)
        }
    }

    /// The plan of now.
    pub(super) fn driven(&self) -> Rc<Driven> {
        let mut driven = self.driven.borrow_mut();
        if driven.plan.generation != self.gateway.generation.load(Ordering::Acquire) {
            let (plan, tick) = (self.gateway.plan.load_full(), Tick(self.watches.clock()));
            *driven = Rc::new(Driven::new(plan, Some(&driven), self.index, &tick));
        }
        Rc::clone(&driven)
    }

    /// Accepts until told to drain, then finishes what is under way; ends at once when told to stop.
    pub(super) async fn run(
        self: Rc<Self>,
        listener: Bound,
        mut phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        let listener = listener.open()?;
        let sweep = Rc::clone(&self);
        spawn_local(async move { sweep.sweep().await });
        let mut stop = phase.clone();
        let stopped = stop.wait_for(|phase| *phase == Phase::Stopping);
        let serve = async {
            tokio::select! {
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
                () = self.accept(&listener) => {}
            }
            self.drain(listener).await;
        };
        tokio::select! {
            () = serve => {}
            _ = stopped => {}
        }
        Ok(())
    }

    async fn sweep(&self) {
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            self.watches.tick();
            self.date.refresh();
            self.driven().lanes.iter().flatten().for_each(|lanes| lanes.sweep());
        }
    }

    async fn accept(self: &Rc<Self>, listener: &Listener) {
        let most = (MOST_CONNECTIONS / self.gateway.cores.len()).max(1);
        let room = Arc::new(Semaphore::new(most));
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, peer)) => self.enter(stream, peer, Some(place)),
                Err(_) => sleep(OUT_OF_FILES).await,
            }
        }
    }

    fn enter(self: &Rc<Self>, stream: Stream, peer: Peer, place: Option<OwnedSemaphorePermit>) {
        let core = Rc::clone(self);
        spawn_local(async move {
            core.counters().connections.add();
            conversation::converse(&core, stream, peer).await;
            drop(place);
        });
    }

    /// Goes on for as long as balancers need to notice. Then whoever is in the kernel's queue is let in; whoever is
    /// connected is answered, and asked to go.
    async fn drain(self: &Rc<Self>, listener: Listener) {
        let (delay, drain) = {
            let gateway = &self.driven().plan.file.gateway;
            (gateway.drain_delay, gateway.drain)
        };
        tokio::select! {
            () = sleep(delay) => {}
            () = self.accept(&listener) => {}
        }
        self.draining.set(Drain::Lingers);
        let until = Instant::now() + drain;
        listener.drain(|(stream, peer)| self.enter(stream, peer, None));
        tokio::task::yield_now().await; // lets those who were let in last be counted
        self.watches.tell(Told::Leave);
        let linger = until.min(Instant::now() + LINGER);
        while self.watches.len() > 0 && Instant::now() < linger {
            sleep(LOOK).await;
        }
        self.draining.set(Drain::Ends);
        self.watches.tell(Told::Finish);
        while self.watches.len() > 0 && Instant::now() < until {
            sleep(LOOK).await;
        }
    }
}

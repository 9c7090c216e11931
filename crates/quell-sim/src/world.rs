//! World: callers, Quell and a service on one virtual clock.
//!
//! **Why.** An outage cannot be tried out in production, and a model of a policy is not the policy. Here the
//! callers and the service are modelled; Quell is not: its calls run the very code of `quell-core`.
//!
//! **How.** One loop over the earliest event. Each actor lives in its own file and is a set of methods on
//! [`World`]: [callers](crate::actor::callers), [Quell](crate::actor::quell) and the
//! [service](crate::actor::service). Nothing takes time but what is scheduled: the network is instant.

use core::time::Duration;

use quell_core::Time;

use crate::{
    actor::{
        callers::Users, kinds::Kinds, quell::Hosts, shop::Shop, store::Leases, topic::Consumers,
    },
    agenda::Agenda,
    control::Maker,
    scenario::{Invalid, Scenario},
    verdict::{Count, Early, Layer, Moment, Observed, Series, Summary, Tally, Timing},
};

pub(crate) use crate::{
    event::{Event, Origin, Reply},
    run::{Below, Leased, Queueing, Records, Run},
};

/// Counts are kept by this.
const TENTH: Duration = Duration::from_millis(100);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) now: Time,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) users: Users,
    /// Crowds, where there are several kinds of requests.
    pub(crate) kinds: Option<Box<Kinds>>,
    pub(crate) hosts: Hosts,
    /// Consumers of a topic, if there is one.
    pub(crate) topic: Option<Box<Consumers>>,
    /// The store through which a fleet shares its budget, if there is one.
    pub(crate) store: Option<Box<Leases>>,
    /// The first service, and those behind it.
    pub(crate) shops: Vec<Shop>,
    pub(crate) series: Series,
    pub(crate) observed: Observed,
    layers: Vec<Layer>,
    pub(crate) timing: Timing,
    /// What was counted in this tenth of a second, and when that is over.
    pub(crate) counts: [u64; Count::ALL.len()],
    tenth_ends: Time,
    /// The second from which on nothing new happens to anybody.
    settled: usize,
    /// When it looks at itself again.
    looks_at: Time,
}

/// Runs a scenario to its end.
pub fn run(scenario: &Scenario, seed: u64) -> Result<Run, Invalid> {
    run_while(scenario, seed, Early::Never, &mut |_| {})
}

/// Runs a scenario until it is over or hopeless, and tells how many seconds of it are.
pub fn run_while(
    scenario: &Scenario,
    seed: u64,
    early: Early,
    on_second: &mut dyn FnMut(usize),
) -> Result<Run, Invalid> {
    run_as(scenario, seed, None, early, on_second)
}

/// The same, with somebody else's rule for the limit where there is one.
pub(crate) fn run_as(
    scenario: &Scenario,
    seed: u64,
    control: Option<Maker>,
    early: Early,
    on_second: &mut dyn FnMut(usize),
) -> Result<Run, Invalid> {
    scenario.check()?;
    let hosts = Hosts::new(scenario, seed, control)?;
    let mut world = World {
        now: Time::ZERO,
        agenda: Agenda::new(),
        users: Users::new(scenario, seed)?,
        kinds: Kinds::new(scenario, seed)?,
        topic: Consumers::new(scenario, seed)?,
        store: Leases::new(scenario, hosts.count(), seed)?,
        hosts,
        shops: Shop::all(scenario, seed)?,
        series: Series::default(),
        observed: Observed::default(),
        layers: vec![Layer::default(); 1 + scenario.below.len()],
        timing: timing(scenario),
        counts: [0; Count::ALL.len()],
        tenth_ends: Time::ZERO + TENTH,
        settled: (scenario.settles().as_secs() as usize).saturating_add(1),
        looks_at: Time::ZERO + Duration::from_secs(1),
        scenario: scenario.clone(),
    };
    let end = Time::ZERO + scenario.end();
    world.opens();
    world.opens_store();
    for (shop, at) in (0..).zip(world.shops.iter()).filter(|(_, shop)| shop.hit) {
        for (fault, outage) in (0..).zip(scenario.faults_of(at.root.into())) {
            world.agenda.at(Time::ZERO + outage.at, Event::Breaks { shop, fault });
            world.agenda.at(Time::ZERO + outage.end(), Event::Mends { shop, fault });
        }
    }
    if let Some(gateway) = scenario.gateway {
        world.agenda.at(Time::ZERO + gateway.starts, Event::Starts);
    }
    for restart in &scenario.restarts {
        for host in 0..world.hosts.count() {
            let at = restart.at.saturating_add(restart.step.saturating_mul(host));
            world.agenda.at(Time::ZERO + at, Event::Restarts { host });
        }
    }
    for (at, host) in Hosts::restarts_inside(scenario) {
        world.agenda.at(at, Event::Restarts { host });
    }
    let mut event = Event::Starts;
    while let Some(now) = world.agenda.next(&mut event) {
        if now >= world.tenth_ends {
            world.turns(now);
        }
        if now >= world.looks_at && world.looks(now.min(end), early, on_second) || now >= end {
            break;
        }
        world.now = now;
        world.happens(&event);
    }
    // Nothing may be left to happen before the end: the seconds until then are part of the run too.
    world.turns(end);
    world.looks(end, early, on_second);
    Ok(world.judged())
}

fn timing(scenario: &Scenario) -> Timing {
    let outage = scenario.outage;
    Timing {
        outage_at: outage.at.as_secs() as usize,
        outage_len: outage.length.as_secs() as usize,
        end: scenario.end().as_secs() as usize,
    }
}

impl World {
    fn happens(&mut self, event: &Event) {
        match *event {
            Event::Arrives => self.arrives(),
            Event::Leaves(user) => self.leaves(user),
            Event::Resends(user) => self.resends(user),
            Event::Served { shop, job, stalls } => self.served(shop, job, stalls),
            Event::Refused { shop } => self.refusal_done(shop),
            Event::Returns { shop, job, good, marked } => self.returns(shop, job, good, marked),
            Event::Answers { to, reply } => self.answers(to, reply),
            Event::TimesOut { call, slot, attempt } => self.times_out(call, slot, attempt),
            Event::Wakes(call) => self.wakes(call),
            Event::Polls { host } => self.polls(host),
            Event::Ripens => self.ripens(),
            Event::Resumes { host } => self.resumes(host),
            Event::Leases { host } => self.leases(host),
            Event::Mail(message) => self.mail(message),
            Event::Starts => self.hosts.start(),
            Event::Restarts { host } => self.restarts(host),
            Event::Cancels { shop, from } => self.cancels(shop, from),
            Event::Breaks { shop, fault } => self.breaks(shop, fault as usize),
            Event::Mends { shop, fault } => self.mends(shop, fault as usize),
            Event::Comes { kind } => self.comes(kind),
            Event::Together { kind } => self.leave_together(kind),
            Event::Turns { kind, fault, begins } => self.turns_of_kind(kind, fault, begins),
            Event::Handed { from } => self.handed_over(from),
            Event::Waited { shop, job } => self.waited(shop, job),
        }
    }

    /// An answer reaches whoever sent the request.
    pub(crate) fn answers(&mut self, to: Origin, reply: Reply) {
        match to {
            Origin::User(user) => self.user_answered(user, reply),
            Origin::Call { call, slot, attempt } => {
                let outcome = match reply {
                    Reply::Later | Reply::Throttled | Reply::Fatal => self.told(call, reply),
                    reply => reply.outcome(),
                };
                self.attempt_ended(call, slot, attempt, outcome);
            }
        }
    }

    /// Counts one of `what`, now.
    #[inline(always)]
    pub(crate) fn count(&mut self, what: Count) {
        self.counts[what as usize] += 1;
    }

    /// A tenth of a second is over.
    #[cold]
    fn turns(&mut self, now: Time) {
        let last = Duration::from_nanos(self.tenth_ends.as_nanos() - 1);
        for what in Count::ALL {
            let n = core::mem::take(&mut self.counts[what as usize]);
            if n > 0 {
                self.series.add(what, last, n);
            }
        }
        let tenths = now.as_nanos() / TENTH.as_nanos() as u64 + 1;
        self.tenth_ends = Time::from_nanos(tenths.saturating_mul(TENTH.as_nanos() as u64));
    }

    /// Looks at itself at the end of every second up to `now`; answers whether there is nothing more to see. No event does
    /// it, so that a run is the same whether or not anybody looks.
    fn looks(&mut self, now: Time, early: Early, on_second: &mut dyn FnMut(usize)) -> bool {
        loop {
            let (at, over) = (self.looks_at, self.observed.seconds() + 1);
            if at > now || over > self.timing.end {
                return false;
            }
            self.looks_at = at + Duration::from_secs(1);
            let mut looks = Moment { backlog: self.backlog(), ..self.hosts.look(at) };
            if let Some(topic) = &mut self.topic {
                let (waiting, fill) = topic.look(at);
                (looks.backlog, looks.budget) = (looks.backlog + waiting, Some(fill));
            }
            let work = self.sum(0).work;
            self.observed.second_over(looks, work);
            self.tallies();
            on_second(over);
            let capacity = self.scenario.service.capacity();
            let timeline = &self.observed.timeline;
            if early.stops(&self.series, self.timing, capacity, timeline, over, self.settled) {
                self.timing.end = over;
                return true;
            }
        }
    }

    /// What every service has counted so far. What the first one was asked is counted where users are.
    fn tallies(&mut self) {
        let second = self.observed.seconds() - 1;
        for root in 0..self.layers.len() {
            let mut tally = self.tally(root);
            let layer = &mut self.layers[root];
            if root == 0 {
                let Observed { retries, useful, .. } = self.observed;
                let now = |what| self.series.at(what, second);
                let calls = layer.so_far().calls + now(Count::Received);
                let refused = layer.so_far().refused + now(Count::Refused);
                tally = Tally { calls, refused, retries, useful, ..tally };
            }
            layer.second_over(tally);
        }
    }

    fn judged(self) -> Run {
        let timing = self.timing;
        let Below { work, queueing, .. } = self.sum(0);
        let capacity = self.scenario.service.capacity();
        let mut summary = Summary::of(&self.series, timing, capacity, work, &self.observed);
        let events = self.agenda.written();
        let hash = hash(&self.series, timing.end, [work.served, work.wasted, events]);
        let below = (1..=self.scenario.below.len()).map(|root| self.sum(root)).collect();
        let shards = self.shards();
        if let Some(topic) = &self.topic {
            let demand = self.series.sum(Count::Demand, 0..timing.end) as f64;
            let per_second = demand / timing.end.max(1) as f64;
            summary.verdict = topic.verdict(timing, per_second, summary.verdict);
        }
        let leased = self.store.as_ref().map(|leases| leases.leased());
        let records = self.topic.map_or(vec![], |topic| topic.records());
        let kinds = self.kinds.map_or(vec![], |kinds| kinds.crowds);
        let Self { series, observed, layers, .. } = self;
        Run {
            summary,
            series,
            kinds,
            work,
            queueing,
            below,
            shards,
            records,
            leased,
            layers,
            observed,
            timing,
            events,
            hash,
        }
    }
}

/// FNV-1a over all that was counted.
fn hash(series: &Series, end: usize, totals: [u64; 3]) -> u64 {
    let counts = (0..end).flat_map(|second| Count::ALL.map(|what| series.at(what, second)));
    counts.chain(totals).flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

//! World: callers, Quell and a service on one virtual clock.
//!
//! **Why.** An outage cannot be tried out in production, and a model of a policy is not the policy. Here the
//! callers and the service are modelled; Quell is not: its calls run the very code of `quell-core`.
//!
//! **How.** One loop over the earliest event. Each actor lives in its own file and is a set of methods on
//! [`World`]: [callers](crate::actor::callers), [Quell](crate::actor::quell) and the
//! [service](crate::actor::service). Nothing takes time but what is scheduled: the network is instant.

use core::time::Duration;

use quell_core::{Failure, Fault, Outcome, Time};

use crate::{
    actor::{
        callers::Users, kinds::Kinds, quell::Hosts, shop::Shop, store::Leases, topic::Consumers,
    },
    agenda::Agenda,
    scenario::{Invalid, Scenario, Side},
    slab::Key,
    verdict::{
        Cost, Count, Crowd, Early, Layer, Moment, Observed, Refusals, Series, Summary, Tally,
        Timing, Work,
    },
};

/// Counts are kept by this.
const TENTH: Duration = Duration::from_millis(100);

/// Something that will happen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A user's request begins.
    Arrives,
    /// A caller's patience ends.
    Leaves(Key),
    /// A caller tries again.
    Resends(Key),
    /// The service finished a job, unless it stalled in between.
    Served { shop: u16, job: Key, stalls: u32 },
    /// The service finished the work of a refusal.
    Refused { shop: u16 },
    /// A call that a job made has come to an end.
    Returns { shop: u16, job: Key, good: bool, marked: bool },
    /// An answer reaches whoever sent the request.
    Answers { to: Origin, reply: Reply },
    /// An attempt of a call runs into its timeout.
    TimesOut { call: Key, slot: u8, attempt: u16 },
    /// A call's sleep is over.
    Wakes(Key),
    /// A host's queue needs a look.
    Polls { host: u32 },
    /// The service notices that a caller has left.
    Cancels { shop: u16, from: Origin },
    /// Some records of a topic may be due.
    Ripens,
    /// A consumer's pause is over.
    Resumes { host: u32 },
    /// A process looks whether to lease more of a budget that a fleet shares.
    Leases { host: u32 },
    /// A message reaches the store, or comes back from it.
    Mail(Key),
    /// Quell starts.
    Starts,
    /// A host forgets all it knew.
    Restarts { host: u32 },
    /// A fault begins; the first of the first service is the outage.
    Breaks { shop: u16, fault: u32 },
    /// It ends.
    Mends { shop: u16, fault: u32 },
    /// A request of some kind begins.
    Comes { kind: u16 },
    /// Callers of some kind leave at once.
    Together { kind: u16 },
    /// What happens to one kind alone begins or ends.
    Turns { kind: u16, fault: u32, begins: bool },
    /// The service has been handed all of a request.
    Handed { from: Origin },
    /// Something that held no worker is done, unless it stood still in between.
    Waited { shop: u16, job: Key },
}

// An event is copied often, and a storm holds millions of them.
const _: () = assert!(size_of::<Event>() <= 16);

/// What an answer says, in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// What was asked for.
    Good,
    /// An error.
    Error,
    /// Too much to do.
    Refused,
    /// An error, and a mark that it is not to be repeated.
    Final,
    /// An error of the request that callers take for one that may pass: somebody else was faster, or it is misread.
    Conflict,
    /// An error of the request, for good.
    Fatal,
    /// Too much to do, or an error, and when to come back.
    Later,
    /// This caller asks too often, and when to come back.
    Throttled,
}

impl Reply {
    pub(crate) fn outcome(self) -> Outcome {
        let server = |code| Failure::of(Fault::Server).with_code(code);
        Outcome::Failed(match self {
            Self::Good => return Outcome::Success,
            Self::Error => server(500),
            Self::Refused => server(503),
            Self::Later => Failure::of(Fault::Overload).with_code(503),
            Self::Throttled => Failure::of(Fault::Overload).with_code(429),
            Self::Fatal => Failure::of(Fault::Fatal).with_code(400),
            Self::Conflict => Failure { bad: false, ..server(409) },
            Self::Final => Failure { retryable: false, ..server(503) },
        })
    }
}

/// Who sent a request to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A caller.
    User(Key),
    /// One attempt of a Quell call.
    Call { call: Key, slot: u8, attempt: u16 },
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it shows.
    pub summary: Summary,
    /// What was counted when.
    pub series: Series,
    /// What became of each kind of requests; empty, if there are no kinds.
    pub kinds: Vec<Crowd>,
    /// What the service did.
    pub work: Work,
    /// How requests waited for it.
    pub queueing: Queueing,
    /// What each of the services behind it did.
    pub below: Vec<Below>,
    /// What each shard of the first service did; empty, if it has none.
    pub shards: Vec<Below>,
    /// How a topic looked at the end of every second; empty, if there is none.
    pub records: Vec<Records>,
    /// What processes asked of the store that they share; `None`, if there is none.
    pub leased: Option<Leased>,
    /// What the service, and each of those behind it, was asked, did and spent, second by second.
    pub layers: Vec<Layer>,
    /// What users saw, and how it looked second by second.
    pub observed: Observed,
    /// When things happened; a run that was hopeless ended before its time.
    pub timing: Timing,
    /// Events that were simulated.
    pub events: u64,
    /// The same seed gives the same hash, on every machine.
    pub hash: u64,
}

impl Run {
    /// What answers cost in these seconds, at all services together.
    pub fn cost(&self, seconds: core::ops::Range<usize>) -> Cost {
        Cost::of(&self.layers, &self.series, seconds)
    }

    fn good_crowds(&self) -> impl Iterator<Item = &Crowd> {
        self.kinds.iter().filter(|crowd| crowd.side == Side::Good)
    }

    /// The share of users who were answered: of good ones where there are kinds, of all others.
    pub fn answered_good(&self) -> f64 {
        let sum = |series: &Series, what| series.sum(what, 0..self.timing.end);
        let total = |what| match self.kinds.is_empty() {
            true => sum(&self.series, what),
            false => self.good_crowds().map(|crowd| sum(&crowd.series, what)).sum(),
        };
        let (good, demand): (u64, u64) = (total(Count::Good), total(Count::Demand));
        if demand == 0 { 0.0 } else { good as f64 / demand as f64 }
    }

    /// The share of tries that Quell turned away or let leave in its queue: of good callers where there are kinds, of all others.
    pub fn refused(&self) -> f64 {
        let good = || self.good_crowds();
        let tries = |series: &Series| series.sum(Count::Received, 0..self.timing.end);
        let away = |refusals: &Refusals| refusals.total() + refusals.left();
        let (tries, away) = match self.kinds.is_empty() {
            true => (tries(&self.series), away(&self.observed.refusals)),
            false => (
                good().map(|crowd| tries(&crowd.series)).sum(),
                good().map(|crowd| away(&crowd.refusals)).sum(),
            ),
        };
        if tries == 0 { 0.0 } else { away as f64 / tries as f64 }
    }
}

/// How requests waited for the service, over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queueing {
    /// Requests that a worker began with.
    pub started: u64,
    /// Those among them that had to wait.
    pub delayed: u64,
    /// How long they all waited, together.
    pub waited: Duration,
    /// Requests that were refused: the queue was full, the wait too long or the deadline too near.
    pub refused: u64,
    /// Requests that failed at once because there was too much to do, or in a brownout.
    pub failed: u64,
    /// Requests that were stopped or skipped because their caller had left.
    pub cancelled: u64,
    /// Requests that failed because another had changed the same thing meanwhile.
    pub conflicts: u64,
}

/// What processes asked of the store through which they share a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leased {
    /// Requests to the store.
    pub asked: u64,
    /// Those among them that found it away.
    pub lost: u64,
    /// Whole tokens that were granted.
    pub granted: u64,
}

/// What waits in a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// New records that nobody has taken.
    pub lag: u64,
    /// Records that are due again and that nobody has taken, and those that were only deferred.
    pub due: u64,
    /// Records that wait on each tier.
    pub tiers: Vec<u64>,
    /// Dead letters so far.
    pub dead: u64,
}

/// What a service behind the first one, or a shard, did over the whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Below {
    /// Attempts that reached it.
    pub sent: u64,
    /// What it did.
    pub work: Work,
    /// How requests waited for it.
    pub queueing: Queueing,
}

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
    scenario.check()?;
    let hosts = Hosts::new(scenario, seed)?;
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

//! The store: where a fleet's budget is counted, a round trip away and now and then out of reach.
//!
//! Both halves are the core's: every process plans with a [`Planner`], and the store answers with a [`Pool`].

use core::time::Duration;

use quell_core::{
    Rng, Stamp, Time,
    lease::{Grant, Planner, Pool, Request, Rules},
};

use super::{quell::Hosts, topic::Consumers};
use crate::{
    scenario::{Invalid, Scenario, Store},
    slab::{Key, Slab},
    world::{Event, Leased, World},
};

/// How often a process looks whether to ask.
const LOOK: Duration = Duration::from_millis(20);

/// On its way from a process to the store or back. A process that was restarted meanwhile does not know it.
#[derive(Debug)]
struct Message {
    host: u32,
    restarts: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    Asks(Request),
    Grants(u64, Grant),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Leases {
    store: Store,
    rules: Rules,
    pool: Pool,
    rngs: Vec<Rng>,
    mail: Slab<Message>,
    leased: Leased,
}

impl Leases {
    pub(crate) fn new(
        scenario: &Scenario,
        hosts: u32,
        seed: u64,
    ) -> Result<Option<Box<Self>>, Invalid> {
        let Some(store) = &scenario.store else { return Ok(None) };
        let rules = store.rules(hosts.max(1))?;
        let rng = |host| Rng::stream(seed, host, crate::PURPOSE_LEASE);
        Ok(Some(Box::new(Self {
            store: store.clone(),
            rules,
            pool: Pool::new(&rules, Stamp::ZERO),
            rngs: (0..u64::from(hosts)).map(rng).collect(),
            mail: Slab::new(),
            leased: Leased::default(),
        })))
    }

    pub(crate) fn leased(&self) -> Leased {
        self.leased
    }
}

/// What a process has leased: for its retries, or for the due records in its hands.
fn planner<'a>(
    topic: &'a mut Option<Box<Consumers>>,
    hosts: &'a mut Hosts,
    host: u32,
) -> Option<&'a mut Planner> {
    match topic {
        Some(topic) => topic.budget(host).lease(),
        None => hosts.upstream(host).budget_lease(),
    }
}

impl World {
    /// Every process outside begins to lease.
    pub(crate) fn opens_store(&mut self) {
        if self.store.is_some() {
            for host in 0..self.hosts.count() {
                self.joins_store(host);
                self.agenda.at(Time::ZERO, Event::Leases { host });
            }
        }
    }

    /// A process that has just started holds nothing of the common budget.
    pub(super) fn joins_store(&mut self, host: u32) {
        let Some(leases) = self.store.as_ref().filter(|_| host < self.hosts.count()) else {
            return;
        };
        let planner = Planner::new(leases.rules);
        match &mut self.topic {
            Some(topic) => topic.budget(host).lease_from(planner),
            None => self.hosts.upstream(host).lease_budget(planner),
        }
    }

    /// A process looks whether to ask the store.
    pub(crate) fn leases(&mut self, host: u32) {
        let Some(leases) = &mut self.store else { return };
        let restarts = self.hosts.restarts_of(host);
        let planner = planner(&mut self.topic, &mut self.hosts, host);
        let rng = &mut leases.rngs[host as usize];
        if let Some(request) = planner.and_then(|planner| planner.want(self.now, rng)) {
            leases.leased.asked += 1;
            let message = Message { host, restarts, what: What::Asks(request) };
            let message = leases.mail.insert(message);
            let half = leases.store.round_trip / 2;
            self.agenda.after(self.now, half, Event::Mail(message));
        }
        self.agenda.after(self.now, LOOK, Event::Leases { host });
    }

    /// A message arrives, at the store or back from it.
    pub(crate) fn mail(&mut self, message: Key) {
        let Some(leases) = &mut self.store else { return };
        let Some(Message { host, restarts, what }) = leases.mail.remove(message) else { return };
        match what {
            What::Asks(request) => {
                if leases.store.is_away(self.now.since(Time::ZERO)) {
                    leases.leased.lost += 1;
                    return;
                }
                let stamp = Stamp::from_millis(self.now.as_nanos() / 1_000_000);
                let grant = leases.pool.lease(&leases.rules, stamp, &request);
                leases.leased.granted += grant.tokens / 1_000_000;
                let what = What::Grants(request.id, grant);
                let answer = leases.mail.insert(Message { host, restarts, what });
                let half = leases.store.round_trip / 2;
                self.agenda.after(self.now, half, Event::Mail(answer));
            }
            What::Grants(id, grant) if restarts == self.hosts.restarts_of(host) => {
                if let Some(planner) = planner(&mut self.topic, &mut self.hosts, host) {
                    planner.granted(self.now, id, grant);
                }
            }
            What::Grants(..) => {}
        }
    }
}

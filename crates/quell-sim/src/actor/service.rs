//! The service: workers, and a queue that may serve the departed.
//!
//! Unless the scenario says otherwise, a request whose caller has left keeps its place and takes a worker's
//! time like any other. That is how real services behave, and what keeps a storm alive.

use core::time::Duration;

use quell_core::Time;

use super::{
    quell::{Handed, Whose},
    shop::{Job, Waiting},
};
use crate::{
    scenario::{Abandonment, Outage, OutageKind},
    slab::Key,
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

impl World {
    /// A request reaches a service; its caller means to wait `until` then.
    pub(crate) fn reaches_service(&mut self, at: u16, from: Origin, until: Time) {
        if self.kinds.is_some() {
            return self.reaches_of_kind(at, from, until);
        }
        let shop = &self.shops[usize::from(at)];
        let key = if shop.keeps || shop.finds_fault() { self.key_of(from) } else { 0 };
        let shop = &mut self.shops[usize::from(at)];
        self.counts[Count::Sent as usize] += u64::from(shop.root == 0);
        shop.sent += 1;
        shop.offered(self.now);
        if shop.trouble.hole {
            return;
        }
        if shop.trouble.fail || shop.fails(self.now) {
            let reply = shop.says(Reply::Error);
            return self.agenda.soon(self.now, Event::Answers { to: from, reply });
        }
        if shop.finds_fault()
            && let Some(reply) = shop.fault(key)
        {
            return self.agenda.soon(self.now, Event::Answers { to: from, reply });
        }
        if !shop.enters(Waiting { from, since: self.now, key }, until, key) {
            return self.refuses(at, from);
        }
        self.work(at);
    }

    /// Free workers take what waits.
    pub(super) fn work(&mut self, at: u16) {
        let i = usize::from(at);
        self.shops[i].passes(self.now);
        while let Some(from) = self.shops[i].overdue(self.now) {
            self.refuses(at, from);
        }
        loop {
            let shop = &mut self.shops[i];
            if let Some(time) = shop.begins_refusal() {
                self.agenda.after(self.now, time, Event::Refused { shop: at });
                continue;
            }
            let Some(waiting) = shop.next(self.now) else { break };
            if shop.is_late(self.now, &waiting) {
                if let Abandonment::Deadline { .. } = shop.service.abandonment {
                    self.refuses(at, waiting.from);
                }
                continue;
            }
            let given = self.kinds.as_ref().map(|kinds| kinds.given(waiting.key, self.now));
            let (job, time, constant) = shop.starts(self.now, waiting, given);
            if shop.shared.is_some() || given.is_some_and(|given| given.stalls) {
                continue;
            }
            let event = Event::Served { shop: at, job, stalls: shop.stalls };
            if constant {
                self.agenda.after(self.now, time, event);
            } else {
                self.agenda.at(self.now + time, event);
            }
        }
        self.shares(at);
    }

    pub(super) fn refuses(&mut self, at: u16, from: Origin) {
        let shop = &mut self.shops[usize::from(at)];
        shop.refuses(from);
        let reply = shop.says(Reply::Refused);
        self.agenda.soon(self.now, Event::Answers { to: from, reply });
    }

    /// A worker has done the work of a refusal.
    pub(crate) fn refusal_done(&mut self, at: u16) {
        self.shops[usize::from(at)].ends_refusal();
        self.work(at);
    }

    /// A worker has done its own part.
    pub(crate) fn served(&mut self, at: u16, job: Key, stalls: u32) {
        let shop = &mut self.shops[usize::from(at)];
        if stalls != shop.stalls {
            return; // it stalled meanwhile and was scheduled anew
        }
        if self.kinds.is_some() && shop.shared.is_none() && !shop.is_due(job, self.now) {
            return; // its kind stood still meanwhile, or still does
        }
        shop.parts(self.now);
        if shop.edges.is_empty() {
            return self.ends(at, job, Reply::Good);
        }
        self.calls_on(at, job);
        self.shares(at);
    }

    /// The job's next call to a service behind this one, or its answer.
    fn calls_on(&mut self, at: u16, key: Key) {
        let shop = &mut self.shops[usize::from(at)];
        let Some(job) = shop.jobs.get(key) else { return };
        let chain = job.chain.get_or_insert_default();
        let Some(&hosts) = shop.edges.get(chain.calls) else {
            return self.ends(at, key, Reply::Good);
        };
        chain.calls += 1;
        let from = job.from;
        let lent = match (chain.told, from) {
            (Some((_, left)), _) => Some(left),
            (None, Origin::Call { call, slot, .. }) => self.hosts.handed_on(call, slot),
            (None, Origin::User(_)) => None,
        };
        let host = self.hosts.one_of(hosts);
        let shop = &self.shops[usize::from(at)];
        let until = if self.hosts.link(host).deadline { shop.until(from) } else { None };
        let handed = Handed { key: shop.key_of(from), lent, until };
        let call = self.begin_call(host, Whose::Job { shop: at, job: key }, handed);
        if let Some(chain) = self.shops[usize::from(at)].chain(key) {
            chain.call = call;
        }
    }

    /// What the job called has come to an end.
    pub(crate) fn returns(&mut self, at: u16, key: Key, good: bool, marked: bool) {
        let shop = &mut self.shops[usize::from(at)];
        let Some(job) = shop.jobs.get(key) else { return };
        job.chain.get_or_insert_default().call = None;
        if shop.trouble.stall && good {
            job.done_at = shop.stalled_at; // goes on as soon as the stall is over
            if let Some(shared) = &mut shop.shared {
                shared.begins(key, Duration::ZERO);
            }
        } else if good {
            self.calls_on(at, key);
        } else {
            self.ends(at, key, if marked { Reply::Final } else { Reply::Error });
        }
    }

    /// The job is done, and a worker is free.
    pub(super) fn ends(&mut self, at: u16, job: Key, reply: Reply) {
        let shop = &mut self.shops[usize::from(at)];
        shop.passes(self.now);
        let Some(job) = shop.done(job) else { return };
        let reply = match reply {
            Reply::Good if shop.service.contended && !shop.changes(&job) => Reply::Conflict,
            reply => reply,
        };
        let Job { from, chain, since, key, waits: idle, .. } = job;
        shop.work.served += 1;
        let (reply, lost) = self.kinds.as_ref().map_or((reply, false), |kinds| {
            let fails = reply == Reply::Good && kinds.request(key).fails;
            (if fails { Reply::Error } else { reply }, kinds.trouble(key).hole)
        });
        let hole = lost || self.shops[usize::from(at)].trouble.hole;
        let waits = self.waits(from);
        let shop = &mut self.shops[usize::from(at)];
        if !idle {
            shop.spends(since, self.now, !waits);
        }
        if !waits {
            shop.work.wasted += 1;
        } else if !hole {
            if let Origin::Call { call, slot, .. } = from
                && let Some((sends, left)) = chain.and_then(|chain| chain.told)
            {
                self.hosts.debit(call, slot, sends, left);
            }
            self.answers(from, reply);
        }
        self.work(at);
    }

    fn waits(&mut self, from: Origin) -> bool {
        match from {
            Origin::User(user) => self.users.waits(user),
            Origin::Call { call, slot, attempt } => self.hosts.waits(call, slot, attempt),
        }
    }

    /// Whoever sent this to the service no longer waits for the answer.
    pub(crate) fn departs(&mut self, shop: u16, from: Origin) {
        if self.gateway_left(from) {
            return;
        }
        if let Abandonment::Cancels { after } = self.shops[usize::from(shop)].service.abandonment {
            self.agenda.after(self.now, after, Event::Cancels { shop, from });
        }
    }

    /// The service notices.
    pub(crate) fn cancels(&mut self, at: u16, from: Origin) {
        self.shops[usize::from(at)].passes(self.now);
        if let Some(call) = self.shops[usize::from(at)].drops(from, self.now) {
            self.abandons(call);
        }
        self.work(at);
    }

    /// What happens to this one.
    fn faults_of(&self, at: u16) -> Vec<Outage> {
        self.scenario.faults_of(self.shops[usize::from(at)].root.into())
    }

    pub(crate) fn breaks(&mut self, at: u16, fault: usize) {
        let Some(&fault) = self.faults_of(at).get(fault) else { return };
        let shop = &mut self.shops[usize::from(at)];
        shop.passes(self.now);
        if fault.kind == OutageKind::Stall && !shop.trouble.stall {
            shop.stalls += 1;
            shop.stalled_at = self.now;
        }
        shop.begin(fault);
        if let OutageKind::Grown { .. } = fault.kind {
            self.work(at); // there may be workers for those who wait
        } else {
            self.shares(at);
        }
    }

    pub(crate) fn mends(&mut self, at: u16, fault: usize) {
        let Some(&fault) = self.faults_of(at).get(fault) else { return };
        let shop = &mut self.shops[usize::from(at)];
        let stalled = shop.trouble.stall;
        shop.passes(self.now);
        shop.end(self.now, fault);
        if stalled && !shop.trouble.stall && shop.shared.is_none() {
            let stalled_at = shop.stalled_at;
            for key in shop.jobs.keys() {
                let free = |job: &&mut Job| !job.calls_on() && !job.waits && job.held.is_none();
                let Some(job) = shop.jobs.get(key).filter(free) else { continue };
                job.done_at = self.now + job.done_at.since(stalled_at);
                let event = Event::Served { shop: at, job: key, stalls: shop.stalls };
                self.agenda.at(job.done_at, event);
            }
        }
        if stalled && !self.shops[usize::from(at)].trouble.stall && self.kinds.is_some() {
            self.waits_go_on(at);
        }
        self.work(at);
    }
}

//! Requests of several kinds at the service: what its workers do, and what needs none of them.

use core::time::Duration;

use quell_core::Time;

use super::{
    kinds::Kinds,
    shop::{Given, Shop, Waiting},
};
use crate::{
    slab::Key,
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

impl Kinds {
    /// What is known of a request's work beforehand.
    pub(super) fn given(&self, key: u32, now: Time) -> Given {
        Given {
            work: self.work(key, now),
            stalls: self.trouble(key).stall,
            waits: self.kind(key).waits,
        }
    }
}

impl Shop {
    /// Whether this job ends now: it is not held, and was not put off.
    pub(super) fn is_due(&mut self, job: Key, now: Time) -> bool {
        self.jobs.get(job).is_some_and(|job| job.held.is_none() && job.done_at == now)
    }

    /// From when on work that is begun or goes on counts: in a stall, from its start.
    fn base(&self, now: Time) -> Time {
        if self.trouble.stall { self.stalled_at } else { now }
    }
}

impl World {
    /// A request of some kind reaches the service; its caller means to wait `until` then.
    pub(super) fn reaches_of_kind(&mut self, at: u16, from: Origin, until: Time) {
        let key = self.key_of(from);
        let Some(kinds) = &mut self.kinds else { return };
        let shop = &mut self.shops[usize::from(at)];
        self.counts[Count::Sent as usize] += 1;
        kinds.count(self.now, key, Count::Sent);
        shop.sent += 1;
        shop.offered(self.now);
        let trouble = kinds.trouble(key);
        if shop.trouble.hole || trouble.hole {
            return;
        }
        let fails = shop.trouble.fail || trouble.fail || shop.fails(self.now);
        let fails = fails || kinds.is_unlucky(key);
        if fails || kinds.kind(key).throttled.is_some() {
            let reply = if fails { shop.says(Reply::Error) } else { Reply::Throttled };
            return self.agenda.soon(self.now, Event::Answers { to: from, reply });
        }
        let waiting = Waiting { from, since: self.now, key };
        if kinds.kind(key).waits {
            let given = kinds.given(key, self.now);
            let (job, time, _) = shop.starts(self.now, waiting, Some(given));
            let done_at = shop.base(self.now) + time;
            if let Some(job) = shop.jobs.get(job) {
                job.done_at = done_at;
            }
            if !given.stalls && !shop.trouble.stall {
                self.agenda.at(done_at, Event::Waited { shop: at, job });
            }
            return;
        }
        if !shop.enters(waiting, until, key) {
            return self.refuses(at, from);
        }
        self.work(at);
    }

    /// Something that held no worker is done, unless it stood still in between.
    pub(crate) fn waited(&mut self, at: u16, job: Key) {
        let shop = &mut self.shops[usize::from(at)];
        if !shop.trouble.stall && shop.is_due(job, self.now) {
            self.ends(at, job, Reply::Good);
        }
    }

    /// The stall is over: what holds no worker goes on too.
    pub(super) fn waits_go_on(&mut self, at: u16) {
        let shop = &mut self.shops[usize::from(at)];
        let stalled_at = shop.stalled_at;
        for key in shop.jobs.keys() {
            let waits = |job: &&mut super::shop::Job| job.waits && job.held.is_none();
            let Some(job) = shop.jobs.get(key).filter(waits) else { continue };
            job.done_at = self.now + job.done_at.since(stalled_at);
            self.agenda.at(job.done_at, Event::Waited { shop: at, job: key });
        }
    }

    /// What happens to one kind alone begins or ends; if it then stands still, or no longer does, so do its requests inside.
    pub(crate) fn turns_of_kind(&mut self, kind: u16, fault: u32, begins: bool) {
        let Some(kinds) = &mut self.kinds else { return };
        let stalled = kinds.stalls(kind);
        kinds.turn(kind, fault, begins, &self.scenario);
        match (stalled, kinds.stalls(kind)) {
            (false, true) => self.kind_stalls(kind),
            (true, false) => self.kind_goes_on(kind),
            _ => {}
        }
    }

    fn theirs(&mut self, kind: u16) -> Vec<Key> {
        let (Some(kinds), shop) = (&self.kinds, &mut self.shops[0]) else { return vec![] };
        let mut keys = shop.jobs.keys();
        keys.retain(|key| {
            shop.jobs.get(*key).is_some_and(|job| kinds.request(job.key).kind == kind)
        });
        keys
    }

    fn kind_stalls(&mut self, kind: u16) {
        let theirs = self.theirs(kind);
        let shop = &mut self.shops[0];
        shop.passes(self.now);
        let base = shop.base(self.now);
        let out = shop.shared.as_mut().map(|shared| shared.takes_out(|job| theirs.contains(&job)));
        for key in theirs {
            if let Some(job) = shop.jobs.get(key) {
                job.held = Some(job.done_at.since(base));
            }
        }
        for (key, left) in out.into_iter().flatten() {
            if let Some(job) = shop.jobs.get(key) {
                job.held = Some(left);
            }
        }
        self.shares(0);
    }

    fn kind_goes_on(&mut self, kind: u16) {
        let theirs = self.theirs(kind);
        let shop = &mut self.shops[0];
        shop.passes(self.now);
        let (base, stalls) = (shop.base(self.now), shop.stalls);
        for key in theirs {
            let Some(job) = shop.jobs.get(key) else { continue };
            let left = job.held.take().unwrap_or(Duration::ZERO);
            let waits = job.waits;
            job.done_at = base + left;
            let done_at = job.done_at;
            match &mut shop.shared {
                Some(shared) if !waits => shared.begins(key, left),
                _ if shop.trouble.stall => {} // goes on when all of it does
                _ if waits => self.agenda.at(done_at, Event::Waited { shop: 0, job: key }),
                _ => self.agenda.at(done_at, Event::Served { shop: 0, job: key, stalls }),
            }
        }
        self.work(0);
    }
}

//! The service: workers, and a queue that may serve the departed.
//!
//! Unless the scenario says otherwise, a request whose caller has left keeps its place and takes a worker's
//! time like any other. That is how real services behave, and what keeps a storm alive.

use quell_core::Time;

use super::shop::Waiting;
use crate::{
    scenario::{Abandonment, OutageKind},
    slab::Key,
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

impl World {
    /// A request reaches the service; its caller means to wait `until` then.
    pub(crate) fn reaches_service(&mut self, from: Origin, until: Time) {
        self.count(Count::Sent);
        self.shop.offered(self.now);
        if self.shop.trouble.hole {
            return;
        }
        if self.shop.trouble.fail || self.shop.fails(self.now) {
            return self.agenda.at(self.now, Event::Answers { to: from, reply: Reply::Error });
        }
        if !self.shop.enters(Waiting { from, since: self.now }, until) {
            return self.refuses(from);
        }
        self.work();
    }

    /// Free workers take what waits.
    fn work(&mut self) {
        while let Some(from) = self.shop.overdue(self.now) {
            self.refuses(from);
        }
        while let Some(waiting) = self.shop.next(self.now) {
            if self.shop.is_late(self.now, &waiting) {
                if let Abandonment::Deadline { .. } = self.shop.service.abandonment {
                    self.refuses(waiting.from);
                }
                continue;
            }
            let (job, time, constant) = self.shop.starts(self.now, waiting);
            let event = Event::Served { job, stalls: self.shop.stalls };
            if constant {
                self.agenda.after(self.now, time, event);
            } else {
                self.agenda.at(self.now + time, event);
            }
        }
    }

    fn refuses(&mut self, from: Origin) {
        self.shop.refuses(from);
        self.agenda.at(self.now, Event::Answers { to: from, reply: Reply::Refused });
    }

    /// A worker is done.
    pub(crate) fn served(&mut self, job: Key, stalls: u32) {
        if stalls != self.shop.stalls {
            return; // it stalled meanwhile and was scheduled anew
        }
        let Some(from) = self.shop.done(job) else { return };
        self.shop.work.served += 1;
        if !self.waits(from) {
            self.shop.work.wasted += 1;
        } else if !self.shop.trouble.hole {
            self.answers(from, Reply::Good);
        }
        self.work();
    }

    fn waits(&mut self, from: Origin) -> bool {
        match from {
            Origin::User(user) => self.users.waits(user),
            Origin::Call { call, slot, attempt } => self.hosts.waits(call, slot, attempt),
        }
    }

    /// Whoever sent this no longer waits for the answer.
    pub(crate) fn departs(&mut self, from: Origin) {
        if let Abandonment::Cancels { after } = self.shop.service.abandonment {
            self.agenda.after(self.now, after, Event::Cancels(from));
        }
    }

    /// The service notices.
    pub(crate) fn cancels(&mut self, from: Origin) {
        self.shop.drops(from);
        self.work();
    }

    pub(crate) fn breaks(&mut self, fault: usize) {
        let Some(fault) = self.scenario.all_faults().nth(fault) else { return };
        if fault.kind == OutageKind::Stall && !self.shop.trouble.stall {
            self.shop.stalls += 1;
            self.shop.stalled_at = self.now;
        }
        self.shop.begin(fault);
    }

    pub(crate) fn mends(&mut self, fault: usize) {
        let Some(fault) = self.scenario.all_faults().nth(fault) else { return };
        let stalled = self.shop.trouble.stall;
        self.shop.end(self.now, fault);
        if stalled && !self.shop.trouble.stall {
            let stalled_at = self.shop.stalled_at;
            for job in self.shop.jobs.keys() {
                let Some(at) = self.shop.jobs.get(job).map(|job| &mut job.done_at) else {
                    continue;
                };
                *at = self.now + at.since(stalled_at);
                self.agenda.at(*at, Event::Served { job, stalls: self.shop.stalls });
            }
        }
        self.work();
    }
}

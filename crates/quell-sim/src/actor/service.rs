//! The service: workers, and a queue that serves the departed.
//!
//! A request whose caller has left keeps its place and takes a worker's time like any other. That is how real
//! services behave, and what keeps a storm alive.

use std::collections::VecDeque;

use quell_core::{Failure, Fault, Outcome, Rng, Time};

use crate::{
    scenario::{OutageKind, Service, Spread},
    slab::{Key, Slab},
    verdict::{Count, Work},
    world::{Event, Origin, World},
};

/// A request that a worker is busy with.
#[derive(Debug)]
struct Job {
    from: Origin,
    done_at: Time,
}

#[derive(Debug)]
pub(crate) struct Shop {
    service: Service,
    rng: Rng,
    queue: VecDeque<Origin>,
    jobs: Slab<Job>,
    outage: Option<OutageKind>,
    /// Stalls so far: what was scheduled before the last one no longer holds.
    stalls: u32,
    stalled_at: Time,
    work: Work,
}

impl Shop {
    pub(crate) fn new(service: Service, seed: u64) -> Self {
        Self {
            service,
            rng: Rng::stream(seed, 0, crate::PURPOSE_SERVICE),
            queue: VecDeque::new(),
            jobs: Slab::new(),
            outage: None,
            stalls: 0,
            stalled_at: Time::ZERO,
            work: Work::default(),
        }
    }

    pub(crate) fn work(&self) -> Work {
        self.work
    }
}

impl World {
    /// A request reaches the service.
    pub(crate) fn reaches_service(&mut self, from: Origin) {
        self.count(Count::Sent);
        match self.shop.outage {
            Some(OutageKind::Fail) => {
                let outcome = Outcome::Failed(Failure::of(Fault::Server).with_code(500));
                self.agenda.at(self.now, Event::Answers { to: from, outcome });
            }
            Some(OutageKind::Hole) => {}
            Some(OutageKind::Stall) => self.shop.queue.push_back(from),
            None => {
                self.shop.queue.push_back(from);
                self.work();
            }
        }
    }

    /// Free workers take what waits.
    fn work(&mut self) {
        while self.shop.jobs.len() < self.shop.service.workers as usize
            && let Some(from) = self.shop.queue.pop_front()
        {
            let time = self.shop.service.time;
            let constant = self.shop.service.spread == Spread::Constant;
            let time = if constant { time } else { crate::exponential(time, &mut self.shop.rng) };
            let job = self.shop.jobs.insert(Job { from, done_at: self.now + time });
            let event = Event::Served { job, stalls: self.shop.stalls };
            if constant {
                self.agenda.after(self.now, time, event);
            } else {
                self.agenda.at(self.now + time, event);
            }
        }
    }

    /// A worker is done.
    pub(crate) fn served(&mut self, job: Key, stalls: u32) {
        if stalls != self.shop.stalls {
            return; // it stalled meanwhile and was scheduled anew
        }
        let Some(Job { from, .. }) = self.shop.jobs.remove(job) else { return };
        self.shop.work.served += 1;
        if !self.waits(from) {
            self.shop.work.wasted += 1;
        } else if self.shop.outage != Some(OutageKind::Hole) {
            self.answers(from, Outcome::Success);
        }
        self.work();
    }

    fn answers(&mut self, to: Origin, outcome: Outcome) {
        match to {
            Origin::User(user) => self.user_answered(user, outcome),
            Origin::Call { call, slot, attempt } => {
                self.attempt_ended(call, slot, attempt, outcome);
            }
        }
    }

    fn waits(&mut self, from: Origin) -> bool {
        match from {
            Origin::User(user) => self.users.waits(user),
            Origin::Call { call, slot, attempt } => self.hosts.waits(call, slot, attempt),
        }
    }

    pub(crate) fn breaks(&mut self) {
        let kind = self.scenario.outage.kind;
        self.shop.outage = Some(kind);
        if kind == OutageKind::Stall {
            self.shop.stalls += 1;
            self.shop.stalled_at = self.now;
        }
    }

    pub(crate) fn mends(&mut self) {
        if self.shop.outage.take() == Some(OutageKind::Stall) {
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

//! The inside of the service: who waits, who is served, and what is wrong at the moment.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use quell_core::{
    Rng, Time,
    credit::{Retries, Sends},
};

use super::{meter::Meter, quell::Hosts, shards::Split, sharing::Shared, trouble::Trouble};
use crate::{
    dist::Draw,
    scenario::{Abandonment, Invalid, Order, Outage, OutageKind, Scenario, Service},
    slab::{Key, Slab},
    verdict::{Tally, Work},
    world::{Below, Origin, Queueing},
};

/// Somebody has to wait this long without a break before an adaptive queue turns round.
const PRESSURE: Duration = Duration::from_millis(100);

/// A request that waits for a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) from: Origin,
    pub(super) since: Time,
    /// What the request is about.
    pub(super) key: u32,
}

/// What is known of a request's work beforehand, where there are several kinds of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) work: Duration,
    /// Whether its kind stands still.
    pub(super) stalls: bool,
    /// Whether it holds no worker.
    pub(super) waits: bool,
}

/// A request as far as a service knows its caller.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Until when the caller means to wait.
    until: Time,
    /// Since when it waits.
    since: Time,
    /// The job, once a worker has begun.
    job: Option<Key>,
    /// What the request is about.
    key: u32,
}

/// A request that a worker is busy with.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) from: Origin,
    pub(super) since: Time,
    pub(super) done_at: Time,
    /// What it knows of its calls to other services, if it makes any.
    pub(super) chain: Option<Box<Chain>>,
    /// What the request is about.
    pub(super) key: u32,
    /// Whether it holds no worker.
    pub(super) waits: bool,
    /// The work that is left, while its kind stands still.
    pub(super) held: Option<Duration>,
}

impl Job {
    /// Whether it waits for a service behind its own.
    pub(super) fn calls_on(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.call.is_some())
    }
}

/// The calls that a job makes to services behind its own.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// How many it has begun.
    pub(super) calls: usize,
    /// The one it waits for.
    pub(super) call: Option<Key>,
    /// What they told of the credit: sends there and below, and what came back.
    pub(super) told: Option<(Sends, Retries)>,
    /// Changes that others had made when it began, where all change the same thing.
    changes: u64,
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(super) service: Service,
    time: Draw,
    times: Rng,
    luck: Rng,
    queue: VecDeque<Waiting>,
    /// Since when somebody has been waiting without a break.
    crowded_since: Time,
    pub(super) jobs: Slab<Job>,
    /// How many of those hold no worker.
    idle: usize,
    /// How far those have got, where they share the workers.
    pub(super) shared: Option<Box<Shared>>,
    /// Who is inside; kept only by services that care who has left.
    inside: BTreeMap<Origin, Known>,
    faults: Vec<Outage>,
    pub(super) trouble: Trouble,
    /// Stalls so far: what was scheduled before the last one no longer holds.
    pub(super) stalls: u32,
    pub(super) stalled_at: Time,
    warm_at: Time,
    /// Refusals whose work nobody has done yet, and workers that are busy with one.
    refusals: u64,
    refusing: usize,
    /// Changes made so far, where all change the same thing.
    changes: u64,
    meter: Meter,
    /// The hosts by which it calls others: the first, and how many there are.
    pub(super) edges: Vec<(u32, u32)>,
    /// Which service it is, or is a shard of.
    pub(crate) root: u16,
    /// Where its further shards are, for the first of them.
    pub(super) split: Option<Split>,
    /// Whether what happens to the service happens to it.
    pub(crate) hit: bool,
    /// Whether it remembers who is inside.
    pub(super) keeps: bool,
    pub(super) sent: u64,
    pub(crate) work: Work,
    pub(crate) queueing: Queueing,
    /// What callers inside other services, and what its workers' time come to.
    pub(super) books: Tally,
}

impl Shop {
    /// The service of a scenario, and those behind it.
    pub(crate) fn all(scenario: &Scenario, seed: u64) -> Result<Vec<Self>, Invalid> {
        let edges = Hosts::inner(scenario);
        let mut edges = edges.iter().map(Vec::as_slice);
        let below = scenario.below.iter().map(|node| &node.service);
        let mut shops = core::iter::once(&scenario.service)
            .chain(below)
            .zip(0..)
            .map(|(service, entity)| Self::new(service, edges.next().unwrap_or(&[]), entity, seed))
            .collect::<Result<Vec<_>, _>>()?;
        if scenario.has_keys() {
            Self::split_all(&mut shops, seed)?;
        }
        for shop in &mut shops {
            let calls = match usize::from(shop.root).checked_sub(1) {
                None => &scenario.calls,
                Some(below) => &scenario.below[below].calls,
            };
            shop.keeps |= calls.iter().any(|edge| edge.deadline);
        }
        Ok(shops)
    }

    pub(super) fn new(
        service: &Service,
        edges: &[(u32, u32)],
        entity: u64,
        seed: u64,
    ) -> Result<Self, Invalid> {
        Ok(Self {
            edges: edges.to_vec(),
            root: entity as u16,
            split: None,
            hit: true,
            keeps: service.abandonment != Abandonment::Serves,
            sent: 0,
            time: Draw::new(&service.time)?,
            times: Rng::stream(seed, entity, crate::PURPOSE_SERVICE),
            luck: Rng::stream(seed, entity, crate::PURPOSE_TROUBLE),
            queue: VecDeque::new(),
            crowded_since: Time::ZERO,
            jobs: Slab::new(),
            idle: 0,
            shared: service.sharing.map(|sharing| Box::new(Shared::new(sharing))),
            inside: BTreeMap::new(),
            faults: vec![],
            trouble: Trouble::of(service, &[]),
            stalls: 0,
            stalled_at: Time::ZERO,
            warm_at: Time::ZERO,
            refusals: 0,
            refusing: 0,
            changes: 0,
            meter: Meter::default(),
            work: Work::default(),
            queueing: Queueing::default(),
            books: Tally::default(),
            service: service.clone(),
        })
    }

    /// Requests that wait for a worker, or would if they did not share them.
    pub(crate) fn backlog(&self) -> u64 {
        let beyond = self.shared.as_ref().map_or(0, |shared| shared.beyond(self.trouble.workers));
        (self.queue.len() + beyond) as u64
    }

    pub(crate) fn below(&self) -> Below {
        Below { sent: self.sent, work: self.work, queueing: self.queueing }
    }

    /// All that was counted so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            sent: self.sent,
            rejected: self.queueing.refused + self.queueing.failed,
            served: self.work.served,
            wasted: self.work.wasted,
            ..self.books
        }
    }

    /// A worker that began `since` then is free; `lost` if nobody wanted what it did.
    pub(super) fn spends(&mut self, since: Time, now: Time, lost: bool) {
        let held = now.as_nanos().saturating_sub(since.as_nanos());
        self.books.held += held;
        self.books.lost += if lost { held } else { 0 };
    }

    pub(super) fn begin(&mut self, fault: Outage) {
        self.faults.push(fault);
        self.trouble = Trouble::of(&self.service, &self.faults);
    }

    pub(super) fn end(&mut self, now: Time, fault: Outage) {
        if let Some(i) = self.faults.iter().position(|on| *on == fault) {
            self.faults.remove(i);
        }
        self.trouble = Trouble::of(&self.service, &self.faults);
        if let (OutageKind::Fail, Some(cold)) = (fault.kind, self.service.cold) {
            self.warm_at = now + cold.over;
        }
    }

    /// Whether a request that comes now fails at once, by bad luck or because there is too much to do.
    pub(super) fn fails(&mut self, now: Time) -> bool {
        let mut share = self.trouble.brownout;
        if !self.service.failures.is_none() {
            let utilisation = self.meter.per_second(now) / self.trouble.capacity;
            share += self.service.failures.at(utilisation).unwrap_or(0.0);
        }
        let fails = share > 0.0 && self.luck.unit() < share;
        self.queueing.failed += u64::from(fails);
        fails
    }

    /// What a request inside is about, if it remembers.
    pub(super) fn key_of(&self, from: Origin) -> u32 {
        self.inside.get(&from).map_or(0, |known| known.key)
    }

    /// Until when its caller means to wait, if it remembers.
    pub(super) fn until(&self, from: Origin) -> Option<Time> {
        Some(self.inside.get(&from)?.until)
    }

    fn free(&self) -> bool {
        self.shared.is_some()
            || !self.trouble.stall
                && self.jobs.len() - self.idle + self.refusing < self.trouble.workers
    }

    /// A request takes its place; false if there is none.
    pub(super) fn enters(&mut self, waiting: Waiting, until: Time, key: u32) -> bool {
        let full = self.service.queue.max.is_some_and(|max| self.queue.len() >= max as usize);
        if full && !(self.free() && self.queue.is_empty()) {
            return false;
        }
        if self.queue.is_empty() {
            self.crowded_since = waiting.since;
        }
        self.queue.push_back(waiting);
        if self.keeps {
            self.inside.insert(waiting.from, Known { until, since: waiting.since, job: None, key });
        }
        true
    }

    /// The next who has waited too long.
    pub(super) fn overdue(&mut self, now: Time) -> Option<Origin> {
        let wait = self.service.queue.wait?;
        let oldest = self.queue.front().filter(|oldest| now.since(oldest.since) > wait)?.from;
        self.queue.pop_front();
        Some(oldest)
    }

    /// The next to be served, if a worker is free.
    pub(super) fn next(&mut self, now: Time) -> Option<Waiting> {
        if !self.free() {
            return None;
        }
        let last_first = match self.service.queue.order {
            Order::Fifo => false,
            Order::Lifo => true,
            Order::Adaptive => now.since(self.crowded_since) >= PRESSURE,
        };
        if last_first { self.queue.pop_back() } else { self.queue.pop_front() }
    }

    /// Whether it is too late to start.
    pub(super) fn is_late(&self, now: Time, waiting: &Waiting) -> bool {
        match self.service.abandonment {
            Abandonment::Serves | Abandonment::Cancels { .. } => false,
            Abandonment::Deadline { margin } => {
                self.inside.get(&waiting.from).is_none_or(|known| now + margin > known.until)
            }
        }
    }

    /// A worker begins. Says how long it will take, and whether that is always so.
    pub(super) fn starts(
        &mut self,
        now: Time,
        waiting: Waiting,
        given: Option<Given>,
    ) -> (Key, Duration, bool) {
        let waited = now.since(waiting.since);
        self.queueing.started += 1;
        self.queueing.delayed += u64::from(!waited.is_zero());
        self.queueing.waited += waited;
        let (mut time, mut constant) = match given {
            Some(given) => (given.work, false),
            None => (self.time.next(&mut self.times), self.time.constant().is_some()),
        };
        if !self.trouble.hang.is_empty()
            && let Some(hangs) = self.trouble.hangs(self.luck.unit())
        {
            (time, constant) = (hangs, false);
        }
        let factor = self.slower(now);
        if factor != 1.0 {
            (time, constant) = (time.mul_f64(factor), false);
        }
        let chain = self
            .service
            .contended
            .then(|| Box::new(Chain { changes: self.changes, ..Chain::default() }));
        let waits = given.is_some_and(|given| given.waits);
        let stalls = given.is_some_and(|given| given.stalls);
        self.idle += usize::from(waits);
        let job = self.jobs.insert(Job {
            from: waiting.from,
            since: now,
            done_at: now + time,
            chain,
            key: waiting.key,
            waits,
            held: stalls.then_some(time),
        });
        if self.keeps
            && let Some(known) = self.inside.get_mut(&waiting.from)
        {
            known.job = Some(job);
        }
        if let Some(shared) = &mut self.shared
            && !waits
            && !stalls
        {
            shared.begins(job, time);
        }
        (job, time, constant)
    }

    fn slower(&self, now: Time) -> f64 {
        let mut factor = self.trouble.slower;
        if !self.service.crowding.is_none() {
            let inside = (self.jobs.len() - self.idle + 1 + self.queue.len()) as f64;
            let per_worker = inside / f64::from(self.service.workers);
            factor *= self.service.crowding.at(per_worker).unwrap_or(1.0);
        }
        if let Some(cold) = self.service.cold
            && self.warm_at > now
        {
            let left = self.warm_at.since(now).as_secs_f64() / cold.over.as_secs_f64();
            factor *= 1.0 + (cold.factor - 1.0) * left;
        }
        factor
    }

    /// A request is refused, which costs something too.
    pub(super) fn refuses(&mut self, from: Origin) {
        self.queueing.refused += 1;
        self.refusals += u64::from(!self.service.refusal_cost.is_zero());
        self.inside.remove(&from);
    }

    /// A free worker does the work of a refusal: how long that takes, if there is one to do.
    pub(super) fn begins_refusal(&mut self) -> Option<Duration> {
        if self.refusals == 0 || !self.free() {
            return None;
        }
        self.refusals -= 1;
        self.refusing += 1;
        Some(self.service.refusal_cost)
    }

    /// The worker is done with it.
    pub(super) fn ends_refusal(&mut self) {
        self.refusing -= 1;
    }

    /// A worker is done.
    pub(super) fn done(&mut self, job: Key) -> Option<Job> {
        let job = self.jobs.remove(job)?;
        self.idle -= usize::from(job.waits);
        if self.keeps {
            self.inside.remove(&job.from);
        }
        Some(job)
    }

    /// What this job wanted to change is changed, unless somebody else was faster.
    pub(super) fn changes(&mut self, job: &Job) -> bool {
        let done = job.chain.as_ref().is_none_or(|chain| chain.changes == self.changes);
        self.changes += u64::from(done);
        self.queueing.conflicts += u64::from(!done);
        done
    }

    /// The calls of a job that makes any.
    pub(super) fn chain(&mut self, job: Key) -> Option<&mut Chain> {
        self.jobs.get(job)?.chain.as_deref_mut()
    }

    /// The caller of this request is known to have left.
    /// Answers with the call that was made for it, if one is under way.
    pub(super) fn drops(&mut self, from: Origin, now: Time) -> Option<Key> {
        let known = self.inside.remove(&from)?;
        self.queueing.cancelled += 1;
        let Some(job) = known.job else {
            self.gives_up_place(from, known.since);
            return None;
        };
        let job = self.jobs.remove(job)?;
        self.idle -= usize::from(job.waits);
        if let Some(shared) = &mut self.shared
            && !job.calls_on()
            && !job.waits
            && job.held.is_none()
        {
            shared.loses();
        }
        if !job.waits {
            self.spends(job.since, now, true);
        }
        job.chain?.call
    }

    /// Whoever has waited since then waits no longer.
    fn gives_up_place(&mut self, from: Origin, since: Time) {
        let first = self.queue.partition_point(|waiting| waiting.since < since);
        let place = self.queue.range(first..).position(|waiting| waiting.from == from);
        if let Some(place) = place {
            self.queue.remove(first + place);
        }
    }

    /// One more attempt, for utilisation's sake.
    pub(super) fn offered(&mut self, now: Time) {
        if !self.service.failures.is_none() {
            self.meter.add(now);
        }
    }
}

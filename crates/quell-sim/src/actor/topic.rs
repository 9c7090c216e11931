//! The topic: records that wait for a consumer, for their tier's delay to pass, or for ever.
//!
//! What decides is the core's: the [`Ladder`] where a record goes next, a [`Budget`] per instance whether a due one is
//! taken, and an upstream per instance whether any is.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use quell_core::{
    Failure, Fault, Outcome, Rng, Stamp, Time,
    budget::{Budget, Paid},
    ladder::{CallState, Ladder, Next},
    spec,
};

use super::quell::{Handed, Hosts, Whose};
use crate::{
    scenario::{Invalid, Scenario},
    slab::{Key, Slab},
    verdict::{Count, GLANCE, HELD_SECONDS, Timing, Verdict, drains_in},
    world::{Event, Records, Reply, World},
};

/// When nothing else will, this wakes consumers that wait for a budget which time fills.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
struct Record {
    /// When it was written.
    since: Time,
    /// What it is about.
    key: u32,
    state: CallState,
}

/// A record in somebody's hand.
#[derive(Debug)]
struct Open {
    record: Record,
    host: u32,
    paid: Option<Paid>,
}

#[derive(Debug)]
struct Consumer {
    budget: Budget,
    /// It takes nothing before then.
    paused_until: Time,
    /// Its hands that are empty while it is paused.
    parked: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Consumers {
    ladder: Ladder,
    new: VecDeque<Record>,
    due: VecDeque<Record>,
    /// Those that are not due yet, by when they are; without a tier if they were only deferred.
    waiting: BTreeMap<(Stamp, u64), (Option<usize>, Record)>,
    waited: u64,
    tiers: Vec<u64>,
    deferred: u64,
    dead: u64,
    open: Slab<Open>,
    /// Whose the empty hands are.
    idle: VecDeque<u32>,
    each: Vec<Consumer>,
    rng: Rng,
    looks_at: Time,
    seconds: Vec<Records>,
}

impl Consumers {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Result<Option<Box<Self>>, Invalid> {
        let Some(topic) = &scenario.topic else { return Ok(None) };
        let ladder = Ladder::new(&topic.tiers)?;
        let consumer = |_| {
            let budget = Budget::new(topic.upstream.budget, Time::ZERO);
            let budget = budget.map_err(spec::Invalid::from)?;
            Ok(Consumer { budget, paused_until: Time::ZERO, parked: 0 })
        };
        let each: Vec<_> = (0..scenario.instances).map(consumer).collect::<Result<_, Invalid>>()?;
        // Hand by hand, so that all instances share a small load.
        let idle = (0..topic.concurrency).flat_map(|_| 0..scenario.instances).collect();
        Ok(Some(Box::new(Self {
            tiers: vec![0; ladder.tiers().len()],
            ladder,
            new: VecDeque::new(),
            due: VecDeque::new(),
            waiting: BTreeMap::new(),
            waited: 0,
            deferred: 0,
            dead: 0,
            open: Slab::new(),
            idle,
            each,
            rng: Rng::stream(seed, 0, crate::PURPOSE_CONSUMER),
            looks_at: Time::ZERO,
            seconds: vec![],
        })))
    }

    /// The next record for an empty hand.
    fn next(&mut self, now: Time, hosts: &mut Hosts) -> Option<(u32, Key, u32)> {
        while let Some(&host) = self.idle.front() {
            let consumer = &mut self.each[host as usize];
            if now < consumer.paused_until {
                self.idle.pop_front();
                consumer.parked += 1;
                continue;
            }
            let budget = &mut consumer.budget;
            // Probes are first attempts, as long as there are any to make.
            let pays = !self.due.is_empty()
                && budget.peek(now)
                && (self.new.is_empty() || hosts.is_closed(host, now));
            let paid =
                if pays { budget.take(now, Fault::Server, &mut self.rng).ok() } else { None };
            let from = if paid.is_some() { &mut self.due } else { &mut self.new };
            let Some(record) = from.pop_front() else {
                self.idle.rotate_left(1); // another one may have a budget
                return None;
            };
            self.idle.pop_front();
            let key = self.open.insert(Open { record, host, paid });
            return Some((host, key, record.key));
        }
        None
    }

    /// Not before `due`.
    fn wait(&mut self, tier: Option<usize>, due: Stamp, record: Record) -> Time {
        match tier {
            Some(tier) => self.tiers[tier] += 1,
            None => self.deferred += 1,
        }
        self.waited += 1;
        self.waiting.insert((due, self.waited), (tier, record));
        Time::from_nanos(due.as_millis().saturating_mul(1_000_000))
    }

    /// What is due by now.
    fn ripens(&mut self, now: Time) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0.as_millis().saturating_mul(1_000_000) <= now.as_nanos()
        {
            let (tier, record) = first.remove();
            match tier {
                Some(tier) => self.tiers[tier] -= 1,
                None => self.deferred -= 1,
            }
            self.due.push_back(record);
        }
    }

    /// What pays for the due records of an instance.
    pub(super) fn budget(&mut self, host: u32) -> &mut Budget {
        &mut self.each[host as usize].budget
    }

    /// An instance begins anew, and so does its budget.
    pub(super) fn restarts(&mut self, now: Time, host: u32) {
        if let Some(consumer) = self.each.get_mut(host as usize) {
            consumer.budget.reset(now);
        }
    }

    /// As if it had never been taken.
    fn puts_back(&mut self, now: Time, Open { record, host, paid }: Open) {
        let fresh = record.state.failures == 0 && paid.is_none();
        if let Some(paid) = paid {
            self.each[host as usize].budget.refund(now, paid);
        }
        if fresh { self.new.push_front(record) } else { self.due.push_front(record) }
    }

    /// How it looks at the end of a second; answers how many records are not done, and how full the budgets are.
    pub(crate) fn look(&mut self, now: Time) -> (u64, f64) {
        let (lag, due) = (self.new.len() as u64, self.due.len() as u64 + self.deferred);
        let tiers = self.tiers.clone();
        let waiting = lag + due + tiers.iter().sum::<u64>();
        self.seconds.push(Records { lag, due, tiers, dead: self.dead });
        let fill: f64 = self.each.iter().map(|each| each.budget.fill(now)).sum();
        (waiting, fill / self.each.len() as f64)
    }

    /// Whether consumers have caught up, and since when: from then on no more waits for a hand than comes in a second.
    /// If not, whether it steadily becomes less, as any backlog does that drains; else what was found by goodput stands, unless that is health.
    pub(crate) fn verdict(&self, timing: Timing, demand: f64, found: Verdict) -> Verdict {
        let after = self.seconds.get(timing.outage_end()..).unwrap_or_default();
        let waits = |second: &Records| second.lag + second.due;
        let late = |second: &Records| waits(second) as f64 > demand.max(1.0);
        let back = after.iter().rposition(late).map_or(0, |last| last + 1);
        if after.len() - back >= HELD_SECONDS.min(after.len().max(1)) {
            return Verdict::Healed { after: Duration::from_secs(back as u64) };
        }
        let glance = after.len().saturating_sub(GLANCE);
        if let Some(left) = drains_in(&after[glance..], waits) {
            return Verdict::Draining { eta: Duration::from_secs(after.len() as u64) + left };
        }
        if found.healed() { Verdict::Unclear } else { found }
    }

    pub(crate) fn records(self) -> Vec<Records> {
        self.seconds
    }
}

impl World {
    /// A record is written.
    pub(super) fn writes(&mut self, key: u32) {
        self.count(Count::Received);
        let record = Record { since: self.now, key, state: CallState::default() };
        if let Some(topic) = &mut self.topic {
            topic.new.push_back(record);
        }
        self.consumes();
    }

    /// Some records may be due.
    pub(crate) fn ripens(&mut self) {
        if let Some(topic) = &mut self.topic {
            topic.ripens(self.now);
        }
        self.consumes();
    }

    /// An instance's pause is over.
    pub(crate) fn resumes(&mut self, host: u32) {
        let Some(topic) = &mut self.topic else { return };
        let consumer = &mut topic.each[host as usize];
        if self.now >= consumer.paused_until {
            let parked = core::mem::take(&mut consumer.parked);
            (0..parked).for_each(|_| topic.idle.push_back(host));
            self.consumes();
        }
    }

    /// Empty hands take what there is.
    fn consumes(&mut self) {
        while let Some(topic) = &mut self.topic
            && let Some((host, record, key)) = topic.next(self.now, &mut self.hosts)
        {
            self.begin_call(host, Whose::Record(record), Handed { key, ..Handed::default() });
        }
        let Some(topic) = &mut self.topic else { return };
        if !topic.due.is_empty() && !topic.idle.is_empty() && topic.looks_at <= self.now {
            topic.looks_at = self.now + LOOK;
            self.agenda.after(self.now, LOOK, Event::Ripens);
        }
    }

    /// The instance did not send it: it takes nothing more until it may.
    pub(super) fn record_refused(&mut self, record: Key, retry_at: Time) {
        let Some(topic) = &mut self.topic else { return };
        let Some(open) = topic.open.remove(record) else { return };
        let host = open.host;
        topic.puts_back(self.now, open);
        topic.idle.push_back(host);
        let until = retry_at.max(self.now + Duration::from_millis(1));
        let consumer = &mut topic.each[host as usize];
        if until > consumer.paused_until {
            consumer.paused_until = until;
            self.agenda.at(until, Event::Resumes { host });
        }
    }

    /// The instance was restarted with the record in its hand: somebody takes it once more.
    pub(super) fn record_dropped(&mut self, record: Key) {
        let Some(topic) = &mut self.topic else { return };
        let Some(open) = topic.open.remove(record) else { return };
        topic.idle.push_back(open.host);
        topic.puts_back(self.now, open);
        self.agenda.at(self.now, Event::Ripens);
    }

    /// The service is done with a record, one way or another.
    pub(super) fn record_handled(&mut self, record: Key, reply: Reply, hint: Option<Duration>) {
        let Some(topic) = &mut self.topic else { return };
        let Some(Open { mut record, host, paid }) = topic.open.remove(record) else { return };
        topic.idle.push_back(host);
        let budget = &mut topic.each[host as usize].budget;
        let outcome = match (reply, hint) {
            (Reply::Good, _) => Outcome::Success,
            (Reply::Fatal, _) => Outcome::Failed(Failure::of(Fault::Fatal)),
            (Reply::Later, Some(after)) => Outcome::Defer { after },
            _ => Outcome::Failed(Failure::of(Fault::Server)),
        };
        if let Outcome::Success = outcome {
            budget.earn(self.now);
            if let Some(paid) = paid {
                budget.retried_well(self.now, paid);
            }
        } else if outcome.is_retryable() {
            budget.failed(self.now);
        }
        // Rounded up: never early.
        let stamp = Stamp::from_millis(self.now.as_nanos().div_ceil(1_000_000));
        let tries = record.state.failures + 1;
        match topic.ladder.step(&mut record.state, stamp, &outcome) {
            Next::Ack => {
                self.observed.ended(tries, true);
                self.user_served(record.since, 0);
            }
            Next::Defer { due } => {
                let due = topic.wait(None, due, record);
                self.agenda.at(due, Event::Ripens);
            }
            Next::Retry { tier, due } => {
                let due = topic.wait(Some(tier), due, record);
                self.agenda.at(due, Event::Ripens);
            }
            Next::Dead { .. } => {
                topic.dead += 1;
                self.observed.ended(tries, false);
            }
        }
        self.consumes();
    }
}

#[cfg(test)]
#[path = "topic_tests.rs"]
mod tests;

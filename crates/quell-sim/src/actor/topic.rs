//! The topic: records that wait for a consumer, for their tier's delay to pass, or for ever.
//!
//! What decides is the core's: an [`Intake`] per instance which record a hand takes and who pays, an upstream per instance
//! whether it is sent, and the [`Ladder`] where it goes next. Here are only the records, the hands and the hours.

use core::time::Duration;
use std::collections::VecDeque;

use quell_core::{
    Failure, Fault, Outcome, Rng, Stamp, Time,
    budget::Budget,
    intake::{Backlog, Intake, Record, Settled, Take, Taken},
    ladder::{Ladder, Next},
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

/// What is kept of a record.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// When it was written.
    since: Time,
    /// What it is about.
    key: u32,
    /// Where it waits, if it failed; none if it was only deferred.
    tier: Option<usize>,
}

/// A record in somebody's hand.
#[derive(Debug)]
struct Open {
    taken: Taken<Written>,
    host: u32,
}

#[derive(Debug)]
struct Consumer {
    intake: Intake,
    /// Its hands that are empty while it is paused.
    parked: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Consumers {
    ladder: Ladder,
    /// All instances take from the same.
    backlog: Backlog<Written>,
    /// How many wait on each tier, and how many were only deferred.
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
            Ok(Consumer { intake: Intake::new(budget), parked: 0 })
        };
        let each: Vec<_> = (0..scenario.instances).map(consumer).collect::<Result<_, Invalid>>()?;
        // Hand by hand, so that all instances share a small load.
        let idle = (0..topic.concurrency).flat_map(|_| 0..scenario.instances).collect();
        Ok(Some(Box::new(Self {
            tiers: vec![0; ladder.tiers().len()],
            ladder,
            backlog: Backlog::new(),
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
            let Consumer { intake, parked } = &mut self.each[host as usize];
            match intake.take(now, &mut self.backlog, || hosts.is_closed(host, now), &mut self.rng)
            {
                Take::Paused { .. } => {
                    self.idle.pop_front();
                    *parked += 1;
                }
                Take::Nothing => {
                    self.idle.rotate_left(1); // another one may have a budget
                    return None;
                }
                Take::Record(taken) => {
                    self.idle.pop_front();
                    let about = taken.record().what.key;
                    let key = self.open.insert(Open { taken, host });
                    return Some((host, key, about));
                }
            }
        }
        None
    }

    /// Not before it is due; answers when that is.
    fn wait(&mut self, tier: Option<usize>, mut record: Record<Written>) -> Time {
        match tier {
            Some(tier) => self.tiers[tier] += 1,
            None => self.deferred += 1,
        }
        record.what.tier = tier;
        let due = record.state.due.as_millis();
        self.backlog.waits(record);
        Time::from_nanos(due.saturating_mul(1_000_000))
    }

    /// What is due by now.
    fn ripens(&mut self, now: Time) {
        // Rounded down: never early.
        let stamp = Stamp::from_millis(now.as_nanos() / 1_000_000);
        while let Some(record) = self.backlog.ripen(stamp) {
            match record.what.tier {
                Some(tier) => self.tiers[tier] -= 1,
                None => self.deferred -= 1,
            }
        }
    }

    /// What pays for the due records of an instance.
    pub(super) fn budget(&mut self, host: u32) -> &mut Budget {
        self.each[host as usize].intake.budget_mut()
    }

    /// An instance begins anew, and so does its budget.
    pub(super) fn restarts(&mut self, now: Time, host: u32) {
        if let Some(consumer) = self.each.get_mut(host as usize) {
            consumer.intake.budget_mut().reset(now);
        }
    }

    /// How it looks at the end of a second; answers how many records are not done, and how full the budgets are.
    pub(crate) fn look(&mut self, now: Time) -> (u64, f64) {
        let lag = self.backlog.new_ones() as u64;
        let due = self.backlog.due() as u64 + self.deferred;
        let tiers = self.tiers.clone();
        let waiting = lag + due + tiers.iter().sum::<u64>();
        self.seconds.push(Records { lag, due, tiers, dead: self.dead });
        let fill: f64 = self.each.iter().map(|each| each.intake.budget().fill(now)).sum();
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
        let record = Record::new(Written { since: self.now, key, tier: None });
        if let Some(topic) = &mut self.topic {
            topic.backlog.arrives(record);
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
        if !consumer.intake.is_paused(self.now) {
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
        if topic.backlog.due() > 0 && !topic.idle.is_empty() && topic.looks_at <= self.now {
            topic.looks_at = self.now + LOOK;
            self.agenda.after(self.now, LOOK, Event::Ripens);
        }
    }

    /// The instance did not send it: it takes nothing more until it may.
    pub(super) fn record_refused(&mut self, record: Key, retry_at: Time) {
        let Some(topic) = &mut self.topic else { return };
        let Some(Open { taken, host }) = topic.open.remove(record) else { return };
        topic.idle.push_back(host);
        let intake = &mut topic.each[host as usize].intake;
        if let Some(until) = intake.refused(self.now, taken, &mut topic.backlog, retry_at) {
            self.agenda.at(until, Event::Resumes { host });
        }
    }

    /// The instance was restarted with the record in its hand: somebody takes it once more.
    pub(super) fn record_dropped(&mut self, record: Key) {
        let Some(topic) = &mut self.topic else { return };
        let Some(Open { taken, host }) = topic.open.remove(record) else { return };
        topic.idle.push_back(host);
        topic.each[host as usize].intake.put_back(self.now, taken, &mut topic.backlog);
        self.agenda.at(self.now, Event::Ripens);
    }

    /// The service is done with a record, one way or another.
    pub(super) fn record_handled(&mut self, record: Key, reply: Reply, hint: Option<Duration>) {
        let Some(topic) = &mut self.topic else { return };
        let Some(Open { taken, host }) = topic.open.remove(record) else { return };
        topic.idle.push_back(host);
        let outcome = match (reply, hint) {
            (Reply::Good, _) => Outcome::Success,
            (Reply::Fatal, _) => Outcome::Failed(Failure::of(Fault::Fatal)),
            (Reply::Later, Some(after)) => Outcome::Defer { after },
            _ => Outcome::Failed(Failure::of(Fault::Server)),
        };
        // Rounded up: never early.
        let stamp = Stamp::from_millis(self.now.as_nanos().div_ceil(1_000_000));
        let tries = taken.record().state.attempt();
        let intake = &mut topic.each[host as usize].intake;
        let Settled { record, next, .. } =
            intake.settle(self.now, stamp, taken, &outcome, &topic.ladder);
        match next {
            Next::Ack => {
                self.observed.ended(tries, true);
                self.user_served(record.what.since, 0);
            }
            Next::Defer { .. } => {
                let due = topic.wait(None, record);
                self.agenda.at(due, Event::Ripens);
            }
            Next::Retry { tier, .. } => {
                let due = topic.wait(Some(tier), record);
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

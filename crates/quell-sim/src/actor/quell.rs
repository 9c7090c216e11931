//! Quell itself: upstreams and calls of `quell-core`, driven by events instead of sockets.
//!
//! A host is one process that shares an upstream's state: the gateway, or one client instance. What a host
//! does here is what every host does: carry out each step and hand back what happened.

use core::time::Duration;
use std::collections::BTreeMap;

use quell_core::{
    Arrival, Call, Input, Outcome, Rng, Step, Ticket, Time, Upstream, Wake,
    breaker::State,
    credit::{Received, Retries, Role, Sends},
    spec,
};

use super::{
    callers::User,
    links::Link,
    ruled::{self, Sent},
};
use crate::{
    control::{Control, Maker},
    slab::{Key, Slab},
    verdict::Moment,
    world::{Event, Origin, Reply, World},
};

#[derive(Debug)]
pub(super) struct Host {
    /// By which of the links it calls.
    pub(super) link: u16,
    upstream: Upstream,
    /// Who waits in the queue; at most as many as the queue holds.
    seats: Vec<(Ticket, Key)>,
    /// When the queue will be looked at next.
    polls_at: Option<Time>,
    /// Who decides its in-flight limit, if it does not do so itself.
    pub(super) control: Option<Box<dyn Control>>,
    /// How often it has been restarted.
    restarts: u32,
}

/// Who waits for the answer of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// The user whose client made it, who first asked then and has asked again so many times.
    Own { since: Time, resubmitted: u8 },
    /// A caller of the gateway.
    User(Key),
    /// A job of a service.
    Job { shop: u16, job: Key },
    /// An attempt of another call, at a gateway inside.
    Attempt(Origin),
    /// A record in a consumer's hand.
    Record(Key),
}

impl Whose {
    /// Whether somebody outside of all services waits.
    pub(super) fn is_outside(self) -> bool {
        matches!(self, Self::Own { .. } | Self::User(_))
    }
}

/// What a call is handed by whoever makes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handed {
    /// What the request is about.
    pub(crate) key: u32,
    /// Retries of the chain's credit.
    pub(crate) lent: Option<Retries>,
    /// When it is of no more use.
    pub(crate) until: Option<Time>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) call: Call,
    pub(super) host: u32,
    pub(super) whose: Whose,
    /// Where its attempts go.
    pub(super) to: u16,
    /// What the request is about.
    pub(super) key: u32,
    /// What it was told beyond good or bad.
    pub(super) told: Option<Reply>,
    /// The attempts that are open, by slot.
    open: [Option<u16>; 2],
    /// When the last of them was sent.
    sent: Sent,
}

#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) links: Vec<Link>,
    pub(super) seed: u64,
    /// Makes the rule for the limit of the gateway in front, if that is not Quell's own.
    pub(super) control: Option<Maker>,
    pub(super) writes: Rng,
    /// Which instance makes the next call inside, where there are several.
    pub(super) instance: Rng,
    pub(super) all: Vec<Host>,
    /// How many of them are outside of all services.
    pub(super) outer: u32,
    /// The first of those that are looked at.
    pub(super) seen: u32,
    pub(super) calls: Slab<Running>,
    /// The calls that gateways inside make for attempts.
    pub(super) fronted: BTreeMap<Origin, Key>,
    pub(super) started: bool,
}

impl Running {
    /// What its caller is told.
    pub(super) fn reply(&self, good: bool) -> Reply {
        match self.told {
            _ if good => Reply::Good,
            Some(Reply::Fatal) => Reply::Fatal,
            _ => Reply::Error,
        }
    }
}

impl Hosts {
    /// A host that knows nothing yet, after so many restarts.
    pub(super) fn host(
        &self,
        i: u32,
        link: u16,
        restarts: u32,
        now: Time,
    ) -> Result<Host, spec::Invalid> {
        let entity = u64::from(i) | u64::from(restarts) << 32;
        let seed = Rng::stream(self.seed, entity, crate::PURPOSE_HOST).next_u64();
        let Link { policy, spec, .. } = &self.links[usize::from(link)];
        let upstream = Upstream::new(*spec, policy.per_try(), seed, now)?;
        Ok(Host { link, upstream, seats: vec![], polls_at: None, control: None, restarts })
    }

    pub(super) fn link(&self, host: u32) -> &Link {
        &self.links[usize::from(self.all[host as usize].link)]
    }

    /// The credit that an attempt hands on, while somebody waits for it.
    pub(super) fn handed_on(&mut self, call: Key, slot: u8) -> Option<Retries> {
        self.calls.get(call)?.call.handed_on(slot)
    }

    /// What the reply to an attempt tells of the chain's credit.
    pub(super) fn debit(&mut self, call: Key, slot: u8, sends: Sends, left: Retries) {
        if let Some(running) = self.calls.get(call) {
            running.call.debit(slot, sends, left);
        }
    }

    /// How many clients or gateways run Quell.
    pub(crate) fn count(&self) -> u32 {
        self.outer
    }

    /// What the calls of a host share.
    pub(super) fn upstream(&mut self, host: u32) -> &mut Upstream {
        &mut self.all[host as usize].upstream
    }

    /// How often a host has been restarted.
    pub(super) fn restarts_of(&self, host: u32) -> u32 {
        self.all[host as usize].restarts
    }

    /// Whether a host's breaker lets everything through.
    pub(super) fn is_closed(&mut self, host: u32, now: Time) -> bool {
        self.all[host as usize].upstream.snapshot(now).breaker == State::Closed
    }

    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn started(&self) -> bool {
        self.started
    }

    /// How all hosts outside of the services look together.
    pub(crate) fn look(&mut self, now: Time) -> Moment {
        let mut moment = Moment::default();
        let one = 1.0 / f64::from((self.outer - self.seen).max(1));
        for host in &mut self.all[self.seen as usize..self.outer as usize] {
            let seen = host.upstream.snapshot(now);
            moment.budget = Some(moment.budget.unwrap_or(0.0) + seen.budget * one);
            moment.open += one
                * match seen.breaker_keys {
                    0 => f64::from(u8::from(seen.breaker == State::Open)),
                    keys => (seen.breaker_keys_open as f64 / keys as f64).min(1.0),
                };
            moment.half_open += if seen.breaker == State::HalfOpen { one } else { 0.0 };
            moment.in_flight += u64::from(seen.in_flight);
            moment.ghosts += seen.ghosts as u64;
            moment.queued += seen.queued as u64;
            if seen.limit < u32::MAX {
                moment.limit = Some(moment.limit.unwrap_or(0) + u64::from(seen.limit));
            }
        }
        moment
    }

    pub(super) fn key_of(&mut self, call: Key) -> u32 {
        self.calls.get(call).map_or(0, |running| running.key)
    }

    /// An attempt has been handed over whole; says to which service.
    pub(super) fn given(&mut self, call: Key, slot: u8, now: Time) -> u16 {
        let Some(running) = self.calls.get(call) else { return 0 };
        let Host { link, upstream, .. } = &mut self.all[running.host as usize];
        let policy = &self.links[usize::from(*link)].policy;
        running.call.given(now, slot, policy, upstream);
        running.to
    }

    pub(crate) fn waits(&mut self, call: Key, slot: u8, attempt: u16) -> bool {
        self.calls.get(call).is_some_and(|call| call.open[usize::from(slot)] == Some(attempt))
    }
}

impl World {
    /// A request reaches Quell. `None` if it was answered at once.
    pub(crate) fn begin_call(
        &mut self,
        host: u32,
        whose: Whose,
        Handed { key, lent, until }: Handed,
    ) -> Option<Key> {
        let link = self.hosts.link(host);
        let (to, shard) = self.shard(link.to, key);
        let mut arrival = Arrival { key: shard.map(u64::from), ..Arrival::new() };
        if link.credit {
            arrival.joins_chain(Role::Auto, link.attempts, lent.map(Received::trusted));
        }
        if let Some(until) = until {
            arrival.leaves_by(until);
        }
        if let Some(kinds) = &self.kinds {
            arrival = kinds.describe(key, arrival);
        }
        let mut call = Call::of(arrival);
        call.set_uploads(self.kinds.as_ref().is_some_and(|kinds| kinds.uploads(key)));
        let writes = self.scenario.writes;
        call.set_repeatable(writes == 0.0 || self.hosts.writes.unit() >= writes);
        if let Whose::Job { .. } = whose {
            self.shops[usize::from(to)].books.calls += 1;
        }
        let running = Running {
            call,
            host,
            whose,
            to,
            key,
            told: None,
            open: [None; 2],
            sent: Sent { at: self.now, with: 0 },
        };
        let key = self.hosts.calls.insert(running);
        self.step(key, Input::Start);
        Some(key)
    }

    /// What a reply that says more than good or bad comes to.
    pub(crate) fn told(&mut self, call: Key, reply: Reply) -> Outcome {
        let outcome = reply.outcome();
        let Some(running) = self.hosts.calls.get(call) else { return outcome };
        running.told = Some(reply);
        let mut hint = self.shops[usize::from(running.to)].service.hint;
        if let (Reply::Throttled, Some(kinds)) = (reply, &self.kinds) {
            hint = kinds.kind(running.key).throttled;
        }
        match (outcome, hint) {
            (Outcome::Failed(failure), Some(hint))
                if matches!(reply, Reply::Later | Reply::Throttled) =>
            {
                Outcome::Failed(failure.with_hint(hint))
            }
            (outcome, _) => outcome,
        }
    }

    pub(crate) fn attempt_ended(&mut self, call: Key, slot: u8, attempt: u16, outcome: Outcome) {
        if self.hosts.waits(call, slot, attempt) {
            self.step(call, Input::Ended { slot, outcome });
        }
    }

    pub(crate) fn times_out(&mut self, call: Key, slot: u8, attempt: u16) {
        if self.hosts.waits(call, slot, attempt) {
            if let Some(to) = self.hosts.calls.get(call).map(|running| running.to) {
                self.departs(to, Origin::Call { call, slot, attempt });
            }
            self.step(call, Input::TimedOut { slot });
        }
    }

    pub(crate) fn wakes(&mut self, call: Key) {
        self.step(call, Input::Woke);
    }

    /// The caller of this call left.
    pub(crate) fn abandons(&mut self, call: Key) {
        let Some(mut running) = self.hosts.calls.remove(call) else { return };
        self.hangs_up(call, &running);
        self.ended(&running, running.call.attempts(), false);
        if running.call.ticket().is_some() && running.whose.is_outside() {
            self.left_queued(running.key);
        }
        let host = &mut self.hosts.all[running.host as usize];
        host.seats.retain(|(_, key)| *key != call);
        if let Some(control) = &mut host.control {
            let open = running.open.iter().flatten().count();
            let times = (running.call.since(), running.sent);
            ruled::tells_left(control.as_mut(), self.now, times, open, &mut host.upstream);
        }
        let mut wake = Vec::new();
        running.call.abandon(self.now, &mut host.upstream, &mut wake);
        self.wake(running.host, wake);
    }

    /// The process ends and begins anew: what it knew is lost, and its connections break.
    pub(crate) fn restarts(&mut self, host: u32) {
        let Host { link, restarts, .. } = self.hosts.all[host as usize];
        let Ok(mut fresh) = self.hosts.host(host, link, restarts + 1, self.now) else { return };
        let host_before = &mut self.hosts.all[host as usize];
        if host_before.control.is_some() {
            fresh.control = self.hosts.control.as_ref().map(Maker::make);
        }
        *host_before = fresh;
        if let Some(topic) = &mut self.topic {
            topic.restarts(self.now, host);
        }
        self.joins_store(host);
        for call in self.hosts.calls.keys() {
            if self.hosts.calls.get(call).is_none_or(|running| running.host != host) {
                continue;
            }
            let Some(running) = self.hosts.calls.remove(call) else { continue };
            self.hangs_up(call, &running);
            match running.whose {
                Whose::Own { since, resubmitted } => {
                    self.over(false, User::new(since, running.key, resubmitted));
                }
                Whose::User(user) => self.user_answered(user, Reply::Error),
                Whose::Job { shop, job } => {
                    let event = Event::Returns { shop, job, good: false, marked: false };
                    self.agenda.at(self.now, event);
                }
                Whose::Attempt(to) => self.gateway_answers(to, Reply::Error),
                Whose::Record(record) => self.record_dropped(record),
            }
        }
    }

    /// Nobody waits for the open attempts of this call any more.
    pub(super) fn hangs_up(&mut self, call: Key, running: &Running) {
        for (slot, attempt) in (0..).zip(running.open) {
            if let Some(attempt) = attempt {
                self.departs(running.to, Origin::Call { call, slot, attempt });
            }
        }
    }

    pub(crate) fn polls(&mut self, host: u32) {
        let Host { upstream, polls_at, .. } = &mut self.hosts.all[host as usize];
        if polls_at.is_none_or(|at| at > self.now) {
            return; // an earlier look has taken its place
        }
        *polls_at = None;
        let mut wake = Vec::new();
        let next = upstream.poll(self.now, &mut wake);
        self.wake(host, wake);
        if let Some(next) = next {
            self.poll_at(host, next);
        }
    }

    fn poll_at(&mut self, host: u32, at: Time) {
        let polls_at = &mut self.hosts.all[host as usize].polls_at;
        if polls_at.is_none_or(|planned| at < planned) {
            *polls_at = Some(at);
            self.agenda.at(at, Event::Polls { host });
        }
    }

    /// Those whose wait in the queue is over go on.
    fn wake(&mut self, host: u32, wake: Vec<Wake>) {
        for Wake { ticket, result } in wake {
            let seats = &mut self.hosts.all[host as usize].seats;
            let Some(seat) = seats.iter().position(|(seat, _)| *seat == ticket) else { continue };
            let (_, call) = seats.swap_remove(seat);
            self.step(call, result.map_or_else(Input::Refused, Input::Granted));
        }
    }

    fn step(&mut self, key: Key, input: Input) {
        let Some(running) = self.hosts.calls.get(key) else { return };
        let host = running.host;
        let Host { link, upstream, control, .. } = &mut self.hosts.all[host as usize];
        let Link { policy, via, deadline, .. } = &self.hosts.links[usize::from(*link)];
        if let Input::Ended { slot, .. } | Input::TimedOut { slot } = input {
            running.open[usize::from(slot)] = None;
        }
        let mut wake = Vec::new();
        if let Some(control) = control {
            let times = (running.call.since(), running.sent);
            ruled::tells(control.as_mut(), self.now, &input, times, upstream, &mut wake);
        }
        let step = running.call.step(self.now, input, policy, upstream, &mut wake);
        if let Some(control) = control {
            ruled::obeys(control.as_mut(), self.now, &step, upstream, &mut wake);
        }
        while upstream.next_event().is_some() {}
        match step {
            Step::Send(send) => {
                running.call.sent(send.slot);
                if send.attempt > 1 {
                    running.call.given(self.now, send.slot, policy, upstream);
                }
                let (slot, attempt) = (send.slot, send.attempt as u16); // the lowest bits tell them apart
                running.open[usize::from(slot)] = Some(attempt);
                running.sent.at = self.now;
                if control.is_some() {
                    running.sent.with = upstream.snapshot(self.now).in_flight;
                }
                let (to, about) = (running.to, running.key);
                let (via, until) = (*via, deadline.then_some(send.timeout_at));
                let event = Event::TimesOut { call: key, slot, attempt };
                if self.now + policy.per_try() == send.timeout_at {
                    self.agenda.after(self.now, policy.per_try(), event);
                } else {
                    self.agenda.at(send.timeout_at, event);
                }
                let from = Origin::Call { call: key, slot, attempt };
                // A first attempt takes as long as its caller needs; further ones are made of the copy.
                let upload = self.kinds.as_ref().filter(|_| send.attempt == 1);
                let upload = upload.map_or(Duration::ZERO, |kinds| kinds.request(about).upload);
                match via {
                    None if !upload.is_zero() => {
                        self.agenda.at(self.now + upload, Event::Handed { from });
                    }
                    None => self.reaches_service(to, from, send.timeout_at),
                    Some(gateway) => self.reaches_gateway(gateway, from, about, until),
                }
            }
            Step::Enqueue { ticket, until } => {
                self.hosts.all[host as usize].seats.push((ticket, key));
                self.poll_at(host, until);
            }
            Step::Sleep { until } => self.agenda.at(until, Event::Wakes(key)),
            Step::Await => {}
            Step::Finish(finish) => self.finishes(key, finish),
        }
        if !wake.is_empty() {
            self.wake(host, wake);
        }
    }
}

//! Quell itself: upstreams and calls of `quell-core`, driven by events instead of sockets.
//!
//! A host is one process that shares an upstream's state: the gateway, or one client instance. What a host
//! does here is what every host does: carry out each step and hand back what happened.

use core::time::Duration;

use quell_core::{
    Answer, Call, Finish, Input, Outcome, Policy, Rng, Step, Ticket, Time, Upstream, Wake,
    spec::{self, UpstreamSpec},
};

use crate::{
    scenario::{Callers, Invalid, Scenario},
    slab::{Key, Slab},
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

#[derive(Debug)]
struct Host {
    upstream: Upstream,
    /// Who waits in the queue; at most as many as the queue holds.
    seats: Vec<(Ticket, Key)>,
    /// When the queue will be looked at next.
    polls_at: Option<Time>,
    /// How often it has been restarted.
    restarts: u32,
}

#[derive(Debug)]
struct Running {
    call: Call,
    host: u32,
    /// Who waits for the answer; `None` if the call is the user's own.
    user: Option<Key>,
    /// How often the user has asked again.
    resubmitted: u8,
    /// The attempts that are open, by slot.
    open: [Option<u16>; 2],
}

#[derive(Debug)]
pub(crate) struct Hosts {
    policy: Option<Policy>,
    spec: UpstreamSpec,
    seed: u64,
    writes: Rng,
    all: Vec<Host>,
    calls: Slab<Running>,
    started: bool,
}

impl Hosts {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        let used = match (scenario.gateway, scenario.callers) {
            (Some(gateway), _) => Some((gateway.policy, gateway.upstream, 1)),
            (None, Callers::Quell { policy, upstream }) => {
                Some((policy, upstream, scenario.instances))
            }
            (None, _) => None,
        };
        let mut hosts = Self {
            policy: None,
            spec: UpstreamSpec::library(),
            seed,
            writes: Rng::stream(seed, 0, crate::PURPOSE_WRITE),
            all: vec![],
            calls: Slab::new(),
            started: scenario.gateway.is_none(),
        };
        let Some((policy, spec, count)) = used else { return Ok(hosts) };
        hosts.policy = Some(Policy::new(policy)?);
        hosts.spec = spec;
        hosts.all = (0..count).map(|i| hosts.host(i, 0, Time::ZERO)).collect::<Result<_, _>>()?;
        Ok(hosts)
    }

    /// A host that knows nothing yet, after so many restarts.
    fn host(&self, i: u32, restarts: u32, now: Time) -> Result<Host, spec::Invalid> {
        let entity = u64::from(i) | u64::from(restarts) << 32;
        let seed = Rng::stream(self.seed, entity, crate::PURPOSE_HOST).next_u64();
        let per_try = self.policy.map_or(Duration::MAX, |policy| policy.per_try());
        let upstream = Upstream::new(self.spec, per_try, seed, now)?;
        Ok(Host { upstream, seats: vec![], polls_at: None, restarts })
    }

    /// How many processes run Quell.
    pub(crate) fn count(&self) -> u32 {
        self.all.len() as u32
    }

    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn started(&self) -> bool {
        self.started
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
        user: Option<Key>,
        resubmitted: u8,
    ) -> Option<Key> {
        self.hosts.policy?; // nobody's, where the callers are on their own
        let mut call = Call::new();
        let writes = self.scenario.writes;
        call.set_repeatable(writes == 0.0 || self.hosts.writes.unit() >= writes);
        let running = Running { call, host, user, resubmitted, open: [None; 2] };
        let key = self.hosts.calls.insert(running);
        self.step(key, Input::Start);
        Some(key)
    }

    pub(crate) fn attempt_ended(&mut self, call: Key, slot: u8, attempt: u16, outcome: Outcome) {
        if self.hosts.waits(call, slot, attempt) {
            self.step(call, Input::Ended { slot, outcome });
        }
    }

    pub(crate) fn times_out(&mut self, call: Key, slot: u8, attempt: u16) {
        if self.hosts.waits(call, slot, attempt) {
            self.departs(Origin::Call { call, slot, attempt });
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
        let host = &mut self.hosts.all[running.host as usize];
        host.seats.retain(|(_, key)| *key != call);
        let mut wake = Vec::new();
        running.call.abandon(self.now, &mut host.upstream, &mut wake);
        self.wake(running.host, wake);
    }

    /// The process ends and begins anew: what it knew is lost, and its connections break.
    pub(crate) fn restarts(&mut self, host: u32) {
        let restarts = self.hosts.all[host as usize].restarts + 1;
        let Ok(fresh) = self.hosts.host(host, restarts, self.now) else { return };
        self.hosts.all[host as usize] = fresh;
        for call in self.hosts.calls.keys() {
            if self.hosts.calls.get(call).is_none_or(|running| running.host != host) {
                continue;
            }
            let Some(running) = self.hosts.calls.remove(call) else { continue };
            self.hangs_up(call, &running);
            match running.user {
                None => self.over(false, running.resubmitted),
                Some(user) => self.user_answered(user, Reply::Error),
            }
        }
    }

    /// Nobody waits for the open attempts of this call any more.
    fn hangs_up(&mut self, call: Key, running: &Running) {
        for (slot, attempt) in (0..).zip(running.open) {
            if let Some(attempt) = attempt {
                self.departs(Origin::Call { call, slot, attempt });
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
        let Some(policy) = &self.hosts.policy else { return };
        let Some(running) = self.hosts.calls.get(key) else { return };
        let host = running.host;
        let upstream = &mut self.hosts.all[host as usize].upstream;
        if let Input::Ended { slot, .. } | Input::TimedOut { slot } = input {
            running.open[usize::from(slot)] = None;
        }
        let mut wake = Vec::new();
        let step = running.call.step(self.now, input, policy, upstream, &mut wake);
        while upstream.next_event().is_some() {}
        match step {
            Step::Send(send) => {
                running.call.sent(send.slot);
                let (slot, attempt) = (send.slot, send.attempt as u16); // the lowest bits tell them apart
                running.open[usize::from(slot)] = Some(attempt);
                let event = Event::TimesOut { call: key, slot, attempt };
                if self.now + policy.per_try() == send.timeout_at {
                    self.agenda.after(self.now, policy.per_try(), event);
                } else {
                    self.agenda.at(send.timeout_at, event);
                }
                self.reaches_service(Origin::Call { call: key, slot, attempt }, send.timeout_at);
            }
            Step::Enqueue { ticket, until } => {
                self.hosts.all[host as usize].seats.push((ticket, key));
                self.poll_at(host, until);
            }
            Step::Sleep { until } => self.agenda.at(until, Event::Wakes(key)),
            Step::Await => {}
            Step::Finish(finish) => self.finishes(key, finish),
        }
        self.wake(host, wake);
    }

    fn finishes(&mut self, key: Key, finish: Finish) {
        let Some(running) = self.hosts.calls.remove(key) else { return };
        self.hangs_up(key, &running);
        let good = finish.reason.is_none();
        if finish.answer == Answer::Refusal {
            self.count(Count::Refused);
        }
        match running.user {
            None => {
                if good {
                    self.count(Count::Good);
                }
                self.over(good, running.resubmitted);
            }
            Some(user) => {
                let reply = if good { Reply::Good } else { Reply::Error };
                self.agenda.at(self.now, Event::Answers { to: Origin::User(user), reply });
            }
        }
    }
}

//! The callers: users who want an answer, wait so long and no longer, and try again.

use core::time::Duration;

use quell_core::{Rng, backoff::Backoff};

use crate::{
    scenario::{Callers, Scenario},
    slab::{Key, Slab},
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

/// A user's request. It gets a new key with every try, so that whatever belongs to an older try is dead.
#[derive(Debug, Clone, Copy)]
struct User {
    tries: u32,
    /// How long it slept before this try.
    waited: Duration,
    /// The Quell call that serves this try, if there is one.
    call: Option<Key>,
}

#[derive(Debug)]
pub(crate) struct Users {
    all: Slab<User>,
    arrivals: Rng,
    jitter: Rng,
    instance: Rng,
    backoff: Option<Backoff>,
}

impl Users {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        let backoff = match scenario.callers {
            Callers::Backoff { backoff, .. } => Backoff::new(backoff).ok(),
            _ => None,
        };
        Self {
            all: Slab::new(),
            arrivals: Rng::stream(seed, 0, crate::PURPOSE_ARRIVALS),
            jitter: Rng::stream(seed, 0, crate::PURPOSE_JITTER),
            instance: Rng::stream(seed, 0, crate::PURPOSE_INSTANCE),
            backoff,
        }
    }

    pub(crate) fn waits(&mut self, user: Key) -> bool {
        self.all.get(user).is_some()
    }
}

impl World {
    /// A user comes, and the next one is on its way.
    pub(crate) fn arrives(&mut self) {
        let mean = Duration::from_secs_f64(1.0 / self.scenario.load);
        let gap = crate::exponential(mean, &mut self.users.arrivals);
        self.agenda.at(self.now + gap, Event::Arrives);
        self.count(Count::Demand);
        if let Callers::Quell { .. } = self.scenario.callers {
            // The library inside the caller decides all the rest.
            let host = self.users.instance.below(u64::from(self.scenario.instances)) as u32;
            self.count(Count::Received);
            self.begin_call(host, None);
        } else {
            if self.scenario.gateway.is_none() {
                self.count(Count::Received);
            }
            self.tries(User { tries: 1, waited: Duration::ZERO, call: None });
        }
    }

    /// One try: through Quell, or straight to the service.
    fn tries(&mut self, user: User) {
        let key = self.users.all.insert(user);
        self.agenda.after(self.now, self.scenario.patience, Event::Leaves(key));
        if self.scenario.gateway.is_none() {
            return self.reaches_service(Origin::User(key), self.now + self.scenario.patience);
        }
        self.count(Count::Received);
        if !self.hosts.started() {
            return self.fails(key); // connection refused
        }
        let call = self.begin_call(0, Some(key));
        if let Some(user) = self.users.all.get(key) {
            user.call = call;
        }
    }

    /// An answer, from the service or from Quell.
    pub(crate) fn user_answered(&mut self, user: Key, reply: Reply) {
        if reply == Reply::Good {
            if self.users.all.remove(user).is_some() {
                self.count(Count::Good);
            }
        } else {
            self.fails(user);
        }
    }

    /// Patience ends: the caller closes its connection and tells nobody.
    pub(crate) fn leaves(&mut self, user: Key) {
        let Some(&mut User { call, .. }) = self.users.all.get(user) else { return };
        match call {
            Some(call) => self.abandons(call),
            None => self.departs(Origin::User(user)),
        }
        self.fails(user);
    }

    pub(crate) fn resends(&mut self, user: Key) {
        let Some(user) = self.users.all.remove(user) else { return };
        self.tries(User { tries: user.tries + 1, call: None, ..user });
    }

    /// A try failed: again later, or not at all.
    fn fails(&mut self, user: Key) {
        let Some(user) = self.users.all.remove(user) else { return };
        match self.scenario.callers {
            Callers::Fixed { retries, pause } if user.tries <= retries => {
                let asleep = self.users.all.insert(User { call: None, ..user });
                self.agenda.after(self.now, pause, Event::Resends(asleep));
            }
            Callers::Backoff { retries, .. } if user.tries <= retries => {
                let Some(backoff) = self.users.backoff else { return };
                let waited = backoff.delay(user.tries, user.waited, &mut self.users.jitter);
                let asleep = self.users.all.insert(User { waited, call: None, ..user });
                self.agenda.at(self.now + waited, Event::Resends(asleep));
            }
            _ => {}
        }
    }
}

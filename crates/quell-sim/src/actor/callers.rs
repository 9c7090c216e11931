//! The callers: users who want an answer, wait so long and no longer, and try again.

use core::time::Duration;

use quell_core::{Rng, Time, backoff::Backoff, spec};

use super::{
    arrivals::Arriving,
    quell::{Handed, Whose},
};
use crate::{
    scenario::{Callers, Invalid, Scenario},
    slab::{Key, Slab},
    verdict::Count,
    world::{Event, Origin, Reply, World},
};

/// A user's request. It gets a new key with every try, so that whatever belongs to an older try is dead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct User {
    tries: u32,
    /// When the user first asked.
    pub(super) since: Time,
    /// How long it slept before this try.
    waited: Duration,
    /// How often the user has asked again.
    pub(super) resubmitted: u8,
    /// The Quell call that serves this try, if there is one.
    call: Option<Key>,
    /// What the request is about.
    pub(super) key: u32,
}

#[derive(Debug)]
pub(crate) struct Users {
    pub(super) all: Slab<User>,
    pub(super) arriving: Arriving,
    jitter: Rng,
    instance: Rng,
    keys: Option<Rng>,
    backoff: Option<Backoff>,
}

impl User {
    /// One who first asked for this then, and has asked again so many times.
    pub(super) fn new(since: Time, key: u32, resubmitted: u8) -> Self {
        Self { since, key, resubmitted, ..Self::default() }
    }
}

impl Users {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        let backoff = match scenario.callers {
            Callers::Backoff { backoff, .. } => {
                Some(Backoff::new(backoff).map_err(spec::Invalid::from)?)
            }
            _ => None,
        };
        Ok(Self {
            all: Slab::new(),
            arriving: Arriving::new(scenario, seed)?,
            jitter: Rng::stream(seed, 0, crate::PURPOSE_JITTER),
            instance: Rng::stream(seed, 0, crate::PURPOSE_INSTANCE),
            keys: scenario.has_keys().then(|| Rng::stream(seed, 0, crate::PURPOSE_KEY)),
            backoff,
        })
    }

    /// What the next request is about.
    pub(super) fn next_key(&mut self) -> u32 {
        self.keys.as_mut().map_or(0, |keys| (keys.next_u64() >> 32) as u32)
    }

    pub(super) fn key_of(&mut self, user: Key) -> u32 {
        self.all.get(user).map_or(0, |user| user.key)
    }

    pub(crate) fn waits(&self, user: Key) -> bool {
        self.all.has(user)
    }
}

impl World {
    /// A user asks: by the library inside the caller, which decides all the rest, or by a client that tries.
    pub(super) fn asks(&mut self, user: User) {
        if let Callers::Quell { .. } = self.scenario.callers {
            let host = self.users.instance.below(u64::from(self.scenario.instances)) as u32;
            self.count(Count::Received);
            let handed = Handed { key: user.key, ..Handed::default() };
            let User { since, resubmitted, .. } = user;
            self.begin_call(host, Whose::Own { since, resubmitted }, handed);
        } else {
            if self.scenario.gateway.is_none() && user.tries == 0 {
                self.count(Count::Received);
            }
            self.tries(User { tries: user.tries + 1, call: None, ..user });
        }
    }

    /// One try: through Quell, or straight to the service.
    fn tries(&mut self, user: User) {
        let key = self.users.all.insert(user);
        let mut upload = Duration::ZERO;
        if let Some(kinds) = &mut self.kinds {
            self.agenda.at(self.now + kinds.patience(user.key), Event::Leaves(key));
            kinds.count(self.now, user.key, Count::Received);
            upload = kinds.request(user.key).upload;
        } else {
            self.agenda.after(self.now, self.scenario.patience, Event::Leaves(key));
        }
        if self.scenario.gateway.is_none() {
            let from = Origin::User(key);
            if !upload.is_zero() {
                return self.agenda.at(self.now + upload, Event::Handed { from });
            }
            let (at, _) = self.shard(0, user.key);
            return self.reaches_service(at, from, self.now + self.scenario.patience);
        }
        self.count(Count::Received);
        if !self.hosts.started() {
            return self.fails(key); // connection refused
        }
        let handed = Handed { key: user.key, ..Handed::default() };
        let call = self.begin_call(0, Whose::User(key), handed);
        if let Some(user) = self.users.all.get(key) {
            user.call = call;
        }
    }

    /// An answer, from the service or from Quell.
    pub(crate) fn user_answered(&mut self, user: Key, reply: Reply) {
        if reply == Reply::Good {
            if let Some(user) = self.users.all.remove(user) {
                self.observed.ended(user.tries, true);
                self.user_served(user.since, user.key);
                self.over(true, user);
            }
        } else if reply == Reply::Fatal {
            if let Some(user) = self.users.all.remove(user) {
                self.gives_up(user);
            }
        } else {
            self.fails(user);
        }
    }

    /// A user who asked then has the answer now.
    pub(crate) fn user_served(&mut self, since: Time, key: u32) {
        if self.kinds.is_some() && !self.served_of_kind(key, since) {
            return;
        }
        self.count(Count::Good);
        self.observed.answered(self.timing, since.since(Time::ZERO), self.now.since(since));
    }

    /// Patience ends: the caller closes its connection and tells nobody.
    pub(crate) fn leaves(&mut self, user: Key) {
        let Some(&mut User { call, key, .. }) = self.users.all.get(user) else { return };
        if let Some(kinds) = &mut self.kinds
            && kinds.is_early(key)
        {
            kinds.crowd(key).hung_up += 1;
        }
        match call {
            Some(call) => self.abandons(call),
            None => self.departs(self.shard(0, key).0, Origin::User(user)),
        }
        self.fails(user);
    }

    pub(crate) fn resends(&mut self, user: Key) {
        let Some(user) = self.users.all.remove(user) else { return };
        self.asks(user);
    }

    /// No further try would help.
    fn gives_up(&mut self, user: User) {
        if let Some(kinds) = &mut self.kinds
            && !kinds.is_early(user.key)
        {
            kinds.crowd(user.key).lost += 1;
        }
        self.observed.ended(user.tries, false);
        self.over(false, user);
    }

    /// A try failed: again later, or not at all.
    fn fails(&mut self, user: Key) {
        let Some(user) = self.users.all.remove(user) else { return };
        if self.kinds.as_ref().is_some_and(|kinds| !kinds.tries_again(user.key)) {
            return self.gives_up(user);
        }
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
            _ => self.gives_up(user),
        }
    }
}

//! Crowds: one for each kind of requests, where a scenario has kinds.
//!
//! What a request is like is drawn once, when a user first asks, from generators of its kind alone. Its number stands where a plain
//! scenario has what the request is about, so it is known wherever the request goes.

use core::time::Duration;

use quell_core::{Arrival, Rng, Time};

use super::{arrivals::Arriving, callers::User, trouble::Trouble};
use crate::{
    dist::Draw,
    scenario::{Invalid, Kind, Outage, Scenario, Side},
    slab::Key,
    verdict::{Count, Crowd},
    world::{Event, Origin, World},
};

/// What one request is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) kind: u16,
    /// Whether its caller hangs up before an answer is due, and does not come back.
    early: bool,
    /// Whether it fails once its work is done.
    pub(super) fails: bool,
    work: Duration,
    pub(super) upload: Duration,
    patience: Duration,
    caller: u64,
}

/// A crowd, and what it draws from.
#[derive(Debug)]
struct Source {
    kind: Kind,
    arriving: Arriving,
    time: Draw,
    upload: Option<Draw>,
    patience: Draw,
    hang_ups: Option<(f64, Draw)>,
    rng: Rng,
    luck: Rng,
    /// What is wrong with this kind at the moment.
    faults: Vec<Outage>,
    trouble: Trouble,
}

#[derive(Debug)]
pub(crate) struct Kinds {
    sources: Vec<Source>,
    /// By their number. As many as users come in a run, at most.
    requests: Vec<Request>,
    pub(crate) crowds: Vec<Crowd>,
}

impl Source {
    fn new(kind: &Kind, number: u64, scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        let hang_ups = match &kind.hang_ups {
            Some(hang_ups) => Some((hang_ups.share, Draw::new(&hang_ups.after)?)),
            None => None,
        };
        Ok(Self {
            arriving: Arriving::of(kind.load, &kind.arrivals, number, seed)?,
            time: Draw::new(&kind.time)?,
            upload: kind.upload.as_ref().map(Draw::new).transpose()?,
            patience: Draw::new(&kind.patience)?,
            hang_ups,
            rng: Rng::stream(seed, number, crate::PURPOSE_KIND),
            luck: Rng::stream(seed, number, crate::PURPOSE_LUCK),
            faults: vec![],
            trouble: Trouble::of(&scenario.service, &[]),
            kind: kind.clone(),
        })
    }

    /// The next request. Every draw is made whether or not it is needed, so that kinds that differ in one respect are alike in all
    /// others.
    fn request(&mut self, number: u16) -> Request {
        let rng = &mut self.rng;
        let work = self.time.next(rng);
        let upload = self.upload.as_ref().map_or(Duration::ZERO, |upload| upload.next(rng));
        let early = self.hang_ups.as_ref().filter(|(share, _)| rng.unit() < *share);
        let fails = rng.unit() < self.kind.fails;
        let caller = rng.below(u64::from(self.kind.callers));
        let patience = match early {
            Some((_, after)) => after.next(rng),
            None => self.patience.next(rng),
        };
        let side = match self.kind.side {
            Side::Good => 1,
            Side::Other => 2,
            Side::Hostile => 3,
        };
        Request {
            kind: number,
            early: early.is_some(),
            fails,
            work,
            upload,
            patience,
            caller: side << 32 | (caller + 1),
        }
    }
}

impl Kinds {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Result<Option<Box<Self>>, Invalid> {
        if scenario.kinds.is_empty() {
            return Ok(None);
        }
        let sources = (1..).zip(&scenario.kinds);
        let sources = sources.map(|(number, kind)| Source::new(kind, number, scenario, seed));
        Ok(Some(Box::new(Self {
            sources: sources.collect::<Result<_, _>>()?,
            requests: vec![],
            crowds: scenario.kinds.iter().map(Crowd::new).collect(),
        })))
    }

    pub(super) fn request(&self, key: u32) -> Request {
        self.requests[key as usize]
    }

    pub(super) fn kind(&self, key: u32) -> &Kind {
        &self.sources[usize::from(self.request(key).kind)].kind
    }

    pub(super) fn trouble(&self, key: u32) -> &Trouble {
        &self.sources[usize::from(self.request(key).kind)].trouble
    }

    /// How long a worker that begins now works on this request.
    pub(super) fn work(&self, key: u32, now: Time) -> Duration {
        let request = self.request(key);
        let Source { kind, trouble, .. } = &self.sources[usize::from(request.kind)];
        let drift = kind.drift.at(now.since(Time::ZERO).as_secs_f64()).unwrap_or(1.0);
        let factor = drift * trouble.slower;
        if factor == 1.0 { request.work } else { request.work.mul_f64(factor) }
    }

    /// Whether this request fails at once, by bad luck.
    pub(super) fn is_unlucky(&mut self, key: u32) -> bool {
        let kind = usize::from(self.request(key).kind);
        let Source { trouble, luck, .. } = &mut self.sources[kind];
        trouble.brownout > 0.0 && luck.unit() < trouble.brownout
    }

    /// One more of `what` for the kind of this request; those who mean to hang up want nothing.
    pub(super) fn count(&mut self, now: Time, key: u32, what: Count) {
        let Request { kind, early, .. } = self.request(key);
        if !early || what == Count::Sent {
            let at = now.since(Time::ZERO);
            self.crowds[usize::from(kind)].series.add(what, at, 1);
        }
    }

    pub(super) fn crowd(&mut self, key: u32) -> &mut Crowd {
        &mut self.crowds[usize::from(self.requests[key as usize].kind)]
    }

    pub(super) fn is_early(&self, key: u32) -> bool {
        self.request(key).early
    }

    /// How long the caller of this request waits.
    pub(super) fn patience(&self, key: u32) -> Duration {
        self.request(key).patience
    }

    /// Whether the caller of this request tries again.
    pub(super) fn tries_again(&self, key: u32) -> bool {
        !self.is_early(key) && self.kind(key).retries
    }

    /// What Quell is told of a request.
    pub(super) fn describe(&self, key: u32, arrival: Arrival) -> Arrival {
        let (request, kind) = (self.request(key), self.kind(key));
        Arrival {
            class: kind.class.unwrap_or(u64::from(request.kind) + 1),
            caller: request.caller,
            credential: kind.credential,
            priority: kind.priority,
            ..arrival
        }
    }

    /// Whether this request comes with an upload.
    pub(super) fn uploads(&self, key: u32) -> bool {
        !self.request(key).upload.is_zero()
    }

    /// Something begins to happen to a kind, or ends.
    pub(super) fn turn(&mut self, kind: u16, fault: u32, begins: bool, scenario: &Scenario) {
        let source = &mut self.sources[usize::from(kind)];
        let Some(&fault) = source.kind.faults.get(fault as usize) else { return };
        if begins {
            source.faults.push(fault);
        } else if let Some(i) = source.faults.iter().position(|on| *on == fault) {
            source.faults.remove(i);
        }
        source.trouble = Trouble::of(&scenario.service, &source.faults);
    }

    /// Whether requests of this kind stand still.
    pub(super) fn stalls(&self, kind: u16) -> bool {
        self.sources[usize::from(kind)].trouble.stall
    }
}

impl World {
    /// The first of every crowd are on their way, and what will happen to them alone is written down.
    pub(super) fn kinds_open(&mut self) {
        let Some(kinds) = &mut self.kinds else { return };
        for (number, source) in (0..).zip(&mut kinds.sources) {
            for (fault, outage) in (0..).zip(&source.kind.faults) {
                let turns = |begins| Event::Turns { kind: number, fault, begins };
                self.agenda.at(Time::ZERO + outage.at, turns(true));
                self.agenda.at(Time::ZERO + outage.end(), turns(false));
            }
            for at in source.arriving.firsts() {
                self.agenda.at(at, Event::Comes { kind: number });
            }
            if let Some(together) = source.kind.together {
                self.agenda.at(Time::ZERO + together.every, Event::Together { kind: number });
            }
        }
    }

    /// A user comes with a request of this kind, and the next one is on its way.
    pub(crate) fn comes(&mut self, number: u16) {
        let Some(kinds) = &mut self.kinds else { return };
        let source = &mut kinds.sources[usize::from(number)];
        if let Some(next) = source.arriving.next(self.now) {
            self.agenda.at(next, Event::Comes { kind: number });
        }
        let key = kinds.requests.len() as u32;
        let request = source.request(number);
        kinds.requests.push(request);
        kinds.count(self.now, key, Count::Demand);
        if !request.early {
            self.count(Count::Demand);
        }
        self.asks(User::new(self.now, key, 0));
    }

    /// A user's request of some kind is over.
    pub(super) fn over_of_kind(&mut self, key: u32) {
        let Some(kinds) = &mut self.kinds else { return };
        let kind = kinds.request(key).kind;
        if let Some(at) = kinds.sources[usize::from(kind)].arriving.again(self.now) {
            self.agenda.at(at, Event::Comes { kind });
        }
    }

    /// A connection with many requests of this kind on it breaks: those who came first leave at once, and do not come back.
    pub(crate) fn leave_together(&mut self, number: u16) {
        let Some(kinds) = &self.kinds else { return };
        let Some(together) = kinds.sources[usize::from(number)].kind.together else { return };
        self.agenda.at(self.now + together.every, Event::Together { kind: number });
        let all = self.users.all.keys();
        let mut theirs: Vec<(u32, Key)> = all
            .into_iter()
            .filter_map(|user| Some((self.users.all.get(user)?.key, user)))
            .filter(|(key, _)| kinds.request(*key).kind == number)
            .collect();
        theirs.sort_unstable();
        for (key, user) in theirs.into_iter().take(together.most as usize) {
            if let Some(kinds) = &mut self.kinds {
                kinds.requests[key as usize].early = true;
            }
            self.leaves(user);
        }
    }

    /// A user of some kind who asked then has the answer now; says whether that is to be counted.
    pub(super) fn served_of_kind(&mut self, key: u32, since: Time) -> bool {
        let Some(kinds) = &mut self.kinds else { return true };
        if kinds.is_early(key) {
            return false;
        }
        kinds.count(self.now, key, Count::Good);
        let part = self.timing.part(since.since(Time::ZERO).as_secs() as usize);
        kinds.crowd(key).served(part, self.now.since(since));
        true
    }

    /// The service has been handed all of a request.
    pub(crate) fn handed_over(&mut self, from: Origin) {
        let to = match from {
            Origin::User(user) => {
                if !self.users.waits(user) {
                    return;
                }
                0
            }
            Origin::Call { call, slot, attempt } => {
                if !self.hosts.waits(call, slot, attempt) {
                    return;
                }
                self.hosts.given(call, slot, self.now)
            }
        };
        let key = self.key_of(from);
        let patience = self.kinds.as_ref().map_or(Duration::ZERO, |kinds| kinds.patience(key));
        self.reaches_service(to, from, self.now + patience);
    }
}

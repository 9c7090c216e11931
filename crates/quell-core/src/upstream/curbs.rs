//! Curbs: the limits that most upstreams do without, kept out of the way of those that do.
//!
//! A rate limit protects an upstream that may be asked only so often. A throttle spares one that turns most requests
//! down anyway. A breaker for each key keeps a dead shard from being everybody's, a pool for each kind of
//! calls one that hangs. The first two are looked at before a slot is taken; the rate's token is taken when the attempt is sent, so
//! whoever waits in the queue has not used it up.

use super::{Admission, Ask, Permit, Place, Release, Upstream};
use crate::{
    Fault, Outcome, Reason, Refusal, Rng, Time,
    breaker::{self, State},
    limiter::Limiter,
    pools::Pool,
    spec::{Gate, Invalid, UpstreamSpec},
    throttle::Throttle,
};

#[derive(Debug)]
pub(super) struct Curbs {
    limiter: Option<Limiter>,
    throttle: Option<Throttle>,
    /// Attempts up to this number were sent before there was a rate limit, and took nothing from it.
    unlimited: u64,
    /// Breakers of keys of their own.
    pub(super) shards: Option<breaker::Keyed>,
    gate: Gate,
}

impl Curbs {
    const NONE: Self =
        Self { limiter: None, throttle: None, unlimited: 0, shards: None, gate: Gate::Retries };

    /// `None` if the upstream has none of them.
    pub(super) fn new(spec: &UpstreamSpec, now: Time) -> Result<Option<Box<Self>>, Invalid> {
        let has_keys_or_pools = spec.breaker_keys.is_some() || !spec.pools.is_none();
        let is_simple = !has_keys_or_pools && spec.gate == Gate::Retries;
        if spec.rate_limit.is_none() && spec.throttle.is_none() && is_simple {
            return Ok(None);
        }
        let limiter = spec.rate_limit.map(|spec| Limiter::new(spec, now)).transpose()?;
        let throttle = spec.throttle.map(|spec| Throttle::new(spec, now)).transpose()?;
        let shards = spec.breaker_keys.map(|most| breaker::Keyed::new(spec.breaker, most, now));
        let shards = shards.transpose()?;
        Ok(Some(Box::new(Self { limiter, throttle, unlimited: 0, shards, gate: spec.gate })))
    }

    /// Takes on those just made and keeps tokens, counts and breakers; `sent` attempts were numbered so far. What was not
    /// there before starts as if new. Where there were any they stay, if only to say that there are none now: what is
    /// under way came by one.
    pub(super) fn adopt(
        own: Option<Box<Self>>,
        fresh: Option<Box<Self>>,
        sent: u64,
        now: Time,
    ) -> Option<Box<Self>> {
        let Some(mut own) = own else {
            return fresh.map(|fresh| Box::new(Self { unlimited: sent, ..*fresh }));
        };
        let fresh = fresh.map_or(Self::NONE, |fresh| *fresh);
        if own.limiter.is_none() && fresh.limiter.is_some() {
            own.unlimited = sent;
        }
        go_on(&mut own.limiter, fresh.limiter, |own, fresh| own.adopt(fresh, now));
        go_on(&mut own.throttle, fresh.throttle, |own, fresh| own.adopt(fresh, now));
        own.gate = fresh.gate;
        go_on(&mut own.shards, fresh.shards, |own, fresh| own.adopt(fresh, now));
        Some(own)
    }

    /// A caller comes: would the upstream turn it down anyway? Asked once per attempt.
    pub(super) fn spares(&mut self, now: Time, rng: &mut Rng) -> Result<(), Reason> {
        self.throttle.as_mut().map_or(Ok(()), |throttle| throttle.check(now, rng))
    }

    /// The same for a caller who may go in any case.
    pub(super) fn would_spare(&mut self, now: Time, rng: &mut Rng) -> bool {
        self.throttle.as_mut().is_some_and(|throttle| throttle.would_refuse(now, rng))
    }

    /// Whether the rate allows an attempt of this cost now; takes nothing.
    pub(super) fn check(&self, now: Time, cost: u32) -> Result<(), Refusal> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let refusal = |retry_at| Refusal { reason: Reason::RateLimited, retry_at };
        limiter.check(now, cost).map_err(|refused| refusal(refused.retry_at()))
    }

    /// Takes what [`Curbs::check`] has just allowed. False, with nothing taken, if nobody asked and the rate is reached.
    pub(super) fn take(&mut self, now: Time, cost: u32) -> bool {
        self.limiter.as_mut().is_none_or(|limiter| limiter.take(now, cost).is_ok())
    }

    /// An admitted attempt was never sent: its token goes back.
    pub(super) fn give_back(&mut self, number: u64, cost: u32) {
        if let Some(limiter) = &mut self.limiter
            && number > self.unlimited
        {
            limiter.give_back(cost);
        }
    }

    /// What an attempt says of the upstream's willingness.
    pub(super) fn judge(&mut self, now: Time, outcome: &Outcome) {
        let Some(throttle) = &mut self.throttle else { return };
        match outcome {
            Outcome::Failed(failure) => match failure.fault {
                Fault::Overload | Fault::Timeout | Fault::Connect => throttle.rejected(now),
                Fault::Server | Fault::Fatal => throttle.accepted(now),
            },
            Outcome::Success => throttle.accepted(now),
            Outcome::Defer { .. } | Outcome::Abandoned => {}
        }
    }
}

/// What there was, as it is to be from now on.
fn go_on<T>(own: &mut Option<T>, fresh: Option<T>, adopt: impl FnOnce(&mut T, T)) {
    match (own, fresh) {
        (Some(own), Some(fresh)) => adopt(own, fresh),
        (own, fresh) => *own = fresh,
    }
}

impl Upstream {
    /// Whether a hint holds back first attempts too.
    pub(super) fn gates_all(&self) -> bool {
        self.curbs.as_ref().is_some_and(|curbs| curbs.gate == Gate::All)
    }

    /// [`Upstream::admit`] where there is any of this.
    #[cold]
    pub(super) fn admit_curbed(&mut self, now: Time, ask: &Ask) -> Admission {
        let spared = match &mut self.curbs {
            Some(curbs) if self.modes.throttle.is_report() => {
                self.would_refuse.throttle += u64::from(curbs.would_spare(now, &mut self.rng));
                Ok(())
            }
            Some(curbs) => curbs.spares(now, &mut self.rng),
            None => Ok(()),
        };
        if let Err(reason) = spared {
            return Admission::No(self.refuse(now, reason));
        }
        // An open breaker has the first word.
        if self.applied(now, ask.key) != State::Open
            && let Err(refusal) = self.rate_allows(now, ask)
        {
            return Admission::No(refusal);
        }
        let seat = self.seat(now, ask);
        let mut admission = match self.gates(now, ask, seat) {
            Err(refusal) => Admission::No(refusal),
            Ok(State::HalfOpen) => self.admit_probe(now, ask, seat),
            Ok(_) if self.is_held_apart(now, ask) => self.enqueue(now, ask),
            Ok(_) => match self.place_in(now, ask.pool) {
                Err(refusal) => Admission::No(refusal),
                Ok(Some(place)) => Admission::Go(self.send(now, ask, place, seat)),
                Ok(None) => self.enqueue(now, ask),
            },
        };
        if let Admission::Go(permit) = &mut admission {
            self.charge(now, ask, permit);
        }
        admission
    }

    /// Where an attempt of this pool may go, if anywhere.
    fn place_in(&mut self, now: Time, pool: Pool) -> Result<Option<Place>, Refusal> {
        if self.endpoints.is_full(pool) {
            self.place_in_full(now, pool).map(Some)
        } else {
            Ok(self.place(now))
        }
    }

    /// The same for a pool that holds as much as it may: only in place of one of its own ghosts.
    pub(super) fn place_in_full(&mut self, now: Time, pool: Pool) -> Result<Place, Refusal> {
        if let Some(endpoint) = self.endpoints.due_in(now, self.probe_every(), pool) {
            return Ok(Place::Ghost(endpoint));
        }
        if self.overlook_limit() {
            return Ok(self.place_of_ghost(now).unwrap_or(Place::Free));
        }
        Err(self.refuse(now, Reason::InFlightFull))
    }

    /// The end of [`Upstream::judge`] where there is any of this.
    #[cold]
    pub(super) fn judge_curbed(
        &mut self,
        now: Time,
        permit: &Permit,
        outcome: &Outcome,
        good: Option<bool>,
    ) {
        if let Some(curbs) = &mut self.curbs {
            curbs.judge(now, outcome);
        }
        self.judge_key(now, permit, good);
    }

    /// The beginning of [`Upstream::release`] where there is any of this.
    #[cold]
    pub(super) fn release_curbed(&mut self, now: Time, permit: &Permit, how: Release) {
        self.free_key(now, permit);
        if let (Release::Done | Release::Unsent, Some(pools)) = (how, self.endpoints.pools_mut()) {
            pools.done(permit.pool);
        }
        if let (Release::Unsent, Some(curbs)) = (how, &mut self.curbs) {
            curbs.give_back(permit.number, permit.cost as u32);
        }
    }

    /// Whether the rate limit allows an attempt now; takes nothing.
    pub(super) fn rate_allows(&self, now: Time, ask: &Ask) -> Result<(), Refusal> {
        match &self.curbs {
            Some(curbs) if !self.modes.rate_limit.is_report() => curbs.check(now, ask.cost),
            _ => Ok(()),
        }
    }

    /// Takes what an attempt that goes out needs: its slot in its pool, and of the rate limit.
    pub(super) fn charge(&mut self, now: Time, ask: &Ask, permit: &mut Permit) {
        if let Some(pools) = self.endpoints.pools_mut() {
            pools.sent(ask.pool);
            permit.pool = ask.pool;
        }
        if let Some(curbs) = &mut self.curbs
            && !curbs.take(now, ask.cost)
        {
            permit.cost = 0; // nothing was taken, so nothing goes back
            self.would_refuse.rate_limit += 1;
        }
    }
}

#[cfg(test)]
#[path = "pools_tests.rs"]
mod pools_tests;

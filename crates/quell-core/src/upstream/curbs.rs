//! Curbs: the limits that most upstreams do without, kept out of the way of those that do.
//!
//! A rate limit protects an upstream that may be asked only so often. A throttle spares one that turns most requests
//! down anyway. Both are looked at before a slot is taken; the rate's token is taken when the attempt is sent, so
//! whoever waits in the queue has not used it up.

use super::{Admission, Ask, Permit, Upstream};
use crate::{
    Fault, Outcome, Reason, Refusal, Rng, Time,
    breaker::State,
    limiter::Limiter,
    spec::{Invalid, UpstreamSpec},
    throttle::Throttle,
};

#[derive(Debug)]
pub(super) struct Curbs {
    limiter: Option<Limiter>,
    throttle: Option<Throttle>,
    /// Attempts up to this number were sent before there was a rate limit, and took nothing from it.
    unlimited: u64,
}

impl Curbs {
    /// `None` if the upstream has neither.
    pub(super) fn new(spec: &UpstreamSpec, now: Time) -> Result<Option<Box<Self>>, Invalid> {
        if spec.rate_limit.is_none() && spec.throttle.is_none() {
            return Ok(None);
        }
        let limiter = spec.rate_limit.map(|spec| Limiter::new(spec, now)).transpose()?;
        let throttle = spec.throttle.map(|spec| Throttle::new(spec, now)).transpose()?;
        Ok(Some(Box::new(Self { limiter, throttle, unlimited: 0 })))
    }

    /// Takes on those just made and keeps tokens and counts; `sent` attempts were numbered so far. What was not there
    /// before starts as if new.
    pub(super) fn adopt(
        own: Option<Box<Self>>,
        fresh: Option<Box<Self>>,
        sent: u64,
        now: Time,
    ) -> Option<Box<Self>> {
        let mut fresh = fresh?;
        fresh.unlimited = sent;
        if let Some(own) = own {
            if own.limiter.is_some() {
                fresh.unlimited = own.unlimited;
            }
            fresh.limiter = go_on(own.limiter, fresh.limiter, |own, fresh| own.adopt(fresh, now));
            fresh.throttle =
                go_on(own.throttle, fresh.throttle, |own, fresh| own.adopt(fresh, now));
        }
        Some(fresh)
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
fn go_on<T>(own: Option<T>, fresh: Option<T>, adopt: impl FnOnce(&mut T, T)) -> Option<T> {
    match (own, fresh) {
        (Some(mut own), Some(fresh)) => {
            adopt(&mut own, fresh);
            Some(own)
        }
        (_, fresh) => fresh,
    }
}

impl Upstream {
    /// [`Upstream::admit`] where there is a rate limit or a throttle.
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
        if self.breaker.applied(now) != State::Open
            && let Err(refusal) = self.rate_allows(now, ask)
        {
            return Admission::No(refusal);
        }
        let mut admission = self.admit_freely(now, ask);
        if let Admission::Go(permit) = &mut admission {
            self.take_rate(now, permit);
        }
        admission
    }

    /// Whether the rate limit allows an attempt now; takes nothing.
    pub(super) fn rate_allows(&self, now: Time, ask: &Ask) -> Result<(), Refusal> {
        match &self.curbs {
            Some(curbs) if !self.modes.rate_limit.is_report() => curbs.check(now, ask.cost),
            _ => Ok(()),
        }
    }

    pub(super) fn take_rate(&mut self, now: Time, permit: &mut Permit) {
        if let Some(curbs) = &mut self.curbs
            && !curbs.take(now, permit.cost)
        {
            permit.cost = 0; // nothing was taken, so nothing goes back
            self.would_refuse.rate_limit += 1;
        }
    }
}

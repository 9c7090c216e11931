//! Keyed: one breaker per shard, so that a dead shard is not everybody's.
//!
//! **Why.** One breaker over a sharded upstream sees a third of all calls fail when one shard of three is dead, and at a
//! rate of 30 % it refuses the two thirds that would have been served: it turns a partial outage into a full one.
//!
//! **How.** The host names the shard with a hash of whatever decides it. Each key gets a breaker with the same spec, in a
//! [bounded map](crate::keyed): one that is closed, has counted nothing lately and waits for nobody makes room for another;
//! when there is none, new keys share one. A pass belongs to the [`Seat`] it was taken from: what becomes of it is never
//! charged to another key.
//!
//! ```
//! use quell_core::{Rng, Time, breaker::{Keyed, Spec, State}};
//!
//! let (mut rng, now) = (Rng::new(1), Time::ZERO);
//! let mut shards = Keyed::new(Spec::default(), Keyed::USUAL, now)?;
//! for _ in 0..20 {
//!     let seat = shards.enter(now, 7);
//!     let pass = shards.take(now, seat);
//!     shards.judge(now, seat, &pass, Some(false), &mut rng);
//!     shards.free(now, seat, &pass);
//! }
//! assert_eq!(shards.applied(now, 7), State::Open);
//! assert_eq!(shards.applied(now, 8), State::Closed);
//! # Ok::<_, quell_core::breaker::Invalid>(())
//! ```

use super::{Breaker, Invalid, Mode, Pass, Spec, State};
use crate::{
    Refusal, Rng, Time,
    keyed::{self, Look, Seat},
};

/// A breaker, and how many passes of it are out.
#[derive(Debug)]
struct Own {
    breaker: Breaker,
    out: u32,
}

impl Own {
    fn is_idle(&self, now: Time) -> bool {
        self.out == 0 && self.breaker.is_as_new(now)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Keyed {
    spec: Spec,
    /// What applies to all instead of the mode in the spec, and until when.
    forced: Option<(Mode, Option<Time>)>,
    breakers: keyed::Keyed<Own>,
    would_refuse: u64,
}

impl Keyed {
    /// Keys with a breaker of their own, where nothing else is written.
    pub const USUAL: usize = 256;
    const MOST: usize = 65_536;

    /// Closed breakers of this kind, for `most` keys and one for the rest.
    pub fn new(spec: Spec, most: usize, now: Time) -> Result<Self, Invalid> {
        let rest = Own { breaker: Breaker::new(spec, now)?, out: 0 };
        let breakers = keyed::Keyed::new(most, rest).ok().filter(|_| most <= Self::MOST);
        let breakers = breakers.ok_or(Invalid::Keys(most))?;
        Ok(Self { spec, forced: None, breakers, would_refuse: 0 })
    }

    /// Where this key's breaker is: its own, a fresh one, or the one that is shared. Ask once per decision.
    pub fn enter(&mut self, now: Time, key: u64) -> Seat {
        let (spec, forced) = (self.spec, self.forced(now));
        let fresh = || {
            let mut breaker = Breaker::fresh(spec, now);
            if let Some((mode, until)) = forced {
                breaker.set_mode(now, mode, until);
            }
            Own { breaker, out: 0 }
        };
        self.breakers.enter(key, now, Own::is_idle, fresh).seat
    }

    /// See [`Breaker::check`].
    pub fn check(
        &mut self,
        now: Time,
        seat: Seat,
        first: bool,
        rng: &mut Rng,
    ) -> Result<State, Refusal> {
        self.at(seat).map_or(Ok(State::Closed), |breaker| breaker.check(now, first, rng))
    }

    /// See [`Breaker::take`]. Its pass comes back through [`Keyed::free`], once; until then its place is not given away.
    pub fn take(&mut self, now: Time, seat: Seat) -> Pass {
        let own = match self.breakers.seated(seat) {
            Some(own) => own,
            None => self.breakers.overflow_mut(), // never right after `enter`
        };
        let before = own.breaker.would_refuse();
        let pass = own.breaker.take(now);
        own.out = own.out.saturating_add(1);
        self.would_refuse += own.breaker.would_refuse() - before;
        pass
    }

    /// See [`Breaker::judge`]. Nothing changes if another has the place by now.
    pub fn judge(
        &mut self,
        now: Time,
        seat: Seat,
        pass: &Pass,
        good: Option<bool>,
        rng: &mut Rng,
    ) -> Option<State> {
        self.at(seat)?.judge(now, pass, good, rng)
    }

    /// See [`Breaker::free`]; for every pass that was taken, once.
    pub fn free(&mut self, now: Time, seat: Seat, pass: &Pass) {
        if let Some(own) = self.breakers.seated(seat) {
            own.breaker.free(now, pass);
            own.out = own.out.saturating_sub(1);
        }
    }

    /// Takes on the spec and bound of one just made; every key keeps its breaker, see [`Breaker::adopt`], even beyond
    /// the new bound.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.spec = fresh.spec;
        self.breakers.adopt(fresh.breakers.capacity(), |own| {
            own.breaker.adopt(Breaker::fresh(fresh.spec, now), now);
        });
    }

    /// The breaker at this seat, unless another has its place.
    pub fn at(&mut self, seat: Seat) -> Option<&mut Breaker> {
        self.breakers.seated(seat).map(|own| &mut own.breaker)
    }

    /// Whose seat it is; `None` if it is shared.
    pub fn key_of(&self, seat: Seat) -> Option<u64> {
        self.breakers.key_of(seat)
    }

    /// What traffic of this key meets; the key does not count as used.
    pub fn applied(&mut self, now: Time, key: u64) -> State {
        let own = match self.breakers.look(key, now, Own::is_idle) {
            Look::Own(_) => self.breakers.get_mut(key),
            Look::Overflow(_) => Some(self.breakers.overflow_mut()),
            Look::Fresh => None,
        };
        if let Some(own) = own {
            return own.breaker.applied(now);
        }
        match self.forced(now) {
            Some((Mode::ForcedOpen, _)) => State::Open,
            _ => State::Closed,
        }
    }

    /// See [`Breaker::set_mode`]: of all there are and will be.
    pub fn set_mode(&mut self, now: Time, mode: Mode, until: Option<Time>) {
        self.forced = Some((mode, until));
        for own in self.breakers.all_mut() {
            own.breaker.set_mode(now, mode, until);
        }
    }

    /// What applies to all instead of the mode in the spec, while it does.
    fn forced(&self, now: Time) -> Option<(Mode, Option<Time>)> {
        self.forced.filter(|(_, until)| until.is_none_or(|until| now < until))
    }

    /// Keys that have a breaker of their own.
    pub fn len(&self) -> usize {
        self.breakers.len()
    }

    /// Whether no key was seen yet.
    pub fn is_empty(&self) -> bool {
        self.breakers.is_empty()
    }

    /// How often a key without a breaker of its own was asked for: above zero the bound is too low, or the keys are none.
    pub fn overflowed(&self) -> u64 {
        self.breakers.overflowed()
    }

    /// Attempts that were sent in report mode and would have been refused.
    pub const fn would_refuse(&self) -> u64 {
        self.would_refuse
    }

    /// Breakers in this state, the shared one among them. For people who look, not per call.
    pub fn count(&mut self, now: Time, state: State) -> usize {
        let states = self.breakers.all_mut().map(|own| own.breaker.state(now));
        states.filter(|&each| each == state).count()
    }
}

#[cfg(test)]
#[path = "keyed_tests.rs"]
mod tests;

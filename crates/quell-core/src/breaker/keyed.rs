//! Keyed: one breaker per shard, so that a dead shard is not everybody's.
//!
//! **Why.** One breaker over a sharded upstream sees a third of all calls fail when one shard of three is dead, and at a
//! rate of 30 % it refuses the two thirds that would have been served: it turns a partial outage into a full one.
//!
//! **How.** The host names the shard with a hash of whatever decides it. The first so many keys get a breaker each, with
//! the same spec; the rest share one. A key keeps its breaker, so a pass goes back to where it came from.
//!
//! ```
//! use quell_core::{Rng, Time, breaker::{Keyed, Spec, State}};
//!
//! let (mut rng, now) = (Rng::new(1), Time::ZERO);
//! let mut shards = Keyed::new(Spec::default(), Keyed::USUAL, now)?;
//! for _ in 0..20 {
//!     let pass = shards.of(now, 7).take(now);
//!     shards.of(now, 7).judge(now, &pass, Some(false), &mut rng);
//! }
//! assert_eq!(shards.of(now, 7).state(now), State::Open);
//! assert_eq!(shards.of(now, 8).state(now), State::Closed);
//! # Ok::<_, quell_core::breaker::Invalid>(())
//! ```

use std::collections::{BTreeMap, btree_map::Entry};

use super::{Breaker, Invalid, Spec, State};
use crate::Time;

/// See the [module](self).
#[derive(Debug)]
pub struct Keyed {
    spec: Spec,
    most: usize,
    keys: BTreeMap<u64, Breaker>,
    /// Shared by all keys that came too late for one of their own.
    rest: Breaker,
    overflowed: u64,
}

impl Keyed {
    /// Keys with a breaker of their own, where nothing else is written.
    pub const USUAL: usize = 256;
    const MOST: usize = 65_536;

    /// Closed breakers of this kind, for `most` keys and one for the rest.
    pub fn new(spec: Spec, most: usize, now: Time) -> Result<Self, Invalid> {
        if !(1..=Self::MOST).contains(&most) {
            return Err(Invalid::Keys(most));
        }
        let rest = Breaker::new(spec, now)?;
        Ok(Self { spec, most, keys: BTreeMap::new(), rest, overflowed: 0 })
    }

    /// The breaker of this key.
    pub fn of(&mut self, now: Time, key: u64) -> &mut Breaker {
        let has_room = self.keys.len() < self.most;
        match self.keys.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) if has_room => entry.insert(Breaker::fresh(self.spec, now)),
            Entry::Vacant(_) => {
                self.overflowed = self.overflowed.saturating_add(1);
                &mut self.rest
            }
        }
    }

    /// Takes on the spec and bound of one just made; every key keeps its breaker, see [`Breaker::adopt`], even beyond
    /// the new bound.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        (self.spec, self.most) = (fresh.spec, fresh.most);
        for breaker in self.keys.values_mut() {
            breaker.adopt(Breaker::fresh(fresh.spec, now), now);
        }
        self.rest.adopt(fresh.rest, now);
    }

    /// Keys that have a breaker of their own.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key was seen yet.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How often a key without a breaker of its own was asked for: above zero the bound is too low, or the keys are none.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Keys whose breaker is in this state; the shared one is not among them. For people who look, not per call.
    pub fn count(&mut self, now: Time, state: State) -> usize {
        self.keys.values_mut().filter_map(|each| (each.state(now) == state).then_some(())).count()
    }
}

#[cfg(test)]
#[path = "keyed_tests.rs"]
mod tests;

//! Keyed: a policy of its own for every key, in bounded memory.
//!
//! **Why.** One limiter per tenant, one breaker per shard, one budget per route: the keys come from outside, and whoever
//! makes them up can make up many. A map that grows with them is a leak, and one that throws out whoever came first
//! lets an attacker wash away the state of others, or their own.
//!
//! **How.** So many entries and no more. When all are taken, a new key gets the place of the entry that was used least
//! recently *and is idle*, which is to say as good as new, so nobody's state is lost. If the oldest are all in use, the
//! key shares one overflow entry with everybody else who came too late. A look at the oldest is a look at so many and no
//! more; those that were found busy go to the back of the line, so that the next look sees others.
//!
//! Keys are 64 bits that the caller made with a hash of its own choice. Where strangers choose what is hashed, choose one
//! with a secret: two that hash alike are one.
//!
//! ```
//! use quell_core::{Time, keyed::Keyed};
//!
//! let (now, is_idle) = (Time::ZERO, |count: &u32, _: Time| *count == 0);
//! let mut counts = Keyed::new(2, 0)?;
//! for key in [1, 2, 3, 4] {
//!     *counts.enter(key, now, is_idle, || 0).state += 1;
//! }
//! assert_eq!((counts.get(1), counts.get(2), counts.get(3)), (Some(&1), Some(&1), None));
//! assert_eq!(*counts.overflow(), 2);                                 // 3 and 4 share it
//! *counts.get_mut(1).unwrap() = 0;
//! assert!(counts.enter(5, now, is_idle, || 0).own);                  // in the place of 1
//! # Ok::<_, quell_core::keyed::Invalid>(())
//! ```

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use crate::Time;

/// How many of the oldest entries are looked at for an idle one.
const LOOKS: usize = 8;
/// Most entries that can be asked for.
const MOST: usize = 1 << 24;
/// No entry.
const NONE: u32 = u32::MAX;

/// Why there can be no such map. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Everybody would share the overflow, or memory would be no bound.
    #[error("keys is {0}: write how many keys have a state of their own, from 1 to 16777216")]
    Keys(usize),
}

/// A state, and whose it is.
#[derive(Debug)]
pub struct Entered<'a, T> {
    /// What to decide with.
    pub state: &'a mut T,
    /// Whether it belongs to this key alone; `false` is the overflow that many share.
    pub own: bool,
    /// Where it is, to come back to this very state and to no later one in its place.
    pub seat: Seat,
}

/// Where a state is, and whose it was: once its place was taken by another, it leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    at: u32,
    tenant: u32,
}

impl Seat {
    /// In no map.
    pub const NOWHERE: Self = Self { at: NONE, tenant: NONE };
    /// The state that many share.
    const OVERFLOW: Self = Self { at: NONE, tenant: 0 };
}

/// What a key would get, looked at and not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Look<'a, T> {
    /// The key has an entry.
    Own(&'a T),
    /// The key would get a fresh one.
    Fresh,
    /// The key would share the overflow.
    Overflow(&'a T),
}

#[derive(Debug)]
struct Slot<T> {
    key: u64,
    state: T,
    /// How many had a state before this one.
    tenant: u32,
    /// The next that was used more recently.
    newer: u32,
    /// The next that was used less recently.
    older: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Keyed<T> {
    capacity: usize,
    slots: Vec<Slot<T>>,
    /// Where each key's slot is. Nobody walks through it, so its order shows nowhere.
    index: HashMap<u64, u32, BuildHasherDefault<Mixed>>,
    newest: u32,
    oldest: u32,
    overflow: T,
    tenants: u32,
    evicted: u64,
    overflowed: u64,
}

impl<T> Keyed<T> {
    /// An empty map of so many entries, and the one that is shared when they are taken.
    pub fn new(capacity: usize, overflow: T) -> Result<Self, Invalid> {
        if !(1..=MOST).contains(&capacity) {
            return Err(Invalid::Keys(capacity));
        }
        Ok(Self {
            capacity,
            slots: Vec::new(),
            index: HashMap::default(),
            newest: NONE,
            oldest: NONE,
            overflow,
            tenants: 0,
            evicted: 0,
            overflowed: 0,
        })
    }

    /// The state for this key: its own, a fresh one, or the overflow. The key counts as used now. Idle means that a
    /// fresh state would be as good.
    #[inline]
    pub fn enter(
        &mut self,
        key: u64,
        now: Time,
        is_idle: impl Fn(&T, Time) -> bool,
        fresh: impl FnOnce() -> T,
    ) -> Entered<'_, T> {
        if let Some(&at) = self.index.get(&key) {
            self.touch(at);
            return self.entered(at);
        }
        self.admit(key, now, is_idle, fresh)
    }

    /// What [`Keyed::enter`] would find at this time; changes nothing.
    pub fn look(&self, key: u64, now: Time, is_idle: impl Fn(&T, Time) -> bool) -> Look<'_, T> {
        match self.get(key) {
            Some(state) => Look::Own(state),
            None if self.slots.len() < self.capacity => Look::Fresh,
            None => match self.oldest_idle(now, is_idle) {
                Ok(_) => Look::Fresh,
                Err(_) => Look::Overflow(&self.overflow),
            },
        }
    }

    /// The state of this key, if it has its own. It does not count as used.
    pub fn get(&self, key: u64) -> Option<&T> {
        self.index.get(&key).map(|&at| &self.slots[at as usize].state)
    }

    /// The state of this key, if it has its own. It does not count as used.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        self.index.get(&key).map(|&at| &mut self.slots[at as usize].state)
    }

    /// The state at this seat, unless another has its place. It does not count as used.
    pub fn seated(&mut self, seat: Seat) -> Option<&mut T> {
        if seat == Seat::OVERFLOW {
            return Some(&mut self.overflow);
        }
        let slot = self.slots.get_mut(seat.at as usize)?;
        (slot.tenant == seat.tenant).then_some(&mut slot.state)
    }

    /// Whose seat it is; `None` if it is everybody's or has been taken.
    pub fn key_of(&self, seat: Seat) -> Option<u64> {
        let slot = self.slots.get(seat.at as usize)?;
        (slot.tenant == seat.tenant).then_some(slot.key)
    }

    /// Every state there is, the shared one last.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|slot| &mut slot.state).chain([&mut self.overflow])
    }

    /// What those share who came too late.
    pub const fn overflow(&self) -> &T {
        &self.overflow
    }

    /// What those share who came too late.
    pub const fn overflow_mut(&mut self) -> &mut T {
        &mut self.overflow
    }

    /// All keys with a state of their own, the most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let slot = |at: u32| self.slots.get(at as usize);
        core::iter::successors(slot(self.newest), move |at| slot(at.older))
            .map(|slot| (slot.key, &slot.state))
    }

    /// From now on so many entries, and every state is changed so, the overflow too. Nobody loses an entry: above the
    /// capacity, new keys share the overflow or an idle one's place.
    pub(crate) fn adopt(&mut self, capacity: usize, each: impl FnMut(&mut T)) {
        self.capacity = capacity;
        self.all_mut().for_each(each);
    }

    /// How many keys have a state of their own.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no key was seen yet.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many keys can have a state of their own.
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// How often an idle entry made room.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How often a key had to share the overflow.
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    fn admit(
        &mut self,
        key: u64,
        now: Time,
        is_idle: impl Fn(&T, Time) -> bool,
        fresh: impl FnOnce() -> T,
    ) -> Entered<'_, T> {
        let tenant = self.tenants;
        let at = if self.slots.len() < self.capacity {
            let at = self.slots.len() as u32;
            self.slots.push(Slot { key, state: fresh(), tenant, newer: NONE, older: NONE });
            self.link(at);
            at
        } else {
            match self.oldest_idle(now, is_idle) {
                Ok(at) => {
                    self.evicted += 1;
                    let slot = &mut self.slots[at as usize];
                    self.index.remove(&slot.key);
                    (slot.key, slot.state, slot.tenant) = (key, fresh(), tenant);
                    self.touch(at);
                    at
                }
                Err(busy) => {
                    self.overflowed += 1;
                    for _ in 0..busy {
                        self.touch(self.oldest);
                    }
                    let (state, seat) = (&mut self.overflow, Seat::OVERFLOW);
                    return Entered { state, own: false, seat };
                }
            }
        };
        self.tenants = self.tenants.wrapping_add(1);
        self.index.insert(key, at);
        self.entered(at)
    }

    #[inline]
    fn entered(&mut self, at: u32) -> Entered<'_, T> {
        let slot = &mut self.slots[at as usize];
        let seat = Seat { at, tenant: slot.tenant };
        Entered { state: &mut slot.state, own: true, seat }
    }

    /// The oldest entry that is idle, or how many were looked at in vain.
    fn oldest_idle(&self, now: Time, is_idle: impl Fn(&T, Time) -> bool) -> Result<u32, usize> {
        let (mut at, mut looks) = (self.oldest, 0);
        while at != NONE && looks < LOOKS {
            let slot = &self.slots[at as usize];
            if is_idle(&slot.state, now) {
                return Ok(at);
            }
            (at, looks) = (slot.newer, looks + 1);
        }
        Err(looks)
    }

    /// Makes it the most recently used.
    #[inline]
    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link(&mut self, at: u32) {
        let older = core::mem::replace(&mut self.newest, at);
        (self.slots[at as usize].newer, self.slots[at as usize].older) = (NONE, older);
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
    }
}

/// Keys are hashes already; this only spreads those that are small numbers after all, the same way everywhere.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let mixed = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

#[cfg(test)]
#[path = "keyed_tests.rs"]
mod tests;

//! Endpoints: who serves an upstream, what each still has in hand, and the ghosts that stand there.
//!
//! **Why.** When a caller leaves or an attempt times out, we stop waiting, but the endpoint may well go on
//! working. To free its slot then and send the next call is what keeps a storm alive. So the slot becomes
//! a *ghost*: taken until there is proof that the endpoint has got past it.
//!
//! **How.** Attempts are numbered in the order they are sent. When an endpoint itself answers a call, every
//! ghost sent before that call is gone. While ghosts stand and nothing comes back, a lone probe per interval
//! takes the oldest ghost's place: without it, an endpoint that lost everything (a hole) would never be
//! asked again. Ghosts, their release and probes belong to one endpoint; one endpoint's ghosts hold
//! at most its share of the limit, and count as load when an endpoint is chosen, so a dead endpoint cannot
//! starve the living.
//!
//! A ghost of a [pool](crate::pools) holds a slot of its pool as well, and gives it back when it ends, however it ends.
//!
//! An endpoint that fails several times in a row is *ejected* for a while, longer each time, as long as another one
//! is left. A retry goes to an endpoint that its call has not tried yet, if there is one.
//!
//! ```
//! use quell_core::{Time, endpoints::{Ejection, Endpoints}};
//!
//! let mut endpoints = Endpoints::new(1, Some(Ejection::default()), Time::ZERO)?;
//! let (caller_left, _other) = (endpoints.sent(0), endpoints.sent(0));
//! endpoints.ghost(0, caller_left);
//! assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
//! assert!(endpoints.lay(0, caller_left)); // it closed the connection itself
//! endpoints.done(0);
//! assert_eq!(endpoints.ghosts(), 0);
//! # Ok::<_, quell_core::endpoints::Invalid>(())
//! ```

mod choice;
mod shown;

use core::time::Duration;
use std::collections::VecDeque;

pub use choice::Tried;
pub use shown::Snapshot;

use crate::{
    Release, Time,
    mode::Mode,
    pools::{Pool, Pools},
};

/// An endpoint that served this recently needs no probe.
const SILENT: Duration = Duration::from_millis(500);
/// Ghosts remembered per endpoint; beyond it the oldest are forgotten.
const MOST_GHOSTS: usize = 4096;

/// When an endpoint is left alone for a while, as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row.
    pub after: u32,
    /// For how long the first time; the second time twice as long, and so on.
    pub base: Duration,
    /// Never for longer than this.
    pub most: Duration,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { after: 5, base: Duration::from_secs(10), most: Duration::from_secs(300) }
    }
}

/// Why endpoints cannot be as written. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Nowhere to send to.
    #[error("endpoints is empty: write at least one, such as \"http://127.0.0.1:9000\"")]
    None,
    /// The first failure, or none at all, would do.
    #[error("ejection.after is 0: write at least 1, such as 5")]
    After,
    /// No time at all, or less at most than at first.
    #[error(
        "ejection.base is {base:?} and ejection.most {most:?}: write more than 0s, and base at most as long as most"
    )]
    Time {
        /// As written.
        base: Duration,
        /// As written.
        most: Duration,
    },
}

/// An attempt that nobody waits for any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ghost {
    pub(crate) number: u64,
    /// Whose slot it holds.
    pub(crate) pool: Pool,
    /// What kind of call it was.
    pub(crate) class: u16,
    /// When it ends in any case: its caller left before its answer was due, and by then it was.
    pub(crate) due: Time,
}

#[derive(Debug)]
struct Endpoint {
    /// Counted only while there are others.
    under_way: u32,
    /// The attempts that became ghosts, in the order they were sent.
    ghosts: VecDeque<Ghost>,
    answered_at: Time,
    probed_at: Time,
    /// Failures in a row.
    failures: u32,
    /// The share of its outcomes that were failures of late.
    failing: f32,
    /// How often it was ejected lately.
    ejections: u32,
    ejected_until: Time,
    /// How many times longer than usual its answers take, and since when that is known.
    slow: f64,
    slow_at: Time,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Endpoints {
    /// How many there are.
    count: usize,
    /// They, and behind them those that a reload took away: until all that is under way there has come back.
    all: Vec<Endpoint>,
    ejection: Option<Ejection>,
    mode: Mode,
    pools: Option<Box<Pools>>,
    under_way: u32,
    ghosts: usize,
    next: u64,
    answered_at: Time,
}

impl Endpoints {
    /// `count` endpoints with nothing in hand.
    pub fn new(count: u16, ejection: Option<Ejection>, now: Time) -> Result<Self, Invalid> {
        if count == 0 {
            return Err(Invalid::None);
        }
        if let Some(Ejection { after, base, most }) = ejection {
            if after == 0 {
                return Err(Invalid::After);
            }
            if base.is_zero() || base > most {
                return Err(Invalid::Time { base, most });
            }
        }
        Ok(Self {
            count: usize::from(count),
            all: (0..count).map(|_| Endpoint::new(0, now)).collect(),
            ejection,
            mode: Mode::Enforce,
            pools: None,
            under_way: 0,
            ghosts: 0,
            next: 0,
            answered_at: now,
        })
    }

    /// Takes on the number and the ejection of those just made. An index is to mean the same endpoint before and after, for
    /// as long as anything is under way there: those that stay keep their ghosts, what they have in hand and, within
    /// the new bound, their ejection. From those that go all comes back as before, and nothing stands there any more.
    pub fn adopt(&mut self, mut fresh: Self, now: Time) {
        match &mut self.pools {
            Some(own) => own.adopt(fresh.pools.as_deref()),
            none => *none = fresh.pools.take(),
        }
        self.ejection = fresh.ejection;
        if fresh.count > self.all.len() {
            self.settle();
        }
        let stay = self.count.min(fresh.count);
        self.count = fresh.count;
        for gone in &mut self.all[stay..] {
            *gone = Endpoint::new(gone.under_way, now);
        }
        while self.all.len() > self.count && self.all.last().is_some_and(|e| e.under_way == 0) {
            self.all.pop();
        }
        self.all.extend(fresh.all.into_iter().skip(self.all.len()));
        self.ghosts = self.all.iter().map(|endpoint| endpoint.ghosts.len()).sum();
        if let Some(pools) = &mut self.pools {
            pools.set_endpoints(self.count, stay, self.all.len());
        }
        let is_out = |endpoint: &Endpoint| endpoint.ejected_until > now;
        // One has to be left, whoever went.
        let most = match self.ejection {
            Some(ejection) if !self.all[..self.count].iter().all(is_out) => now + ejection.most,
            _ => Time::ZERO,
        };
        self.all.iter_mut().for_each(|each| each.ejected_until = each.ejected_until.min(most));
    }

    /// Whether the ejected are left alone, or only counted.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Pools, for as many endpoints as there are, of which the ghosts will hold their slots as well.
    pub fn set_pools(&mut self, pools: Option<Box<Pools>>) {
        self.pools = pools;
    }

    /// The pools, if there are any.
    pub fn pools(&self) -> Option<&Pools> {
        self.pools.as_deref()
    }

    /// The pools, if there are any: an attempt of a pool is [sent](Pools::sent) and [done](Pools::done) there as well.
    pub fn pools_mut(&mut self) -> Option<&mut Pools> {
        self.pools.as_deref_mut()
    }

    /// Whether this pool holds as much as it may.
    pub fn is_full(&self, pool: Pool) -> bool {
        self.pools().is_some_and(|pools| pools.is_full(pool))
    }

    /// Attempts under way, ghosts not counted.
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// The number of the last attempt that was sent.
    pub fn last_sent(&self) -> u64 {
        self.next
    }

    /// Ghosts that stand.
    #[inline]
    pub fn ghosts(&self) -> usize {
        self.ghosts
    }

    /// Slots taken out of `limit`; the ghosts of kinds that are held apart take none but their own.
    #[inline]
    pub(crate) fn taken(&self, limit: u32, is_apart: Option<impl Fn(u16) -> bool>) -> u32 {
        if self.ghosts == 0 { self.under_way } else { self.taken_with_ghosts(limit, is_apart) }
    }

    #[cold]
    fn taken_with_ghosts(&self, limit: u32, is_apart: Option<impl Fn(u16) -> bool>) -> u32 {
        let share = (limit / self.count as u32).max(1) as usize;
        let held = |endpoint: &Endpoint| match &is_apart {
            None => endpoint.ghosts.len(),
            Some(is_apart) => endpoint.ghosts.iter().filter(|ghost| !is_apart(ghost.class)).count(),
        };
        let held: usize = self.all.iter().map(|endpoint| held(endpoint).min(share)).sum();
        self.under_way.saturating_add(held as u32)
    }

    /// Ghosts of this kind of call.
    pub(crate) fn ghosts_of(&self, class: u16) -> usize {
        let of = |endpoint: &Endpoint| endpoint.ghosts.iter().filter(|g| g.class == class).count();
        self.all.iter().map(of).sum()
    }

    /// Ends the ghosts whose answer is due by now.
    pub(crate) fn end_due(&mut self, now: Time) {
        if self.ghosts == 0 {
            return;
        }
        for index in 0..self.all.len() {
            self.end_those(index, |ghost| ghost.due <= now);
        }
    }

    /// Whether there is no other.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.count == 1
    }

    /// The endpoint that is due a probe: ghosts stand, nothing came back, and the last probe was long enough ago.
    pub fn due(&self, now: Time, every: Duration) -> Option<u16> {
        if self.ghosts == 0 {
            return None;
        }
        let due = |e: &Endpoint| !e.ghosts.is_empty() && e.due_at(every) <= now;
        self.all.iter().position(due).map(|i| i as u16)
    }

    /// The same, for a probe that is to take the place of a ghost of this pool.
    pub fn due_in(&self, now: Time, every: Duration, pool: Pool) -> Option<u16> {
        let pools = self.pools()?;
        let due = |(i, e): (usize, &Endpoint)| pools.haunts(i, pool) && e.due_at(every) <= now;
        self.all.iter().enumerate().position(due).map(|i| i as u16)
    }

    /// When the next probe will be due, if any ghost stands.
    pub fn next_due(&self, every: Duration) -> Option<Time> {
        self.all.iter().filter(|e| !e.ghosts.is_empty()).map(|e| e.due_at(every)).min()
    }

    /// A probe by a call of this pool is about to be sent in place of the oldest ghost there.
    pub fn probe(&mut self, endpoint: u16, pool: Pool, now: Time) {
        self.all[usize::from(endpoint)].probed_at = now;
        self.displace(endpoint, pool);
    }

    /// Takes the place of the oldest ghost, if there is one; where the pool is full, of its own oldest.
    pub fn displace(&mut self, endpoint: u16, pool: Pool) {
        let index = usize::from(endpoint);
        let own = match self.pools() {
            Some(pools) if pools.is_full(pool) && pools.haunts(index, pool) => {
                self.all[index].ghosts.iter().position(|ghost| ghost.pool == pool)
            }
            _ => None,
        };
        self.end_ghost(index, own.unwrap_or(0));
    }

    /// The ghost of this attempt has ended. False if there is none.
    pub fn lay(&mut self, endpoint: u16, number: u64) -> bool {
        let index = usize::from(endpoint);
        let Some(endpoint) = self.all.get(index) else { return false }; // a reload took it away
        match endpoint.ghosts.binary_search_by_key(&number, |ghost| ghost.number) {
            Ok(place) => self.end_ghost(index, place),
            Err(_) => false,
        }
    }

    fn end_ghost(&mut self, index: usize, place: usize) -> bool {
        let Some(ghost) = self.all[index].ghosts.remove(place) else { return false };
        self.ghosts -= 1;
        if let Some(pools) = &mut self.pools {
            pools.gone(index, ghost.pool);
        }
        true
    }

    /// An attempt goes out; answers with its number.
    #[inline]
    pub fn sent(&mut self, endpoint: u16) -> u64 {
        self.begins(endpoint);
        self.number()
    }

    /// The number of an attempt that holds no slot yet.
    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// An attempt holds a slot from now on.
    #[inline]
    pub(crate) fn begins(&mut self, endpoint: u16) {
        self.under_way += 1;
        if self.all.len() > 1 {
            self.all[usize::from(endpoint)].under_way += 1;
        }
    }

    /// An attempt is over that never held a slot of the upstream's, and is not a ghost either.
    pub(crate) fn drop_upload(&mut self, pool: Pool, how: Release) {
        if let (Release::Ghost, Some(pools)) = (how, &mut self.pools) {
            pools.done(pool);
        }
    }

    /// An attempt is over and its slot free.
    #[inline]
    pub fn done(&mut self, endpoint: u16) {
        self.under_way -= 1;
        if self.all.len() > 1 {
            self.all[usize::from(endpoint)].under_way -= 1;
        }
    }

    /// Nobody waits for an attempt any more, but the endpoint may still be working on it.
    pub fn ghost(&mut self, endpoint: u16, number: u64) {
        self.ghost_in(endpoint, number, Pool::NONE);
    }

    /// The same, for an attempt of a pool: it goes on holding its slot.
    pub fn ghost_in(&mut self, endpoint: u16, number: u64, pool: Pool) {
        self.haunt(endpoint, Ghost { number, pool, class: 0, due: Time::MAX });
    }

    /// The same, of this kind.
    pub(crate) fn haunt(&mut self, endpoint: u16, ghost: Ghost) {
        let Ghost { number, pool, .. } = ghost;
        self.done(endpoint);
        let index = usize::from(endpoint);
        if index >= self.count {
            if let Some(pools) = &mut self.pools {
                pools.done(pool);
            }
            return; // a reload took it away
        }
        if let Some(pools) = &mut self.pools {
            pools.ghost(index, pool);
        }
        self.settle();
        let ghosts = &mut self.all[index].ghosts;
        let place = ghosts.partition_point(|other| other.number < number);
        ghosts.insert(place, ghost);
        self.ghosts += 1;
        if ghosts.len() > MOST_GHOSTS {
            self.end_ghosts(index, 1);
        }
    }

    /// One of them answered. True if it matters which: there are ghosts, or others.
    #[inline]
    pub(crate) fn answered(&mut self, now: Time) -> bool {
        self.answered_at = now;
        self.ghosts + self.all.len() > 1
    }

    /// It was this one, and the answer to attempt `number`: it has got past all that was sent before, but for the kinds that are held
    /// apart.
    pub(crate) fn get_past(&mut self, endpoint: u16, number: u64, is_apart: impl Fn(u16) -> bool) {
        let index = usize::from(endpoint);
        self.all[index].answered_at = self.answered_at;
        if self.ghosts > 0 {
            self.end_those(index, |ghost| ghost.number < number && !is_apart(ghost.class));
        }
    }

    /// Writes down with the only endpoint what needs no telling apart while there are neither ghosts nor others.
    fn settle(&mut self) {
        if let [only] = &mut *self.all {
            (only.under_way, only.answered_at) = (self.under_way, self.answered_at);
        }
    }

    /// Ends the ghosts of an endpoint of which this is true.
    fn end_those(&mut self, index: usize, ends: impl Fn(&Ghost) -> bool) {
        let (pools, before) = (&mut self.pools, self.all[index].ghosts.len());
        self.all[index].ghosts.retain(|ghost| {
            let ends = ends(ghost);
            if let (true, Some(pools)) = (ends, pools.as_mut()) {
                pools.gone(index, ghost.pool);
            }
            !ends
        });
        self.ghosts -= before - self.all[index].ghosts.len();
    }

    /// Ends so many ghosts of an endpoint, the oldest.
    fn end_ghosts(&mut self, index: usize, gone: usize) {
        self.ghosts -= gone;
        let ended = self.all[index].ghosts.drain(..gone);
        if let Some(pools) = &mut self.pools {
            ended.for_each(|ghost| pools.gone(index, ghost.pool));
        }
    }
}

impl Endpoint {
    /// Of which nothing is known but what is under way.
    fn new(under_way: u32, now: Time) -> Self {
        Self {
            under_way,
            ghosts: VecDeque::new(),
            answered_at: now,
            probed_at: now,
            failures: 0,
            failing: 0.0,
            ejections: 0,
            ejected_until: Time::ZERO,
            slow: 1.0,
            slow_at: now,
        }
    }

    /// How many times longer than usual its answers take: believed for some seconds, as it is asked less meanwhile.
    fn slowness(&self, now: Time) -> f64 {
        let seconds = now.nanos_since(self.slow_at) as f64 / 1e9;
        1.0 + (self.slow - 1.0) / (1.0 + seconds * seconds / 25.0)
    }

    fn due_at(&self, every: Duration) -> Time {
        (self.answered_at + SILENT).max(self.probed_at + every)
    }
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;

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
//! let (caller_left, answered) = (endpoints.sent(0), endpoints.sent(0));
//! endpoints.ghost(0, caller_left);
//! assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
//! endpoints.answered(0, answered, Time::ZERO);
//! assert_eq!(endpoints.ghosts(), 0);
//! # Ok::<_, quell_core::endpoints::Invalid>(())
//! ```

use core::time::Duration;
use std::collections::VecDeque;

use crate::{
    Rng, Time,
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

/// The endpoints that a call has tried, so that its retry goes elsewhere. Exact for up to 64 endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried(u64);

impl Tried {
    /// Nowhere yet.
    pub const NOWHERE: Self = Self(0);

    /// The same, and this one.
    pub const fn with(self, endpoint: u16) -> Self {
        Self(self.0 | 1 << (endpoint % 64))
    }

    const fn contains(self, endpoint: usize) -> bool {
        self.0 & 1 << (endpoint % 64) != 0
    }
}

/// An attempt that nobody waits for any more.
#[derive(Debug, Clone, Copy)]
struct Ghost {
    number: u64,
    /// Whose slot it holds.
    pool: Pool,
}

#[derive(Debug)]
struct Endpoint {
    under_way: u32,
    /// The attempts that became ghosts, in the order they were sent.
    ghosts: VecDeque<Ghost>,
    answered_at: Time,
    probed_at: Time,
    /// Failures in a row.
    failures: u32,
    /// How often it was ejected lately.
    ejections: u32,
    ejected_until: Time,
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

    /// Slots taken out of `limit`.
    #[inline]
    pub fn taken(&self, limit: u32) -> u32 {
        if self.ghosts == 0 { self.under_way } else { self.taken_with_ghosts(limit) }
    }

    #[cold]
    fn taken_with_ghosts(&self, limit: u32) -> u32 {
        let share = (limit / self.count as u32).max(1) as usize;
        let held: usize = self.all.iter().map(|e| e.ghosts.len().min(share)).sum();
        self.under_way.saturating_add(held as u32)
    }

    /// Whether a slot out of `limit` is free and no ghost stands: so it is almost always.
    #[inline]
    pub fn is_calm(&self, limit: u32) -> bool {
        self.ghosts == 0 && self.under_way < limit
    }

    /// Chooses where to send: the less loaded of two drawn at random, ghosts counted as load. Neither the ejected nor
    /// those that the call has tried, unless there are no others.
    #[inline]
    pub fn choose(&self, now: Time, tried: Tried, rng: &mut Rng) -> u16 {
        if self.count == 1 { 0 } else { self.choose_of_two(now, tried, rng) }
    }

    #[inline(never)]
    fn choose_of_two(&self, now: Time, tried: Tried, rng: &mut Rng) -> u16 {
        let here = |i: &usize| self.mode.is_report() || self.all[*i].ejected_until <= now;
        let fresh = |i: &usize| here(i) && !tried.contains(*i);
        let indices = 0..self.count;
        match indices.clone().filter(fresh).count() {
            0 => self.less_loaded(indices.clone().filter(here), indices.filter(here).count(), rng),
            n => self.less_loaded(indices.filter(fresh), n, rng),
        }
    }

    /// Of `n` candidates, of which there is at least one.
    fn less_loaded(
        &self,
        candidates: impl Iterator<Item = usize> + Clone,
        n: usize,
        rng: &mut Rng,
    ) -> u16 {
        let first = rng.below(n as u64) as usize;
        let second = match n {
            0 | 1 => first,
            _ => (first + 1 + rng.below(n as u64 - 1) as usize) % n,
        };
        let load = |endpoint: &Endpoint| endpoint.under_way as usize + endpoint.ghosts.len();
        let drawn = [first, second].map(|place| candidates.clone().nth(place).unwrap_or(0));
        let [first, second] = drawn;
        (if load(&self.all[second]) < load(&self.all[first]) { second } else { first }) as u16
    }

    /// What an attempt said of its endpoint. True if the endpoint was ejected for it, or would have been.
    #[inline]
    pub fn judge(&mut self, endpoint: u16, good: Option<bool>, now: Time) -> bool {
        self.count > 1 && self.judge_of_many(usize::from(endpoint), good, now)
    }

    #[inline(never)]
    fn judge_of_many(&mut self, index: usize, good: Option<bool>, now: Time) -> bool {
        let (Some(ejection), Some(good)) = (self.ejection, good) else { return false };
        let others = |(i, e): (usize, &Endpoint)| i != index && e.ejected_until <= now;
        let (here, _gone) = self.all.split_at_mut(self.count);
        let another_is_left = here.iter().enumerate().any(others);
        let Some(endpoint) = here.get_mut(index) else { return false };
        if self.mode.is_report() && endpoint.ejected_until > now {
            return false; // it would not have been asked
        }
        if good {
            endpoint.failures = 0;
            endpoint.ejections = 0;
            return false;
        }
        endpoint.failures = endpoint.failures.saturating_add(1);
        if endpoint.failures < ejection.after || endpoint.ejected_until > now || !another_is_left {
            return false;
        }
        endpoint.failures = 0;
        endpoint.ejections = endpoint.ejections.saturating_add(1);
        let length = ejection.base.saturating_mul(endpoint.ejections).min(ejection.most);
        endpoint.ejected_until = now + length;
        if !self.mode.is_report() {
            // Nobody will ask it for a while: what stands there is of no use to know.
            let gone = endpoint.ghosts.len();
            self.end_ghosts(index, gone);
        }
        true
    }

    /// How many are left alone now; in report mode, how many would be.
    pub fn ejected(&self, now: Time) -> usize {
        self.all.iter().filter(|endpoint| endpoint.ejected_until > now).count()
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
        self.all[usize::from(endpoint)].under_way += 1;
        self.under_way += 1;
        self.next += 1;
        self.next
    }

    /// An attempt is over and its slot free.
    #[inline]
    pub fn done(&mut self, endpoint: u16) {
        self.all[usize::from(endpoint)].under_way -= 1;
        self.under_way -= 1;
    }

    /// Nobody waits for an attempt any more, but the endpoint may still be working on it.
    pub fn ghost(&mut self, endpoint: u16, number: u64) {
        self.ghost_in(endpoint, number, Pool::NONE);
    }

    /// The same, for an attempt of a pool: it goes on holding its slot.
    pub fn ghost_in(&mut self, endpoint: u16, number: u64, pool: Pool) {
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
        let ghosts = &mut self.all[index].ghosts;
        let place = ghosts.partition_point(|other| other.number < number);
        ghosts.insert(place, Ghost { number, pool });
        self.ghosts += 1;
        if ghosts.len() > MOST_GHOSTS {
            self.end_ghosts(index, 1);
        }
    }

    /// The endpoint answered attempt `number`: it has got past all that was sent before.
    #[inline]
    pub fn answered(&mut self, endpoint: u16, number: u64, now: Time) {
        self.all[usize::from(endpoint)].answered_at = now;
        if self.ghosts > 0 {
            self.forget(usize::from(endpoint), number);
        }
    }

    /// Ends the ghosts sent before `number`.
    #[cold]
    fn forget(&mut self, index: usize, number: u64) {
        let gone = self.all[index].ghosts.partition_point(|ghost| ghost.number < number);
        self.end_ghosts(index, gone);
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
            ejections: 0,
            ejected_until: Time::ZERO,
        }
    }

    fn due_at(&self, every: Duration) -> Time {
        (self.answered_at + SILENT).max(self.probed_at + every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{in_flight::Limit, pools};

    const EVERY: Duration = Duration::from_millis(500);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn endpoints(count: u16) -> Endpoints {
        Endpoints::new(count, Some(Ejection::default()), at(0)).unwrap()
    }

    fn fail(endpoints: &mut Endpoints, endpoint: u16, times: u32, now: Time) -> bool {
        (0..times).fold(false, |ejected, _| ejected | endpoints.judge(endpoint, Some(false), now))
    }

    fn chosen(endpoints: &Endpoints, tried: Tried, now: Time) -> Vec<u16> {
        let mut rng = Rng::new(1);
        let mut seen: Vec<_> = (0..200).map(|_| endpoints.choose(now, tried, &mut rng)).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    #[test]
    fn an_answer_ends_the_ghosts_sent_before_it_and_no_others() {
        let mut endpoints = endpoints(2);
        let early = endpoints.sent(0);
        let answered = endpoints.sent(0);
        let late = endpoints.sent(0);
        let elsewhere = endpoints.sent(1);
        for (endpoint, number) in [(0, late), (0, early), (1, elsewhere)] {
            endpoints.ghost(endpoint, number);
        }
        endpoints.answered(0, answered, at(1));
        assert_eq!(endpoints.ghosts(), 2);
        let next = endpoints.sent(0);
        endpoints.answered(0, next, at(1));
        assert_eq!(endpoints.ghosts(), 1);
    }

    #[test]
    fn one_probe_per_interval_goes_to_a_silent_endpoint_with_ghosts() {
        let mut endpoints = endpoints(1);
        assert_eq!(endpoints.due(at(10_000), EVERY), None);
        for _ in 0..2 {
            let number = endpoints.sent(0);
            endpoints.ghost(0, number);
        }
        assert_eq!(endpoints.due(at(499), EVERY), None);
        assert_eq!(endpoints.next_due(EVERY), Some(at(500)));
        assert_eq!(endpoints.due(at(500), EVERY), Some(0));
        endpoints.probe(0, Pool::NONE, at(500));
        endpoints.sent(0);
        assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
        assert_eq!(endpoints.due(at(999), EVERY), None);
        assert_eq!(endpoints.due(at(1_000), EVERY), Some(0));
    }

    fn reload(endpoints: &mut Endpoints, count: u16, ejection: Option<Ejection>, now: Time) {
        endpoints.adopt(Endpoints::new(count, ejection, now).unwrap(), now);
    }

    /// X9.
    #[test]
    fn a_reload_keeps_ghosts_and_what_is_in_hand_of_those_that_stay_and_frees_those_that_go() {
        let mut endpoints = endpoints(3);
        let numbers: Vec<_> = (0..6).map(|i| (i % 3, endpoints.sent(i % 3))).collect();
        for &(endpoint, number) in &numbers[..3] {
            endpoints.ghost(endpoint, number);
        }
        reload(&mut endpoints, 1, None, at(1));
        assert_eq!((endpoints.under_way(), endpoints.ghosts(), endpoints.taken(10)), (3, 1, 4));
        assert_eq!(chosen(&endpoints, Tried::default(), at(1)), [0]);
        endpoints.answered(2, numbers[5].1, at(2));
        endpoints.done(2);
        endpoints.ghost(1, numbers[4].1);
        assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1), "none where nobody is");
        reload(&mut endpoints, 2, Some(Ejection::default()), at(3));
        assert_eq!((endpoints.all.len(), endpoints.ghosts()), (2, 1));
        assert_eq!(chosen(&endpoints, Tried::default(), at(3)), [1], "nothing stands there");
    }

    /// X9.
    #[test]
    fn an_ejection_outlives_a_reload_within_the_new_bound_and_unless_nobody_is_left() {
        let (mut endpoints, short) = (endpoints(3), Duration::from_secs(1));
        assert!(fail(&mut endpoints, 1, 5, at(0)) && fail(&mut endpoints, 0, 5, at(0)));
        reload(&mut endpoints, 4, Some(Ejection::default()), at(1));
        assert_eq!(chosen(&endpoints, Tried::default(), at(9_999)), [2, 3]);
        reload(&mut endpoints, 4, Some(Ejection { base: short, most: short, after: 5 }), at(1));
        assert_eq!((endpoints.ejected(at(1_000)), endpoints.ejected(at(1_001))), (2, 0));
        reload(&mut endpoints, 2, Some(Ejection::default()), at(1));
        assert_eq!(endpoints.ejected(at(1)), 0, "the two that were left are gone");
    }

    /// P12.
    #[test]
    fn one_dead_endpoints_ghosts_do_not_starve_the_living() {
        let (mut endpoints, mut rng) = (endpoints(4), Rng::new(1));
        for _ in 0..1_000 {
            let number = endpoints.sent(3);
            endpoints.ghost(3, number);
        }
        assert_eq!(endpoints.taken(100), 25);
        assert!((0..1_000).all(|_| endpoints.choose(at(0), Tried::default(), &mut rng) != 3));
    }

    #[test]
    fn ghosts_are_bounded_and_the_oldest_go_first() {
        let mut endpoints = endpoints(1);
        for _ in 0..MOST_GHOSTS + 10 {
            let number = endpoints.sent(0);
            endpoints.ghost(0, number);
        }
        assert_eq!(endpoints.ghosts(), MOST_GHOSTS);
        assert_eq!(endpoints.all[0].ghosts[0].number, 11);
    }

    #[test]
    fn a_ghost_gives_its_pools_slot_back_however_it_ends() {
        let (mut endpoints, pool) = (endpoints(2), Pool::of(0));
        let spec = pools::Spec::of(&[5_000]).unwrap();
        endpoints.set_pools(Pools::new(spec, Limit::Off, 2).unwrap());
        let held = |endpoints: &Endpoints| {
            let pool = endpoints.pools().unwrap().snapshot()[0].unwrap();
            (pool.in_flight, pool.ghosts)
        };
        let haunt = |endpoints: &mut Endpoints, times| {
            for _ in 0..times {
                endpoints.pools_mut().unwrap().sent(pool);
                let number = endpoints.sent(1);
                endpoints.ghost_in(1, number, pool);
            }
        };
        haunt(&mut endpoints, MOST_GHOSTS + 10);
        assert_eq!(held(&endpoints), (0, MOST_GHOSTS as u32), "forgotten");
        endpoints.probe(1, Pool::NONE, at(0));
        assert_eq!(held(&endpoints), (0, MOST_GHOSTS as u32 - 1), "displaced");
        let answered = endpoints.sent(1);
        haunt(&mut endpoints, 3);
        endpoints.answered(1, answered, at(0));
        assert_eq!(held(&endpoints), (0, 3), "answered");
        assert!(fail(&mut endpoints, 1, 5, at(0)));
        assert_eq!(held(&endpoints), (0, 0), "ejected");
    }

    #[test]
    fn failures_in_a_row_eject_an_endpoint_for_longer_each_time() {
        let mut endpoints = endpoints(3);
        assert!(!fail(&mut endpoints, 1, 4, at(0)));
        endpoints.judge(1, Some(true), at(0));
        assert!(!fail(&mut endpoints, 1, 4, at(0)), "a success in between");
        assert!(fail(&mut endpoints, 1, 1, at(0)));
        assert_eq!(chosen(&endpoints, Tried::default(), at(9_999)), [0, 2]);
        assert_eq!(chosen(&endpoints, Tried::default(), at(10_000)), [0, 1, 2]);
        assert!(fail(&mut endpoints, 1, 5, at(10_000)));
        assert_eq!(endpoints.ejected(at(29_999)), 1);
        assert_eq!(endpoints.ejected(at(30_000)), 0);
    }

    #[test]
    fn the_last_endpoint_is_never_ejected() {
        let mut endpoints = endpoints(3);
        for endpoint in 0..3 {
            fail(&mut endpoints, endpoint, 1_000, at(0));
        }
        assert_eq!(endpoints.ejected(at(1)), 2);
        assert_eq!(chosen(&endpoints, Tried::default(), at(1)), [2]);
        assert!(!fail(&mut self::endpoints(1), 0, 1_000, at(0)));
    }

    #[test]
    fn a_retry_goes_where_its_call_has_not_been_unless_it_has_been_everywhere() {
        let endpoints = endpoints(3);
        let tried = Tried::default().with(0);
        assert_eq!(chosen(&endpoints, tried, at(0)), [1, 2]);
        assert_eq!(chosen(&endpoints, tried.with(2), at(0)), [1]);
        assert_eq!(chosen(&endpoints, tried.with(2).with(1), at(0)), [0, 1, 2]);
    }

    #[test]
    fn ejection_ends_the_ghosts_that_stood_there() {
        let mut endpoints = endpoints(2);
        let number = endpoints.sent(1);
        endpoints.ghost(1, number);
        assert!(fail(&mut endpoints, 1, 5, at(0)));
        assert_eq!(endpoints.ghosts(), 0);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let usual = Ejection::default();
        let nonsense = [
            (0, usual),
            (1, Ejection { after: 0, ..usual }),
            (1, Ejection { base: Duration::ZERO, ..usual }),
            (1, Ejection { most: Duration::from_secs(1), ..usual }),
        ];
        for (count, ejection) in nonsense {
            let message = Endpoints::new(count, Some(ejection), at(0)).unwrap_err().to_string();
            assert!(message.contains("write"), "{message}");
        }
    }

    #[test]
    fn an_answer_ends_what_was_sent_before_it_and_nothing_else() {
        let mut endpoints = endpoints(1);
        let numbers = [0; 3].map(|endpoint| endpoints.sent(endpoint));
        numbers.iter().for_each(|&number| endpoints.ghost(0, number));
        endpoints.answered(0, numbers[1], at(0));
        assert_eq!(endpoints.ghosts(), 2);
    }

    #[test]
    fn failures_without_end_are_counted_to_the_end_of_the_counter() {
        let mut endpoints = endpoints(2);
        endpoints.all[1].ejected_until = Time::MAX;
        endpoints.all[0].failures = u32::MAX;
        assert!(!endpoints.judge(0, Some(false), at(0)), "the last one is never ejected");
        assert_eq!(endpoints.all[0].failures, u32::MAX);
    }
}

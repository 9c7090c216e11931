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
//! ```
//! use quell_core::{Rng, Time, endpoints::Endpoints};
//!
//! let mut endpoints = Endpoints::new(1, Time::ZERO);
//! let (caller_left, answered) = (endpoints.sent(0), endpoints.sent(0));
//! endpoints.ghost(0, caller_left);
//! assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
//! endpoints.answered(0, answered, Time::ZERO);
//! assert_eq!(endpoints.ghosts(), 0);
//! ```

use core::time::Duration;
use std::collections::VecDeque;

use crate::{Rng, Time};

/// An endpoint that served this recently needs no probe.
const SILENT: Duration = Duration::from_millis(500);
/// Ghosts remembered per endpoint; beyond it the oldest are forgotten.
const MOST_GHOSTS: usize = 4096;

#[derive(Debug)]
struct Endpoint {
    under_way: u32,
    /// Numbers of the attempts that became ghosts, ascending.
    ghosts: VecDeque<u64>,
    answered_at: Time,
    probed_at: Time,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Endpoints {
    all: Vec<Endpoint>,
    under_way: u32,
    ghosts: usize,
    next: u64,
}

impl Endpoints {
    /// `count` endpoints with nothing in hand; at least one.
    pub fn new(count: u16, now: Time) -> Self {
        let fresh = |_| Endpoint {
            under_way: 0,
            ghosts: VecDeque::new(),
            answered_at: now,
            probed_at: now,
        };
        Self { all: (0..count.max(1)).map(fresh).collect(), under_way: 0, ghosts: 0, next: 0 }
    }

    /// Attempts under way, ghosts not counted.
    pub fn under_way(&self) -> u32 {
        self.under_way
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
        let share = (limit / self.all.len() as u32).max(1) as usize;
        let held: usize = self.all.iter().map(|e| e.ghosts.len().min(share)).sum();
        self.under_way.saturating_add(held as u32)
    }

    /// Chooses where to send: the less loaded of two drawn at random, ghosts counted as load.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> u16 {
        if self.all.len() == 1 { 0 } else { self.choose_of_two(rng) }
    }

    #[inline(never)]
    fn choose_of_two(&self, rng: &mut Rng) -> u16 {
        let n = self.all.len() as u64;
        let first = rng.below(n);
        let second = (first + 1 + rng.below(n - 1)) % n;
        let load = |i: u64| {
            let endpoint = &self.all[i as usize];
            endpoint.under_way as usize + endpoint.ghosts.len()
        };
        (if load(second) < load(first) { second } else { first }) as u16
    }

    /// The endpoint that is due a probe: ghosts stand, nothing came back, and the last probe was long enough ago.
    pub fn due(&self, now: Time, every: Duration) -> Option<u16> {
        if self.ghosts == 0 {
            return None;
        }
        let due = |e: &Endpoint| !e.ghosts.is_empty() && e.due_at(every) <= now;
        self.all.iter().position(due).map(|i| i as u16)
    }

    /// When the next probe will be due, if any ghost stands.
    pub fn next_due(&self, every: Duration) -> Option<Time> {
        self.all.iter().filter(|e| !e.ghosts.is_empty()).map(|e| e.due_at(every)).min()
    }

    /// Sends a probe in place of the oldest ghost there.
    pub fn probe(&mut self, endpoint: u16, now: Time) -> u64 {
        self.all[usize::from(endpoint)].probed_at = now;
        self.displace(endpoint);
        self.sent(endpoint)
    }

    /// Takes the place of the oldest ghost, if there is one.
    pub fn displace(&mut self, endpoint: u16) {
        if self.all[usize::from(endpoint)].ghosts.pop_front().is_some() {
            self.ghosts -= 1;
        }
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
        self.done(endpoint);
        let ghosts = &mut self.all[usize::from(endpoint)].ghosts;
        let place = ghosts.partition_point(|&other| other < number);
        ghosts.insert(place, number);
        self.ghosts += 1;
        if ghosts.len() > MOST_GHOSTS {
            self.displace(endpoint);
        }
    }

    /// The endpoint answered attempt `number`: it has got past all that was sent before.
    #[inline]
    pub fn answered(&mut self, endpoint: u16, number: u64, now: Time) {
        let endpoint = &mut self.all[usize::from(endpoint)];
        endpoint.answered_at = now;
        if self.ghosts > 0 {
            self.ghosts -= endpoint.forget(number);
        }
    }
}

impl Endpoint {
    /// Ends the ghosts sent before `number`, and answers how many there were.
    #[cold]
    fn forget(&mut self, number: u64) -> usize {
        let gone = self.ghosts.partition_point(|&ghost| ghost < number);
        self.ghosts.drain(..gone);
        gone
    }

    fn due_at(&self, every: Duration) -> Time {
        (self.answered_at + SILENT).max(self.probed_at + every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(500);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn an_answer_ends_the_ghosts_sent_before_it_and_no_others() {
        let mut endpoints = Endpoints::new(2, at(0));
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
        let mut endpoints = Endpoints::new(1, at(0));
        assert_eq!(endpoints.due(at(10_000), EVERY), None);
        for _ in 0..2 {
            let number = endpoints.sent(0);
            endpoints.ghost(0, number);
        }
        assert_eq!(endpoints.due(at(499), EVERY), None);
        assert_eq!(endpoints.next_due(EVERY), Some(at(500)));
        assert_eq!(endpoints.due(at(500), EVERY), Some(0));
        endpoints.probe(0, at(500));
        assert_eq!((endpoints.under_way(), endpoints.ghosts()), (1, 1));
        assert_eq!(endpoints.due(at(999), EVERY), None);
        assert_eq!(endpoints.due(at(1_000), EVERY), Some(0));
    }

    /// P12.
    #[test]
    fn one_dead_endpoints_ghosts_do_not_starve_the_living() {
        let (mut endpoints, mut rng) = (Endpoints::new(4, at(0)), Rng::new(1));
        for _ in 0..1_000 {
            let number = endpoints.sent(3);
            endpoints.ghost(3, number);
        }
        assert_eq!(endpoints.taken(100), 25);
        assert!((0..1_000).all(|_| endpoints.choose(&mut rng) != 3));
    }

    #[test]
    fn ghosts_are_bounded_and_the_oldest_go_first() {
        let mut endpoints = Endpoints::new(1, at(0));
        for _ in 0..MOST_GHOSTS + 10 {
            let number = endpoints.sent(0);
            endpoints.ghost(0, number);
        }
        assert_eq!(endpoints.ghosts(), MOST_GHOSTS);
        assert_eq!(endpoints.all[0].ghosts[0], 11);
    }
}

//! Levers: what people change by hand in an incident, while calls are under way.
//!
//! **Why.** In an incident people know more than any window or estimate: that a deploy is being rolled back, that a bill is
//! about to explode, that the queue holds nothing worth serving. What they change then is wrong an hour later, and by then
//! everybody has forgotten it.
//!
//! **How.** A [`Lever`] is pulled for an upstream, or for one route of it, until an instant or for good. Pulling one again
//! replaces it. When it ends, by itself or by hand, everything is as it would be if nobody had pulled it: what was
//! written still stands underneath, and nothing is learned from a limit that was set by hand. A reload changes what
//! stands underneath and leaves levers alone. While none is pulled they cost one look at an empty list.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Lever, Time, Upstream, spec::UpstreamSpec};
//!
//! let (now, mut wake) = (Time::ZERO, Vec::new());
//! let mut upstream = Upstream::new(UpstreamSpec::gateway(), Duration::from_secs(5), 1, now)?;
//! let before = upstream.snapshot(now).limit;
//! let until = now + Duration::from_secs(600);
//! upstream.pull(now, Lever::Limit(20), None, Some(until), &mut wake).unwrap();
//! assert_eq!(upstream.snapshot(now).limit, 20);
//! assert_eq!(upstream.snapshot(until).limit, before);
//! # Ok::<_, quell_core::spec::Invalid>(())
//! ```

use super::{Ask, Refusal, Upstream, Wake};
use crate::{
    Reason, Time,
    breaker::{Breaker, Mode, State},
};

/// Levers in force at a time, and routes whose waiting calls were dropped that are remembered.
const MOST: usize = 64;

/// What can be changed by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lever {
    /// Nothing is retried or hedged, what sleeps before its retry included ([`Reason::RetriesOff`]). First attempts pass.
    RetriesOff,
    /// So many attempts per call, the first included, whatever its policy says; at least 1. Budget, deadline and the credit
    /// that a caller brought still hold.
    Attempts(u32),
    /// So many under way at once, at least 1, whether or not the limit is obeyed otherwise. For a whole upstream.
    Limit(u32),
    /// Nobody is let through ([`Reason::BreakerOpen`]). For a whole upstream.
    BreakerOpen,
    /// Everybody is let through, whatever came back. For a whole upstream.
    BreakerClosed,
}

impl Lever {
    /// Whether pulling the one is pulling the other anew, whatever its number.
    pub fn replaces(self, other: Self) -> bool {
        use Lever::{Attempts, BreakerClosed, BreakerOpen, Limit, RetriesOff};
        matches!(
            (self, other),
            (RetriesOff, RetriesOff)
                | (Attempts(_), Attempts(_))
                | (Limit(_), Limit(_))
                | (BreakerOpen | BreakerClosed, BreakerOpen | BreakerClosed)
        )
    }

    /// Whether it is about all that a route's calls share with others.
    const fn is_for_all(self) -> bool {
        matches!(self, Self::Limit(_) | Self::BreakerOpen | Self::BreakerClosed)
    }
}

/// A lever that is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// Which.
    pub lever: Lever,
    /// Whose calls it is about, by [the route of their policy](crate::Policy::for_route); `None` is all.
    pub route: Option<u64>,
    /// When it ends by itself.
    pub until: Option<Time>,
}

/// Why a lever cannot be pulled. The message says what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// All routes share it.
    #[error(
        "limit and breaker belong to the upstream, and all its routes share them: name the upstream"
    )]
    OfAll,
    /// The list of them is bounded.
    #[error("{MOST} levers are pulled: undo those that are no longer needed first")]
    TooMany,
}

impl Upstream {
    /// Pulls a lever for all calls or for those of one route, until an instant or for good. Whoever can go now, or can
    /// wait no longer, is put into `wake`.
    pub fn pull(
        &mut self,
        now: Time,
        lever: Lever,
        route: Option<u64>,
        until: Option<Time>,
        wake: &mut Vec<Wake>,
    ) -> Result<(), Stuck> {
        if lever.is_for_all() && route.is_some() {
            return Err(Stuck::OfAll);
        }
        self.end_levers(now);
        let place =
            self.levers.iter().position(|own| own.route == route && own.lever.replaces(lever));
        let pulled = Pulled { lever, route, until };
        match place {
            Some(place) => self.levers[place] = pulled,
            None if self.levers.len() >= MOST => return Err(Stuck::TooMany),
            None => self.levers.push(pulled),
        }
        self.in_flight.shut(true);
        match lever {
            Lever::RetriesOff | Lever::Attempts(_) => {}
            Lever::Limit(limit) => {
                self.in_flight.hold(limit);
                self.note_limit();
            }
            Lever::BreakerOpen => self.set_breaker_mode(now, Mode::ForcedOpen, until),
            Lever::BreakerClosed => self.set_breaker_mode(now, Mode::ForcedClosed, until),
        }
        self.poll(now, wake);
        Ok(())
    }

    /// Lets go of a lever, whatever its number. False if it was not pulled.
    pub fn undo(
        &mut self,
        now: Time,
        lever: Lever,
        route: Option<u64>,
        wake: &mut Vec<Wake>,
    ) -> bool {
        self.end_levers(now);
        let is_meant = |own: &Pulled| own.route == route && own.lever.replaces(lever);
        let Some(place) = self.levers.iter().position(is_meant) else { return false };
        let undone = self.levers.remove(place);
        if let Lever::BreakerOpen | Lever::BreakerClosed = undone.lever {
            self.set_breaker_mode(now, self.breaker.spec().mode, None);
        }
        self.ended(undone);
        self.poll(now, wake);
        true
    }

    /// The levers that are pulled, in the order they were.
    pub fn levers(&mut self, now: Time) -> &[Pulled] {
        self.end_levers(now);
        &self.levers
    }

    /// Refuses everybody who waits in the queue ([`Reason::Shed`]), of one route or all, and ends the calls that sleep before
    /// a retry, each when it wakes: with the reply that was kept for it, and with what it paid given back. Answers
    /// how many were in the queue.
    pub fn drop_waiting(&mut self, now: Time, route: Option<u64>, wake: &mut Vec<Wake>) -> usize {
        self.dropped.retain(|(of, _)| *of != route);
        if self.dropped.len() >= MOST {
            self.dropped.remove(0); // of the oldest, whoever slept then has long woken
        }
        self.drops = self.drops.saturating_add(1);
        self.dropped.push((route, self.drops));
        let before = wake.len();
        let is_meant = |ask: &Ask| route.is_none() || ask.route == route;
        while let Some((ticket, _)) = self.queue.take_if(is_meant) {
            wake.push(Wake { ticket, result: Err(self.refuse(now, Reason::Shed)) });
        }
        wake.len() - before
    }

    /// Changes what the breaker's decisions mean, those of all keys included, until an instant or for good.
    pub fn set_breaker_mode(&mut self, now: Time, mode: Mode, until: Option<Time>) {
        self.change_breaker(now, |breaker| breaker.set_mode(now, mode, until));
        if let Some(shards) = self.curbs.as_mut().and_then(|curbs| curbs.shards.as_mut()) {
            shards.set_mode(now, mode, until);
        }
    }

    /// Lets so many be under way at once from now on, at least 1, until the next reload: for whoever decides elsewhere. In an
    /// incident [pull](Upstream::pull) a [`Lever::Limit`], which goes before it.
    pub fn set_limit(&mut self, now: Time, limit: u32, wake: &mut Vec<Wake>) {
        self.in_flight.set(limit);
        self.note_limit();
        if !self.queue.is_empty() {
            self.grant(now, wake);
        }
    }

    /// Changes the breaker by hand, and tells if that changed its state.
    pub(super) fn change_breaker(&mut self, now: Time, change: impl FnOnce(&mut Breaker)) {
        let was = self.breaker.state(now);
        self.note_opened(now);
        change(&mut self.breaker);
        let is = self.breaker.state(now);
        self.breaker.opened_by_itself();
        if is != was && is != State::HalfOpen {
            self.note_breaker(now, is);
        }
    }

    /// Fills the retry budget as at the start, and those within it.
    pub fn reset_budget(&mut self, now: Time) {
        let changes = self.purse.reset(now);
        self.note_budget(changes);
    }

    /// How many attempts a call may make that is written to make so many, or why none but the first.
    pub(crate) fn allowed(
        &mut self,
        now: Time,
        route: Option<u64>,
        written: u32,
    ) -> Result<u32, Reason> {
        self.end_levers(now);
        let mut allowed = written;
        // What is said of the route goes before what is said of all.
        let of_all = self.levers.iter().filter(|own| own.route.is_none());
        let of_route = self.levers.iter().filter(|own| own.route.is_some() && own.route == route);
        for own in of_all.chain(of_route) {
            match own.lever {
                Lever::RetriesOff => return Err(Reason::RetriesOff),
                Lever::Attempts(attempts) => allowed = attempts.max(1),
                Lever::Limit(_) | Lever::BreakerOpen | Lever::BreakerClosed => {}
            }
        }
        Ok(allowed)
    }

    /// How many more attempts a call may make than it is written to make.
    #[inline]
    pub(crate) fn raised(&self, now: Time, route: Option<u64>, written: u32) -> u32 {
        if self.levers.is_empty() { 0 } else { self.raised_by_hand(now, route, written) }
    }

    #[cold]
    fn raised_by_hand(&self, now: Time, route: Option<u64>, written: u32) -> u32 {
        let attempts = |of: Option<u64>| {
            let own = |own: &&Pulled| own.route == of && own.until.is_none_or(|until| now < until);
            self.levers.iter().filter(own).find_map(|own| match own.lever {
                Lever::Attempts(attempts) => Some(attempts),
                _ => None,
            })
        };
        let told = route.and_then(|route| attempts(Some(route))).or_else(|| attempts(None));
        told.map_or(0, |told| told.saturating_sub(written))
    }

    /// Whether a retry may go out at all.
    #[cold]
    pub(super) fn retries_are_on(&mut self, now: Time, ask: &Ask) -> Result<(), Refusal> {
        match self.allowed(now, ask.route, ask.attempt) {
            Ok(_) => Ok(()),
            Err(reason) => Err(self.refuse(now, reason)),
        }
    }

    /// How often waiting calls were dropped so far: whoever goes to sleep remembers it.
    pub(crate) fn drops(&self) -> u32 {
        self.drops
    }

    /// Whether calls of this route were dropped since then.
    pub(crate) fn was_dropped(
        &mut self,
        now: Time,
        route: Option<u64>,
        since: u32,
    ) -> Option<Refusal> {
        let is_meant = |of: &Option<u64>| of.is_none() || *of == route;
        let later = self.dropped.iter().any(|(of, number)| *number > since && is_meant(of));
        later.then(|| self.refuse(now, Reason::Shed))
    }

    /// Ends the levers whose time is over.
    #[inline]
    pub(super) fn end_levers(&mut self, now: Time) {
        if !self.levers.is_empty() {
            self.end_levers_at(now);
        }
    }

    #[cold]
    fn end_levers_at(&mut self, now: Time) {
        let is_over = |own: &Pulled| own.until.is_some_and(|until| until <= now);
        while let Some(place) = self.levers.iter().position(is_over) {
            let over = self.levers.remove(place);
            self.ended(over);
        }
    }

    /// The breaker knows its own time.
    fn ended(&mut self, over: Pulled) {
        self.in_flight.shut(self.is_curbed());
        if let Lever::Limit(_) = over.lever {
            self.in_flight.let_go();
            self.note_limit();
        }
    }

    /// When the limit changes by itself.
    pub(super) fn limit_ends(&self) -> Option<Time> {
        let is_limit = |own: &&Pulled| matches!(own.lever, Lever::Limit(_));
        self.levers.iter().find(is_limit)?.until
    }
}

#[cfg(test)]
#[path = "levers_raise_tests.rs"]
mod raise_tests;
#[cfg(test)]
#[path = "levers_tests.rs"]
mod tests;

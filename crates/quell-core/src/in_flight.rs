//! InFlight: how much may be under way at once, found by watching.
//!
//! **Why.** A storm lives on queued work whose callers have left. A limit below what the upstream can finish
//! within its callers' patience starves it, and nothing else heals a stalled service at once. Nobody
//! knows the right number, and a wrong one written by hand never heals or refuses healthy traffic, so
//! the limit is told neither the upstream's capacity, nor its service time, nor how long callers wait.
//!
//! **How.** An adaptive limit is found (`finder.rs`) by what answers take and how that changes with how many are under way; it is
//! never more than `rate · T/2`, as work that outlasts its callers is for nobody. `rate` is the upstream's [best of
//! late](crate::pace). `T` is the callers' [patience](crate::patience), never under three times the upstream's base nor
//! under 50 ms.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, in_flight::{InFlight, Limit, Load}};
//!
//! let mut limit = InFlight::new(Limit::Adaptive { ceiling: 4096 }, Duration::from_secs(5))?;
//! for i in 0..10_000 {
//!     let at = Time::ZERO + Duration::from_millis(i);
//!     limit.served(at + Duration::from_millis(20), at, Load { under_way: 20, queued: false });
//! }
//! assert!((20..=30).contains(&limit.limit()), "1,000/s × 20 ms, and a little room");
//! # Ok::<_, quell_core::in_flight::Invalid>(())
//! ```

mod finder;
mod interval;
mod logs;
mod room;

use core::time::Duration;

use finder::Finder;

use crate::{
    Time,
    pace::{Known, Pace},
    patience::Patience,
    time::nanos,
};

/// The least that may be under way.
const LEAST: f64 = 4.0;
/// No ceiling is lower.
const LEAST_CEILING: u32 = 8;
/// Those who leave within this time leave together.
const TOGETHER: Duration = Duration::from_millis(50);
/// So many service times an answer may take in health.
const USUAL: u32 = 3;
/// The least patience that is believed, and the least while nothing is known of the service.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
/// What may be under way while nothing is known and nobody complains.
const UNKNOWN: u32 = 1024;

/// An in-flight limit as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    Off,
    /// This many.
    Fixed(u32),
    /// As many as the upstream can serve while its callers wait.
    Adaptive {
        /// Never more than this many.
        ceiling: u32,
    },
}

/// Why a [`Limit`] is not one. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Everything would be refused.
    #[error(
        "in_flight.limit is 0, so every call would be refused: write at least 1, or \"adaptive\""
    )]
    Fixed,
    /// The limit could not even reach its minimum.
    #[error("in_flight.ceiling is {0}: write at least 8, such as 4096")]
    Ceiling(u32),
}

/// How busy an upstream is when an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// How many are under way, itself included.
    pub under_way: u32,
    /// Whether somebody waits for a slot.
    pub queued: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct InFlight {
    kind: Limit,
    limit: u32,
    per_try: Duration,
    left: Patience,
    /// `T`, as of the last decision.
    patience: Duration,
    /// When somebody last left while others were answered.
    left_at: Time,
    /// The same, as every answer is compared with it.
    patience_nanos: u64,
    pace: Pace,
    finder: Finder,
    /// While a limit is held by hand: what stands underneath.
    beneath: Option<(Limit, u32)>,
}

impl InFlight {
    /// A limit for calls whose attempts may take `per_try` each.
    pub fn new(kind: Limit, per_try: Duration) -> Result<Self, Invalid> {
        let limit = match kind {
            Limit::Fixed(0) => return Err(Invalid::Fixed),
            Limit::Adaptive { ceiling } if ceiling < LEAST_CEILING => {
                return Err(Invalid::Ceiling(ceiling));
            }
            Limit::Off => u32::MAX,
            Limit::Fixed(n) => n,
            Limit::Adaptive { ceiling } => UNKNOWN.min(ceiling),
        };
        Ok(Self {
            kind,
            limit,
            per_try,
            left: Patience::default(),
            patience: per_try,
            left_at: Time::ZERO,
            patience_nanos: nanos(per_try),
            pace: Pace::default(),
            finder: Finder::default(),
            beneath: None,
        })
    }

    /// Takes on the kind and timeout of one just made and keeps all that was learned: patience and pace, which are watched
    /// under every kind, and the limit that was found. What is under way beyond the new limit drains. One that is held by
    /// hand stays.
    pub fn adopt(&mut self, fresh: &Self) {
        let held = self.is_held().then_some(self.limit);
        (self.kind, self.limit, self.per_try) = (fresh.kind, fresh.limit, fresh.per_try);
        if let Limit::Adaptive { ceiling } = self.kind {
            self.follow(ceiling);
        }
        self.beneath = None;
        self.decide();
        if let Some(held) = held {
            self.hold(held);
        }
    }

    /// This many from now on, whatever was written: for whoever decides elsewhere.
    pub fn set(&mut self, limit: u32) {
        let limit = limit.max(1);
        let set = (Limit::Fixed(limit), limit);
        match &mut self.beneath {
            Some(beneath) => *beneath = set,
            None => (self.kind, self.limit) = set,
        }
    }

    /// This many until [let go](InFlight::let_go), whatever was written or is found. Meanwhile only patience and pace are
    /// watched: what comes back under a limit set by hand says nothing of the right one.
    pub fn hold(&mut self, limit: u32) {
        self.beneath.get_or_insert((self.kind, self.limit));
        let limit = limit.max(1);
        (self.kind, self.limit) = (Limit::Fixed(limit), limit);
    }

    /// As it was before it was held.
    pub fn let_go(&mut self) {
        if let Some(beneath) = self.beneath.take() {
            (self.kind, self.limit) = beneath;
        }
    }

    /// Whether it is held by hand.
    pub fn is_held(&self) -> bool {
        self.beneath.is_some()
    }

    /// How many may be under way, whatever the time: what is used, and a little more.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many may be under way now, if that many come at once: more than [`limit`](InFlight::limit) where it was quiet.
    pub fn limit_at(&self, now: Time) -> u32 {
        match self.kind {
            Limit::Adaptive { ceiling } => self.finder.limit_at(now).min(ceiling),
            _ => self.limit,
        }
    }

    /// The same for one who finds the limit reached and would be sent beyond it.
    #[cold]
    pub fn stretch(&mut self, now: Time) -> u32 {
        match self.kind {
            Limit::Adaptive { ceiling } => self.finder.stretch(now).min(ceiling),
            _ => self.limit,
        }
    }

    /// The breaker has opened or closed: a burst is not to find out whether the service is well again.
    pub fn tripped(&mut self, now: Time) {
        self.finder.close_room(now);
    }

    /// What was learned of the upstream, once enough was served.
    pub fn known(&self) -> Option<Known> {
        self.pace.known()
    }

    /// `T`: how long callers wait for an answer.
    #[inline]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether an answer came to a caller who was believed to have left.
    #[inline]
    pub fn is_late(&self, now: Time, since: Time) -> bool {
        now.nanos_since(since) > self.patience_nanos
    }

    /// The upstream did its work on what was sent at that instant. True if that moved the limit.
    #[inline]
    pub fn served(&mut self, now: Time, sent_at: Time, load: Load) -> bool {
        if self.pace.served(now, now.since(sent_at)) {
            self.decide();
        }
        let Limit::Adaptive { ceiling } = self.kind else { return false };
        self.finder.answered(now, sent_at, load) && self.follow(ceiling)
    }

    /// Nobody waits any more for what was sent at that instant. True if that moved the limit.
    #[cold]
    pub fn left(&mut self, now: Time, sent_at: Time, load: Load) -> bool {
        let Limit::Adaptive { ceiling } = self.kind else { return false };
        self.finder.left(now, sent_at, load);
        self.follow(ceiling)
    }

    /// When to [look again](InFlight::look) although nothing is answered; mostly never.
    pub fn looks_at(&self) -> Time {
        if let Limit::Adaptive { .. } = self.kind { self.finder.looks_at() } else { Time::MAX }
    }

    /// Does what is due. True if that moved the limit.
    pub fn look(&mut self, now: Time) -> bool {
        let Limit::Adaptive { ceiling } = self.kind else { return false };
        self.finder.wake(now);
        self.follow(ceiling)
    }

    /// Takes on the limit that was found. True if it is another one.
    #[inline]
    fn follow(&mut self, ceiling: u32) -> bool {
        let found = self.finder.limit().min(ceiling);
        core::mem::replace(&mut self.limit, found) != found
    }

    /// Somebody found no slot, whatever became of it.
    pub fn press(&mut self) {
        if !self.is_held() {
            self.finder.press();
        }
    }

    /// A caller who came then left without an answer, or took one that was later than expected. While others are answered,
    /// who leaves within a few service times has not waited in vain, and of those who leave together at an age that nobody
    /// is impatient at only one counts: a load generator ended, a client was restarted, a health check hung up.
    #[cold]
    pub fn learn_patience(&mut self, now: Time, since: Time) {
        let age = now.since(since);
        if self.pace.has_served_after(since) {
            if self.pace.known().is_some_and(|known| age < known.base * USUAL) {
                return;
            }
            if age < LEAST_PATIENCE {
                if now.since(self.left_at) < TOGETHER {
                    return;
                }
                self.left_at = now;
            }
        }
        self.left.learn(age);
        self.decide();
    }

    fn decide(&mut self) {
        let waits = self.left.learned().map_or(self.per_try, |left| left.min(self.per_try));
        // Whoever leaves sooner than that says nothing of how long an answer may take.
        let least = self
            .pace
            .known()
            .map_or(UNKNOWN_PATIENCE, |known| (known.base * USUAL).max(LEAST_PATIENCE));
        self.patience = waits.max(least);
        self.patience_nanos = nanos(self.patience);
        if let (Some(Known { rate, .. }), false) = (self.pace.known(), self.is_held()) {
            let ceiling =
                if let Limit::Adaptive { ceiling } = self.kind { ceiling } else { u32::MAX };
            self.finder.bounds(rate, self.patience, ceiling);
        }
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;

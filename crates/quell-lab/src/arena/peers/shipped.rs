//! Quell's rule before it knew kinds of calls: every cut is an experiment, whatever is asked for.
//!
//! **Why.** It won nine of ten worlds in which all requests are alike, and refused half of everybody where they are not. What takes its
//! place is measured beside it, in all worlds.
//!
//! **How.** A copy of what the core had then, but for what only a core needs (reloads, levers, fixed limits). It is told of every answer,
//! of every caller who leaves and of everybody who finds no slot, as the core told it. Ghosts, queue and breaker are those of
//! today.

mod finder;
mod heard;
mod interval;
mod logs;
mod pace;
mod patience;
mod room;

use core::time::Duration;

use quell_core::Time;

use self::{
    finder::Finder,
    pace::{Known, Pace},
    patience::Patience,
};
use super::super::{Answered, Control, Load, Seen};

/// The least that may be under way.
const LEAST: f64 = 4.0;
/// The most, as the gateway had it.
const CEILING: u32 = 4096;
/// Those who leave within this time leave together.
const TOGETHER: Duration = Duration::from_millis(50);
/// So many service times an answer may take in health.
const USUAL: u32 = 3;
/// The least patience that is believed, and the least while nothing is known of the service.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
/// What may be under way while nothing is known and nobody complains.
const UNKNOWN: u32 = 1024;

/// As a number that holds every duration worth waiting for.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// An instant so many nanoseconds later.
trait Plus {
    fn plus(self, nanos: u64) -> Self;
}

impl Plus for Time {
    fn plus(self, nanos: u64) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(nanos))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Shipped {
    limit: u32,
    per_try: Duration,
    left: Patience,
    /// `T`, as of the last decision.
    patience: Duration,
    /// When somebody last left while others were answered.
    left_at: Time,
    pace: Pace,
    finder: Finder,
}

impl Shipped {
    /// For calls whose attempts may take `per_try` each.
    pub(in super::super) fn new(per_try: Duration) -> Self {
        Self {
            limit: UNKNOWN,
            per_try,
            left: Patience::default(),
            patience: per_try,
            left_at: Time::ZERO,
            pace: Pace::default(),
            finder: Finder::default(),
        }
    }

    fn served(&mut self, now: Time, sent_at: Time, load: Load) {
        if self.pace.served(now, now.since(sent_at)) {
            self.decide();
        }
        if self.finder.answered(now, sent_at, load) {
            self.follow();
        }
    }

    fn follow(&mut self) {
        self.limit = self.finder.limit().min(CEILING);
    }

    /// A caller who came then left without an answer, or took one that was later than expected.
    fn learn_patience(&mut self, now: Time, since: Time) {
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
        if let Some(Known { rate, .. }) = self.pace.known() {
            self.finder.bounds(rate, self.patience, CEILING);
        }
    }
}

impl Control for Shipped {
    fn answered(&mut self, _: &Answered) {}
    fn left(&mut self, _: Time, _: Duration, _: bool) {}

    fn saw(&mut self, now: Time, seen: Seen) {
        match seen {
            Seen::Served { since, sent_at, load } => {
                self.served(now, sent_at, load);
                if now.since(since) > self.patience {
                    self.learn_patience(now, since);
                }
            }
            Seen::Left { sent_at, load } => {
                self.finder.left(now, sent_at, load);
                self.follow();
            }
            Seen::GaveUp { since } => self.learn_patience(now, since),
            Seen::Pressed => self.finder.press(),
            Seen::Tripped => self.finder.close_room(now),
        }
    }

    fn before(&mut self, now: Time, under_way: u32) -> Option<u32> {
        let at = if under_way < self.limit {
            self.finder.limit_at(now)
        } else {
            self.finder.stretch(now)
        };
        Some(at.min(CEILING))
    }

    fn after(&mut self, now: Time) -> u32 {
        self.finder.wake(now);
        self.follow();
        self.finder.limit_at(now).min(CEILING)
    }

    fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the core's own test had it: 1,000 per second of 20 ms, and a little room.
    #[test]
    fn it_settles_a_little_above_what_is_used() {
        let mut rule = Shipped::new(Duration::from_secs(5));
        for i in 0..10_000 {
            let since = Time::ZERO + Duration::from_millis(i);
            let load = Load { under_way: 20, queued: false };
            let now = since + Duration::from_millis(20);
            rule.saw(now, Seen::Served { since, sent_at: since, load });
        }
        assert!((20..=30).contains(&rule.limit()), "{}", rule.limit());
    }

    #[test]
    fn before_anything_is_known_four_who_leave_take_it_down_to_its_least() {
        let mut rule = Shipped::new(Duration::from_secs(5));
        assert_eq!(rule.limit(), UNKNOWN);
        for i in 0..4 {
            let now = Time::ZERO + Duration::from_secs(1 + i);
            let load = Load { under_way: 4, queued: false };
            rule.saw(now, Seen::Left { sent_at: Time::ZERO, load });
        }
        assert_eq!(rule.limit(), 4);
    }
}

//! Who comes when: open loops, closed loops, and users who ask again.

use core::time::Duration;

use quell_core::{Rng, Time};

use super::callers::User;
use crate::{
    dist::Draw,
    scenario::{Arrivals, Curve, Invalid, Resubmit, Scenario},
    verdict::Count,
    world::{Event, World},
};

/// When the next user comes.
#[derive(Debug)]
pub(super) struct Arriving {
    pattern: Pattern,
    arrivals: Rng,
    thoughts: Rng,
    resubmit: Option<(Resubmit, Draw)>,
    resubmits: Rng,
}

#[derive(Debug)]
enum Pattern {
    Random {
        mean: Duration,
    },
    Even {
        gap: Duration,
    },
    /// The gap at the curve's peak; whoever comes too soon for its height stays away.
    Shaped {
        curve: Curve,
        peak: f64,
        mean: Duration,
    },
    Recorded {
        counts: Vec<u32>,
        second: u64,
        nth: u32,
    },
    Burst {
        users: u32,
        at: Time,
    },
    Closed {
        users: u32,
        think: Draw,
    },
}

impl Arriving {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        let gap = |load: f64| Duration::from_secs_f64(1.0 / load);
        let pattern = match &scenario.arrivals {
            Arrivals::Random => Pattern::Random { mean: gap(scenario.load) },
            Arrivals::Even => Pattern::Even { gap: gap(scenario.load) },
            Arrivals::Shaped(curve) => {
                let peak = curve.highest();
                Pattern::Shaped { curve: curve.clone(), peak, mean: gap(scenario.load * peak) }
            }
            Arrivals::Recorded(counts) => {
                Pattern::Recorded { counts: counts.clone(), second: 0, nth: 0 }
            }
            Arrivals::Burst { users, at } => Pattern::Burst { users: *users, at: Time::ZERO + *at },
            Arrivals::Closed { users, think } => {
                Pattern::Closed { users: *users, think: Draw::new(think)? }
            }
        };
        let resubmit = match &scenario.resubmit {
            Some(resubmit) => Some((resubmit.clone(), Draw::new(&resubmit.after)?)),
            None => None,
        };
        Ok(Self {
            pattern,
            arrivals: Rng::stream(seed, 0, crate::PURPOSE_ARRIVALS),
            thoughts: Rng::stream(seed, 0, crate::PURPOSE_THOUGHT),
            resubmit,
            resubmits: Rng::stream(seed, 0, crate::PURPOSE_RESUBMIT),
        })
    }

    /// When the user after the one who comes now comes; `None` if that depends on how things go.
    fn next(&mut self, now: Time) -> Option<Time> {
        match &mut self.pattern {
            Pattern::Random { mean } => Some(now + crate::exponential(*mean, &mut self.arrivals)),
            Pattern::Even { gap } => Some(now + *gap),
            Pattern::Shaped { curve, peak, mean } => {
                let mut at = now;
                loop {
                    at = at + crate::exponential(*mean, &mut self.arrivals);
                    let height = curve.at(at.since(Time::ZERO).as_secs_f64()).unwrap_or(0.0);
                    // A curve that ends at nothing has no next user.
                    if at == Time::MAX || self.arrivals.unit() * *peak < height {
                        return Some(at);
                    }
                    if curve.ends_before(at.since(Time::ZERO).as_secs_f64()) {
                        return None;
                    }
                }
            }
            Pattern::Recorded { counts, second, nth } => {
                let count = |second: u64| counts[(second % counts.len() as u64) as usize];
                while *nth >= count(*second) {
                    (*second, *nth) = (*second + 1, 0);
                }
                let part = u64::from(*nth) * 1_000_000_000 / u64::from(count(*second));
                *nth += 1;
                Some(Time::from_nanos(*second * 1_000_000_000 + part))
            }
            Pattern::Burst { .. } | Pattern::Closed { .. } => None,
        }
    }
}

impl World {
    /// The first users are on their way.
    pub(crate) fn opens(&mut self) {
        let Arriving { pattern, thoughts, .. } = &mut self.users.arriving;
        if let Pattern::Closed { users, think } = pattern {
            for _ in 0..*users {
                let at = Time::ZERO + think.next(thoughts);
                self.agenda.at(at, Event::Arrives);
            }
        } else if let Pattern::Burst { users, at } = *pattern {
            (0..users).for_each(|_| self.agenda.at(at, Event::Arrives));
        } else if let Pattern::Random { .. } | Pattern::Even { .. } = pattern {
            self.agenda.in_turn(Time::ZERO, Event::Arrives);
        } else if let Some(first) = self.users.arriving.next(Time::ZERO) {
            self.agenda.in_turn(first, Event::Arrives);
        }
    }

    /// A user comes, and the next one is on its way.
    pub(crate) fn arrives(&mut self) {
        if let Some(next) = self.users.arriving.next(self.now) {
            self.agenda.in_turn(next, Event::Arrives);
        }
        self.count(Count::Demand);
        let key = self.users.next_key();
        if self.topic.is_some() {
            return self.writes(key);
        }
        self.asks(User::new(self.now, key, 0));
    }

    /// A user's request is over, for now or for good.
    pub(super) fn over(&mut self, good: bool, user: User) {
        let User { since, key, resubmitted, .. } = user;
        let Arriving { pattern, thoughts, resubmit, resubmits, .. } = &mut self.users.arriving;
        if let (false, Some((resubmit, after))) = (good, resubmit)
            && resubmitted < resubmit.times
            && resubmits.unit() < resubmit.share
        {
            let after = after.next(resubmits);
            let asleep = self.users.all.insert(User::new(since, key, resubmitted + 1));
            self.agenda.at(self.now + after, Event::Resends(asleep));
        } else if let Pattern::Closed { think, .. } = pattern {
            let think = think.next(thoughts);
            self.agenda.at(self.now + think, Event::Arrives);
        }
    }
}

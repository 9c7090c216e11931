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
    /// The next is the nth of this burst.
    Bursts {
        users: u32,
        within: Duration,
        every: Duration,
        burst: u64,
        nth: u32,
    },
    Closed {
        users: u32,
        think: Draw,
    },
}

impl Arriving {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Result<Self, Invalid> {
        let resubmit = match &scenario.resubmit {
            Some(resubmit) => Some((resubmit.clone(), Draw::new(&resubmit.after)?)),
            None => None,
        };
        Ok(Self { resubmit, ..Self::of(scenario.load, &scenario.arrivals, 0, seed)? })
    }

    /// So many per second, by this pattern; crowds are told apart by their number.
    pub(super) fn of(
        load: f64,
        arrivals: &Arrivals,
        crowd: u64,
        seed: u64,
    ) -> Result<Self, Invalid> {
        let gap = |load: f64| Duration::from_secs_f64(1.0 / load);
        let pattern = match arrivals {
            Arrivals::Random => Pattern::Random { mean: gap(load) },
            Arrivals::Even => Pattern::Even { gap: gap(load) },
            Arrivals::Shaped(curve) => {
                let peak = curve.highest();
                Pattern::Shaped { curve: curve.clone(), peak, mean: gap(load * peak) }
            }
            Arrivals::Bursts { users, within, every } => {
                Pattern::Bursts { users: *users, within: *within, every: *every, burst: 1, nth: 0 }
            }
            Arrivals::Recorded(counts) => {
                Pattern::Recorded { counts: counts.clone(), second: 0, nth: 0 }
            }
            Arrivals::Burst { users, at } => Pattern::Burst { users: *users, at: Time::ZERO + *at },
            Arrivals::Closed { users, think } => {
                Pattern::Closed { users: *users, think: Draw::new(think)? }
            }
        };
        Ok(Self {
            pattern,
            arrivals: Rng::stream(seed, crowd, crate::PURPOSE_ARRIVALS),
            thoughts: Rng::stream(seed, crowd, crate::PURPOSE_THOUGHT),
            resubmit: None,
            resubmits: Rng::stream(seed, crowd, crate::PURPOSE_RESUBMIT),
        })
    }

    /// When each of the first comes: one who brings the next, or everybody there is.
    pub(super) fn firsts(&mut self) -> Vec<Time> {
        match &self.pattern {
            Pattern::Closed { users, think } => {
                (0..*users).map(|_| Time::ZERO + think.next(&mut self.thoughts)).collect()
            }
            Pattern::Burst { users, at } => vec![*at; *users as usize],
            Pattern::Random { .. } | Pattern::Even { .. } => vec![Time::ZERO],
            _ => self.next(Time::ZERO).into_iter().collect(),
        }
    }

    /// When the one whose request has just ended comes again, where the same come again and again.
    pub(super) fn again(&mut self, now: Time) -> Option<Time> {
        match &self.pattern {
            Pattern::Closed { think, .. } => Some(now + think.next(&mut self.thoughts)),
            _ => None,
        }
    }

    /// When the user after the one who comes now comes; `None` if that depends on how things go.
    pub(super) fn next(&mut self, now: Time) -> Option<Time> {
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
            Pattern::Bursts { users, within, every, burst, nth } => {
                let start = every.as_nanos() as u64 * *burst;
                let part = (within.as_nanos() * u128::from(*nth) / u128::from(*users)) as u64;
                *nth += 1;
                if *nth == *users {
                    (*burst, *nth) = (*burst + 1, 0);
                }
                Some(Time::from_nanos(start + part))
            }
            Pattern::Burst { .. } | Pattern::Closed { .. } => None,
        }
    }
}

impl World {
    /// The first users are on their way.
    pub(crate) fn opens(&mut self) {
        if self.kinds.is_some() {
            return self.kinds_open();
        }
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
        if self.kinds.is_some() {
            return self.over_of_kind(key);
        }
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

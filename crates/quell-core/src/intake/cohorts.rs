//! Cohorts: a consumer comes back to an upstream in small groups that grow.
//!
//! **Why.** After an outage every consumer of a topic holds the backlog of the whole outage. If all of them go on at full
//! speed when the breaker closes, the upstream gets a load that it never had in health, just when its caches are cold.
//! And while the breaker only probes, every record beyond the probes is fetched, refused and put back for nothing.
//!
//! **How.** While the breaker is not closed, a few **canaries** are in hand and no more; they are the oldest records, for
//! these are at the head of their line. When it is closed, the first **cohort** may be taken. The next one is larger by
//! a factor. It begins when as many records were served as the last cohort held, and not before a pause is over that
//! differs between consumers. A record that fails is replaced by another one and does not count, so an
//! upstream that fails meets no larger cohort. Past the largest cohort, records are taken as they come.
//!
//! ```
//! use quell_core::{Rng, Time, intake::cohorts::{Cohorts, May, Spec}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let spec = Spec { canaries: 1, ..Spec::default() };
//! let mut cohorts = Cohorts::new(spec)?;
//! assert_eq!(cohorts.may_take(now, true, &mut rng), May::Take);  // in health, without a bound
//! assert_eq!(cohorts.may_take(now, false, &mut rng), May::Take);
//! let canary = cohorts.takes();
//! assert_eq!(cohorts.may_take(now, false, &mut rng), May::WaitForOutcome);
//! cohorts.settles(canary, true);
//! assert_eq!(cohorts.may_take(now, true, &mut rng), May::Take);  // closed: the first cohort
//! # Ok::<_, quell_core::intake::Invalid>(())
//! ```

use core::time::Duration;

use super::invalid::{self, Invalid};
use crate::{Rng, Time};

/// How a consumer comes back, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Records in hand at the same time while the breaker is not closed: from 1 to 1000.
    pub canaries: u32,
    /// How many records the first cohort has: from 1 to `last`.
    pub first: u32,
    /// By how much the next cohort is larger: from 2 to 10.
    pub factor: u32,
    /// Past a cohort of this many records, they are taken as they come: up to 1000000.
    pub last: u32,
    /// The pause from one cohort to the next, on average. Each is drawn from half of it to one and a half.
    pub every: Duration,
}

impl Default for Spec {
    fn default() -> Self {
        Self { canaries: 2, first: 4, factor: 2, last: 256, every: Duration::from_secs(1) }
    }
}

impl Spec {
    fn check(&self) -> Result<(), Invalid> {
        let count =
            |field, value: u32, bounds, fix| invalid::count(field, value.into(), bounds, fix);
        count("canaries", self.canaries, (1, 1_000), "1 to 1000 records, such as 2")?;
        count("last", self.last, (1, 1_000_000), "1 to 1000000 records, such as 256")?;
        let upto_last = (1, self.last.into());
        count("first", self.first, upto_last, "at least 1 and at most intake.last, such as 4")?;
        count("factor", self.factor, (2, 10), "2 to 10, such as 2 to double")?;
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
        if !(least..=most).contains(&self.every) {
            return Err(Invalid::Every(self.every));
        }
        Ok(())
    }
}

/// Whether one more record may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// It may.
    Take,
    /// Not until one of those in hand was settled or put back.
    WaitForOutcome,
    /// Not until the next cohort begins.
    WaitUntil(Time),
}

/// The cohort that a record was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Records are taken as they come.
    Free,
    /// The breaker is not closed.
    Canaries,
    /// It is closed again; the next cohort begins then at the earliest.
    Growing { next_at: Time },
}

/// See the [module](self).
#[derive(Debug)]
pub struct Cohorts {
    spec: Spec,
    stage: Stage,
    round: u32,
    /// How many records this round has.
    size: u32,
    /// How many of them are in hand.
    out: u32,
    /// How many of them were served.
    served: u32,
}

impl Cohorts {
    /// Of a consumer whose upstream is well.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        spec.check()?;
        Ok(Self { spec, stage: Stage::Free, round: 0, size: 0, out: 0, served: 0 })
    }

    /// Whether one more record may be taken, with the breaker closed or not. Each one that is, is told with
    /// [`Cohorts::takes`].
    pub fn may_take(&mut self, now: Time, is_closed: bool, rng: &mut Rng) -> May {
        match self.stage {
            Stage::Free if is_closed => return May::Take,
            Stage::Canaries if !is_closed => {}
            _ if !is_closed => self.begin(Stage::Canaries, self.spec.canaries),
            Stage::Growing { next_at } if self.served < self.size || now < next_at => {}
            Stage::Growing { .. } => {
                let size = self.size.saturating_mul(self.spec.factor);
                if size > self.spec.last {
                    self.begin(Stage::Free, 0);
                    return May::Take;
                }
                self.grow(now, size, rng);
            }
            Stage::Free | Stage::Canaries => self.grow(now, self.spec.first, rng),
        }
        match self.stage {
            Stage::Growing { next_at } if self.served >= self.size => May::WaitUntil(next_at),
            Stage::Growing { .. } if self.served + self.out >= self.size => May::WaitForOutcome,
            Stage::Canaries if self.out >= self.size => May::WaitForOutcome,
            _ => May::Take,
        }
    }

    /// A record is taken.
    pub const fn takes(&mut self) -> Round {
        self.out = self.out.saturating_add(1);
        Round(self.round)
    }

    /// A record was put back.
    pub fn puts_back(&mut self, round: Round) {
        if round == Round(self.round) {
            self.out = self.out.saturating_sub(1);
        }
    }

    /// A record was tried, and the upstream served it or not.
    pub fn settles(&mut self, round: Round, served: bool) {
        self.puts_back(round);
        if round == Round(self.round) && served {
            self.served = self.served.saturating_add(1);
        }
    }

    /// Whether records are taken as they come.
    pub fn is_free(&self) -> bool {
        self.stage == Stage::Free
    }

    fn grow(&mut self, now: Time, size: u32, rng: &mut Rng) {
        let pause = self.spec.every / 2 + rng.up_to(self.spec.every);
        self.begin(Stage::Growing { next_at: now + pause }, size);
    }

    /// What was taken before this round does not count in it.
    fn begin(&mut self, stage: Stage, size: u32) {
        (self.stage, self.size, self.out, self.served) = (stage, size, 0, 0);
        self.round = self.round.wrapping_add(1);
    }
}

#[cfg(test)]
#[path = "cohorts_tests.rs"]
mod tests;

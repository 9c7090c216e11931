//! Flood: a handler that rejects everything must not turn a topic into dead letters.
//!
//! **Why.** After a bad deployment a handler may call every record fatal. Then the retry budget does not help, for nothing
//! is retried: the whole topic becomes dead letters at full speed, and somebody has to replay them. Stopping the
//! process does not help either: it is started again and goes on.
//!
//! **How.** A dead letter costs a token, and successes earn tokens: a [`tokens`] budget with another price. A letter that
//! cannot be paid is written all the same, for nothing may be lost. But then the intake pauses until a token has come
//! back, so that a letter now and then shows whether the handler works again, and operators are told. They are told
//! once, until half the tokens are there again. An operator who has mended the handler ends the pause.
//!
//! ```
//! use quell_core::{Time, intake::flood::{FloodGuard, Letter, Spec}};
//!
//! let now = Time::ZERO;
//! let mut guard = FloodGuard::new(Spec { max: 1, ..Spec::default() }, now)?;
//! assert_eq!(guard.died(now), Letter::Paid);
//! assert_eq!(guard.died(now), Letter::Flood { told: false });
//! assert!(guard.until() > now);
//! guard.ends(now);
//! assert!(guard.until() <= now);
//! # Ok::<_, quell_core::intake::Invalid>(())
//! ```

use core::time::Duration;

use super::Invalid;
use crate::{
    Fault, Time,
    budget::tokens::{self, Tokens},
};

/// How many dead letters are too many, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Dead letters in a row that are no flood.
    pub max: u32,
    /// Dead letters per success that are none: `0.01` is one in a hundred.
    pub ratio: f64,
    /// One more per this long; without it, only an operator ends a flood.
    pub refill: Option<Duration>,
}

impl Default for Spec {
    fn default() -> Self {
        Self { max: 100, ratio: 0.01, refill: Some(Duration::from_secs(60)) }
    }
}

/// What a dead letter means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letter {
    /// One as there are.
    Paid,
    /// One too many: the intake pauses.
    Flood {
        /// Whether operators were told before.
        told: bool,
    },
}

/// See the [module](self).
#[derive(Debug)]
pub struct FloodGuard {
    tokens: Tokens,
    refill: Duration,
    until: Time,
    told: bool,
}

impl FloodGuard {
    /// At its start.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        let Spec { max, ratio, refill } = spec;
        let spec = tokens::Spec { max, ratio, refill, ..tokens::Spec::default() };
        let tokens = Tokens::new(spec, now).map_err(Invalid::DeadLetters)?;
        let refill = refill.unwrap_or(Duration::MAX);
        Ok(Self { tokens, refill, until: Time::ZERO, told: false })
    }

    /// A record was handled.
    pub fn served(&mut self, now: Time) {
        self.tokens.earn();
        self.told &= self.tokens.fill(now) < 0.5;
    }

    /// A record becomes a dead letter. It is to be written in any case.
    pub fn died(&mut self, now: Time) -> Letter {
        self.told &= self.tokens.fill(now) < 0.5;
        if self.tokens.take(now, Fault::Fatal).is_ok() {
            return Letter::Paid;
        }
        self.until = self.until.max(now + self.refill);
        Letter::Flood { told: core::mem::replace(&mut self.told, true) }
    }

    /// Nothing is to be taken before then.
    pub const fn until(&self) -> Time {
        self.until
    }

    /// An operator says that the handler works again.
    pub fn ends(&mut self, now: Time) {
        self.tokens.reset(now);
        (self.until, self.told) = (Time::ZERO, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn guard(max: u32, refill: Option<Duration>) -> FloodGuard {
        FloodGuard::new(Spec { max, refill, ..Spec::default() }, at(0)).unwrap()
    }

    /// Letters that die one after the other until one is too many.
    fn until_flood(guard: &mut FloodGuard, now: Time) -> usize {
        (0..).take_while(|_| guard.died(now) == Letter::Paid).count()
    }

    #[test]
    fn one_letter_in_a_hundred_is_never_a_flood() {
        let mut guard = guard(10, None);
        for _ in 0..1_000 {
            (0..100).for_each(|_| guard.served(at(0)));
            assert_eq!(guard.died(at(0)), Letter::Paid);
        }
    }

    #[test]
    fn a_handler_that_rejects_everything_is_stopped_and_one_letter_a_minute_shows_how_it_is() {
        let mut guard = guard(10, Some(Duration::from_secs(60)));
        assert_eq!(until_flood(&mut guard, at(0)), 10);
        assert_eq!(guard.until(), at(60));
        assert_eq!(guard.died(at(60)), Letter::Paid);
        assert_eq!(guard.died(at(60)), Letter::Flood { told: true });
        assert_eq!(guard.until(), at(120));
    }

    #[test]
    fn operators_are_told_again_only_after_half_the_tokens_were_back() {
        let mut guard = guard(10, Some(Duration::from_secs(60)));
        until_flood(&mut guard, at(0));
        (0..499).for_each(|_| guard.served(at(0)));
        until_flood(&mut guard, at(0));
        assert_eq!(guard.died(at(0)), Letter::Flood { told: true });
        (0..500).for_each(|_| guard.served(at(0)));
        (0..5).for_each(|_| assert_eq!(guard.died(at(0)), Letter::Paid));
        assert_eq!(guard.died(at(0)), Letter::Flood { told: false });
    }

    #[test]
    fn without_a_trickle_only_an_operator_ends_a_flood() {
        let mut guard = guard(2, None);
        until_flood(&mut guard, at(0));
        assert_eq!(guard.until(), Time::MAX);
        guard.ends(at(5));
        assert!(guard.until() <= at(5));
        assert_eq!(until_flood(&mut guard, at(5)), 2);
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let good = Spec::default();
        for wrong in [
            Spec { max: 0, ..good },
            Spec { ratio: f64::NAN, ..good },
            Spec { refill: Some(Duration::ZERO), ..good },
        ] {
            let message = FloodGuard::new(wrong, at(0)).unwrap_err().to_string();
            assert!(message.starts_with("intake.dead_letters."), "{message}");
            assert!(message.contains("write") && !message.contains("budget."), "{message}");
        }
    }
}

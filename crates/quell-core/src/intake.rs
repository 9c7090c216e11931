//! Intake: which record a consumer takes next, when it takes none, and who pays.
//!
//! **Why.** A consumer that takes whatever comes next does harm in two ways. While the upstream is down it burns the
//! attempts of every record it reads. When the upstream comes back, it meets all records that failed meanwhile at once.
//! Both are decided by which record an idle worker takes, so it is decided in one place, for the simulator and for real
//! consumers alike.
//!
//! **How.** An [`Intake`] belongs to one consumer, and the records it may take lie in a [`Backlog`].
//! [`Intake::take`] hands out one record:
//!
//! - A due record is a retry. The budget pays for it when it is taken. While the budget is empty, due records wait
//!   and new ones go on.
//! - A new record is a first attempt, and never pays.
//! - Due records go first. But while the breaker is not closed, new ones do: the breaker's probes are first attempts.
//!   Due ones are probes only if there is nothing new.
//!
//! What becomes of a record that was taken is told with one of four verbs. [`Intake::refused`]: the upstream's gates
//! did not let it through. It goes back to the head of its line, its price is refunded, and the intake pauses until
//! it may ask again. [`Intake::put_back`]: it was not tried for some other reason. [`Intake::give_up`]: it was not tried, and
//! another consumer has its partition now. [`Intake::settle`]: it was tried.
//! Then the budget hears of the outcome, and the [`Ladder`] says where the record goes next.
//!
//! A consumer may add two more: [`cohorts`] (a few canaries while the breaker is not closed, then groups that grow) and
//! a [`flood`] guard (dead letters cost tokens, and too many pause the intake). How much it fetches ahead is a matter
//! of a [`window`].
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{
//!     Failure, Fault, Outcome, Rng, Stamp, Time, budget::{Budget, tokens},
//!     intake::{Backlog, Intake, Record, Take}, ladder::{Ladder, Next, Spec},
//! };
//!
//! let (now, mut rng, ladder) = (Time::ZERO, Rng::new(1), Ladder::new(&Spec::default())?);
//! let one = tokens::Spec { max: 1, ..tokens::Spec::default() };
//! let mut intake = Intake::new(Budget::new(one, now)?);
//! let mut backlog = Backlog::new();
//! backlog.arrives(Record::new("an order"));
//!
//! // The upstream is not ready for it: it goes back, and nothing is handed out until then.
//! let Take::Record(taken) = intake.take(now, &mut backlog, || true, &mut rng) else { panic!() };
//! let until = now + Duration::from_secs(1);
//! assert_eq!(intake.refused(now, taken, &mut backlog, until), Some(until));
//! assert!(matches!(intake.take(now, &mut backlog, || true, &mut rng), Take::Paused { .. }));
//!
//! // Later it is tried and fails: it waits on the first tier.
//! let Take::Record(taken) = intake.take(until, &mut backlog, || true, &mut rng) else { panic!() };
//! let failed = Outcome::Failed(Failure::of(Fault::Server));
//! let settled = intake.settle(until, Stamp::from_millis(1_000), taken, &failed, &ladder);
//! assert!(matches!(settled.next, Next::Retry { tier: 0, .. }));
//! # backlog.waits(settled.record);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod backlog;
pub mod cohorts;
pub mod flood;
mod invalid;
pub mod window;

use core::time::Duration;

use crate::{
    Fault, Outcome, Rng, Stamp, Time,
    budget::{Budget, Paid},
    ladder::{Ladder, Next},
};

pub use backlog::{Backlog, Record};
pub use invalid::Invalid;

use backlog::Line;
use cohorts::{Cohorts, May, Round};
use flood::{FloodGuard, Letter};

/// Nobody asks again at once: the shortest pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// A record in somebody's hand, and what was paid for it.
#[must_use = "a record that was taken is lost unless it is settled, refused or put back"]
#[derive(Debug)]
pub struct Taken<T> {
    record: Record<T>,
    paid: Option<Paid>,
    round: Option<Round>,
}

impl<T> Taken<T> {
    /// The record.
    pub const fn record(&self) -> &Record<T> {
        &self.record
    }

    /// Whether it was due, and so was paid for.
    pub const fn is_retry(&self) -> bool {
        self.paid.is_some()
    }
}

/// What an idle worker is told.
#[must_use = "a record that was taken is lost unless it is settled, refused or put back"]
#[derive(Debug)]
pub enum Take<T> {
    /// To hand this one to the upstream.
    Record(Taken<T>),
    /// There is nothing that may be taken: ask again when a record has come, is due, was settled or put back, or when the
    /// budget may have grown.
    Nothing,
    /// To take nothing before then.
    Paused {
        /// When to ask again.
        until: Time,
        /// Why.
        why: Pause,
    },
}

/// Why an intake takes nothing for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pause {
    /// The upstream's gates let nothing through.
    Upstream,
    /// The next cohort has not begun.
    Cohort,
    /// Too many records became dead letters.
    DeadLetters,
}

impl Pause {
    /// The word that stands in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Cohort => "cohort",
            Self::DeadLetters => "dead_letters",
        }
    }
}

/// A record that was tried, and where it goes now.
#[must_use = "the record is lost unless it is brought to where it goes next"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled<T> {
    /// The record, with what is known of it now.
    pub record: Record<T>,
    /// Where it goes.
    pub next: Next,
    /// It is one dead letter too many, and the first of them: tell the operators. The intake pauses.
    pub floods: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Intake {
    budget: Budget,
    paused_until: Time,
    cohorts: Option<Cohorts>,
    flood: Option<FloodGuard>,
}

impl Intake {
    /// Of a consumer whose due records are paid for by this budget.
    pub const fn new(budget: Budget) -> Self {
        Self { budget, paused_until: Time::ZERO, cohorts: None, flood: None }
    }

    /// The same, coming back to an upstream in cohorts.
    #[must_use]
    pub fn with_cohorts(self, cohorts: Cohorts) -> Self {
        Self { cohorts: Some(cohorts), ..self }
    }

    /// The same, on guard against floods of dead letters.
    #[must_use]
    pub fn with_flood_guard(self, guard: FloodGuard) -> Self {
        Self { flood: Some(guard), ..self }
    }

    /// What pays for due records.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The same, to lease from or to take on another spec.
    pub const fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Until when nothing is handed out, and why; `None` if there is no such time. Cohorts apart: whether the next one may
    /// begin is looked at when a record is to be taken.
    pub fn pause(&self, now: Time) -> Option<(Time, Pause)> {
        let flood = self.flood.as_ref().map_or(Time::ZERO, FloodGuard::until);
        let longer = match flood > self.paused_until {
            true => (flood, Pause::DeadLetters),
            false => (self.paused_until, Pause::Upstream),
        };
        (now < longer.0).then_some(longer)
    }

    /// Whether nothing is handed out now.
    pub fn is_paused(&self, now: Time) -> bool {
        self.pause(now).is_some()
    }

    /// An operator says that the handler is mended: a pause for too many dead letters ends.
    pub fn resume(&mut self, now: Time) {
        if let Some(guard) = &mut self.flood {
            guard.ends(now);
        }
    }

    /// The next record for an idle worker. `is_closed` tells whether the upstream's breaker is,
    /// and is asked only if that matters.
    pub fn take<T>(
        &mut self,
        now: Time,
        backlog: &mut Backlog<T>,
        mut is_closed: impl FnMut() -> bool,
        rng: &mut Rng,
    ) -> Take<T> {
        if let Some((until, why)) = self.pause(now) {
            return Take::Paused { until, why };
        }
        match self.cohorts.as_mut().map(|cohorts| cohorts.may_take(now, is_closed(), rng)) {
            None | Some(May::Take) => {}
            Some(May::WaitForOutcome) => return Take::Nothing,
            Some(May::WaitUntil(until)) => return Take::Paused { until, why: Pause::Cohort },
        }
        let pays =
            backlog.due() > 0 && self.budget.peek(now) && (backlog.new_ones() == 0 || is_closed());
        // Every failure costs the same here: the record that is paid for now failed long ago.
        let paid = if pays { self.budget.take(now, Fault::Server, rng).ok() } else { None };
        let line = if paid.is_some() { Line::Due } else { Line::New };
        match backlog.line(line).pop_front() {
            Some(record) => {
                let round = self.cohorts.as_mut().map(Cohorts::takes);
                Take::Record(Taken { record, paid, round })
            }
            None => Take::Nothing,
        }
    }

    /// The upstream's gates did not let it through, and may do so at `retry_at`: the record goes back, and nothing is handed
    /// out before then. Says until when, if that is longer than was known: the host asks again at that time.
    pub fn refused<T>(
        &mut self,
        now: Time,
        taken: Taken<T>,
        backlog: &mut Backlog<T>,
        retry_at: Time,
    ) -> Option<Time> {
        self.put_back(now, taken, backlog);
        let until = retry_at.max(now + SHORTEST_PAUSE);
        if until <= self.paused_until {
            return None;
        }
        self.paused_until = until;
        Some(until)
    }

    /// It was not tried: as if it had never been taken. It is the next of its line again, and its price is refunded.
    pub fn put_back<T>(&mut self, now: Time, taken: Taken<T>, backlog: &mut Backlog<T>) {
        let line = if taken.is_retry() { Line::Due } else { Line::New };
        let record = self.give_up(now, taken);
        backlog.line(line).push_front(record);
    }

    /// It was not tried, and is not this consumer's any more, for its partition went to another one. Its price is refunded.
    pub fn give_up<T>(&mut self, now: Time, taken: Taken<T>) -> Record<T> {
        let Taken { record, paid, round } = taken;
        if let Some(paid) = paid {
            self.budget.refund(now, paid);
        }
        if let (Some(cohorts), Some(round)) = (&mut self.cohorts, round) {
            cohorts.puts_back(round);
        }
        record
    }

    /// It was tried. A success earns, a failure that a retry could help is counted, and the ladder says where the record
    /// goes. `stamp` is the clock's reading rounded up to milliseconds, so that no due time is early.
    pub fn settle<T>(
        &mut self,
        now: Time,
        stamp: Stamp,
        taken: Taken<T>,
        outcome: &Outcome,
        ladder: &Ladder,
    ) -> Settled<T> {
        let Taken { mut record, paid, round } = taken;
        if let Outcome::Success = outcome {
            self.budget.earn(now);
            if let Some(paid) = paid {
                self.budget.retried_well(now, paid);
            }
        } else if outcome.is_retryable() {
            self.budget.failed(now);
        }
        if let (Some(cohorts), Some(round)) = (&mut self.cohorts, round) {
            cohorts.settles(round, outcome.is_served());
        }
        let next = ladder.step(&mut record.state, stamp, outcome);
        Settled { record, next, floods: self.floods(now, &next) }
    }

    /// What its end means to the guard against floods, if there is one: whether operators are to be told.
    fn floods(&mut self, now: Time, next: &Next) -> bool {
        let Some(guard) = &mut self.flood else { return false };
        match next {
            Next::Ack => guard.served(now),
            Next::Dead { .. } => return guard.died(now) == Letter::Flood { told: false },
            Next::Retry { .. } | Next::Defer { .. } => {}
        }
        false
    }
}

#[cfg(test)]
#[path = "intake/tests.rs"]
mod tests;

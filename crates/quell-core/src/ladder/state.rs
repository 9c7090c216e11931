//! CallState: what travels with a record, and how much of that is believed.
//!
//! **Why.** A retry that waits for half an hour does not wait in a process. What is known of it so far has to travel with
//! the record, in headers that every client of the broker can write. A consumer that believes them can be made to retry
//! for ever, to drop records, or to hold them for years.
//!
//! **How.** [`Ladder::step`](super::Ladder::step) keeps a [`CallState`]; the consumer writes it beside the record. The
//! consumer that reads the record back hands in what was [`Told`], and where the record was [`Found`].
//! [`CallState::believed`] keeps what can be true there. On the main topic nothing is: only our own tiers
//! hold records that were tried before. How the fields are written as headers is the consumer's business.
//!
//! ```
//! use quell_core::{Stamp, ladder::{CallState, Found, Ladder, Spec, Told}};
//!
//! let ladder = Ladder::new(&Spec::default())?;
//! let told = Told { attempt: Some(u64::MAX), due: Some(u64::MAX), ..Told::default() };
//! let on_main = Found::on_main(Stamp::from_millis(5_000));
//! assert_eq!(CallState::believed(&told, &ladder, &on_main), CallState::default());
//!
//! let on_second = Found { tier: Some(1), ..on_main };
//! let state = CallState::believed(&told, &ladder, &on_second);
//! assert_eq!(state.attempt(), 4);                         // three tiers allow no more
//! assert_eq!(state.due, Stamp::from_millis(305_000));     // five minutes from now at most
//! # Ok::<_, quell_core::ladder::Invalid>(())
//! ```

use core::time::Duration;

use super::{LONGEST, Ladder};
use crate::{Fault, Stamp};

/// What is known of a record's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallState {
    /// How often it failed. Deferrals are no failures.
    pub failures: u32,
    /// It is not tried before then.
    pub due: Stamp,
    /// When it failed first.
    pub first_failure: Option<Stamp>,
    /// When it failed last.
    pub last_failure: Option<Stamp>,
    /// How it failed last.
    pub error: Option<Fault>,
    /// How often the handler asked for it to come back later.
    pub deferrals: u32,
    /// How often an operator sent it back from the dead letters.
    pub replays: u32,
}

/// What the headers of a record say. Anybody can write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// The attempt to come; 1 is the first.
    pub attempt: Option<u64>,
    /// When it is to be tried, in Unix milliseconds.
    pub due: Option<u64>,
    /// When it failed first, in Unix milliseconds.
    pub first_failure: Option<u64>,
    /// When it failed last, in Unix milliseconds.
    pub last_failure: Option<u64>,
    /// How it failed last.
    pub error: Option<Fault>,
    /// How often the handler asked for it to come back later.
    pub deferrals: Option<u64>,
    /// How often an operator sent it back from the dead letters.
    pub replays: Option<u64>,
}

/// Where and when a consumer found a record: this much it knows by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The tier, counted from 0; `None` is the main topic.
    pub tier: Option<usize>,
    /// When the broker took the record.
    pub arrived: Stamp,
    /// The consumer's clock.
    pub now: Stamp,
    /// The most that is added to a delay, so that records do not come back all at once.
    pub jitter: Duration,
}

impl Found {
    /// Just now, on the main topic.
    pub const fn on_main(now: Stamp) -> Self {
        Self { tier: None, arrived: now, now, jitter: Duration::ZERO }
    }
}

impl CallState {
    /// The attempt to come; 1 is the first.
    pub const fn attempt(&self) -> u32 {
        self.failures.saturating_add(1)
    }

    /// As much of what was told as can be true of a record that was found there.
    ///
    /// - On the main topic it was never tried.
    /// - On a tier it has failed at least often enough to have come there, and no oftener than there are tiers. One that was
    ///   deferred or replayed may have come to a tier without a failure.
    /// - It is due at the latest when the longest wait that starts there now is over. Without a due time it waits out
    ///   its tier from when it arrived.
    /// - No failure lies in the future, and the first is no later than the last.
    pub fn believed(told: &Told, ladder: &Ladder, found: &Found) -> Self {
        let tier = found.tier.and_then(|tier| Some((tier, *ladder.tiers.get(tier)?)));
        let Some((tier, delay)) = tier else { return Self::default() };
        let (deferrals, replays) = (count(told.deferrals), count(told.replays));
        let most = ladder.tiers.len() as u32;
        let least = if deferrals > 0 || replays > 0 { 0 } else { tier as u32 + 1 };
        let failures = count(told.attempt).saturating_sub(1).clamp(least.into(), most.into());
        let past =
            |millis: Option<u64>| millis.map(|millis| Stamp::from_millis(millis).min(found.now));
        let last_failure = past(told.last_failure);
        let first_failure = past(told.first_failure)
            .map(|first| last_failure.map_or(first, |last| first.min(last)));
        let longest = if deferrals > 0 { LONGEST } else { delay.max(ladder.hint_cap) };
        let latest = found.now + longest.saturating_add(found.jitter);
        let due = told.due.map_or(found.arrived.min(found.now) + delay, Stamp::from_millis);
        Self {
            failures: failures as u32,
            due: due.min(latest),
            first_failure,
            last_failure,
            error: told.error,
            deferrals: deferrals as u32,
            replays: replays as u32,
        }
    }
}

/// What was told as a count of 32 bits; none if nothing was.
fn count(told: Option<u64>) -> u64 {
    told.unwrap_or(0).min(u32::MAX.into())
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

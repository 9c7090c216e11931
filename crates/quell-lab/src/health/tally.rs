//! What callers saw, counted.
//!
//! **How.** A call ends in one of four ways: answered as it should be, refused or failed (with the reason), left by its own
//! caller, or not answered at all. Latency runs from the instant at which the call was due, so a generator that
//! is late makes nothing look better.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::world::Who;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With what the caller was to get.
    Well,
    /// The same, although the service failed at first. How long that took is nothing to compare: who does not try again
    /// has no such answers.
    Mended,
    /// The caller hung up.
    Left,
    /// With anything else, and this is why.
    Lost(String),
}

/// The calls of one flow.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sent: u64,
    mended: u64,
    left: u64,
    lost: BTreeMap<String, u64>,
    /// Of those that ended well, in microseconds.
    took: Vec<u32>,
}

/// The same, for those who read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) class: String,
    pub(crate) who: Who,
    pub(crate) requests: u64,
    pub(crate) well: u64,
    /// Hung up by themselves.
    pub(crate) left: u64,
    /// Refused, failed or never answered.
    pub(crate) lost: u64,
    pub(crate) reasons: BTreeMap<String, u64>,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

impl Tally {
    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn ended(&mut self, end: End, took: Duration) {
        match end {
            End::Well => self.took.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX)),
            End::Mended => self.mended += 1,
            End::Left => self.left += 1,
            End::Lost(why) => *self.lost.entry(why).or_default() += 1,
        }
    }

    /// What it came to. Whoever has no end by now was not answered.
    pub(crate) fn seen(mut self, class: &str, who: Who) -> Seen {
        self.took.sort_unstable();
        let well = self.took.len() as u64 + self.mended;
        let ended = well + self.left + self.lost.values().sum::<u64>();
        let silent = self.sent.saturating_sub(ended);
        if silent > 0 {
            self.lost.insert("unanswered".into(), silent);
        }
        Seen {
            class: class.into(),
            who,
            requests: self.sent,
            well,
            left: self.left,
            lost: self.lost.values().sum(),
            p50_ms: percentile(&self.took, 0.50),
            p99_ms: percentile(&self.took, 0.99),
            max_ms: percentile(&self.took, 1.0),
            reasons: self.lost,
        }
    }
}

/// The smallest that at least this share is not above; in milliseconds, of microseconds in order.
fn percentile(sorted: &[u32], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(rank.max(1) - 1)?;
    Some(f64::from(*value) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let sorted: Vec<u32> = (1..=200).map(|ms| ms * 1_000).collect();
        assert_eq!(
            [0.5, 0.99, 1.0].map(|p| percentile(&sorted, p)),
            [100.0, 198.0, 200.0].map(Some)
        );
        assert_eq!(percentile(&[7_000], 0.5), Some(7.0));
        assert_eq!(percentile(&[], 0.99), None);
    }

    #[test]
    fn every_call_is_counted_once_and_the_silent_are_lost() {
        let mut tally = Tally::default();
        (0..7).for_each(|_| tally.sent());
        let ms = Duration::from_millis;
        tally.ended(End::Well, ms(5));
        tally.ended(End::Mended, ms(50));
        tally.ended(End::Left, ms(5));
        tally.ended(End::Lost("queue_full".into()), ms(5));
        tally.ended(End::Lost("queue_full".into()), ms(5));
        let seen = tally.seen("fast", Who::Good);
        assert_eq!((seen.requests, seen.well, seen.left, seen.lost), (7, 2, 1, 4));
        assert_eq!((seen.reasons["queue_full"], seen.reasons["unanswered"]), (2, 2));
        assert_eq!(seen.p99_ms, Some(5.0));
    }
}

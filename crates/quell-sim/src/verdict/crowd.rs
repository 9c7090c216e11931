//! Crowd: what became of one kind of requests.

use core::{ops::Range, time::Duration};

use super::{Count, Refusals, Series, Timing};
use crate::scenario::{Kind, Side};

/// What became of the requests of one [`Kind`]. Callers who mean to hang up are in none of its counts but `hung_up`, `series`' sends
/// and its refusals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Crowd {
    /// What the kind is called.
    pub name: String,
    /// Whose requests they are.
    pub side: Side,
    /// What was counted when.
    pub series: Series,
    /// Why Quell turned its callers away, and who left in its queue.
    pub refusals: Refusals,
    /// Callers who left in Quell's queue, by the second.
    pub left_queued: Vec<u64>,
    /// Users who got no good answer in the end.
    pub lost: u64,
    /// Callers who hung up, or left together with others, before an answer was due.
    pub hung_up: u64,
    /// How long good answers took, in microseconds: of users who came before the outage, during it and after it.
    took: [Vec<u32>; 3],
}

impl Crowd {
    pub(crate) fn new(kind: &Kind) -> Self {
        Self { name: kind.name.clone(), side: kind.side, ..Self::default() }
    }

    pub(crate) fn served(&mut self, part: usize, took: Duration) {
        self.took[part].push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn left_queued(&mut self, timing: Timing, at: Duration) {
        let second = at.as_secs() as usize;
        if self.left_queued.len() <= second {
            self.left_queued.resize(second + 1, 0);
        }
        self.left_queued[second] += 1;
        self.refusals.left_queued[timing.part(second)] += 1;
    }

    /// The time that this share of its good answers did not exceed, to the microsecond; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        quantile(self.took.iter().flatten().copied().collect(), share)
    }

    /// The same of users who came before the outage, during it or after it.
    pub fn quantile_of(&self, part: usize, share: f64) -> Option<Duration> {
        quantile(self.took[part].clone(), share)
    }

    /// Users who asked, in the whole run.
    pub fn demand(&self) -> u64 {
        self.series.sum(Count::Demand, 0..self.series.len())
    }

    /// Those who got a good answer.
    pub fn good(&self) -> u64 {
        self.series.sum(Count::Good, 0..self.series.len())
    }

    /// Good answers whose time is known.
    pub fn answers(&self) -> usize {
        self.took.iter().map(Vec::len).sum()
    }

    /// Callers who left in Quell's queue in these seconds.
    pub fn left_between(&self, seconds: Range<usize>) -> u64 {
        let end = seconds.end.min(self.left_queued.len());
        self.left_queued.get(seconds.start..end).unwrap_or_default().iter().sum()
    }

    /// The share of its users' tries that Quell turned away or let leave in its queue.
    pub fn refused(&self) -> f64 {
        let tries = self.series.sum(Count::Received, 0..self.series.len());
        super::share((self.refusals.total() + self.refusals.left()) as f64, tries as f64)
    }
}

fn quantile(mut took: Vec<u32>, share: f64) -> Option<Duration> {
    let last = took.len().checked_sub(1)?;
    let rank = ((took.len() as f64 * share.clamp(0.0, 1.0)) as usize).min(last);
    let (_, &mut micros, _) = took.select_nth_unstable(rank);
    Some(Duration::from_micros(u64::from(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_and_nothing_has_none() {
        let mut crowd = Crowd::default();
        assert_eq!(crowd.quantile(0.99), None);
        for ms in (1..=100).rev() {
            crowd.served(ms as usize % 3, Duration::from_millis(ms));
        }
        assert_eq!(crowd.quantile(0.5), Some(Duration::from_millis(51)));
        assert_eq!(crowd.quantile(1.0), Some(Duration::from_millis(100)));
        assert_eq!(crowd.quantile_of(1, 1.0), Some(Duration::from_millis(100)));
    }
}

//! Series: what was counted when.

use core::{ops::Range, time::Duration};

use super::share;

/// Counts are kept by the tenth of a second.
pub(super) const TENTHS: usize = 10;
/// The share of what was achievable that every window must get.
const ENOUGH: f64 = 0.95;
/// How far chance may carry a window of few requests, in standard deviations of its count.
const CHANCE: f64 = 1.0;
/// Seconds a series can hold; whatever comes later counts in the last one.
pub(crate) const LONGEST: usize = 100_000;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A user's request began; resends of it do not count again.
    Demand,
    /// A user got a good answer while still waiting for it.
    Good,
    /// A caller made an attempt: the first of a user's request or a resend.
    Received,
    /// An attempt reached the upstream.
    Sent,
    /// An attempt was refused on the way, so that it did not reach the upstream.
    Refused,
}

impl Count {
    /// All that is counted.
    pub const ALL: [Self; 5] =
        [Self::Demand, Self::Good, Self::Received, Self::Sent, Self::Refused];
}

/// Counts of a run over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    tenths: Vec<[u64; 5]>,
}

impl Series {
    /// Counts `n` more of `what`, so long after the run began.
    pub fn add(&mut self, what: Count, at: Duration, n: u64) {
        let tenths = at.as_secs().saturating_mul(TENTHS as u64);
        let tenth = tenths.saturating_add(u64::from(at.subsec_millis() / 100));
        let tenth = (tenth as usize).min(LONGEST * TENTHS - 1);
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, [0; 5]);
        }
        self.tenths[tenth][what as usize] += n;
    }

    /// The count in one second; 0 where nothing was counted.
    pub fn at(&self, what: Count, second: usize) -> u64 {
        self.sum(what, second..second + 1)
    }

    /// The count in one tenth of a second; 0 where nothing was counted.
    pub fn tenth(&self, what: Count, tenth: usize) -> u64 {
        self.tenths(what, tenth..tenth + 1)
    }

    /// The count over these seconds.
    pub fn sum(&self, what: Count, seconds: Range<usize>) -> u64 {
        self.tenths(what, seconds.start * TENTHS..seconds.end.saturating_mul(TENTHS))
    }

    /// Seconds up to the last in which anything was counted.
    pub fn len(&self) -> usize {
        self.tenths.len().div_ceil(TENTHS)
    }

    /// Whether nothing was counted yet.
    pub fn is_empty(&self) -> bool {
        self.tenths.is_empty()
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.tenths.len() < other.tenths.len() {
            self.tenths.resize(other.tenths.len(), [0; 5]);
        }
        for (own, more) in self.tenths.iter_mut().zip(&other.tenths) {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        }
    }

    /// Counts everything of this kind so much later, in tenths of a second.
    pub fn put_off(&mut self, what: Count, by: usize) {
        for at in (0..self.tenths.len()).rev() {
            let earlier = at.checked_sub(by).map_or(0, |from| self.tenths[from][what as usize]);
            self.tenths[at][what as usize] = earlier;
        }
    }

    pub(super) fn tenths(&self, what: Count, tenths: Range<usize>) -> u64 {
        let end = tenths.end.min(self.tenths.len());
        let counts = self.tenths.get(tenths.start..end).unwrap_or_default();
        counts.iter().map(|counts| counts[what as usize]).sum()
    }

    /// The most that could have been answered in this time: what was asked for, or what the service can do.
    pub(super) fn achievable(&self, tenths: Range<usize>, capacity: f64) -> f64 {
        let most = capacity * tenths.len() as f64 / TENTHS as f64;
        (self.tenths(Count::Demand, tenths) as f64).min(most)
    }

    /// Whether users had enough of what was achievable in these tenths of a second, chance set aside.
    pub fn enough(&self, window: Range<usize>, capacity: f64) -> bool {
        let achievable = self.achievable(window.clone(), capacity);
        let short = achievable - self.tenths(Count::Good, window) as f64;
        short <= (achievable * (1.0 - ENOUGH)).max(CHANCE * achievable.sqrt())
    }

    /// The share of what was achievable over these seconds that users got, from 0 to 1.
    pub fn goodput(&self, seconds: Range<usize>, capacity: f64) -> f64 {
        let seconds = seconds.start * TENTHS..seconds.end * TENTHS;
        let achievable = self.achievable(seconds.clone(), capacity);
        share(self.tenths(Count::Good, seconds) as f64, achievable).min(1.0)
    }
}

/// When things happened, in whole seconds of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The outage's first second.
    pub outage_at: usize,
    /// How many seconds it lasted.
    pub outage_len: usize,
    /// The run's end: the first second that was not observed.
    pub end: usize,
}

impl Timing {
    /// The first second after the outage.
    pub fn outage_end(&self) -> usize {
        self.outage_at.saturating_add(self.outage_len)
    }

    /// Which part a second is in: 0 before the outage, 1 during it, 2 after it.
    pub fn part(&self, second: usize) -> usize {
        match second {
            _ if second < self.outage_at => 0,
            _ if second < self.outage_end() => 1,
            _ => 2,
        }
    }

    /// The seconds before the outage, during it and after it.
    pub fn parts(&self) -> [Range<usize>; 3] {
        let (from, to) = (self.outage_at, self.outage_end());
        [0..from, from..to, to..self.end]
    }
}

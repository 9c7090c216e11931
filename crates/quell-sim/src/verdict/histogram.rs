//! Histogram: how long it took, to within a sixteenth, in constant space.
//!
//! ```
//! use core::time::Duration;
//! use quell_sim::verdict::Histogram;
//!
//! let mut waits = Histogram::default();
//! for ms in 1..=100 {
//!     waits.add(Duration::from_millis(ms));
//! }
//! let p99 = waits.quantile(0.99).unwrap_or_default();
//! assert!((93..=106).contains(&p99.as_millis()), "{p99:?}");
//! ```

use core::time::Duration;

/// Every power of two is cut into so many steps.
const STEPS: u64 = 16;
/// From 2^40 µs on, which is two weeks, all is one.
const LARGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = 37 * STEPS as usize;

/// Durations, counted in buckets of a logarithmic scale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// One more that took so long.
    pub fn add(&mut self, time: Duration) {
        self.buckets[bucket(time)] += 1;
        self.total += 1;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The time that this share of them did not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank =
            ((self.total as f64 * share.clamp(0.0, 1.0)) as u64).min(self.total.checked_sub(1)?);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&count| {
            seen += count;
            seen > rank
        })?;
        Some(middle(bucket as u64))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        self.total = 0;
    }
}

fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(LARGEST).min(LARGEST);
    if micros < STEPS {
        return micros as usize;
    }
    let power = u64::from(micros.ilog2());
    let step = (micros >> (power - 4)) - STEPS;
    ((power - 3) * STEPS + step) as usize
}

/// The middle of a bucket.
fn middle(bucket: u64) -> Duration {
    let (row, step) = (bucket / STEPS, bucket % STEPS);
    if row == 0 {
        return Duration::from_micros(step);
    }
    let width = 1 << (row - 1);
    Duration::from_micros((STEPS + step) * width + width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_told_to_within_a_sixteenth() {
        let mut micros = 1;
        while micros < LARGEST {
            let mut one = Histogram::default();
            one.add(Duration::from_micros(micros));
            let told = one.quantile(0.5).unwrap().as_micros() as f64;
            let off = (told - micros as f64).abs() / micros as f64;
            assert!(off <= 1.0 / 16.0, "{micros} µs is told as {told}");
            micros += micros / 7 + 1;
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_the_longest_costs_no_more_than_the_shortest() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.add(Duration::MAX);
        histogram.add(Duration::ZERO);
        assert_eq!((histogram.count(), histogram.buckets.len()), (2, BUCKETS));
        assert_eq!(histogram.quantile(0.0), Some(Duration::ZERO));
        histogram.clear();
        assert_eq!(histogram, Histogram::default());
    }

    #[test]
    fn quantiles_never_fall_as_the_share_grows() {
        let mut histogram = Histogram::default();
        for i in 0..1_000_u64 {
            histogram.add(Duration::from_micros(i * i));
        }
        let all: Vec<_> = (0..=100).map(|p| histogram.quantile(f64::from(p) / 100.0)).collect();
        assert!(all.is_sorted());
    }
}

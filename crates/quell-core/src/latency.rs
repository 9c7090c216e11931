//! Latency: how long a success takes, in a constant number of counters.
//!
//! **Why.** A retry that cannot finish in time, or a queued call whose caller will have left before its answer,
//! is work for nobody. To know, one needs a median and a 90th percentile of the recent past, cheaply.
//!
//! **How.** Eight counters per power of two, so a quantile is right within 12.5 %, in two generations of ten
//! seconds or twenty samples, whichever is longer. An outage teaches nothing, and thin traffic is enough.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, latency::Latency};
//!
//! let mut latency = Latency::new(Time::ZERO);
//! for i in 0..128 {
//!     latency.record(Time::ZERO, Duration::from_millis(i * 37 % 100 + 1));
//! }
//! let p90 = latency.p90().unwrap();
//! assert!((80..=101).contains(&p90.as_millis()), "{p90:?}");
//! ```

use core::time::Duration;

use crate::{Time, time::nanos};

/// Everything up to 2^14 ns (16 µs) is one bucket.
const SMALLEST: u32 = 14;
const OCTAVES: usize = 25;
const BUCKETS: usize = OCTAVES * 8;
/// Everything from 2^39 ns (nine minutes) on is in the last bucket.
const LONGEST: u64 = (1 << (SMALLEST + OCTAVES as u32)) - 1;
const GENERATION: Duration = Duration::from_secs(10);
/// Fewer samples than this prove nothing.
const ENOUGH: u64 = 20;
/// Quantiles are refreshed once per so many samples.
const REFRESH: u64 = 64;

#[derive(Debug)]
struct Generation {
    counts: [u32; BUCKETS],
    /// The same per power of two, so that a quantile is found in two short walks instead of a long one.
    octaves: [u32; OCTAVES],
}

impl Generation {
    const EMPTY: Self = Self { counts: [0; BUCKETS], octaves: [0; OCTAVES] };

    #[inline]
    fn add(&mut self, bucket: usize) {
        self.counts[bucket] += 1;
        self.octaves[bucket / 8] += 1;
    }

    fn total(&self) -> u64 {
        self.octaves.iter().map(|&count| u64::from(count)).sum()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Latency {
    young: Generation,
    old: Generation,
    ends: Time,
    /// Samples until the quantiles are refreshed.
    refresh_in: u64,
    p50: Option<Duration>,
    p90: Option<Duration>,
}

impl Latency {
    /// Nothing known yet.
    pub fn new(now: Time) -> Self {
        Self {
            young: Generation::EMPTY,
            old: Generation::EMPTY,
            ends: now + GENERATION,
            refresh_in: ENOUGH,
            p50: None,
            p90: None,
        }
    }

    /// One success took this long.
    #[inline]
    pub fn record(&mut self, now: Time, took: Duration) {
        if now >= self.ends {
            self.turn(now);
        }
        self.young.add(bucket(nanos(took)));
        self.refresh_in -= 1;
        if self.refresh_in == 0 {
            self.refresh();
        }
    }

    /// The median, once enough is known.
    pub fn p50(&self) -> Option<Duration> {
        self.p50
    }

    /// The 90th percentile, once enough is known.
    pub fn p90(&self) -> Option<Duration> {
        self.p90
    }

    /// What this share of successes is quicker than, once enough is known. Not kept, so dearer than the others.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total = self.young.total() + self.old.total();
        let rank = (total as f64 * share) as u64;
        (total >= ENOUGH).then(|| self.at_rank(rank.clamp(1, total)))
    }

    #[cold]
    fn turn(&mut self, now: Time) {
        if self.young.total() < ENOUGH {
            return;
        }
        self.old = core::mem::replace(&mut self.young, Generation::EMPTY);
        self.ends = now + GENERATION;
        self.refresh();
    }

    #[cold]
    fn refresh(&mut self) {
        let young = self.young.total();
        self.refresh_in = if young < ENOUGH { ENOUGH - young } else { REFRESH - young % REFRESH };
        let total = young + self.old.total();
        if total < ENOUGH {
            return;
        }
        self.p50 = Some(self.at_rank(total.div_ceil(2)));
        self.p90 = Some(self.at_rank((total * 9).div_ceil(10)));
    }

    /// How long the sample took that is the `rank`th from below.
    fn at_rank(&self, rank: u64) -> Duration {
        let (octave, below) = find(rank, &self.young.octaves, &self.old.octaves);
        let within = octave * 8..octave * 8 + 8;
        let (young, old) = (&self.young.counts[within.clone()], &self.old.counts[within]);
        let (eighth, _) = find(rank - below, young, old);
        middle(octave * 8 + eighth)
    }
}

/// Where the `rank`th sample lies, counted over both generations, and how many lie before that place.
fn find(rank: u64, young: &[u32], old: &[u32]) -> (usize, u64) {
    let mut below = 0;
    for (place, (young, old)) in young.iter().zip(old).enumerate() {
        let here = u64::from(*young) + u64::from(*old);
        if below + here >= rank {
            return (place, below);
        }
        below += here;
    }
    (young.len() - 1, below)
}

#[inline]
fn bucket(nanos: u64) -> usize {
    // The exponent of a float and the first three bits of its fraction are the octave and its eighth.
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1 - 3;
    const FIRST: u64 = ((1u64 << SMALLEST) as f64).to_bits() >> FRACTION;
    let nanos = nanos.clamp(1 << SMALLEST, LONGEST) as i64 as f64;
    ((nanos.to_bits() >> FRACTION) - FIRST) as usize
}

fn middle(bucket: usize) -> Duration {
    let octave = SMALLEST + (bucket / 8) as u32;
    let from = (1u64 << octave) + ((bucket % 8) as u64) * (1 << (octave - 3));
    Duration::from_nanos(from + (1 << (octave - 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn quantiles_are_right_within_an_eighth() {
        for scale in [1u64, 37, 1_000, 99_999] {
            let mut latency = Latency::new(Time::ZERO);
            for i in 1..=1_024u64 {
                latency.record(Time::ZERO, Duration::from_micros(100 * scale * i / 1_024 + 20));
            }
            for (got, share) in [(latency.p50(), 0.5), (latency.p90(), 0.9)] {
                let expected = 100e-6 * scale as f64 * share + 20e-6;
                let off = got.unwrap().as_secs_f64() / expected - 1.0;
                assert!(off.abs() < 0.125, "scale {scale}, share {share}: off by {off}");
            }
        }
    }

    #[test]
    fn nothing_is_claimed_before_enough_is_known() {
        let mut latency = Latency::new(Time::ZERO);
        for _ in 0..19 {
            latency.record(Time::ZERO, Duration::from_millis(5));
            assert_eq!((latency.p50(), latency.p90()), (None, None));
        }
        latency.record(Time::ZERO, Duration::from_millis(5));
        assert!(latency.p50().is_some() && latency.p90().is_some());
    }

    #[test]
    fn the_past_is_forgotten_after_two_generations_and_not_during_an_outage() {
        let mut latency = Latency::new(Time::ZERO);
        for _ in 0..100 {
            latency.record(at(0), Duration::from_secs(1));
        }
        let after_outage = 3_600_000;
        latency.record(at(after_outage), Duration::from_millis(1));
        assert!(latency.p90().unwrap() > Duration::from_millis(900));
        for ms in 0..200 {
            latency.record(at(after_outage + 100 * ms), Duration::from_millis(1));
        }
        assert!(latency.p90().unwrap() < Duration::from_millis(2));
    }

    #[test]
    fn extremes_fall_into_the_outer_buckets() {
        let mut latency = Latency::new(Time::ZERO);
        for took in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
            latency.record(Time::ZERO, took);
        }
        assert_eq!(latency.young.counts[0], 2);
        assert_eq!(latency.young.counts[BUCKETS - 1], 1);
    }
}

//! When callers come, and how long their work takes.
//!
//! **Why.** A generator that waits for answers before it sends more is slowed down by what it measures. Here all instants
//! are known before the first call is made; only loops, which stand for callers who do one thing after another, wait.
//! Every proxy meets the same instants and the same times, because they are drawn from the same dice.

use std::time::Duration;

use super::dice::Dice;

/// When they come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// So many per second, each by itself.
    Poisson(f64),
    /// So many per second, evenly.
    Even(f64),
    /// So many within a time, again and again.
    Bursts { of: u32, within: Duration, every: Duration },
    /// So many, once.
    Once(u32),
    /// So many callers who ask again as soon as they were answered.
    Loops(u32),
}

/// How long the service works on a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    Takes(Duration),
    Between(Duration, Duration),
    LogNormal {
        p50: Duration,
        p99: Duration,
    },
    /// A share takes the second time, the rest the first.
    Either(f64, Duration, Duration),
    /// From the first to the second and back in this time, again and again.
    Drifts(Duration, Duration, Duration),
    /// The first until this instant, from then on the second.
    Steps(Duration, Duration, Duration),
}

impl Arrivals {
    /// All instants from `from` up to `length`, in order. Loops have none: they start at `from`.
    pub(crate) fn instants(
        self,
        from: Duration,
        length: Duration,
        dice: &mut Dice,
    ) -> Vec<Duration> {
        let mut instants = Vec::new();
        let mut at = from;
        match self {
            Self::Poisson(rate) => loop {
                at = at.saturating_add(seconds(-(1.0 - dice.unit()).ln() / rate));
                if at >= length {
                    break;
                }
                instants.push(at);
            },
            Self::Even(rate) => {
                let gap = seconds(1.0 / rate).max(Duration::from_micros(1));
                while at < length {
                    instants.push(at);
                    at = at.saturating_add(gap);
                }
            }
            Self::Bursts { of, within, every } => {
                let every = every.max(Duration::from_millis(1));
                while at < length {
                    instants
                        .extend((0..of).map(|i| at + within.mul_f64(f64::from(i) / f64::from(of))));
                    at = at.saturating_add(every);
                }
                instants.sort_unstable();
            }
            Self::Once(of) => instants.extend((0..of).map(|_| at)),
            Self::Loops(_) => {}
        }
        instants
    }
}

impl Work {
    /// What a call of this instant takes.
    pub(crate) fn at(self, at: Duration, dice: &mut Dice) -> Duration {
        match self {
            Self::Takes(time) => time,
            Self::Between(low, high) => dice.between(low, high),
            Self::LogNormal { p50, p99 } => {
                /// How many standard deviations the 99th percentile is above the middle.
                const P99: f64 = 2.326_347_9;
                let spread = (p99.as_secs_f64() / p50.as_secs_f64()).ln() / P99;
                p50.mul_f64((spread * dice.normal()).exp().min(100.0))
            }
            Self::Either(share, usual, other) => {
                if dice.chance(share) {
                    other
                } else {
                    usual
                }
            }
            Self::Drifts(low, high, period) => {
                let phase = (at.as_secs_f64() / period.as_secs_f64()).fract();
                let height = 1.0 - (2.0 * phase - 1.0).abs();
                low + high.saturating_sub(low).mul_f64(height)
            }
            Self::Steps(before, after, when) => {
                if at < when {
                    before
                } else {
                    after
                }
            }
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX) // a rate of 0: never
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(20);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn instants(arrivals: Arrivals) -> Vec<Duration> {
        arrivals.instants(Duration::ZERO, LENGTH, &mut Dice::new(1, 1))
    }

    #[test]
    fn rates_are_kept_and_instants_are_in_order_and_within_the_run() {
        assert_eq!(instants(Arrivals::Even(50.0)).len(), 1_000);
        let poisson = instants(Arrivals::Poisson(200.0));
        assert!(poisson.len().abs_diff(4_000) < 250, "{}", poisson.len());
        assert!(poisson.is_sorted() && poisson.iter().all(|at| *at < LENGTH));
        assert_eq!(instants(Arrivals::Poisson(0.0)), []);
    }

    #[test]
    fn a_burst_is_spread_over_its_time_and_comes_again() {
        let bursts = instants(Arrivals::Bursts { of: 400, within: ms(50), every: ms(8_000) });
        assert_eq!(bursts.len(), 1_200);
        assert!(bursts[399] < ms(50) && bursts[400] == ms(8_000), "{:?}", bursts[399]);
    }

    #[test]
    fn whoever_comes_later_comes_at_their_time() {
        let mut dice = Dice::new(1, 1);
        assert_eq!(Arrivals::Once(3).instants(ms(70), LENGTH, &mut dice), [ms(70); 3]);
        let even = Arrivals::Even(1.0).instants(ms(18_500), LENGTH, &mut dice);
        assert_eq!(even, [ms(18_500), ms(19_500)]);
    }

    #[test]
    fn work_drifts_up_and_down_and_steps_once() {
        let mut dice = Dice::new(1, 1);
        let drift = Work::Drifts(ms(10), ms(80), ms(60_000));
        let seen = [0, 15_000, 30_000, 45_000, 60_000].map(|at| drift.at(ms(at), &mut dice));
        assert_eq!(seen, [ms(10), ms(45), ms(80), ms(45), ms(10)]);
        let step = Work::Steps(ms(10), ms(30), ms(100));
        assert_eq!([99, 100].map(|at| step.at(ms(at), &mut dice)), [ms(10), ms(30)]);
    }

    #[test]
    fn lognormal_times_have_the_percentiles_they_were_given() {
        let mut dice = Dice::new(3, 0);
        let work = Work::LogNormal { p50: ms(20), p99: ms(800) };
        let mut times: Vec<_> = (0..20_000).map(|_| work.at(Duration::ZERO, &mut dice)).collect();
        times.sort_unstable();
        assert!(times[10_000].abs_diff(ms(20)) < ms(2), "{:?}", times[10_000]);
        assert!(times[19_800].abs_diff(ms(800)) < ms(120), "{:?}", times[19_800]);
    }
}

//! Throttle: a client that notices it is being refused, and asks less.
//!
//! **Why.** To refuse a request costs a service something, and if it refuses enough of them it does nothing else. Callers
//! who see that most of their requests are turned down can turn them down themselves, at no cost to anybody.
//!
//! **How.** Over the last two minutes the throttle counts *requests* and how many of them the service *accepted*. A request
//! is refused here with probability `(requests − k·accepts)/(requests + 1)`, if that is positive: with `k` = 2
//! the service sees up to twice what it accepts, and that excess is how its recovery is noticed. What is refused here counts
//! as a request too, or the throttle would let go at once. Requests are counted when they end: a slow service
//! refuses nothing, so it is not throttled, and neither is a service that has not answered yet.
//!
//! The formula alone takes many windows to come back after minutes in which *nothing* was accepted, because everything that is
//! refused here speaks against the service. So the probability stays at `most`, and every tenth request asks.
//!
//! ```
//! use quell_core::{Rng, Time, throttle::{Spec, Throttle}};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let mut throttle = Throttle::new(Spec::default(), now)?;
//! throttle.accepted(now);
//! assert!(throttle.check(now, &mut rng).is_ok());
//! for _ in 0..97 {
//!     throttle.rejected(now);
//! }
//! assert_eq!(throttle.probability(now), 0.9);                        // 96/99, held to 0.9
//! # Ok::<_, quell_core::throttle::Invalid>(())
//! ```

use core::time::Duration;

use crate::{Reason, Rng, Time, time::nanos};

/// Buckets in the window: what counts is exact to one of them.
const BUCKETS: usize = 24;

/// A throttle as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// How many requests the service may see for each that it accepts.
    pub k: f64,
    /// How far back it looks.
    pub window: Duration,
    /// Largest share of all requests that is refused, however bad it looks.
    pub most: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self { k: 2.0, window: Duration::from_secs(120), most: 0.9 }
    }
}

/// Why a [`Spec`] is not a throttle. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Healthy traffic would be throttled, or nothing ever, or not a number.
    #[error(
        "throttle.k is {0}: write a number from 1.1 to 100, such as 2.0 for two requests per accepted one"
    )]
    K(f64),
    /// Too short to count in.
    #[error("throttle.window is {0:?}: write at least 24ms, such as \"2m\"")]
    Window(Duration),
    /// Nothing would be throttled, or more than everything, or not a number.
    #[error("throttle.most is {0}: write more than 0 and at most 1, such as 0.9")]
    Most(f64),
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    requests: u64,
    accepts: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Throttle {
    spec: Spec,
    buckets: [Counts; BUCKETS],
    current: usize,
    /// When the current bucket is over.
    ends: Time,
    width: u64,
    sum: Counts,
}

impl Throttle {
    /// A throttle that has seen nothing.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        if !(1.1..=100.0).contains(&spec.k) {
            return Err(Invalid::K(spec.k)); // NaN ends up here too
        }
        if spec.window < Duration::from_millis(BUCKETS as u64) {
            return Err(Invalid::Window(spec.window));
        }
        if !(spec.most > 0.0 && spec.most <= 1.0) {
            return Err(Invalid::Most(spec.most));
        }
        let width = nanos(spec.window) / BUCKETS as u64;
        let ends = now + Duration::from_nanos(width);
        let (buckets, sum) = ([Counts::default(); BUCKETS], Counts::default());
        Ok(Self { spec, buckets, current: 0, ends, width, sum })
    }

    /// Whether to send a request. One that is refused is counted; one that may go is counted when it ends. Draws
    /// nothing while the service is healthy.
    #[inline]
    pub fn check(&mut self, now: Time, rng: &mut Rng) -> Result<(), Reason> {
        if self.would_refuse(now, rng) {
            self.count(now, 0);
            return Err(Reason::Shed);
        }
        Ok(())
    }

    /// The same, for a request that is sent in any case: it is counted when it ends, like every other.
    #[inline]
    pub fn would_refuse(&mut self, now: Time, rng: &mut Rng) -> bool {
        let probability = self.probability(now);
        probability > 0.0 && rng.unit() < probability
    }

    /// A request ended, and the service had taken it on: it was served, whatever the answer.
    #[inline]
    pub fn accepted(&mut self, now: Time) {
        self.count(now, 1);
    }

    /// A request ended, and the service had turned it down or could not be reached: overload, timeout, no connection. Requests
    /// that were abandoned, or refused by other policies of ours, are not reported at all.
    #[inline]
    pub fn rejected(&mut self, now: Time) {
        self.count(now, 0);
    }

    /// The probability with which a request is refused now.
    #[inline]
    pub fn probability(&mut self, now: Time) -> f64 {
        self.slide(now);
        let (requests, accepts) = (self.sum.requests as f64, self.sum.accepts as f64);
        ((requests - self.spec.k * accepts) / (requests + 1.0)).clamp(0.0, self.spec.most)
    }

    /// Takes on the numbers of one just made and keeps what it counted. Where it looks back another length, all that still
    /// counts counts as of now.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.slide(now);
        self.spec = fresh.spec;
        if self.width != fresh.width {
            *self = Self { sum: self.sum, ..fresh };
            self.buckets[self.current] = self.sum;
        }
    }

    fn count(&mut self, now: Time, accepts: u64) {
        self.slide(now);
        for counts in [&mut self.buckets[self.current], &mut self.sum] {
            counts.requests += 1;
            counts.accepts += accepts;
        }
    }

    /// Lets go of the buckets that are over, in at most one turn of the ring however long nobody looked.
    #[inline]
    fn slide(&mut self, now: Time) {
        if now >= self.ends {
            self.turn(now);
        }
    }

    #[cold]
    fn turn(&mut self, now: Time) {
        let steps = now.nanos_since(self.ends) / self.width + 1;
        for _ in 0..steps.min(BUCKETS as u64) {
            self.current = (self.current + 1) % BUCKETS;
            let old = core::mem::take(&mut self.buckets[self.current]);
            self.sum.requests -= old.requests;
            self.sum.accepts -= old.accepts;
        }
        self.ends = self.ends + Duration::from_nanos(self.width.saturating_mul(steps));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Rng;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn throttle() -> Throttle {
        Throttle::new(Spec::default(), Time::ZERO).unwrap()
    }

    /// Ten requests per second for so long; the service accepts up to `capacity` of them in every second.
    /// Returns how many were asked for, sent and accepted in the last tenth of that time.
    fn traffic(
        throttle: &mut Throttle,
        rng: &mut Rng,
        seconds: core::ops::Range<u64>,
        capacity: u64,
    ) -> (u64, u64, u64) {
        let (mut asked, mut sent, mut accepted) = (0, 0, 0);
        let last = seconds.end - (seconds.end - seconds.start) / 10;
        for second in seconds {
            let mut this_second = 0;
            for i in 0..10 {
                let now = at(second * 1_000 + i * 100);
                let goes = throttle.check(now, rng).is_ok();
                let accepts = goes && this_second < capacity;
                this_second += u64::from(goes);
                match (goes, accepts) {
                    (true, true) => throttle.accepted(now),
                    (true, false) => throttle.rejected(now),
                    _ => {}
                }
                if second >= last {
                    asked += 1;
                    sent += u64::from(goes);
                    accepted += u64::from(accepts);
                }
            }
        }
        (asked, sent, accepted)
    }

    #[test]
    fn the_probability_is_the_published_formula() {
        let mut throttle = Throttle::new(Spec { most: 1.0, ..Spec::default() }, at(0)).unwrap();
        assert_eq!(throttle.probability(at(0)), 0.0);
        for _ in 0..10 {
            throttle.accepted(at(0));
        }
        for rejected in 1..=90 {
            throttle.rejected(at(0));
            let requests = 10.0 + f64::from(rejected);
            let expected = ((requests - 20.0) / (requests + 1.0)).max(0.0);
            assert_eq!(throttle.probability(at(0)), expected);
        }
    }

    #[test]
    fn a_service_that_accepts_a_fifth_sees_about_twice_what_it_accepts() {
        let (mut throttle, mut rng) = (throttle(), Rng::new(4));
        let (asked, sent, accepted) = traffic(&mut throttle, &mut rng, 0..3_000, 2);
        assert_eq!(asked, 3_000);
        let excess = sent as f64 / accepted as f64;
        assert!((1.7..2.3).contains(&excess), "{sent} sent, {accepted} accepted");
    }

    #[test]
    fn after_an_outage_longer_than_the_window_all_pass_again_within_two_windows() {
        let (mut throttle, mut rng) = (throttle(), Rng::new(4));
        traffic(&mut throttle, &mut rng, 0..600, 10);
        let (asked, sent, _) = traffic(&mut throttle, &mut rng, 600..1_200, 0);
        assert!((0.05..0.15).contains(&(sent as f64 / asked as f64)), "{sent} of {asked}");
        traffic(&mut throttle, &mut rng, 1_200..1_440, 10);
        let (asked, sent, _) = traffic(&mut throttle, &mut rng, 1_440..1_500, 10);
        assert_eq!(sent, asked);
    }

    #[test]
    fn after_a_short_outage_nothing_was_ever_throttled() {
        let (mut throttle, mut rng) = (throttle(), Rng::new(4));
        traffic(&mut throttle, &mut rng, 0..120, 10);
        traffic(&mut throttle, &mut rng, 120..150, 0);
        assert_eq!(throttle.probability(at(150_000)), 0.0);
    }

    /// X9.
    #[test]
    fn a_reload_keeps_what_was_counted_whatever_the_window() {
        let mut throttle = throttle();
        (0..98).for_each(|_| throttle.rejected(at(0)));
        let minute = Spec { window: Duration::from_secs(60), ..Spec::default() };
        for (spec, expected) in [(minute, 0.9), (Spec { most: 0.5, ..minute }, 0.5)] {
            throttle.adopt(Throttle::new(spec, at(50_000)).unwrap(), at(50_000));
            assert_eq!(throttle.probability(at(50_000)), expected);
        }
        assert_eq!(throttle.probability(at(107_000)), 0.5);
        assert_eq!(throttle.probability(at(110_000)), 0.0);
    }

    /// G9.
    #[test]
    fn thirty_idle_days_cost_one_turn_of_the_ring_and_forget_everything() {
        let mut throttle = throttle();
        for _ in 0..100 {
            throttle.rejected(at(0));
        }
        assert_eq!(throttle.probability(at(114_999)), 0.9);
        assert_eq!(throttle.probability(at(30 * 86_400_000)), 0.0);
    }

    /// T1, T2, T4.
    #[test]
    fn the_ends_of_time_and_a_clock_that_steps_back_break_nothing() {
        let endless = Spec { window: Duration::MAX, ..Spec::default() };
        for spec in [endless, Spec::default()] {
            let mut throttle = Throttle::new(spec, at(1_000_000)).unwrap();
            throttle.rejected(Time::ZERO);
            assert!(throttle.probability(at(1_000_000)) > 0.0);
            throttle.rejected(Time::MAX);
            throttle.accepted(Time::ZERO);
            assert_eq!(throttle.probability(Time::MAX), 0.0);
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let good = Spec::default();
        let mut nonsense: Vec<_> =
            [0.0, 1.0, 101.0, f64::NAN].iter().map(|&k| Spec { k, ..good }).collect();
        nonsense.extend([0.0, -1.0, 1.1, f64::NAN].map(|most| Spec { most, ..good }));
        nonsense.push(Spec { window: Duration::ZERO, ..good });
        for spec in nonsense {
            let message = Throttle::new(spec, at(0)).unwrap_err().to_string();
            assert!(message.starts_with("throttle.") && message.contains("write"), "{message}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

        /// At any pace, with gaps, and with up to every other request turned down after it.
        #[test]
        fn healthy_traffic_is_never_throttled(
            steps in prop::collection::vec((0..20_000_u64, any::<bool>()), 1..300),
        ) {
            let (mut throttle, mut rng, mut now) = (throttle(), Rng::new(1), 0);
            for (step, rejects) in steps {
                now += step;
                prop_assert_eq!(throttle.check(at(now), &mut rng), Ok(()));
                throttle.accepted(at(now));
                if rejects {
                    throttle.rejected(at(now));
                }
                prop_assert_eq!(throttle.probability(at(now)), 0.0);
            }
            prop_assert_eq!(rng.next_u64(), Rng::new(1).next_u64(), "and draws nothing");
        }
    }
}

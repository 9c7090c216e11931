//! Whole: a wait in whole seconds, as `Retry-After` has it.

use std::time::Duration;

use quell_core::Rng;

use super::headers::whole_seconds;

/// A wait in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole(pub(crate) u64);

impl Whole {
    /// Rounded up, and at least one: never earlier than promised.
    pub(crate) fn of(wait: Duration) -> Self {
        Self(whole_seconds(wait))
    }

    /// Up to half as much again, and at least up to one second more: those who were refused together do not come back together.
    pub(crate) fn jittered(self, rng: &mut Rng) -> Self {
        let spread = self.0.div_ceil(2);
        Self(self.0.saturating_add(rng.below(spread.saturating_add(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_rounded_up_and_at_least_one() {
        let cases = [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (1_999, 2), (2_000, 2)];
        for (ms, seconds) in cases {
            assert_eq!(Whole::of(Duration::from_millis(ms)), Whole(seconds), "{ms} ms");
        }
        assert_eq!(Whole::of(Duration::MAX), Whole(u64::MAX));
    }

    #[test]
    fn jitter_is_never_early_and_spreads_over_half_the_wait() {
        let mut rng = Rng::new(1);
        for seconds in [1, 2, 10, 60] {
            let drawn: Vec<_> = (0..1_000).map(|_| Whole(seconds).jittered(&mut rng).0).collect();
            assert_eq!(drawn.iter().min(), Some(&seconds));
            assert_eq!(drawn.iter().max(), Some(&(seconds + seconds.div_ceil(2))));
        }
        assert_eq!(Whole(u64::MAX).jittered(&mut rng), Whole(u64::MAX));
    }
}

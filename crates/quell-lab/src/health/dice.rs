//! Dice: the same seed gives the same numbers, so that every proxy meets the same callers.

use std::time::Duration;

/// A small generator (xorshift64*). Good enough for arrivals and times, and it needs no crate.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mixed = (seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ (stream.wrapping_add(1)).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mut dice = Self(mixed | 1);
        for _ in 0..8 {
            dice.next(); // seeds that are near each other start near each other
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        low + high.saturating_sub(low).mul_f64(self.unit())
    }

    /// A number with mean 0 and variance 1, normally distributed (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Whether something happens that happens with this chance.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_stream_others() {
        let draw = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            [dice.unit(), dice.unit(), dice.unit()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn means_and_spread_are_what_they_should_be() {
        let mut dice = Dice::new(7, 0);
        let draws = 20_000;
        let unit = (0..draws).map(|_| dice.unit()).sum::<f64>() / f64::from(draws);
        assert!((unit - 0.5).abs() < 0.01, "{unit}");
        let squares = (0..draws).map(|_| dice.normal().powi(2)).sum::<f64>() / f64::from(draws);
        assert!((squares - 1.0).abs() < 0.05, "{squares}");
    }
}

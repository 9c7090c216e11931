//! Rng: seeded randomness that is handed in, never conjured.
//!
//! **Why.** Jitter, probe timing and the choice of endpoint must differ between callers in production and be
//! the same for the same seed in the simulator, on every machine. The operating system's generator gives
//! the first and not the second, so the generator is ours: small, fast, fixed for ever by golden vectors.
//!
//! **How.** xoshiro256++ seeded by splitmix64. It is deliberately not `Clone`: two copies of one generator
//! give the same "random" delays, which is how jitter silently turns into a herd. Use [`Rng::fork`].
//!
//! ```
//! use quell_core::Rng;
//!
//! let (mut a, mut b) = (Rng::new(7), Rng::new(7));
//! assert_eq!(a.next_u64(), b.next_u64());
//! assert!(a.unit() < 1.0);
//! ```

use core::time::Duration;

use crate::time::nanos;

/// See the [module](self).
#[derive(Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(core::array::from_fn(|_| splitmix(&mut state)))
    }

    /// A generator of its own for one entity and purpose: what it draws never shifts what others draw.
    pub fn stream(seed: u64, entity: u64, purpose: u64) -> Self {
        let mut state = seed;
        for part in [entity, purpose] {
            state = splitmix(&mut state) ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Self::new(splitmix(&mut state))
    }

    /// An independent generator drawn from this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, from the top 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `0..=longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_nanos(self.below(nanos(longest).saturating_add(1)))
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs for the state 1, 2, 3, 4.
    #[test]
    fn the_generator_gives_the_published_vectors() {
        let mut rng = Rng([1, 2, 3, 4]);
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
        ];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn seeding_gives_the_published_splitmix_vectors() {
        let mut state = 1_234_567;
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| splitmix(&mut state)), expected);
    }

    #[test]
    fn streams_of_other_entities_and_purposes_differ() {
        let first = |entity, purpose| Rng::stream(1, entity, purpose).next_u64();
        let all = [first(0, 0), first(0, 1), first(1, 0), first(1, 1)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut rng = Rng::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1_150).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert!(rng.up_to(Duration::MAX) > Duration::ZERO);
    }
}

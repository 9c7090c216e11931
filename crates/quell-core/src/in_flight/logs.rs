//! Logs: logarithms that cost a handful of instructions, and powers of two; the same bits on every machine.
//!
//! **Why.** Latencies multiply: twice as long means the same at 1 ms and at 1 s. So the limit is found among their
//! logarithms, and an answer is not to pay for a series.
//!
//! **How.** Base two: the exponent by counting zeros, and for what follows the leading one, `f`, a parabola: `f + c·f·(1 − f)` is
//! right within 0.01 and never falls. In units of 1 ÷ 65,536, so that sums are exact. The powers are made of `+ − × ÷` alone.

use core::f64::consts::LN_2;

/// One, in the unit that logarithms are kept in.
const ONE: u32 = 1 << 16;
/// `c` as a 65,536th: the parabola that is nowhere further off than anywhere else.
const BULGE: u64 = 22_500;

/// The logarithm to base two, in 65,536ths; that of nothing is nothing.
#[inline]
pub(crate) const fn log2(x: u64) -> u32 {
    let zeros = (x | 1).leading_zeros();
    let f = ((x << zeros) << 1) >> 48;
    let bulge = (((f * (ONE as u64 - f)) >> 16) * BULGE) >> 16;
    ((63 - zeros) << 16) + (f + bulge) as u32
}

/// A sum of logarithms to base two, in 65,536ths, as one to base e.
pub(crate) fn natural(sum: f64) -> f64 {
    sum * (LN_2 / ONE as f64)
}

/// A logarithm to base e as one to base two, in 65,536ths.
pub(crate) fn fixed(x: f64) -> i64 {
    (x * (f64::from(ONE) / LN_2)) as i64
}

/// e to the power of x.
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-600.0, 600.0);
    let doublings = (x / LN_2) as i32; // towards zero
    let rest = x - f64::from(doublings) * LN_2;
    let series = (1..18).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((1023 + doublings) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn logarithms_are_right_and_never_fall(x in 1..=u64::MAX, bits in 0..64u32) {
            let x = (x >> bits).max(1);
            let ours = f64::from(log2(x)) / f64::from(ONE);
            prop_assert!((ours - (x as f64).log2()).abs() < 0.01, "{x}: {ours}");
            prop_assert!(log2(x) <= log2(x.saturating_add(1)));
        }

        #[test]
        fn powers_are_right(x in -600.0..600.0f64) {
            prop_assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "{x}: {}", exp(x));
        }
    }

    #[test]
    fn powers_of_two_are_exact_and_the_logarithm_of_nothing_is_nothing() {
        assert_eq!([0, 1, 2, 1024].map(log2), [0, 0, ONE, 10 * ONE]);
        assert!((natural(f64::from(log2(1024))) - 1024f64.ln()).abs() < 1e-12);
    }
}

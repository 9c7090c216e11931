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
pub(super) const fn log2(x: u64) -> u32 {
    let zeros = (x | 1).leading_zeros();
    let f = ((x << zeros) << 1) >> 48;
    let bulge = (((f * (ONE as u64 - f)) >> 16) * BULGE) >> 16;
    ((63 - zeros) << 16) + (f + bulge) as u32
}

/// A sum of logarithms to base two, in 65,536ths, as one to base e.
pub(super) fn natural(sum: f64) -> f64 {
    sum * (LN_2 / ONE as f64)
}

/// e to the power of x.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-600.0, 600.0);
    let doublings = (x / LN_2) as i32; // towards zero
    let rest = x - f64::from(doublings) * LN_2;
    let series = (1..18).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((1023 + doublings) as u64) << 52)
}

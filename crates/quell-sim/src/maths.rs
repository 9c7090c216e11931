//! Maths: the few functions that chance needs, the same bits on every machine.
//!
//! **Why.** The logarithm of a system's library differs in its last bit from machine to machine, and one bit is
//! another trace. So these are ours, made of `+ − × ÷` and the square root, which IEEE 754 pins down.
//!
//! **How.** Reduce to a small interval, then a series long enough for the last bit or the one before it.
//!
//! ```
//! use quell_sim::maths::{exp, ln, normal_quantile};
//!
//! assert_eq!(ln(1.0), 0.0);
//! assert!((exp(ln(42.0)) - 42.0).abs() < 1e-12);
//! assert!((normal_quantile(0.99) - 2.326_347_874).abs() < 1e-8);
//! ```

use core::f64::consts::{LOG2_E, SQRT_2};

/// The upper part of ln 2: its low bits are zero, so that a multiple by an exponent is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
/// What is missing from it.
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Terms of the series for `ln`: the first that is left out is below 2⁻⁵⁵ of the first.
const LN_TERMS: usize = 11;
/// Their factors: 1/3, 1/5, 1/7 …
const LN_FACTORS: [f64; LN_TERMS] = {
    let mut factors = [0.0; LN_TERMS];
    let mut n = 0;
    while n < LN_TERMS {
        factors[n] = 1.0 / (2 * n + 3) as f64;
        n += 1;
    }
    factors
};
/// Terms of the series for `exp`.
const EXP_TERMS: u32 = 14;
/// Bits of an f64 after its leading one.
const MANTISSA: u32 = 52;

/// The natural logarithm of a positive number; −∞ at and below zero.
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if !x.is_finite() {
        return x;
    }
    // Numbers too small for a leading one are scaled up first.
    let (x, scaled) = if x < f64::MIN_POSITIVE { (x * (1u64 << 54) as f64, -54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA) as i32 - 1023 + scaled;
    let mut m = f64::from_bits((bits & ((1 << MANTISSA) - 1)) | 1.0f64.to_bits());
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2·(s + s³/3 + s⁵/5 + …) with s = (m − 1)/(m + 1), and |s| ≤ 0.1716.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for factor in LN_FACTORS.iter().rev() {
        series = series * square + factor;
    }
    let e = f64::from(exponent);
    e * LN_2_HIGH + (2.0 * s + (2.0 * s * square * series + e * LN_2_LOW))
}

/// e to the power of `x`.
pub fn exp(x: f64) -> f64 {
    if x > 709.78 {
        return f64::INFINITY;
    }
    if x < -708.0 {
        return 0.0; // below the smallest normal number
    }
    let k = (x * LOG2_E).round();
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let mut series = 1.0;
    for n in (1..=EXP_TERMS).rev() {
        series = 1.0 + series * r / f64::from(n);
    }
    // In two steps, because 2¹⁰²⁴ is no number.
    let half = (k as i32) / 2;
    series * power_of_two(half) * power_of_two(k as i32 - half)
}

/// Below which value a standard normal variable stays with this probability (Acklam; within 1.2·10⁻⁹ of the truth).
pub fn normal_quantile(p: f64) -> f64 {
    const TAIL: f64 = 0.024_25;
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p < TAIL {
        let q = (-2.0 * ln(p.max(f64::MIN_POSITIVE))).sqrt();
        return polynomial(&C, q) / polynomial(&D, q);
    }
    let q = p - 0.5;
    polynomial(&A, q * q) * q / polynomial(&B, q * q)
}

/// The highest power comes first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << MANTISSA)
}

#[cfg(test)]
#[path = "maths_tests.rs"]
mod tests;

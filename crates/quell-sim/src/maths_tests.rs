use super::*;

/// Arguments over the whole range, as chance might draw them.
fn many() -> impl Iterator<Item = f64> {
    let mut rng = quell_core::Rng::new(5);
    (0..100_000).map(move |_| (1.0 - rng.unit()) * power_of_two(rng.below(120) as i32 - 60))
}

/// Distance in units of the last place.
fn ulps(a: f64, b: f64) -> u64 {
    a.to_bits().abs_diff(b.to_bits())
}

#[test]
fn the_logarithm_is_right_to_the_last_two_bits() {
    let worst = many().filter(|x| (x - 1.0).abs() > 1e-3).map(|x| ulps(ln(x), x.ln())).max();
    assert!(worst <= Some(2), "{worst:?}");
}

#[test]
fn the_exponential_is_right_to_the_last_two_bits() {
    let mut rng = quell_core::Rng::new(6);
    let arguments = (0..100_000).map(|_| (rng.unit() - 0.5) * 1_400.0);
    let worst = arguments.map(|x| ulps(exp(x), x.exp())).max();
    assert!(worst <= Some(2), "{worst:?}");
}

#[test]
fn the_bits_are_pinned() {
    let pinned = |f: fn(f64) -> f64, x: f64, bits: u64| {
        assert_eq!(f(x).to_bits(), bits, "{x}: {:#018x}", f(x).to_bits());
    };
    pinned(ln, 0.1, 0xc002_6bb1_bbb5_5515);
    pinned(ln, 3.0, 0x3ff1_93ea_7aad_030b);
    pinned(ln, 1e300, 0x4085_9634_47f8_7fb5);
    pinned(exp, -3.0, 0x3fa9_7db0_ccce_b0af);
    pinned(exp, 0.1, 0x3ff1_aec7_b35a_00d4);
    pinned(exp, 50.0, 0x4471_9103_e408_0b45);
    pinned(normal_quantile, 0.001, 0xc008_b8cb_b6ee_2822);
    pinned(normal_quantile, 0.3, 0xbfe0_c7e3_95d1_4936);
    pinned(normal_quantile, 0.999, 0x4008_b8cb_b6ee_2822);
    // Every bit of a hundred thousand results.
    let both = |x: f64| ln(x).to_bits() ^ exp(-x.min(700.0)).to_bits();
    let hash = many().fold(0u64, |hash, x| hash.rotate_left(7) ^ both(x));
    assert_eq!(hash, 0xd7da_f19f_7ea2_602a, "{hash:#018x}");
}

#[test]
fn the_edges_are_what_one_expects() {
    assert_eq!(ln(0.0), f64::NEG_INFINITY);
    assert_eq!(ln(-1.0), f64::NEG_INFINITY);
    assert!(ln(f64::NAN).is_nan());
    assert_eq!(ln(f64::INFINITY), f64::INFINITY);
    assert!(ulps(ln(5e-324), -744.440_071_921_381_2) <= 1);
    assert_eq!((exp(0.0), exp(1e9), exp(-1e9)), (1.0, f64::INFINITY, 0.0));
    assert!(exp(709.7).is_finite());
}

#[test]
fn quantiles_are_those_of_the_tables_on_both_sides() {
    for (p, z) in
        [(0.5, 0.0), (0.9, 1.281_551_565_5), (0.975, 1.959_963_984_5), (0.999, 3.090_232_306_2)]
    {
        assert!((normal_quantile(p) - z).abs() < 1e-8, "{p}");
        assert!((normal_quantile(1.0 - p) + z).abs() < 1e-8, "{p}");
    }
}

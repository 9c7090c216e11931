//! Tip: the point from which on it does not heal.
//!
//! ```
//! use quell_sim::tip::{Tip, tip};
//!
//! let found: Result<_, ()> = tip(1, 600, &mut |seconds| Ok(seconds < 47));
//! assert_eq!(found, Ok(Tip::At { survives: 46, falls: 47 }));
//! ```

/// Where the tipping point lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tip {
    /// Between these two.
    At {
        /// The most that was survived.
        survives: u64,
        /// The least that was not.
        falls: u64,
    },
    /// Even the least is too much.
    Below(u64),
    /// Even the most is survived.
    Above(u64),
}

/// Looks for it by bisection, which takes for granted that whoever survives much survives less.
pub fn tip<E>(
    least: u64,
    most: u64,
    survives: &mut impl FnMut(u64) -> Result<bool, E>,
) -> Result<Tip, E> {
    if !survives(least)? {
        return Ok(Tip::Below(least));
    }
    if survives(most)? {
        return Ok(Tip::Above(most));
    }
    let (mut low, mut high) = (least, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if survives(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Tip::At { survives: low, falls: high })
}

/// How often [`tip`] asks at most.
pub fn steps(least: u64, most: u64) -> u64 {
    2 + u64::from(most.saturating_sub(least).max(1).next_power_of_two().ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tipping_point_is_found_in_few_steps() {
        for point in 1..=200 {
            let mut asked = 0;
            let found: Result<_, ()> = tip(1, 200, &mut |at| {
                asked += 1;
                Ok(at < point)
            });
            let expected = match point {
                1 => Tip::Below(1),
                _ => Tip::At { survives: point - 1, falls: point },
            };
            assert_eq!(found, Ok(expected));
            assert!(asked <= steps(1, 200), "{asked} steps for {point}");
        }
        assert_eq!(tip::<()>(1, 9, &mut |_| Ok(true)), Ok(Tip::Above(9)));
        assert_eq!(tip(1, 9, &mut |_| Err("broken")), Err("broken"));
    }
}

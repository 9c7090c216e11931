//! Bars: values beside the one that would be right, in groups.

use crate::svg::Svg;

const WIDE: f64 = 1100.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 60.0;
const TALL: f64 = 15.0;
const GAP: f64 = 12.0;
/// A value that is more than a tenth above 1 is bad.
const BAD: f64 = 1.1;

/// Bars that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// What stands beside the first of them.
    pub label: &'a str,
    /// Their names and values.
    pub bars: Vec<(&'a str, f64)>,
}

/// All groups, one below the other, with a dotted line at 1: what is more than a tenth beyond it is drawn as bad.
pub fn bars(says: &str, groups: &[Group<'_>]) -> String {
    let values = || groups.iter().flat_map(|group| &group.bars).map(|(_, value)| *value);
    let most = values().fold(1.0, f64::max);
    let height = values().count() as f64 * TALL + groups.len() as f64 * GAP;
    let mut svg = Svg::new(WIDE, height, says);
    let scale = |value: f64| (WIDE - LEFT - RIGHT) * value / most;
    svg.stroke("capacity", (LEFT + scale(1.0), 0.0), (LEFT + scale(1.0), height - GAP));
    let mut y = 0.0;
    for Group { label, bars } in groups {
        svg.word("group", (0.0, y + TALL - 4.0), "start", label);
        for (name, value) in bars {
            svg.word("tick", (LEFT - 8.0, y + TALL - 4.0), "end", name);
            let class = if *value > BAD { "bar c-bad" } else { "bar c-good" };
            svg.rect(class, (LEFT, y + 2.0), (scale(*value).max(1.0), TALL - 4.0));
            // Not across the dotted line.
            let across = *value <= 1.0 && scale(*value) + 40.0 > scale(1.0);
            let x = LEFT + scale(if across { 1.0 } else { *value }) + 6.0;
            svg.word("tick", (x, y + TALL - 4.0), "start", &format!("{value:.2}"));
            y += TALL;
        }
        y += GAP;
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_beyond_one_is_bad_and_the_longest_fits_in() {
        let group = Group { label: "naive", bars: vec![("edge", 1.0), ("below", 4.0)] };
        let svg = bars("sends", &[group]);
        assert_eq!(svg.matches("c-good").count(), 1);
        assert!(
            svg.contains("<rect class=\"bar c-bad\" x=\"210.0\" y=\"17.0\" width=\"830.0\""),
            "{svg}"
        );
    }
}

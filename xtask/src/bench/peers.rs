//! Ours beside the peers: times from one run of the program, in turns, and what we promise of them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::core;
use crate::figure::Figure;

/// What the program says of one pair.
#[derive(Debug, PartialEq, Deserialize)]
struct Pair {
    pair: String,
    ours: f64,
    /// Missing where there is no peer.
    theirs: Option<f64>,
}

/// The pairs of this program as figures of this group. `goals` are the most that ours may take of what the peer takes,
/// where we promise something.
pub(super) fn measure(program: &Path, group: &str, goals: &[(&str, f64)]) -> Result<Vec<Figure>> {
    eprintln!("{group}.*: ours and the peers in turns");
    let pairs = parse(&core::output(program, "pairs")?)?;
    for (name, _) in goals {
        ensure!(pairs.iter().any(|pair| pair.pair == *name), "there is no figure {group}.{name}");
    }
    Ok(pairs.iter().map(|pair| figure(pair, group, goals)).collect())
}

fn parse(lines: &[u8]) -> Result<Vec<Pair>> {
    serde_json::Deserializer::from_slice(lines)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("the pairs gave no figures")
}

fn figure(Pair { pair, ours, theirs }: &Pair, group: &str, goals: &[(&str, f64)]) -> Figure {
    let ratio = theirs.map(|theirs| ours / theirs);
    let most = goals.iter().find(|(name, _)| name == pair).map(|&(_, most)| most);
    Figure {
        figure: format!("{group}.{pair}"),
        value: *ours,
        unit: "ns per call".into(),
        against: *theirs,
        ratio,
        goal: most.map(|most| format!("ratio at most {most}")),
        met: most.map(|most| ratio.is_some_and(|ratio| ratio <= most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &[u8] = br#"{"pair": "stack_1t", "ours": 110, "theirs": 200.0}
{"pair": "budget", "ours": 30.5, "theirs": 61}
{"pair": "queue", "ours": 12.5}
"#;

    #[test]
    fn every_line_of_the_program_is_a_figure_with_its_ratio() {
        let pairs = parse(SAID).unwrap();
        let figures: Vec<_> = pairs.iter().map(|pair| figure(pair, "core", &[])).collect();
        assert_eq!(figures[1].figure, "core.budget");
        assert_eq!((figures[1].against, figures[1].ratio), (Some(61.0), Some(0.5)));
        assert_eq!((figures[2].value, figures[2].against, figures[2].met), (12.5, None, None));
    }

    #[test]
    fn a_ratio_is_met_up_to_the_goal_and_no_further() {
        let met = |pair: &str, ours| {
            let pair = Pair { pair: pair.into(), ours, theirs: Some(100.0) };
            figure(&pair, "core", &[("stack_1t", 0.55)]).met
        };
        assert_eq!((met("stack_1t", 55.0), met("stack_1t", 56.0)), (Some(true), Some(false)));
        assert_eq!(met("budget", 500.0), None);
    }

    #[test]
    fn a_line_that_is_cut_short_is_an_error() {
        assert!(parse(br#"{"pair": "stack_1t", "ours": 1"#).is_err());
    }
}

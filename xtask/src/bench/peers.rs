//! Ours beside the peers: times from one run of the program, in turns, and what we promise of them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::core;
use crate::figure::Figure;

/// The most that ours may take of what the peer takes, where we promise something.
const GOALS: [(&str, f64); 4] =
    [("stack_1t", 0.55), ("stack_2t", 0.8), ("limiter", 1.1), ("refusal", 0.5)];

/// What the program says of one pair.
#[derive(Debug, PartialEq, Deserialize)]
struct Pair {
    pair: String,
    ours: f64,
    /// Missing where there is no peer.
    theirs: Option<f64>,
}

pub(super) fn measure(program: &Path) -> Result<Vec<Figure>> {
    eprintln!("core.*: ours and the peers in turns");
    let pairs = parse(&core::output(program, "pairs")?)?;
    for (name, _) in GOALS {
        ensure!(pairs.iter().any(|pair| pair.pair == name), "there is no figure for core.{name}");
    }
    Ok(pairs.iter().map(figure).collect())
}

fn parse(lines: &[u8]) -> Result<Vec<Pair>> {
    serde_json::Deserializer::from_slice(lines)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("`peers pairs` gave no figures")
}

fn figure(Pair { pair, ours, theirs }: &Pair) -> Figure {
    let ratio = theirs.map(|theirs| ours / theirs);
    let most = GOALS.iter().find(|(name, _)| name == pair).map(|&(_, most)| most);
    Figure {
        figure: format!("core.{pair}"),
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
        let figures: Vec<_> = parse(SAID).unwrap().iter().map(figure).collect();
        assert_eq!(figures[1].figure, "core.budget");
        assert_eq!((figures[1].against, figures[1].ratio), (Some(61.0), Some(0.5)));
        assert_eq!((figures[2].value, figures[2].against, figures[2].met), (12.5, None, None));
    }

    #[test]
    fn a_ratio_is_met_up_to_the_goal_and_no_further() {
        let met =
            |pair: &str, ours| figure(&Pair { pair: pair.into(), ours, theirs: Some(100.0) }).met;
        assert_eq!((met("stack_1t", 55.0), met("stack_1t", 56.0)), (Some(true), Some(false)));
        assert_eq!(met("budget", 500.0), None);
    }

    #[test]
    fn a_line_that_is_cut_short_is_an_error() {
        assert!(parse(br#"{"pair": "stack_1t", "ours": 1"#).is_err());
    }
}

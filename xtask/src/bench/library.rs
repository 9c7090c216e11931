//! A call as a program makes it: through the tower layer and the function API, and beside the layers of others.

use anyhow::Result;

use super::{
    callgrind,
    core::{self, Kind, Most},
    peers,
};
use crate::{figure::Figure, workspace::Workspace};

/// What is promised of the layer holds for a service that answers at once: with one that does not, most of the time is
/// the runtime's timer on either side.
const KINDS: [Kind; 5] = [
    Kind {
        name: "layer",
        figures: "library.layer",
        most: Most { allocations: Some(0.0), instructions: None },
    },
    kind("layer-adaptive", "library.layer_adaptive"),
    Kind {
        name: "layer-later",
        figures: "library.layer_later",
        most: Most { allocations: Some(0.0), instructions: None },
    },
    kind("call", "library.call"),
    kind("call-run", "library.call_run"),
];

const GOALS: [(&str, f64); 2] = [("layer_vs_tower", 0.4), ("layer_vs_tower_resilience", 0.08)];

const fn kind(name: &'static str, figures: &'static str) -> Kind {
    Kind { name, figures, most: Most { allocations: None, instructions: None } }
}

pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>> {
    let programs = core::build(workspace)?;
    let (program, around) = (programs.join("library"), core::around(&programs)?);
    let mut figures = core::costs(&program, &KINDS, around)?;
    for (figure, peer) in [("layer", "tower"), ("layer_later", "tower-later")] {
        let theirs = callgrind::per_iteration(&program, peer)? - around;
        core::compare(&mut figures, &format!("library.{figure}_instructions"), theirs);
    }
    figures.extend(peers::measure(&program, "library", &GOALS)?);
    Ok(figures)
}

//! Simulated outages: how many events a second, how long four hours take, and how much memory.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::core;
use crate::{figure::Figure, workspace::Workspace};

/// What the program says of one outage.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Cost {
    events: f64,
    seconds: f64,
    mib: f64,
}

pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>> {
    let program = core::build(workspace)?.join("outage");
    let cost = |outage: &str| cost(&program, outage);
    let (front, inside) = (cost("four-hours")?, cost("four-hours-inside")?);
    let (storm, in_front) = (cost("storm")?, cost("storm-in-front")?);
    let hopeless = cost("hopeless")?;
    let figure = |name: &str, value: f64, unit: &str| Figure {
        figure: format!("sim.{name}"),
        value,
        unit: unit.into(),
        ..Figure::default()
    };
    let most = |name: &str, value: f64, unit: &str, most: f64| Figure {
        goal: Some(format!("at most {most}")),
        met: Some(value <= most),
        ..figure(name, value, unit)
    };
    Ok(vec![
        figure("events_per_s", front.events / front.seconds, "full policies"),
        figure("events_per_s_inside", inside.events / inside.seconds, "50 instances"),
        most("four_hours_s", front.seconds, "s of one core", 60.0),
        most("four_hours_inside_s", inside.seconds, "s of one core", 60.0),
        most("storm_s", storm.seconds.max(in_front.seconds), "s of one core", 4.0),
        most("peak_mib", hopeless.mib, "MiB, hopeless", 2048.0),
    ])
}

fn cost(program: &Path, outage: &str) -> Result<Cost> {
    eprintln!("sim: {outage}");
    serde_json::from_slice(&core::output(program, outage)?)
        .with_context(|| format!("`outage {outage}` gave no figures"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_line_is_understood() {
        let line = r#"{"events": 100, "seconds": 0.5, "mib": 12.25, "ended": 400}"#;
        let cost: Cost = serde_json::from_str(line).unwrap();
        assert_eq!(cost, Cost { events: 100.0, seconds: 0.5, mib: 12.25 });
    }
}

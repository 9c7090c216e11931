//! Charts: what the limit does in a world, one picture each that needs nothing else, in light and dark.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use quell_charts::{Chart, Scale, number::short, svg::escape};
use quell_lab::arena::{Judged, Rule, judge, worlds::World};
use quell_sim::scenario::{Arrivals, OutageKind, Scenario};

use super::facts;
use crate::runs;

/// The worlds of `docs/limit.md`.
const SHOWN: [&str; 6] = [
    "fifo/stall-10",
    "degrading-0.5/stall-10",
    "degrading-1/overload-3",
    "fifo/larger-20",
    "sharing/halved",
    "degrading-0.5/step-100.00",
];
const STYLE: &str = include_str!("charts.css");
const WIDE: f64 = 720.0;
/// Heights of the title, of what users get, and of the limit below it.
const TITLE: f64 = 26.0;
const GOODPUT: f64 = 132.0;
const LIMIT: f64 = 142.0;

/// The worlds that have a chart unless others are asked for.
pub(super) fn shown(worlds: Vec<World>) -> Vec<World> {
    worlds.into_iter().filter(|world| SHOWN.contains(&world.name.as_str())).collect()
}

/// Writes a chart of each world into a folder, which is made if it is missing.
pub(super) fn write(
    folder: &Path,
    worlds: &[World],
    seed: u64,
    threads: Option<NonZeroUsize>,
) -> anyhow::Result<Vec<PathBuf>> {
    let at = || format!("cannot write charts into {}", folder.display());
    fs::create_dir_all(folder).with_context(at)?;
    let charts = runs::each(threads, worlds, |world| {
        let ours = judge(world, Rule::Ours, seed)?;
        let former = judge(world, Rule::Former, seed)?;
        anyhow::Ok(chart(world, &ours, &former))
    });
    let written = worlds.iter().zip(charts).map(|(world, chart)| {
        let path = folder.join(format!("{}.svg", world.name.replace('/', "-")));
        fs::write(&path, chart?).with_context(at)?;
        Ok(path)
    });
    written.collect()
}

/// What users get above, the limit below.
fn chart(world: &World, ours: &Judged, former: &Judged) -> String {
    let (name, facts) = (escape(&world.name), escape(&facts(world)));
    let height = TITLE + GOODPUT + LIMIT;
    let inner = |y: f64, high: f64, chart: Chart| {
        let placed = format!("<svg y=\"{y}\" width=\"{WIDE}\" height=\"{high}\"");
        chart.finish().replacen("<svg", &placed, 1)
    };
    let above = inner(TITLE, GOODPUT, goodput(world, ours, former));
    let below = inner(TITLE + GOODPUT, LIMIT, limit(world, ours));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDE}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDE} {height}\" role=\"img\" aria-label=\"{name}\"><title>{name}</title>\n\
         <style>\n{STYLE}</style>\n<rect class=\"card\" width=\"{WIDE}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"12\" y=\"20\">{name}</text>\
         <text x=\"{right}\" y=\"20\" text-anchor=\"end\">{facts}</text>\n{above}\n{below}\n</svg>\n",
        right = WIDE - 12.0,
    )
}

/// Good answers against what is achievable, and those under the former rule.
fn goodput(world: &World, ours: &Judged, former: &Judged) -> Chart {
    let seconds = ours.good.len();
    let (good, former) = (line(&ours.good), line(&former.good));
    let achievable = achievable(world, seconds);
    let scale = Scale::Linear(1.05 * highest(&[&good, &former, &achievable]));
    frame(world, "good answers per second", GOODPUT, seconds, scale)
        .area("c-good", "good answers per second", &good)
        .line("c-former", "former rule", &former)
        .line("c-achievable", "achievable", &achievable)
}

/// The limit and the attempts under way, against how many the service can work on at once.
fn limit(world: &World, ours: &Judged) -> Chart {
    let seconds = ours.good.len();
    let (limit, used) = (line(&ours.limit), line(&ours.in_flight));
    let workers = workers(&world.scenario, seconds);
    let scale = match highest(&[&limit, &used, &workers]) {
        most if most > 100.0 => Scale::Log(1.0, 1.2 * most),
        most => Scale::Linear(1.1 * most),
    };
    frame(world, "in-flight limit and attempts under way", LIMIT, seconds, scale)
        .area("c-used", "under way", &used)
        .line("c-limit", "limit", &limit)
        .line("c-workers", "workers, which it is not told", &workers)
        .seconds()
}

fn line(counts: &[u64]) -> Vec<Option<f64>> {
    counts.iter().map(|&n| Some(n as f64)).collect()
}

/// An empty chart with the trouble shaded: to the end, where it lasts for good.
fn frame(world: &World, says: &str, high: f64, seconds: usize, scale: Scale) -> Chart {
    let Scenario { outage, faults, .. } = &world.scenario;
    let for_good = outage.length.is_zero() || !faults.is_empty();
    let over = if for_good { seconds } else { outage.end().as_secs() as usize };
    Chart::new(says, (WIDE, high), seconds, scale, short).shade(outage.at.as_secs() as usize, over)
}

fn highest(lines: &[&[Option<f64>]]) -> f64 {
    lines.iter().copied().flatten().flatten().copied().fold(1.0, f64::max)
}

/// What users ask for on average, as far as the service can do it; not known while it is in trouble.
fn achievable(world: &World, seconds: usize) -> Vec<Option<f64>> {
    let World { scenario, capacity_after, .. } = world;
    let before = f64::from(scenario.service.workers) / scenario.service.mean().as_secs_f64();
    let of = |second: usize| {
        let at = Duration::from_secs(second as u64);
        let shape = match &scenario.arrivals {
            Arrivals::Shaped(curve) => curve.at(second as f64).unwrap_or(1.0),
            _ => 1.0,
        };
        let capacity = if at < scenario.outage.at { before } else { *capacity_after };
        let calm = at < scenario.outage.at || at >= scenario.outage.end();
        calm.then_some((scenario.load * shape).min(capacity))
    };
    (0..seconds).map(of).collect()
}

/// How many requests the service works on at once.
fn workers(scenario: &Scenario, seconds: usize) -> Vec<Option<f64>> {
    let of = |second: usize| {
        let at = Duration::from_secs(second as u64);
        let now = scenario.faults.iter().filter(|fault| (fault.at..fault.end()).contains(&at));
        let factors = now.map(|fault| match fault.kind {
            OutageKind::Grown { factor } => factor,
            OutageKind::Partial { share } => 1.0 - share,
            _ => 1.0,
        });
        Some(f64::from(scenario.service.workers) * factors.product::<f64>())
    };
    (0..seconds).map(of).collect()
}

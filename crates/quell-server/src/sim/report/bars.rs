//! Bars: how a chain multiplies, layer by layer.

use quell_charts::Svg;

use super::Job;
use crate::sim::layers;

const WIDE: f64 = 1100.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 60.0;
const TALL: f64 = 15.0;
const GAP: f64 = 12.0;

/// Attempts per user that reached each service, from the outage's start on, one group of bars per policy.
pub(super) fn sends(jobs: &[Job<'_>]) -> String {
    let groups: Vec<_> = jobs.iter().map(|job| (job, layers::sends(&job.runs))).collect();
    let bars: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let all = groups.iter().flat_map(|(_, bars)| bars).copied();
    let most = all.fold(1.0, f64::max);
    let height = bars as f64 * TALL + groups.len() as f64 * GAP;
    let mut svg = Svg::new(WIDE, height, "sends per user, layer by layer");
    let scale = |value: f64| (WIDE - LEFT - RIGHT) * value / most;
    // Where every user would be sent on exactly once.
    svg.stroke("capacity", (LEFT + scale(1.0), 0.0), (LEFT + scale(1.0), height - GAP));
    let mut y = 0.0;
    for (job, bars) in groups {
        svg.word("group", (0.0, y + TALL - 4.0), "start", job.who.label());
        for (i, value) in bars.into_iter().enumerate() {
            svg.word("tick", (LEFT - 8.0, y + TALL - 4.0), "end", layers::name(job.plan, i));
            let class = if value > 1.1 { "bar c-bad" } else { "bar c-good" };
            svg.rect(class, (LEFT, y + 2.0), (scale(value).max(1.0), TALL - 4.0));
            // Not across the dotted line.
            let across = value <= 1.0 && scale(value) + 40.0 > scale(1.0);
            let x = LEFT + scale(if across { 1.0 } else { value }) + 6.0;
            svg.word("tick", (x, y + TALL - 4.0), "start", &format!("{value:.2}"));
            y += TALL;
        }
        y += GAP;
    }
    svg.finish()
}

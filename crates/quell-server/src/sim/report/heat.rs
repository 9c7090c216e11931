//! The map of a sweep.

use quell_charts::svg::{Svg, escape};

use crate::sim::sweep::Map;

const LEFT: f64 = 90.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 14.0;
const WIDTH: f64 = 1100.0;

/// A section with the map and what its colours mean.
pub(crate) fn section(map: &Map) -> String {
    let legend: String = ["healed", "draining", "sheds", "metastable", "unclear"]
        .map(|verdict| format!("<li><span class=\"pill {verdict}\">{verdict}</span></li>"))
        .concat();
    format!(
        "<section><h2>{}, {}</h2><p class=\"note\">{} across, {} up. In each cell: the share of what was achievable \
         after the outage that users got. The line is where theory expects the edge: w·ρ = 1.</p>\
         <ul class=\"facts\">{legend}</ul><div class=\"card\">{}</div></section>",
        escape(&map.scenario),
        escape(&map.against),
        escape(map.x_name),
        escape(map.y_name),
        picture(map)
    )
}

fn picture(map: &Map) -> String {
    let (columns, rows) = (map.x.values.len(), map.y.values.len());
    let wide = (WIDTH - LEFT - RIGHT) / columns.max(1) as f64;
    let tall = (wide * 0.62).clamp(24.0, 64.0);
    let height = TOP + tall * rows as f64 + BOTTOM;
    let mut svg = Svg::new(WIDTH, height, &format!("{} by {}", map.y_name, map.x_name));
    let left = |column: f64| LEFT + wide * column;
    let top = |row: f64| TOP + tall * (rows as f64 - row);
    for (r, row) in map.cells.iter().enumerate() {
        let middle = top(r as f64 + 0.5) + 3.5;
        svg.word("tick", (LEFT - 8.0, middle), "end", &map.y.says(map.y.values[r]));
        for (c, cell) in row.iter().enumerate() {
            let corner = (left(c as f64), top(r as f64 + 1.0));
            svg.rect(&format!("cell heat {}", cell.verdict), corner, (wide, tall));
            let says = format!("{:.0} %", cell.goodput_after * 100.0);
            // In the corner, out of the line's way.
            let place = (left(c as f64) + 6.0, top(r as f64) - 6.0);
            svg.word("cell-text", place, "start", &says);
        }
    }
    for (c, &x) in map.x.values.iter().enumerate() {
        svg.word("tick", (left(c as f64 + 0.5), height - BOTTOM + 16.0), "middle", &map.x.says(x));
    }
    svg.word("tick", (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, height - 6.0), "middle", map.x_name);
    svg.word("tick", (8.0, TOP + 10.0), "start", map.y_name);
    for (from, to) in edge(map) {
        let at = |(c, r): (f64, f64)| (left(c + 0.5), top(r + 0.5));
        svg.stroke("theory", at(from), at(to));
    }
    svg.finish()
}

type Point = (f64, f64);

/// Where w·ρ is 1 between the middles of the cells: in every square of four of them, a line between the sides on which it
/// crosses 1. It is the logarithm that lies evenly between two cells.
fn edge(map: &Map) -> Vec<(Point, Point)> {
    let mut lines = Vec::new();
    for (r, rows) in map.cells.windows(2).enumerate() {
        for c in 0..rows[0].len().saturating_sub(1) {
            let corner = |dc: usize, dr: usize| {
                let at = ((c + dc) as f64, (r + dr) as f64);
                (at, rows[dr][c + dc].w_rho.max(1e-9).ln())
            };
            let around = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
            let mut crossings = Vec::new();
            for i in 0..4 {
                let ((a, from), (b, to)) = (around[i], around[(i + 1) % 4]);
                if (from >= 0.0) != (to >= 0.0) {
                    let share = from / (from - to);
                    crossings.push((a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share));
                }
            }
            lines.extend(crossings.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        }
    }
    lines
}

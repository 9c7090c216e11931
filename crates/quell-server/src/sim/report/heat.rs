//! The map of a sweep.

use quell_charts::{
    heat::{self, Cell},
    svg::escape,
};

use crate::sim::sweep::{self, Map};

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
    let row = |row: &Vec<_>| row.iter().map(cell).collect();
    let drawn = heat::Map {
        names: (map.x_name, map.y_name),
        x: map.x.values.iter().map(|&x| map.x.says(x)).collect(),
        y: map.y.values.iter().map(|&y| map.y.says(y)).collect(),
        cells: map.cells.iter().map(row).collect(),
    };
    drawn.picture()
}

fn cell(cell: &sweep::Cell) -> Cell<'static> {
    Cell { class: cell.verdict, share: cell.goodput_after, theory: cell.w_rho }
}

//! Heat: a map of cells over two parameters, and the line that theory expects.

use crate::svg::Svg;

const LEFT: f64 = 90.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 14.0;
const WIDTH: f64 = 1100.0;

/// What was found for one pair of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell<'a> {
    /// The class that says its colour.
    pub class: &'a str,
    /// What stands in it: a share from 0 to 1.
    pub share: f64,
    /// What theory says of it: the line is drawn where this is 1.
    pub theory: f64,
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Map<'a> {
    /// The parameter across, and the one upwards.
    pub names: (&'a str, &'a str),
    /// Values across, as they are written below the columns.
    pub x: Vec<String>,
    /// Values upwards, as they are written beside the rows.
    pub y: Vec<String>,
    /// Rows from the lowest up, each from the left on.
    pub cells: Vec<Vec<Cell<'a>>>,
}

impl Map<'_> {
    /// The map as a picture.
    pub fn picture(&self) -> String {
        let (columns, rows) = (self.x.len(), self.y.len());
        let (x_name, y_name) = self.names;
        let wide = (WIDTH - LEFT - RIGHT) / columns.max(1) as f64;
        let tall = (wide * 0.62).clamp(24.0, 64.0);
        let height = TOP + tall * rows as f64 + BOTTOM;
        let mut svg = Svg::new(WIDTH, height, &format!("{y_name} by {x_name}"));
        let left = |column: f64| LEFT + wide * column;
        let top = |row: f64| TOP + tall * (rows as f64 - row);
        for (r, (row, y)) in self.cells.iter().zip(&self.y).enumerate() {
            let middle = top(r as f64 + 0.5) + 3.5;
            svg.word("tick", (LEFT - 8.0, middle), "end", y);
            for (c, cell) in row.iter().enumerate() {
                let corner = (left(c as f64), top(r as f64 + 1.0));
                svg.rect(&format!("cell heat {}", cell.class), corner, (wide, tall));
                let says = format!("{:.0} %", cell.share * 100.0);
                // In the corner, out of the line's way.
                let place = (left(c as f64) + 6.0, top(r as f64) - 6.0);
                svg.word("cell-text", place, "start", &says);
            }
        }
        for (c, x) in self.x.iter().enumerate() {
            svg.word("tick", (left(c as f64 + 0.5), height - BOTTOM + 16.0), "middle", x);
        }
        svg.word("tick", (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, height - 6.0), "middle", x_name);
        svg.word("tick", (8.0, TOP + 10.0), "start", y_name);
        for (from, to) in self.edge() {
            let at = |(c, r): (f64, f64)| (left(c + 0.5), top(r + 0.5));
            svg.stroke("theory", at(from), at(to));
        }
        svg.finish()
    }

    /// Where theory's figure is 1 between the middles of the cells: in every square of four of them, a line between the sides on which it
    /// crosses 1. It is the logarithm that lies evenly between two cells.
    fn edge(&self) -> Vec<(Point, Point)> {
        let mut lines = Vec::new();
        for (r, rows) in self.cells.windows(2).enumerate() {
            for c in 0..rows[0].len().min(rows[1].len()).saturating_sub(1) {
                let corner = |dc: usize, dr: usize| {
                    let at = ((c + dc) as f64, (r + dr) as f64);
                    (at, rows[dr][c + dc].theory.max(1e-9).ln())
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
}

type Point = (f64, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_runs_between_the_cells_that_theory_tells_apart() {
        let row = [0.5, 2.0].map(|theory| Cell { class: "healed", share: 1.0, theory });
        let names = |n: usize| (0..n).map(|i| i.to_string()).collect();
        let cells = vec![row.to_vec(), row.to_vec()];
        let map = Map { names: ("load", "attempts"), x: names(2), y: names(2), cells };
        assert_eq!(map.edge(), [((0.5, 0.0), (0.5, 1.0))]);
        let svg = map.picture();
        assert_eq!(
            (svg.matches("cell heat healed").count(), svg.matches("theory").count()),
            (4, 1)
        );
    }
}

//! Tables for a terminal: columns as wide as they have to be.

use std::fmt;

/// A heading, column names and rows. The first two columns read from the left, the others are figures.
#[derive(Debug, Default)]
pub struct Table {
    heading: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table of a label and these columns.
    pub fn new<'a>(heading: &str, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let names = std::iter::once("").chain(columns).map(str::to_owned);
        Self { heading: heading.to_owned(), rows: vec![names.collect()] }
    }

    /// One more row.
    pub fn row(&mut self, label: &str, cells: Vec<String>) {
        self.rows.push([vec![label.to_owned()], cells].concat());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading)?;
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<_> = (0..columns).map(|column| wide(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(f, "  {}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_figures_stand_on_the_right() {
        let mut table = Table::new("a storm", ["verdict", "ρ"]);
        table.row("naive", vec!["metastable".into(), "0.83".into()]);
        table.row("in front", vec!["ok".into()]);
        let expected =
            "a storm\n            verdict        ρ\n  naive     metastable  0.83\n  in front  ok\n";
        assert_eq!(table.to_string(), expected);
    }
}

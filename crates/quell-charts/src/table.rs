//! The tables that the simulator and the demo print, and the same figures for machines.

use std::fmt;

use quell_sim::verdict::{Summary, Verdict};
use serde::{Deserialize, Serialize};

/// What a run shows, for machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// `healed`, `draining`, `sheds`, `metastable` or `unclear`.
    pub verdict: String,
    /// The verdict for people, with its number.
    pub says: String,
    /// Seconds from the outage's end, if it healed.
    pub recovered_s: Option<f64>,
    /// Seconds from the outage's end until the backlog will be gone, if it drains.
    pub eta_s: Option<f64>,
    /// Share of users who go without, if it sheds.
    pub sheds: Option<f64>,
    /// Attempts sent ÷ requests received, from the outage's start on.
    pub amplification: f64,
    /// Attempts sent ÷ users' requests, from the outage's start on.
    pub attempts_per_user: f64,
    /// Share of the service's work that nobody waited for any more.
    pub wasted: f64,
    /// Share of what was achievable after the outage that users got.
    pub goodput_after: f64,
    /// Share refused in the 15 seconds before the outage.
    pub refused_before: f64,
}

impl From<&Summary> for Figures {
    fn from(summary: &Summary) -> Self {
        let (mut recovered_s, mut eta_s, mut sheds) = (None, None, None);
        match summary.verdict {
            Verdict::Healed { after } => recovered_s = Some(after.as_secs_f64()),
            Verdict::Draining { eta } => eta_s = Some(eta.as_secs_f64()),
            Verdict::Sheds { share } => sheds = Some(share),
            Verdict::Metastable { .. } | Verdict::Unclear => {}
        }
        Self {
            verdict: summary.verdict.as_str().to_owned(),
            says: summary.verdict.to_string(),
            recovered_s,
            eta_s,
            sheds,
            amplification: summary.amplification,
            attempts_per_user: summary.attempts_per_user,
            wasted: summary.wasted,
            goodput_after: summary.goodput_after,
            refused_before: summary.refused_before,
        }
    }
}

impl Figures {
    /// What [`Figures::cells`] says, in its order.
    pub const COLUMNS: [&str; 5] =
        ["verdict", "amplification", "sends per user", "wasted work", "goodput after"];

    /// For a row of a table.
    pub fn cells(&self) -> Vec<String> {
        vec![
            self.says.clone(),
            format!("{:.2}", self.amplification),
            format!("{:.2}", self.attempts_per_user),
            percent(self.wasted),
            percent(self.goodput_after),
        ]
    }
}

/// A share, for people.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A number without fractions, its thousands apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

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
    fn thousands_stand_apart() {
        assert_eq!(
            [0.0, 999.6, 12_000.0, 1e6].map(thousands),
            ["0", "1,000", "12,000", "1,000,000"]
        );
    }

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

//! Figures: what a measurement says, for people and for machines.
//!
//! Every measurement prints the same fields under stable names, so that a figure can be followed over time.

use anyhow::Result;
use serde::Serialize;

/// One figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// A stable name, such as `core.decision_instructions`.
    pub(crate) figure: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// The same of whom it is compared with, in the same run.
    pub(crate) against: Option<f64>,
    /// Ours ÷ theirs.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<String>,
    pub(crate) met: Option<bool>,
}

/// Prints a table, or one JSON line per figure.
pub(crate) fn print(figures: &[Figure], json: bool) -> Result<()> {
    if json {
        for figure in figures {
            println!("{}", serde_json::to_string(figure)?);
        }
        return Ok(());
    }
    let wide = figures.iter().map(|figure| figure.figure.len()).max().unwrap_or(0).max(34);
    println!(
        "{:<wide$} {:>10} {:>10} {:>7}  {:<20} goal",
        "figure", "value", "against", "ratio", "unit"
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    for figure in figures {
        let met = match figure.met {
            None => "",
            Some(true) => " (met)",
            Some(false) => " (MISSED)",
        };
        println!(
            "{:<wide$} {:>10} {:>10} {:>7}  {:<20} {}{met}",
            figure.figure,
            number(Some(figure.value)),
            number(figure.against),
            number(figure.ratio),
            figure.unit,
            figure.goal.as_deref().unwrap_or("")
        );
    }
    Ok(())
}

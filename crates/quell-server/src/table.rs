//! The table that the simulator and the demo print, and the same figures for machines.

use std::fmt;

use quell_sim::verdict::{Summary, Verdict};
use serde::{Deserialize, Serialize};

/// What a run shows, for machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// `recovered` or `down`.
    pub verdict: String,
    /// Seconds from the outage's end, if it recovered.
    pub recovered_s: Option<f64>,
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
        let (verdict, recovered_s) = match summary.verdict {
            Verdict::Recovered { after } => ("recovered", Some(after.as_secs_f64())),
            Verdict::StillDown { .. } => ("down", None),
        };
        Self {
            verdict: verdict.to_owned(),
            recovered_s,
            amplification: summary.amplification,
            attempts_per_user: summary.attempts_per_user,
            wasted: summary.wasted,
            goodput_after: summary.goodput_after,
            refused_before: summary.refused_before,
        }
    }
}

/// A heading, column names and rows.
#[derive(Debug, Default)]
pub struct Table {
    heading: String,
    rows: Vec<(String, Figures)>,
}

impl Table {
    /// An empty table.
    pub fn new(heading: &str) -> Self {
        Self { heading: heading.to_owned(), rows: Vec::new() }
    }

    /// One more row.
    pub fn row(&mut self, label: &str, figures: &Figures) {
        self.rows.push((label.to_owned(), figures.clone()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading)?;
        writeln!(
            f,
            "  {:<22} {:<18} {:>13} {:>14} {:>12} {:>14}",
            "", "verdict", "amplification", "sends per user", "wasted work", "goodput after"
        )?;
        for (label, figures) in &self.rows {
            let verdict = match figures.recovered_s {
                Some(seconds) => format!("recovered in {seconds:.1} s"),
                None => "still down".to_owned(),
            };
            writeln!(
                f,
                "  {label:<22} {verdict:<18} {:>13.2} {:>14.2} {:>10.0} % {:>12.0} %",
                figures.amplification,
                figures.attempts_per_user,
                figures.wasted * 100.0,
                figures.goodput_after * 100.0
            )?;
        }
        Ok(())
    }
}

//! What a run shows, for machines and for a row of a table: the simulator and the demo say the same.

use quell_charts::number::percent;
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

//! Gate: what a scenario promises, held against what came out.
//!
//! ```
//! use quell_server::sim::file;
//!
//! let text = file::DEMO.replacen("watch =", "assert = { recovered_within = \"1s\" }\nwatch =", 1);
//! let plans = file::parse(&text)?;
//! assert!(plans[0].promises.is_some());
//! # Ok::<_, file::Invalid>(())
//! ```

use std::time::Duration;

use quell_sim::{Run, verdict::Verdict};
use serde::Deserialize;

use super::file::{Against, some_duration};

/// What must hold, as written in `assert`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Promises {
    /// Whom it holds for; everybody who faces the scenario, if left out.
    pub of: Vec<Against>,
    /// Healed, and so soon after the outage.
    #[serde(deserialize_with = "some_duration")]
    pub recovered_within: Option<Duration>,
    /// Attempts sent ÷ requests received, from the outage's start on.
    pub max_amplification: Option<f64>,
    /// Attempts sent ÷ users' requests, from the outage's start on.
    pub max_sends_per_user: Option<f64>,
    /// Share of the service's work for callers who had left.
    pub max_wasted: Option<f64>,
    /// Share of what was achievable after the outage that users got.
    pub min_goodput: Option<f64>,
    /// Share refused in the 15 seconds before the outage.
    pub max_refused_before: Option<f64>,
    /// Of users who came after the outage and got an answer.
    #[serde(deserialize_with = "some_duration")]
    pub max_p99_after: Option<Duration>,
}

impl Promises {
    /// What a run broke, in words.
    pub fn broken(&self, who: Against, run: &Run) -> Vec<String> {
        if !self.of.is_empty() && !self.of.contains(&who) {
            return Vec::new();
        }
        let summary = &run.summary;
        let mut broken = Vec::new();
        if let Some(within) = self.recovered_within
            && !matches!(summary.verdict, Verdict::Healed { after } if after <= within)
        {
            broken.push(format!("{}, and recovered_within is {within:?}", summary.verdict));
        }
        let most = [
            ("max_amplification", self.max_amplification, summary.amplification),
            ("max_sends_per_user", self.max_sends_per_user, summary.attempts_per_user),
            ("max_wasted", self.max_wasted, summary.wasted),
            ("max_refused_before", self.max_refused_before, summary.refused_before),
        ];
        for (name, most, is) in most {
            if let Some(most) = most.filter(|most| is > *most) {
                broken.push(format!("{is:.3}, and {name} is {most}"));
            }
        }
        if let Some(least) = self.min_goodput.filter(|least| summary.goodput_after < *least) {
            broken.push(format!("{:.3}, and min_goodput is {least}", summary.goodput_after));
        }
        let p99 = summary.phases[2].p99;
        if let Some(most) = self.max_p99_after.filter(|most| p99.is_none_or(|p99| p99 > *most)) {
            let is = p99.map_or("nobody got an answer".to_owned(), |p99| format!("{p99:?}"));
            broken.push(format!("{is}, and max_p99_after is {most:?}"));
        }
        broken
    }
}

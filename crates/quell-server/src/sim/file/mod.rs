//! Scenario files: what people write, and what the simulator gets.
//!
//! **Why.** An outage is agreed on by people, like the policies that are to survive it; so it stands in the same file, in the
//! same words, and is read as strictly: all mistakes at once, each with its line and what to write.
//!
//! **How.** A file is a whole [`Config`] with `[scenario.*]` in it. Each scenario becomes a [`Plan`]: the model's
//! [`Scenario`](quell_sim::Scenario), the [ways](Way) it is faced, with the file's own policies where it names them, and what must
//! hold. What only the model can judge, it judges: its message is shown at the setting it begins with.
//!
//! ```
//! use quell_server::sim::file;
//!
//! let plans = file::parse(file::STORM)?;
//! assert_eq!(plans.len(), 3);
//! let error = file::parse("version = 1\n[scenario.x]\nload = \"10\"").unwrap_err();
//! assert!(error.to_string().ends_with("help: write a rate, such as \"10000/s\""), "{error}");
//! # Ok::<_, quell_server::config::Problems>(())
//! ```

mod faults;
mod graph;
mod kinds;
mod plan;
mod policies;
mod scenario;
mod service;
mod shipped;
mod store;
#[cfg(test)]
mod tests;
mod time;
mod topic;
mod way;

use std::path::Path;

use crate::config::{Config, Error, Override, Problems};

pub use plan::{Plan, Way};
pub use shipped::{DEMO, GATEWAYS, LADDER, SHIPPED, STORM, Shipped, nearest, shipped};

/// Reads a text with nothing over it.
pub fn parse(text: &str) -> Result<Vec<Plan>, Problems> {
    Ok(parse_with("scenario", text, &[])?.1)
}

/// Reads a text, with these settings over it.
pub fn parse_with(
    name: &str,
    text: &str,
    overrides: &[Override],
) -> Result<(Config, Vec<Plan>), Problems> {
    let mut plans = Vec::new();
    let config = Config::parse_with(name, text, overrides, &mut |config, name, fields| {
        plans.extend(scenario::read(config, name, &fields));
    })?;
    Ok((config, plans))
}

/// Reads a file, with the environment over it and flags over both.
pub fn load(path: &Path, flags: &[Override]) -> Result<(Config, Vec<Plan>), Error> {
    let mut plans = Vec::new();
    let config = Config::load_with(path, flags, &mut |config, name, fields| {
        plans.extend(scenario::read(config, name, &fields));
    })?;
    Ok((config, plans))
}

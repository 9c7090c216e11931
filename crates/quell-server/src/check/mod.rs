//! `quell check`: what a config file says, and what it does on the worst day.
//!
//! **Why.** A policy that looks harmless is found out in an outage. What matters follows from the file alone: how many sends,
//! how long callers wait, how much more load, what all processes allow together, and whether a service at a given
//! utilisation heals. So it is told before the file is used, along with settings that will hurt and settings that
//! nothing acts on.

mod report;
mod show;

use std::{path::PathBuf, process::ExitCode};

use crate::config::{Error, Override, value};

pub(crate) use self::report::called;
use self::report::{Given, Report};
use crate::gateway::preflight;
use crate::sim::file;

/// Reads a config file and says what is in force, what it does on the worst day, and what will hurt.
///
/// Secrets and certificates that are on this machine are loaded as a gateway would load them. Ends with 1 if the file or
/// one of them is wrong; with `--strict` with 2 if there are lints or a route does not heal; else with 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The config file
    file: PathBuf,
    /// Requests per second without retries, such as 10000/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    load: Option<f64>,
    /// Requests per second that the service can serve, such as 12000/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    capacity: Option<f64>,
    /// The share of attempts that fail, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = share)]
    failure_rate: f64,
    /// Processes that use this file; as the budget says if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    instances: Option<u32>,
    /// Layers of services that each call the next one like this
    #[arg(long, value_name = "LAYERS", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    chain: u8,
    /// A setting that goes over file and environment; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = set)]
    set: Vec<Override>,
    /// Secrets and certificates that are not there are wrong, too: for the machine on which the gateway is to run
    #[arg(long)]
    here: bool,
    /// Print all settings in force, as a file that means the same
    #[arg(long, conflicts_with = "json")]
    effective: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// End with 2 if there are lints, or a route does not heal
    #[arg(long)]
    strict: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = value::rate(text).or_else(|| value::rate(&format!("{text}/s")));
    let rate = rate.filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| "write requests per second, such as 10000/s".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0 to 1, such as 0.5".to_owned())
}

/// A setting that goes over file and environment.
pub fn set(text: &str) -> Result<Override, String> {
    Override::flag("--set", text)
        .ok_or_else(|| "write such as upstream.payments.budget.max=50".to_owned())
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let config = match file::load(&args.file, &args.set) {
        Ok((config, _)) => config,
        Err(error) => return wrong(&error, args.json),
    };
    if args.effective {
        print!("{}", config.effective());
        return Ok(ExitCode::SUCCESS);
    }
    let found = preflight::look(&config);
    let away: &[String] = if args.here { &found.missing } else { &[] };
    if !found.unusable.is_empty() || !away.is_empty() {
        return unusable(found.unusable.iter().chain(away), args.json);
    }
    let given = Given {
        load: args.load,
        capacity: args.capacity,
        failure_rate: args.failure_rate,
        instances: args.instances,
        layers: args.chain.into(),
    };
    let name = args.file.display().to_string();
    let report = Report { found: found.into(), ..Report::new(&name, &config, &given)? };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", show::text(&report));
    }
    let hurts = args.strict && report.hurts();
    Ok(if hurts { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// Tells what a file names and no gateway can use.
fn unusable<'a>(lines: impl Iterator<Item = &'a String>, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(&lines.collect::<report::Wrong>())?);
    } else {
        lines.for_each(|line| eprintln!("error: {line}"));
    }
    Ok(ExitCode::FAILURE)
}

/// Tells what is wrong with a file.
pub(crate) fn wrong(error: &Error, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(&report::Wrong::from(error))?);
    } else if let Error::Read { .. } = error {
        eprintln!("error: {error}: name a file that can be read");
    } else {
        eprintln!("error: {error}");
    }
    Ok(ExitCode::FAILURE)
}

//! One simulated outage, and what it cost: events, processor time and memory.
//!
//! **Why.** An outage that takes as long to simulate as to live through is not simulated. Each runs in a process of its own, or
//! one would be charged with the memory of another.
//!
//! **How.** 10,000 requests per second, 1,200 workers of 100 ms and callers who leave after a second: the storm that ships with
//! Quell. The processor's time is that of the one thread that simulates.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use quell_sim::{
    Run, Scenario, run_while,
    scenario::{Callers, OutageKind},
    verdict::Early,
};

#[derive(Parser)]
#[command(about = "One simulated outage, and what it cost")]
struct Cli {
    /// Which
    outage: Outage,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outage {
    /// Four hours with a stall of 30 s in them, and the gateway with all its policies in front
    FourHours,
    /// The same with the library in 50 instances of the caller
    FourHoursInside,
    /// 400 s of a storm that never ends
    Storm,
    /// The same with the gateway in front
    StormInFront,
    /// Four hours of a storm that never ends, ended once that is clear
    Hopeless,
}

impl Outage {
    fn simulate(self) -> Result<Run> {
        let lasting = |seconds: u64| {
            let storm = Scenario::storm(OutageKind::Stall);
            Scenario { watch: Duration::from_secs(seconds) - storm.outage.end(), ..storm }
        };
        let inside = Callers::quell(Duration::from_secs(1));
        let (scenario, early) = match self {
            Self::FourHours => (lasting(4 * 3600).with_gateway(), Early::Never),
            Self::FourHoursInside => (lasting(4 * 3600).with_callers(inside), Early::Never),
            Self::Storm => (lasting(400), Early::Never),
            Self::StormInFront => (lasting(400).with_gateway(), Early::Never),
            Self::Hopeless => (lasting(4 * 3600), Early::Hopeless),
        };
        Ok(run_while(&scenario, 1, early, &mut |_| {})?)
    }
}

fn main() -> Result<()> {
    let Run { events, summary, timing, .. } = Cli::parse().outage.simulate()?;
    let (seconds, mib) = (processor_seconds()?, peak_mib()?);
    let (verdict, ended) = (summary.verdict, timing.end);
    eprintln!("{verdict}; {ended} s simulated");
    println!(r#"{{"events": {events}, "seconds": {seconds}, "mib": {mib}, "ended": {ended}}}"#);
    Ok(())
}

/// What this thread has used so far.
fn processor_seconds() -> Result<f64> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok());
    Ok(nanos.with_context(|| format!("{path} says {text:?}"))? / 1e9)
}

/// The most this process has held at once.
fn peak_mib() -> Result<f64> {
    let path = "/proc/self/status";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} tells no VmHWM"))? / 1024.0)
}

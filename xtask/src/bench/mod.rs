//! `cargo xtask bench`: what a decision costs, a call through the library, a proxied request beside other proxies, and a
//! simulated outage.
//!
//! **Why.** Protection that costs too much is switched off. What it costs is therefore a figure that anyone can
//! repeat, compared with a peer in the same run where there is one.
//!
//! **How.** `core` counts time, allocations and instructions of one successful call and puts peers beside it; `library`
//! does the same for a call as a program makes it; `gateway` divides the processor time of a proxy by the requests it served;
//! `sim` simulates outages of hours. Without a word all are measured. A missed goal is reported and is no error: only a
//! measurement that could not be made is.

mod callgrind;
mod core;
mod gateway;
mod library;
mod peers;
mod sim;

use anyhow::Result;

use crate::{figure, workspace::Workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything if not given
    what: Option<What>,
    /// Print one JSON line per figure instead of a table
    #[arg(long)]
    json: bool,
    /// Of `gateway`: shorter turns and smaller counts, to see that it works
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// One successful call: the pure decision, the loop's steps, the whole stack and its peers
    Core,
    /// A call through the tower layer and the function API, beside other layers
    Library,
    /// One proxied request, beside nginx, HAProxy and Envoy; some eight minutes
    Gateway,
    /// Simulated outages: events per second, four hours, memory; some three minutes
    Sim,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let wanted = |what| args.what.is_none_or(|only| only == what);
    let mut figures = Vec::new();
    if wanted(What::Core) {
        figures.extend(core::measure(workspace)?);
    }
    if wanted(What::Library) {
        figures.extend(library::measure(workspace)?);
    }
    if wanted(What::Gateway) {
        figures.extend(gateway::measure(workspace, args.quick)?);
    }
    if wanted(What::Sim) {
        figures.extend(sim::measure(workspace)?);
    }
    figure::print(&figures, args.json)
}

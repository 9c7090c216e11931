//! One proxied request: the processor time that it takes, beside nginx in the same minute.
//!
//! **Why.** Requests per second on a machine that also runs the load and the service say little. Processor time of the
//! proxy divided by the requests it served says what the proxy costs, however fast the others are.
//!
//! **How.** The service and the load share one core, the proxy under test has the other. The proxies take turns, so that
//! a noisy minute disturbs both, and the median of the turns counts.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{load, nginx};
use crate::{
    figure::Figure,
    folder::Folder,
    process::{self, Process},
    runs,
    workspace::Workspace,
};

/// Where the service and the load run.
const LOAD_CORE: usize = 0;
/// Where the proxy under test runs.
const PROXY_CORE: usize = 1;
const ROUNDS: usize = 5;
const SECONDS: u32 = 4;

/// What one turn showed.
#[derive(Debug, Clone, Copy)]
struct Turn {
    micros_per_request: f64,
    requests_per_second: f64,
    /// Share of requests that got no good reply.
    failed: f64,
}

/// The service is healthy throughout: whoever is refused was refused for nothing.
const MOST_FAILED: f64 = 0.0;

pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores >= 2, "one core for the load and one for the proxy: this machine has {cores}");
    workspace.run(&mut workspace.cargo(["build", "--release", "--package", "quell-server"]))?;
    let folder = Folder::new()?;
    let [origin, ours, admin, theirs] = process::free_ports()?;
    let _origin = nginx::origin(&folder.0, LOAD_CORE, origin)?;
    let quell = gateway(&workspace.target("release/quell"), origin, ours, admin)?;
    let nginx = nginx::proxy(&folder.0, PROXY_CORE, theirs, origin)?;
    for port in [ours, theirs] {
        load::run(port, LOAD_CORE, 1)?; // connections are made, limits are learned
    }
    let (mut of_quell, mut of_nginx) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let (quell, nginx) = (turn("quell", &quell, ours)?, turn("nginx", &nginx, theirs)?);
        eprintln!(
            "gateway: round {round} of {ROUNDS}: {:.1} µs, nginx {:.1} µs",
            quell.micros_per_request, nginx.micros_per_request
        );
        of_quell.push(quell);
        of_nginx.push(nginx);
    }
    Ok(figures(&of_quell, &of_nginx))
}

fn gateway(quell: &Path, origin: u16, port: u16, admin: u16) -> Result<Process> {
    let mut command = runs::gateway(quell, origin, port, admin);
    command.args(["--cores", "1"]);
    Process::start("quell gateway", &process::pinned(PROXY_CORE, &command)?, port)
}

fn turn(name: &str, proxy: &Process, port: u16) -> Result<Turn> {
    let before = proxy.cpu()?;
    let load = load::run(port, LOAD_CORE, SECONDS)?;
    let used = proxy.cpu()? - before;
    let good = load.requests.saturating_sub(load.errors);
    ensure!(good > 0, "{name} served nothing");
    // By good replies: a refusal is cheap, and would flatter whoever refuses.
    let micros_per_request = used * 1e6 / good as f64;
    let share = good as f64 / load.requests as f64;
    Ok(Turn { micros_per_request, requests_per_second: load.rate * share, failed: 1.0 - share })
}

fn figures(ours: &[Turn], theirs: &[Turn]) -> Vec<Figure> {
    let against = |name: &str, unit: &str, pick: fn(&Turn) -> f64| {
        let (value, against) = (median(ours, pick), median(theirs, pick));
        Figure {
            figure: name.into(),
            value,
            unit: unit.into(),
            against: Some(against),
            ratio: Some(value / against),
            ..Figure::default()
        }
    };
    let versus =
        against("gateway.cpu_vs_nginx", "µs of CPU per request", |turn| turn.micros_per_request);
    let alone = Figure {
        figure: "gateway.cpu_us_per_request".into(),
        against: None,
        ratio: None,
        ..versus.clone()
    };
    let rate =
        against("gateway.requests_per_s", "requests per second", |turn| turn.requests_per_second);
    let mean = |turns: &[Turn]| {
        turns.iter().map(|turn| turn.failed).sum::<f64>() * 1e6 / turns.len() as f64
    };
    let failed = Figure {
        figure: "gateway.failed_per_million".into(),
        value: mean(ours),
        unit: "of a million requests".into(),
        against: Some(mean(theirs)),
        goal: Some(format!("at most {MOST_FAILED}")),
        met: Some(mean(ours) <= MOST_FAILED),
        ..Figure::default()
    };
    vec![alone, versus, rate, failed]
}

fn median(turns: &[Turn], pick: fn(&Turn) -> f64) -> f64 {
    let mut values: Vec<_> = turns.iter().map(pick).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_turns_counts_and_ratios_are_ours_over_theirs() {
        let turns = |micros: [f64; 3]| {
            micros.map(|micros_per_request| Turn {
                micros_per_request,
                requests_per_second: 1e3,
                failed: 0.0,
            })
        };
        let figures = figures(&turns([30.0, 20.0, 90.0]), &turns([15.0, 10.0, 15.0]));
        let versus = &figures[1];
        assert_eq!(versus.figure, "gateway.cpu_vs_nginx");
        assert_eq!((versus.value, versus.against, versus.ratio), (30.0, Some(15.0), Some(2.0)));
        assert_eq!((figures[0].value, figures[0].against), (30.0, None));
    }

    #[test]
    fn a_single_refusal_of_ours_misses_the_goal() {
        let turn = |failed| Turn { micros_per_request: 1.0, requests_per_second: 1.0, failed };
        let (calm, refusing) = ([turn(0.0), turn(0.0)], [turn(0.0), turn(0.01)]);
        let failed = |ours, theirs| figures(ours, theirs).pop().unwrap();
        assert_eq!(failed(&calm, &refusing).met, Some(true));
        let missed = failed(&refusing, &calm);
        assert_eq!(
            (missed.figure.as_str(), missed.met),
            ("gateway.failed_per_million", Some(false))
        );
    }
}

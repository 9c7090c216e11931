//! One proxied request: what it takes of the processor and of memory, beside nginx, HAProxy and Envoy in the same minutes.
//!
//! **Why.** Requests per second on a machine that also runs the load and the service say little. Processor time of the
//! proxy divided by the requests it served says what the proxy costs, however fast the others are.
//!
//! **How.** The service and the load share one core, the proxy under test has the other. The proxies take turns, so that
//! a noisy minute disturbs all, and the median of the turns counts. All have their nearest policy and their metrics on, and
//! logs off.

mod counted;
mod envoy;
mod haproxy;
mod idle;
mod load;
mod nginx;
mod proxy;
mod turns;

use std::fs;

use anyhow::{Context, Result, ensure};

use self::load::Ask;
use self::proxy::{Kind, Proxy, Stand};
use self::turns::{Length, Turns};
use crate::{
    figure::Figure,
    folder::Folder,
    process::{self, Process, pinned},
    workspace::Workspace,
};

/// Where the service and the load run.
const LOAD_CORE: usize = 0;
/// Where the proxy under test runs.
const PROXY_CORE: usize = 1;
/// How long a large body is.
const BIG: usize = 2 * 1024 * 1024;

const CPU: &str = "µs of CPU per request";
/// The service is healthy throughout: whoever is refused was refused for nothing.
const MOST_FAILED: f64 = 0.0;

pub(super) fn measure(workspace: &Workspace, quick: bool) -> Result<Vec<Figure>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores >= 2, "one core for the load and one for the proxy: this machine has {cores}");
    idle::raise_files()?;
    workspace.run(&mut workspace.cargo(["build", "--release", "--package", "quell-server"]))?;
    let folder = Folder::new()?;
    let big = folder.0.join("big");
    fs::write(&big, vec![b'x'; BIG]).with_context(|| format!("cannot write {}", big.display()))?;
    let [service] = process::free_ports()?;
    let origin = nginx::origin(&folder.0, service, &folder.0)?;
    let _origin = Process::start("the origin", &pinned(LOAD_CORE, &origin)?, service)?;
    let (quell, envoy) = (workspace.target("release/quell"), envoy::install(workspace)?);
    let stand = Stand { quell: &quell, envoy: &envoy, folder: &folder.0, service };

    let length = |seconds, rounds| match quick {
        true => Length { rounds: 3, seconds: 1 },
        false => Length { rounds, seconds },
    };
    let mut figures = requests(stand, length(4, 7))?;
    figures.push(refusals(stand, length(3, 5))?);
    figures.extend(large(stand, &big, length(3, 5))?);
    let many = if quick { 6_000 } else { 22_000 };
    let instructions = counted::instructions(stand, Kind::Quell, many)?;
    figures.push(at_most(
        "gateway.instructions",
        instructions,
        "user instructions per request",
        28e3,
    ));
    let syscalls = counted::syscalls(stand, Kind::Quell, many)?;
    figures.push(at_most("gateway.syscalls", syscalls, "system calls per request", 4.3));
    figures.push(memory(stand, if quick { 2_000 } else { 5_000 })?);
    Ok(figures)
}

/// Short requests through all of them.
fn requests(stand: Stand<'_>, length: Length) -> Result<Vec<Figure>> {
    let kinds = [Kind::Quell, Kind::Bare, Kind::Nginx, Kind::Haproxy, Kind::Envoy];
    let started = kinds.map(|kind| Proxy::start(kind, stand));
    let proxies = started.into_iter().collect::<Result<Vec<_>>>()?;
    let proxies: Vec<_> = proxies.iter().collect();
    let all = turns::take("short requests", &proxies, load::SHORT, length)?;
    let [quell, bare, nginx, haproxy, envoy] = all.as_slice() else {
        anyhow::bail!("not every proxy took its turns")
    };
    Ok(compared(quell, bare, [nginx, haproxy, envoy]))
}

fn compared(quell: &Turns, bare: &Turns, [nginx, haproxy, envoy]: [&Turns; 3]) -> Vec<Figure> {
    let ours = quell.micros();
    let cpu = |name, other: &Turns, most| versus(name, CPU, [ours, other.micros()], most);
    let best = [nginx, haproxy, envoy].map(|peer| peer.median(|turn| turn.p99_ms));
    let best = best.into_iter().fold(f64::INFINITY, f64::min);
    let (failed, theirs) = (quell.failed_per_million(), nginx.failed_per_million());
    let failed =
        at_most("gateway.failed_per_million", failed, "of a million requests", MOST_FAILED);
    let rates = [quell, nginx].map(|turns| turns.median(|turn| turn.requests_per_second));
    vec![
        Figure {
            figure: "gateway.cpu_us_per_request".into(),
            value: ours,
            unit: CPU.into(),
            ..Figure::default()
        },
        cpu("gateway.cpu_vs_nginx", nginx, Some(1.1)),
        cpu("gateway.cpu_vs_haproxy", haproxy, None),
        cpu("gateway.cpu_vs_envoy", envoy, Some(0.4)),
        cpu("gateway.policy_on_off", bare, Some(1.10)),
        versus("gateway.p99_vs_best", "ms", [quell.median(|turn| turn.p99_ms), best], None),
        versus("gateway.requests_per_s", "requests per second", rates, None),
        Figure { against: Some(theirs), ..failed },
    ]
}

/// Requests that a rate limit refuses.
fn refusals(stand: Stand<'_>, length: Length) -> Result<Figure> {
    let (quell, nginx) =
        (Proxy::start(Kind::Refusing, stand)?, Proxy::start(Kind::NginxRefusing, stand)?);
    let all = turns::take("refusals", &[&quell, &nginx], load::SHORT, length)?;
    let micros = [all[0].micros(), all[1].micros()];
    Ok(versus("gateway.refusal_vs_nginx", CPU, micros, Some(1.1)))
}

/// Bodies of 2 MiB, down and up.
fn large(stand: Stand<'_>, big: &std::path::Path, length: Length) -> Result<[Figure; 2]> {
    let (quell, envoy) = (Proxy::start(Kind::Quell, stand)?, Proxy::start(Kind::Envoy, stand)?);
    let per_gb = |what, name, ask, most| -> Result<Figure> {
        let all = turns::take(what, &[&quell, &envoy], ask, length)?;
        let seconds = |turns: &Turns| turns.micros() / BIG as f64 * 1e3;
        let both = [seconds(&all[0]), seconds(&all[1])];
        Ok(versus(name, "s of CPU per GB", both, most))
    };
    let down = Ask { path: "/big", connections: 8, body: None };
    let up = Ask { path: "/", connections: 8, body: Some(big) };
    Ok([
        per_gb("replies of 2 MiB", "gateway.big_bodies_vs_envoy", down, Some(0.75))?,
        per_gb("requests of 2 MiB", "gateway.big_uploads_vs_envoy", up, None)?,
    ])
}

fn memory(stand: Stand<'_>, connections: u32) -> Result<Figure> {
    let ours = idle::kib_per_connection(stand, Kind::Quell, connections)?;
    let theirs = idle::kib_per_connection(stand, Kind::Envoy, connections)?;
    let figure = at_most("gateway.kib_per_idle_connection", ours, "KiB", 24.0);
    Ok(Figure { against: Some(theirs), ratio: Some(ours / theirs), ..figure })
}

fn versus(name: &str, unit: &str, [value, against]: [f64; 2], most: Option<f64>) -> Figure {
    let ratio = value / against;
    Figure {
        figure: name.into(),
        value,
        unit: unit.into(),
        against: Some(against),
        ratio: Some(ratio),
        goal: most.map(|most| format!("ratio at most {most}")),
        met: most.map(|most| ratio <= most),
    }
}

fn at_most(name: &str, value: f64, unit: &str, most: f64) -> Figure {
    Figure {
        figure: name.into(),
        value,
        unit: unit.into(),
        goal: Some(format!("at most {most}")),
        met: Some(value <= most),
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::turns::Turn;
    use super::*;

    fn turns(micros: f64, failed: f64) -> Turns {
        let turn =
            Turn { micros_per_request: micros, requests_per_second: 1e3, failed, p99_ms: micros };
        Turns { turns: vec![turn] }
    }

    fn figures(failed: f64) -> Vec<Figure> {
        let [nginx, haproxy, envoy] = [15.0, 12.0, 80.0].map(|micros| turns(micros, 0.01));
        let (quell, bare) = (turns(24.0, failed), turns(23.0, 0.0));
        compared(&quell, &bare, [&nginx, &haproxy, &envoy])
    }

    #[test]
    fn ratios_are_ours_over_theirs_and_the_best_peer_counts_for_the_tail() {
        let figures = figures(0.0);
        let ratio = |name: &str| {
            let figure = figures.iter().find(|figure| figure.figure == name).unwrap();
            (figure.ratio.unwrap(), figure.met)
        };
        assert_eq!(ratio("gateway.cpu_vs_nginx"), (1.6, Some(false)));
        assert_eq!(ratio("gateway.cpu_vs_haproxy"), (2.0, None));
        assert_eq!(ratio("gateway.cpu_vs_envoy"), (0.3, Some(true)));
        assert_eq!(ratio("gateway.p99_vs_best"), (2.0, None));
    }

    #[test]
    fn a_single_refusal_of_ours_misses_the_goal() {
        let failed = |failed| figures(failed).pop().unwrap();
        assert_eq!(failed(0.0).met, Some(true));
        let missed = failed(1e-6);
        assert_eq!(
            (missed.figure.as_str(), missed.met),
            ("gateway.failed_per_million", Some(false))
        );
    }
}

//! What queueing theory knows exactly.

use core::time::Duration;

use super::{Row, Size, calm, run};
use quell_sim::{
    dist::Dist,
    scenario::{Invalid, Queue, Service},
    verdict::Count,
};

const ERLANG: &str = "Erlang 1917";
const POLLACZEK: &str = "Pollaczek–Khinchine";

/// Erlang B: the share of calls that find all of `servers` busy and go away, at `erlangs` of offered work.
fn erlang_b(servers: u32, erlangs: f64) -> f64 {
    (1..=servers).fold(1.0, |b, n| erlangs * b / (f64::from(n) + erlangs * b))
}

/// Erlang C: the share of calls that find all of `servers` busy and wait.
fn erlang_c(servers: u32, erlangs: f64) -> f64 {
    let b = erlang_b(servers, erlangs);
    b / (1.0 - erlangs / f64::from(servers) * (1.0 - b))
}

pub(super) fn rows(size: Size) -> Result<Vec<Row>, Invalid> {
    let seconds = size.pick(200, 4_000);
    let close = size.pick(0.1, 0.02);
    let time = Duration::from_millis(10);
    let random = || Dist::Exponential { mean: time };
    let mut rows = Vec::new();
    // Waiting times are in milliseconds; one server does 100 requests per second.
    for (servers, rho) in [(1, 0.5), (1, 0.8), (10, 0.8), (50, 0.9)] {
        let load = f64::from(servers) * rho * 100.0;
        let done = run(&calm(load, Service::new(servers, random()), seconds))?.queueing;
        let c = erlang_c(servers, f64::from(servers) * rho);
        let name = if servers == 1 { "M/M/1".to_owned() } else { format!("M/M/{servers}") };
        let wait = c * 1_000.0 / (f64::from(servers) * 100.0 - load);
        let got = 1_000.0 * done.waited.as_secs_f64() / done.started as f64;
        rows.push(Row::near(
            format!("{name} at ρ = {rho}: mean wait, ms"),
            ERLANG,
            wait,
            got,
            close,
        ));
        let got = done.delayed as f64 / done.started as f64;
        rows.push(Row::near(
            format!("{name} at ρ = {rho}: share that waits (Erlang C)"),
            ERLANG,
            c,
            got,
            close,
        ));
    }
    for rho in [0.5, 0.8] {
        let done = run(&calm(rho * 100.0, Service::new(1, time), seconds))?.queueing;
        let wait = rho * 10.0 / (2.0 * (1.0 - rho));
        let got = 1_000.0 * done.waited.as_secs_f64() / done.started as f64;
        rows.push(Row::near(
            format!("M/D/1 at ρ = {rho}: mean wait, ms"),
            POLLACZEK,
            wait,
            got,
            close,
        ));
    }
    for (time, what) in [(random(), "exponential"), (time.into(), "constant")] {
        let queue = Queue { max: Some(0), ..Queue::default() };
        let run = run(&calm(800.0, Service { queue, ..Service::new(10, time) }, seconds))?;
        let got = run.queueing.refused as f64 / run.series.sum(Count::Sent, 0..usize::MAX) as f64;
        let name =
            format!("10 servers, 8 erlangs, no queue, {what} times: share refused (Erlang B)");
        rows.push(Row::near(name, ERLANG, erlang_b(10, 8.0), got, close));
    }
    Ok(rows)
}

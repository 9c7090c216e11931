//! Load: as many requests as one core of wrk can make, or exactly so many.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::LOAD_CORE;
use crate::{process, program};

const CONNECTIONS: u32 = 64;

/// What wrk saw.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) requests: u64,
    /// Requests per second.
    pub(super) rate: f64,
    /// Replies that were no success, and connections that broke.
    pub(super) errors: u64,
    /// 99 of 100 replies came within so many milliseconds.
    pub(super) p99_ms: f64,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) path: &'static str,
    pub(super) connections: u32,
    /// A body to be sent with every request.
    pub(super) body: Option<&'a Path>,
}

/// Short requests and short replies.
pub(super) const SHORT: Ask<'_> = Ask { path: "/", connections: CONNECTIONS, body: None };

/// Loads what listens at `port` for so many seconds.
pub(super) fn run(port: u16, ask: Ask<'_>, seconds: u32) -> Result<Load> {
    let mut wrk = Command::new(program::find("wrk", "wrk")?);
    wrk.args(["--latency", "-t1", &format!("-c{}", ask.connections), &format!("-d{seconds}s")]);
    if let Some(body) = ask.body {
        let script = body.with_extension("lua");
        fs::write(&script, posting(body))
            .with_context(|| format!("cannot write {}", script.display()))?;
        wrk.arg("-s").arg(script);
    }
    wrk.arg(format!("http://{}{}", process::local(port), ask.path));
    let said = output("wrk", &wrk)?;
    parse(&said).with_context(|| format!("wrk answered in an unknown form:\n{said}"))
}

/// Makes exactly so many requests, each of which must succeed.
pub(super) fn exactly(port: u16, requests: u32) -> Result<()> {
    let mut h2load = Command::new(program::find("h2load", "nghttp2-client")?);
    h2load.args(["--h1", "-t1", &format!("-c{CONNECTIONS}"), &format!("-n{requests}")]);
    h2load.arg(format!("http://{}/", process::local(port)));
    let said = output("h2load", &h2load)?;
    ensure!(
        said.contains(&format!(" {requests} succeeded,")),
        "not all of {requests} requests succeeded:\n{said}"
    );
    Ok(())
}

fn output(name: &str, command: &Command) -> Result<String> {
    let output = process::pinned(LOAD_CORE, command)?
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}{}", said.trim(), error.trim());
    Ok(said.into_owned())
}

/// A script that makes wrk post this file.
fn posting(body: &Path) -> String {
    format!(
        "local file = assert(io.open({:?}, 'rb'))\nwrk.method = 'POST'\nwrk.body = file:read('*a')\nfile:close()\n",
        body.display().to_string()
    )
}

fn parse(said: &str) -> Option<Load> {
    let mut load = Load::default();
    let (mut counted, mut rated, mut timed) = (false, false, false);
    for line in said.lines().map(str::trim) {
        if let Some((requests, _)) = line.split_once(" requests in ") {
            load.requests = requests.parse().ok()?;
            counted = true;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            load.rate = rate.trim().parse().ok()?;
            rated = true;
        } else if let Some(time) = line.strip_prefix("99%") {
            load.p99_ms = millis(time.trim())?;
            timed = true;
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            load.errors += count.trim().parse::<u64>().ok()?;
        } else if let Some(kinds) = line.strip_prefix("Socket errors:") {
            for kind in kinds.split(',') {
                load.errors += kind.split_ascii_whitespace().last()?.parse::<u64>().ok()?;
            }
        }
    }
    (counted && rated && timed).then_some(load)
}

/// A time as wrk writes it, such as `1.90ms`.
fn millis(time: &str) -> Option<f64> {
    let unit = time.find(|letter: char| letter.is_ascii_alphabetic())?;
    let value: f64 = time[..unit].parse().ok()?;
    match &time[unit..] {
        "us" => Some(value / 1e3),
        "ms" => Some(value),
        "s" => Some(value * 1e3),
        "m" => Some(value * 60e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: &str = "Running 4s test @ http://127.0.0.1:8080/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.90ms  411.05us  12.19ms   88.97%\n    \
        Req/Sec    33.76k     2.53k   38.52k    70.00%\n  Latency Distribution\n     50%    1.70ms\n     \
        75%    1.80ms\n     90%    2.00ms\n     99%  950.00us\n  134540 requests in 4.02s, 21.17MB read\n\
        Requests/sec:  33465.12\nTransfer/sec:      5.27MB\n";

    #[test]
    fn requests_rate_and_times_are_read_from_a_calm_run() {
        let expected = Load { requests: 134_540, rate: 33_465.12, errors: 0, p99_ms: 0.95 };
        assert_eq!(parse(CALM), Some(expected));
    }

    #[test]
    fn refusals_and_broken_connections_are_counted_together() {
        let said = CALM.to_owned()
            + "  Socket errors: connect 1, read 2, write 0, timeout 4\n  Non-2xx or 3xx responses: 30\n";
        assert_eq!(parse(&said).unwrap().errors, 37);
    }

    #[test]
    fn what_is_no_report_is_not_an_empty_one() {
        assert_eq!(parse("unable to connect to 127.0.0.1:8080 Connection refused\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn times_are_understood_in_every_unit_and_in_no_other() {
        assert_eq!(
            ["1.5us", "2ms", "3.25s", "1m"].map(millis),
            [0.0015, 2.0, 3250.0, 60e3].map(Some)
        );
        assert_eq!(["", "ms", "1", "1h"].map(millis), [None; 4]);
    }
}

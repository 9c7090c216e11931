//! Load: as many requests as one core of wrk can make.

use std::process::Command;

use anyhow::{Context, Result, ensure};

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
}

/// Loads what listens at `port` for so many seconds, from one core.
pub(super) fn run(port: u16, core: usize, seconds: u32) -> Result<Load> {
    let mut wrk = Command::new(program::find("wrk", "wrk")?);
    wrk.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{seconds}s")]);
    wrk.arg(format!("http://{}/", process::local(port)));
    let output = process::pinned(core, &wrk)?.output().context("cannot start wrk")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "wrk failed: {}{}", said.trim(), error.trim());
    parse(&said).with_context(|| format!("wrk answered in an unknown form:\n{said}"))
}

fn parse(said: &str) -> Option<Load> {
    let mut load = Load::default();
    let (mut counted, mut rated) = (false, false);
    for line in said.lines().map(str::trim) {
        if let Some((requests, _)) = line.split_once(" requests in ") {
            load.requests = requests.parse().ok()?;
            counted = true;
        } else if let Some(rate) = line.strip_prefix("Requests/sec:") {
            load.rate = rate.trim().parse().ok()?;
            rated = true;
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses:") {
            load.errors += count.trim().parse::<u64>().ok()?;
        } else if let Some(kinds) = line.strip_prefix("Socket errors:") {
            for kind in kinds.split(',') {
                load.errors += kind.split_ascii_whitespace().last()?.parse::<u64>().ok()?;
            }
        }
    }
    (counted && rated).then_some(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: &str = "Running 4s test @ http://127.0.0.1:8080/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.90ms  411.05us  12.19ms   88.97%\n    \
        Req/Sec    33.76k     2.53k   38.52k    70.00%\n  134540 requests in 4.02s, 21.17MB read\n\
        Requests/sec:  33465.12\nTransfer/sec:      5.27MB\n";

    #[test]
    fn requests_and_rate_are_read_from_a_calm_run() {
        let expected = Load { requests: 134_540, rate: 33_465.12, errors: 0 };
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
}

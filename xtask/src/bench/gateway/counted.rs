//! What can be counted exactly: instructions and system calls of one request.
//!
//! **Why.** Processor time moves with the neighbours. These two do not, and say where it goes.
//!
//! **How.** The gateway runs twice under a tool that counts, with few and with many requests; what differs is the requests.
//! It is told to drain and ends by itself, since the tool says what it counted only then.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::load;
use super::proxy::{Kind, Ports, Stand};
use super::{super::callgrind, PROXY_CORE};
use crate::{
    process::{Process, pinned, tied},
    program,
};

const FEW: u32 = 2_000;
const CALLGRIND: &str = "callgrind";

/// User instructions, by callgrind.
pub(super) fn instructions(stand: Stand<'_>, kind: Kind, many: u32) -> Result<f64> {
    per_request(stand, kind, many, CALLGRIND, |gateway, told| {
        let mut valgrind = Command::new(program::find("valgrind", "valgrind")?);
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no"]);
        valgrind.arg(format!("--log-file={}", told.display()));
        valgrind.arg(gateway.get_program()).args(gateway.get_args());
        Ok(valgrind)
    })
}

/// System calls of all threads, by strace.
pub(super) fn syscalls(stand: Stand<'_>, kind: Kind, many: u32) -> Result<f64> {
    per_request(stand, kind, many, "strace", |gateway, told| {
        let gateway = tied(gateway)?; // of strace: whoever is traced outlives it otherwise
        let mut strace = Command::new(program::find("strace", "strace")?);
        strace.args(["-f", "-q", "-c", "-U", "calls", "-o"]).arg(told);
        strace.arg(gateway.get_program()).args(gateway.get_args());
        Ok(strace)
    })
}

fn per_request(
    stand: Stand<'_>,
    kind: Kind,
    many: u32,
    tool: &'static str,
    under: impl Fn(&Command, &Path) -> Result<Command>,
) -> Result<f64> {
    eprintln!("gateway: {} under {tool}", kind.name());
    let told = stand.folder.join(format!("{tool}.txt"));
    let count = |requests| -> Result<u64> {
        let ports = Ports::before(stand.service)?;
        let gateway = under(&kind.command(stand, ports)?, &told)?;
        let process = Process::start(tool, &pinned(PROXY_CORE, &gateway)?, ports.listen)?;
        load::exactly(ports.listen, FEW)?; // limits are learned
        if tool == CALLGRIND {
            collect(&process)?;
        }
        load::exactly(ports.listen, requests)?;
        process.end()?;
        let said = fs::read_to_string(&told).with_context(|| format!("{tool} told nothing"))?;
        let total = callgrind::collected(&said).or_else(|| calls(&said));
        total.with_context(|| format!("{tool} did not say what it counted:\n{said}"))
    };
    let (few, many) = ((FEW, count(FEW)?), (many, count(many)?));
    Ok(many.1.saturating_sub(few.1) as f64 / f64::from(many.0 - few.0))
}

/// Has callgrind count from now on: calibrating a clock takes a different number of instructions every time.
fn collect(process: &Process) -> Result<()> {
    let output = Command::new(program::find("callgrind_control", "valgrind")?)
        .args(["-i", "on", &process.id().to_string()])
        .output()
        .context("cannot start callgrind_control")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "callgrind does not begin to count: {}", said.trim());
    Ok(())
}

/// All calls that a table of strace has, which is a number and a name in each line.
fn calls(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.trim().strip_suffix("total")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_straces_table_is_found() {
        let said = "    calls\n---------\n    40000\n     1200\n---------\n    41200 total\n";
        assert_eq!(calls(said), Some(41_200));
        assert_eq!(calls("---------\n"), None);
    }
}

//! Instructions, counted one by one.
//!
//! **Why.** On a busy machine time says as much about the neighbours as about the code. The number of instructions
//! is the same to the last digit in every run, so it shows a change of one percent.
//!
//! **How.** Two runs of different length under valgrind: what differs is the iterations alone, and starting up and
//! warming up cancel out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::program;

/// Iterations of the two runs.
const FEW: u32 = 1_000;
const MANY: u32 = 201_000;

pub(super) fn per_iteration(program: &Path, kind: &str) -> Result<f64> {
    let (few, many) = (count(program, kind, FEW)?, count(program, kind, MANY)?);
    Ok(many.saturating_sub(few) as f64 / f64::from(MANY - FEW))
}

fn count(program: &Path, kind: &str, iterations: u32) -> Result<u64> {
    let output = Command::new(program::find("valgrind", "valgrind")?)
        // Only the loop counts: calibrating a clock takes a different number of instructions every time.
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*repeat*"])
        .arg(program)
        .args([kind, "--iterations", &iterations.to_string()])
        .output()
        .context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the benchmark {kind} failed under valgrind:\n{said}");
    collected(&said).with_context(|| format!("valgrind did not say what it collected:\n{said}"))
}

/// The number in `==123== Collected : 456`.
pub(super) fn collected(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_what_valgrind_says() {
        let said = "==7== Callgrind, a call-graph generating cache profiler\n\
                    ==7== \n==7== Events    : Ir\n==7== Collected : 15628666\n==7== \n\
                    ==7== I   refs:      15,628,666\n";
        assert_eq!(collected(said), Some(15_628_666));
    }

    #[test]
    fn a_run_that_collected_nothing_is_not_zero() {
        assert_eq!(collected("==7== Events    : Ir\n"), None);
        assert_eq!(collected("==7== Collected : \n"), None);
    }
}

//! Runs of the `quell` command: built, started, asked for their figures, several at once.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use crate::{
    process::{local, tied},
    workspace::Workspace,
};

/// A machine that keeps a run waiting longer than this is what was measured, in seconds.
pub(crate) const LATE: f64 = 0.1;
/// How often something is run, if the machine spoils it.
pub(crate) const TRIES: u32 = 3;

/// Builds the command, as the tests are built or as it is shipped, and says where it is.
pub(crate) fn build(workspace: &Workspace, dev: bool) -> Result<PathBuf> {
    let [quell] = build_all(workspace, dev, ["quell"])?;
    Ok(quell)
}

/// The same for several of our programs.
pub(crate) fn build_all<const N: usize>(
    workspace: &Workspace,
    dev: bool,
    programs: [&str; N],
) -> Result<[PathBuf; N]> {
    let profile = if dev { "dev" } else { "release" };
    // As the tests are built, so that nothing is built twice.
    let mut cargo = workspace.cargo(["build", "--workspace", "--all-features", "--profile"]);
    cargo.arg(profile);
    for program in programs {
        cargo.args(["--bin", program]);
    }
    workspace.run(&mut cargo)?;
    Ok(programs.map(|program| built(workspace, dev, program)))
}

/// Where a program of ours is once it is built.
pub(crate) fn built(workspace: &Workspace, dev: bool, program: &str) -> PathBuf {
    let folder = if dev { "debug" } else { "release" };
    workspace.target(&format!("{folder}/{program}"))
}

/// The gateway in front of what listens at `to`, with nothing set.
pub(crate) fn gateway(quell: &Path, to: u16, listen: u16, admin: u16) -> Command {
    let mut command = Command::new(quell);
    command.args(["gateway", "--to", &format!("http://{}", local(to))]);
    command.args(["--listen", &local(listen).to_string()]);
    command.args(["--admin", &local(admin).to_string()]);
    command
}

/// What comes of each, all at once.
pub(crate) fn all<T: Sync, R: Send>(
    of: &[T],
    does: impl Fn(&T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let does = &does;
    thread::scope(|scope| {
        let threads: Vec<_> = of.iter().map(|one| scope.spawn(move || does(one))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("the run panicked"))).collect()
    })
}

/// Runs a program for its JSON. Its exit code speaks of the outcome, not of whether it could be measured.
pub(crate) fn ask<T: DeserializeOwned>(workspace: &Workspace, command: &Command) -> Result<T> {
    let output = tied(command)?
        .current_dir(workspace.path(""))
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{command:?} gave no figures: {}", said.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_runs_at_once_ends_in_its_own_place() {
        let ends = all(&[1, 2, 3], |i| if *i == 2 { bail!("two") } else { Ok(i * 10) });
        let ends: Vec<_> = ends.into_iter().map(Result::ok).collect();
        assert_eq!(ends, [Some(10), None, Some(30)]);
    }

    #[test]
    fn a_program_without_figures_is_quoted() {
        let workspace = Workspace::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such world >&2"]);
        let error = ask::<f64>(&workspace, &command).unwrap_err().to_string();
        assert!(error.ends_with("gave no figures: no such world"), "{error}");
    }
}

//! The library's examples, run: part of `cargo xtask test`.
//!
//! **Why.** An example that compiles can still hang, panic or print nonsense. Each asserts what it prints, so that running it
//! says whether it is true.
//!
//! **How.** One build, then one example after the other, each with a limit. What one printed is shown if it failed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::folder::Folder;
use crate::process::tied;
use crate::tidy::examples;
use crate::workspace::Workspace;

/// How long an example may take.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let args = ["build", "--quiet", "--workspace", "--all-features", "--examples"];
    workspace.run(&mut workspace.cargo(args))?; // as the tests were built, so that nothing is built twice
    let folder = Folder::new()?;
    let mut failed = Vec::new();
    for name in names(workspace)? {
        let binary = workspace.target(&format!("debug/examples/{name}"));
        let said = folder.0.join(&name);
        match run_one(&Command::new(binary), &said, LIMIT) {
            Ok(took) => println!("example {name}: ok in {:.1} s", took.as_secs_f64()),
            Err(error) => {
                println!("example {name}: {error:#}\n{}", shown(&said));
                failed.push(name);
            }
        }
    }
    ensure!(
        failed.is_empty(),
        "failed: {}; repeat with `cargo run -p quell --all-features --example {}`",
        failed.join(", "),
        failed[0]
    );
    Ok(())
}

fn names(workspace: &Workspace) -> Result<Vec<String>> {
    let paths = workspace.paths()?;
    let names: Vec<_> =
        paths.iter().filter_map(|path| examples::name(path)).map(String::from).collect();
    ensure!(
        !names.is_empty(),
        "there is no example in {}: run nothing, prove nothing",
        examples::FOLDER
    );
    Ok(names)
}

/// Runs it to its end, or to the limit, and says how long it took. What it prints goes to a file, which no pipe can stop.
fn run_one(command: &Command, said: &PathBuf, limit: Duration) -> Result<Duration> {
    let start = Instant::now();
    let file = File::create(said).with_context(|| format!("cannot write {}", said.display()))?;
    let mut child = tied(command)?
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .context("cannot start it")?;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "it ended with {status}");
            return Ok(start.elapsed());
        }
        if start.elapsed() > limit {
            let _ = child.kill(); // it may have ended just now
            child.wait()?;
            bail!("it did not end within {} s", limit.as_secs());
        }
        #[allow(clippy::disallowed_methods, reason = "between two looks, before a deadline")]
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shown(said: &Path) -> String {
    let said = std::fs::read(said).unwrap_or_default();
    String::from_utf8_lossy(&said).lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> (Result<Duration>, String) {
        let said = std::env::temp_dir().join(format!(
            "quell-example-{}-{}",
            std::process::id(),
            script.len()
        ));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ran = run_one(&command, &said, limit);
        let text = shown(&said);
        let _ = std::fs::remove_file(said);
        (ran, text)
    }

    #[test]
    fn there_are_examples() {
        assert!(names(&Workspace::new().unwrap()).unwrap().contains(&"minimal".to_owned()));
    }

    #[test]
    fn an_example_that_fails_is_seen_and_heard() {
        assert!(sh("true", LIMIT).0.is_ok());
        let (ran, said) = sh("echo out; echo err >&2; exit 3", LIMIT);
        assert!(ran.unwrap_err().to_string().contains("exit status: 3"));
        assert_eq!(said, "  out\n  err\n");
    }

    #[test]
    fn an_example_that_hangs_is_ended() {
        let (ran, _) = sh("exec sleep 600", Duration::from_millis(20));
        assert!(ran.unwrap_err().to_string().contains("did not end"));
    }
}

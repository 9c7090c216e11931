//! Others' programs that tests talk to: found, or brought.
//!
//! **Why.** A test that is left out wherever its programs are missing is left out on the machine that decides. So the command
//! that runs the tests brings what they need, on a fresh machine too, and says where it is.
//!
//! **How.** What the system packages comes from there; what it does not is put into a cache folder outside the checkout, named
//! after the versions that are wanted: the next run finds it and takes no time. Only one of several runs at once installs.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::program;
use crate::workspace::Workspace;

/// Tells tests where the clients are that no package of the system has.
pub(crate) const CLIENTS: &str = "QUELL_CLIENTS";

/// Which of Python's packages they need.
const REQUIREMENTS: &str = "crates/quell-server/tests/clients/requirements.txt";

/// Written last: what has no such file is not complete.
const COMPLETE: &str = "complete";

/// Programs that the system packages, and their packages.
const PACKAGED: &[(&str, &str)] =
    &[("curl", "curl"), ("node", "nodejs"), ("chromium", "chromium"), ("python3", "python3-venv")];

/// Brings the clients that tests send through the gateway; returns the folder of those that are Python's.
pub(crate) fn clients(workspace: &Workspace) -> Result<PathBuf> {
    program::find_all(PACKAGED)?;
    let requirements = workspace.read(REQUIREMENTS)?;
    let cache = cache()?;
    std::fs::create_dir_all(&cache)
        .with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let lock = File::create(cache.join("lock")).context("cannot write to the cache folder")?;
    lock.lock().context("cannot lock the cache folder")?; // until it is dropped
    let folder = cache.join(format!("clients-{:016x}", hash(&requirements)));
    if !folder.join(COMPLETE).is_file() {
        bring(workspace, &folder)?;
        std::fs::write(folder.join(COMPLETE), requirements)?;
    }
    Ok(folder)
}

/// A Python of its own, with the packages in it.
fn bring(workspace: &Workspace, folder: &Path) -> Result<()> {
    eprintln!("bringing the clients that tests need to {}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).context("cannot remove what is not complete")?;
    }
    workspace.run(Command::new(python()?).args(["-m", "venv"]).arg(folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--requirement"];
    workspace.run(Command::new(folder.join("bin/python")).args(pip).arg(REQUIREMENTS))
}

/// A Python that can make others. Debian's is without that part until its package is there, too.
fn python() -> Result<PathBuf> {
    let able = |python: &Path| {
        let mut asked = Command::new(python);
        asked.args(["-c", "import ensurepip, venv"]).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let found = program::find("python3", "python3-venv")?;
    if able(&found) {
        return Ok(found);
    }
    program::install(&["python3-venv"])?;
    let packaged = PathBuf::from("/usr/bin/python3");
    ensure!(able(&packaged), "the package python3-venv brought no `python3 -m venv`");
    Ok(packaged)
}

/// Where things may stay between runs.
fn cache() -> Result<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = named.map(PathBuf::from).or_else(home);
    Ok(folder
        .context("neither XDG_CACHE_HOME nor HOME is set: where may things stay?")?
        .join("quell"))
}

/// Another Python may be another machine's: what was built with it is not for this one.
fn hash(requirements: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (requirements, program::look("python3")).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_live_in_another_folder() {
        assert_eq!(hash("requests==1"), hash("requests==1"));
        assert_ne!(hash("requests==1"), hash("requests==2"));
    }

    #[test]
    fn the_requirements_are_exact() {
        let requirements = Workspace::new().unwrap().read(REQUIREMENTS).unwrap();
        let mut lines = requirements.lines().filter(|line| !line.starts_with('#')).peekable();
        assert!(lines.peek().is_some());
        for line in lines {
            assert!(line.contains("=="), "{line}");
        }
    }
}

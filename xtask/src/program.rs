//! Programs that measure or are measured against: found, or installed where we may.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Servers are not in every user's PATH.
const SERVERS: &str = "/usr/sbin";

/// Where `name` is; installs Debian's `package` if it is nowhere and we are root.
pub(crate) fn find(name: &str, package: &str) -> Result<PathBuf> {
    find_all(&[(name, package)])?;
    look(name).with_context(|| format!("the package {package} brought no {name}"))
}

/// The same for several, installed together: each installation asks for all lists anew.
pub(crate) fn find_all(wanted: &[(&str, &str)]) -> Result<()> {
    let missing = wanted.iter().filter(|(name, _)| look(name).is_none());
    let (names, packages): (Vec<_>, Vec<_>) = missing.copied().unzip();
    if names.is_empty() {
        return Ok(());
    }
    install(&packages).with_context(|| format!("not installed: {}", names.join(", ")))
}

/// Where `name` is, if it is anywhere.
pub(crate) fn look(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from(SERVERS)]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Whether this process may install: the owner of its own entry is who it runs as.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

/// Installs Debian's packages, where we may.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if !is_root() || look("apt-get").is_none() {
        bail!("install the packages {names}, or run this as root");
    }
    let install = ["install", "-y", "--no-install-recommends"];
    for args in [&["update"][..], &[&install, packages].concat()] {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::from(io::stderr())) // ours is for figures
            .status()
            .context("cannot start apt-get")?;
        ensure!(status.success(), "`apt-get {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_there_is_found_and_another_is_not() {
        assert!(look("sh").is_some());
        assert!(look("no-such-program").is_none());
    }
}

//! The checkout: where it is, what it holds and how cargo is called in it.
//!
//! **Why.** Commands must not care from which folder they were started, and must look at the same files: those
//! git knows or would offer to add. So a violation is seen before it is committed, and build output never is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::metadata::Metadata;

/// One text file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Relative to the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Tests may be longer and looser than the code they hold to account.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn new() -> Result<Self> {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
        ensure!(
            root.join("Cargo.lock").is_file(),
            "{} is not the workspace any more: run `cargo xtask` from the checkout so that it is rebuilt",
            root.display()
        );
        Ok(Self { root: root.into() })
    }

    /// A path in the folder that cargo builds into, which whoever shares it among checkouts puts elsewhere.
    pub(crate) fn target(&self, path: &str) -> PathBuf {
        let shared = std::env::var_os("CARGO_TARGET_DIR");
        self.root.join(shared.unwrap_or_else(|| "target".into())).join(path)
    }

    /// Every text file that is tracked, or new and not ignored. Binary files are left out.
    pub(crate) fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for path in self.paths()? {
            let Ok(bytes) = std::fs::read(self.root.join(&path)) else { continue }; // deleted, not yet staged
            if !bytes.contains(&0) {
                files.push(File { path, text: String::from_utf8_lossy(&bytes).into_owned() });
            }
        }
        Ok(files)
    }

    /// Paths of all files, binary ones too: what a link may point at.
    pub(crate) fn paths(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = self.output(&mut git)?;
        let mut paths: Vec<_> = listed.split_terminator('\0').map(String::from).collect();
        paths.retain(|path| self.root.join(path).is_file());
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// A path below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }

    /// What cargo knows about the packages; manifests are given relative to the root.
    pub(crate) fn metadata(&self, args: &[&str]) -> Result<Metadata> {
        let json = self.output(self.cargo(["metadata", "--format-version", "1"]).args(args))?;
        let mut metadata: Metadata =
            serde_json::from_str(&json).context("`cargo metadata` answered in an unknown form")?;
        for package in &mut metadata.packages {
            if let Ok(relative) = Path::new(&package.manifest_path).strip_prefix(&self.root) {
                package.manifest_path = relative.to_string_lossy().into_owned();
            }
        }
        Ok(metadata)
    }

    /// The cargo that runs us, so that nested calls use the same toolchain.
    pub(crate) fn cargo<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(args);
        cargo
    }

    /// Runs with the terminal attached; a failure names the line that can be repeated by hand.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        let status = command.current_dir(&self.root).status().with_context(|| missing(command))?;
        ensure!(status.success(), "`{}` failed ({status})", line(command));
        Ok(())
    }

    /// Runs, and gives what was printed.
    pub(crate) fn output(&self, command: &mut Command) -> Result<String> {
        let output = command.current_dir(&self.root).output().with_context(|| missing(command))?;
        if !output.status.success() {
            bail!(
                "`{}` failed:\n{}",
                line(command),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{}` printed no UTF-8", line(command)))
    }
}

fn missing(command: &Command) -> String {
    format!("cannot start `{}`: is it installed and in PATH?", line(command))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_files_holds_this_one_and_no_build_output() {
        let paths = Workspace::new().unwrap().paths().unwrap();
        assert!(paths.iter().any(|path| path == "xtask/src/workspace.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn a_failing_command_is_named_as_one_would_type_it() {
        let workspace = Workspace::new().unwrap();
        let error = workspace.run(Command::new("git").args(["no-such-verb"])).unwrap_err();
        assert!(error.to_string().starts_with("`git no-such-verb` failed"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_reported_as_such() {
        let workspace = Workspace::new().unwrap();
        let error = workspace.run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("is it installed"), "{error}");
    }
}

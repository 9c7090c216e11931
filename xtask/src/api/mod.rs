//! `cargo xtask api`: what users can name, in files that reviewers read.
//!
//! **Why.** A public item is a promise, and most are made by accident: a `pub` too many, a parameter that changed its type. In
//! `docs/api/` each is one line, so a change of the API is a change of a file, seen in the diff like any other.
//!
//! **How.** rustdoc writes what it knows as JSON, `public-api` turns that into lines (see decision 0010). `--check` compares
//! instead of writing. `--coverage` says which items of the library have no example.

mod coverage;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;

/// The crates whose users we do not know.
const CRATES: [&str; 2] = ["quell", "quell-core"];
/// Stands for rustdoc while cargo runs.
const RUSTDOC: &str = "xtask/src/api/rustdoc.sh";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Compare with docs/api instead of writing it
    #[arg(long)]
    check: bool,
    /// Print which items of `quell` have no docs or no example, and write nothing
    #[arg(long, conflicts_with = "check")]
    coverage: bool,
}

impl Args {
    /// As CI asks.
    pub(crate) fn check() -> Self {
        Self { check: true, coverage: false }
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    document(workspace)?;
    if args.coverage {
        print!("{}", coverage::report(&read(workspace, CRATES[0])?));
        return Ok(());
    }
    let mut changed = Vec::new();
    for name in CRATES {
        let path = format!("docs/api/{name}.txt");
        let now = list(workspace, name)?;
        if !args.check {
            let write = std::fs::write(workspace.path(&path), &now);
            write.with_context(|| format!("cannot write {path}"))?;
            println!("{path}: {} items", now.lines().count());
            continue;
        }
        let difference = diff(&workspace.read(&path)?, &now);
        if !difference.is_empty() {
            println!("{path}\n{difference}");
            changed.push(name);
        }
    }
    ensure!(
        changed.is_empty(),
        "the public API of {} is not what docs/api says: if it should be as it is now, run `cargo xtask api` and commit",
        changed.join(" and ")
    );
    Ok(())
}

/// Has rustdoc write its JSON, of all crates at once: so their dependencies have the features they were already built with.
fn document(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo(["doc", "--workspace", "--lib", "--no-deps", "--all-features"]);
    cargo.arg("--quiet").env("RUSTDOC", workspace.path(RUSTDOC));
    workspace.run(cargo.env("RUSTDOCFLAGS", "-Zunstable-options --output-format json"))
}

/// One item per line, in rustdoc's order of paths; what every type has (`Send`, `Into`, derived traits) is left out.
fn list(workspace: &Workspace, name: &str) -> Result<String> {
    let (path, _) = json(workspace, name)?;
    let api = public_api::Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("the JSON about {name} cannot be read"))?;
    Ok(api.to_string())
}

fn read(workspace: &Workspace, name: &str) -> Result<rustdoc_types::Crate> {
    let (_, text) = json(workspace, name)?;
    serde_json::from_str(&text).with_context(|| format!("the JSON about {name} cannot be read"))
}

/// What rustdoc wrote about a crate, and where.
fn json(workspace: &Workspace, name: &str) -> Result<(PathBuf, String)> {
    let path = workspace.target(&format!("doc/{}.json", name.replace('-', "_")));
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    readable(&text)?;
    Ok((path, text))
}

/// Whether the JSON is in the form that we read: each toolchain has its own.
fn readable(text: &str) -> Result<()> {
    #[derive(Deserialize)]
    struct Form {
        format_version: u32,
    }
    let known = rustdoc_types::FORMAT_VERSION;
    match serde_json::from_str(text) {
        Ok(Form { format_version }) if format_version == known => Ok(()),
        Ok(Form { format_version }) => bail!(
            "rustdoc of this toolchain writes form {format_version}, and form {known} is read: use Rust 1.95 \
             (RUSTUP_TOOLCHAIN=1.95.0), or take the `public-api` and `rustdoc-types` that fit"
        ),
        Err(error) => bail!("rustdoc wrote no JSON with a format_version: {error}"),
    }
}

/// What is only in `old`, after `-`, and only in `new`, after `+`; a changed signature has its two lines side by side.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.lines().collect(), new.lines().collect());
    let lines: BTreeSet<_> = old.symmetric_difference(&new).collect();
    let line = |line: &&&str| format!("{} {line}\n", if old.contains(**line) { '-' } else { '+' });
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_what_went_and_what_came_and_nothing_else() {
        let old = "pub fn a::b(u32)\npub fn a::c()\npub struct a::D\n";
        let new = "pub fn a::b(u64)\npub fn a::c()\npub struct a::D\npub struct a::E\n";
        let expected = "- pub fn a::b(u32)\n+ pub fn a::b(u64)\n+ pub struct a::E\n";
        assert_eq!(diff(old, new), expected);
        assert_eq!(diff(old, old), "");
    }

    #[test]
    fn json_of_another_toolchain_is_refused_with_what_to_do() {
        let known = format!(r#"{{"format_version": {}}}"#, rustdoc_types::FORMAT_VERSION);
        assert!(readable(&known).is_ok());
        let error = readable(r#"{"format_version": 1}"#).unwrap_err().to_string();
        assert!(error.contains("form 1") && error.contains("RUSTUP_TOOLCHAIN"), "{error}");
        assert!(readable("{}").is_err() && readable("").is_err());
    }

    #[test]
    fn what_is_written_down_is_sorted_out_and_complete() {
        let workspace = Workspace::new().unwrap();
        for (name, item) in
            [("quell", "pub struct quell::Quell"), ("quell-core", "pub enum quell_core::Reason")]
        {
            let text = workspace.read(&format!("docs/api/{name}.txt")).unwrap();
            assert!(text.lines().any(|line| line.starts_with(item)), "{name} lacks {item}");
            assert!(!text.contains("core::marker::Send for"), "{name}");
        }
    }
}

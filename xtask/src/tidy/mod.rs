//! `cargo xtask tidy`: the rules that no compiler knows.
//!
//! **Why.** The promises of this project rest on absences: the core has no clock, crates do not point back at
//! each other, no test is switched off. An absence is lost silently, one convenient import at a time, unless a
//! machine looks for it at every change.
//!
//! **How.** One file per rule, each a function from text to [`Violation`]s, so each is tested on a few lines that
//! break it. Everything is read once, nothing is compiled, and the whole command takes well under a second.

mod arrows;
pub(crate) mod examples;
mod leftovers;
mod links;
mod lints;
mod modules;
mod named;
mod paths;
mod purity;
mod size;
mod source;

use std::collections::BTreeSet;

use anyhow::Result;

use self::source::Source;
use crate::violation::{Violation, report};
use crate::workspace::{File, Workspace};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let files = workspace.files()?;
    let metadata = workspace.metadata(&["--no-deps"])?;
    let mut violations = check_text(&files, &workspace.paths()?.into_iter().collect());
    violations.extend(arrows::check(&metadata.packages, &files));
    violations.extend(purity::check_rooms(&files));
    violations.extend(modules::check_rooms(&files));
    println!("{} files looked at", files.len());
    report(violations)
}

/// All rules that need nothing but the files.
fn check_text(files: &[File], paths: &BTreeSet<String>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let functions = named::functions(files);
    violations.extend(examples::check(files));
    for file in files {
        violations.extend(paths::check(file));
        if file.is_rust() {
            let source = Source::new(file);
            violations.extend(purity::check(&source));
            violations.extend(modules::check(&source));
            violations.extend(leftovers::check(&source));
            violations.extend(size::check(&source));
        } else if file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml") {
            violations.extend(lints::check(file));
        } else if file.path.ends_with(".md") {
            violations.extend(links::check(file, paths));
            violations.extend(named::check(file, &functions));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rule has its own tests; this one holds that none of them was forgotten in [`check_text`].
    #[test]
    fn every_rule_is_applied_to_the_files_it_is_for() {
        let long = "static A: u8 = 0;\n".repeat(size::MAX + 1);
        let planted = [
            File::new("crates/quell-core/src/a.rs", "use std::time::Instant;\n"),
            File::new("crates/quell/src/b.rs", "fn b() { todo!() }\n"),
            File::new("crates/quell-server/src/host/h.rs", "use crate::gateway::H;\n"),
            File::new("crates/quell/src/c.rs", &long),
            File::new("crates/new/Cargo.toml", "[package]\nname = \"new\"\n"),
            File::new("docs/d.md", "[gone](gone.md)\n"),
            File::new("docs/f.md", "`a_test_that_is_long_gone`\n"),
            File::new("README.md", "```rust\nshown();\n```\n"),
            File::new("crates/quell/examples/g.rs", "fn main() {}\n"),
            File::new("e.sh", &format!("cd {}x\n", paths::ABSOLUTE[0])),
        ];
        for file in planted {
            let found = check_text(std::slice::from_ref(&file), &BTreeSet::new());
            assert_eq!(found.len(), 1, "{}: {found:?}", file.path);
            assert_eq!(found[0].path, file.path);
        }
    }
}

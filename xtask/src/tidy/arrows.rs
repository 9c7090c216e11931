//! Which crate may know which, and what the core may know at all.
//!
//! **Why.** Crates of their own because a manifest can keep purity and a feature flag cannot: as long as the arrows stand,
//! no line of the core can reach a runtime, however it is written, and no line of HTTP/1 can reach the gateway. So the
//! manifests are checked, not the imports.
//!
//! **How.** Two tables. Dependencies for tests alone are free between our crates, since they ship nothing, except
//! that xtask may not know the crates it judges: it has to build when they do not.

use crate::metadata::{Dependency, Kind, Package};
use crate::violation::{Violation, line_where};
use crate::workspace::File;

/// Our crates and those of ours each may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("quell-core", &[]),
    ("quell-charts", &[]),
    ("quell-config", &["quell-core"]),
    ("quell", &["quell-core", "quell-config"]),
    ("quell-http1", &[]),
    ("quell-sim", &["quell-core"]),
    ("quell-server", &["quell", "quell-config", "quell-http1", "quell-sim", "quell-charts"]),
    ("quell-lab", &["quell-core", "quell-sim", "quell-charts"]),
    ("xtask", &[]),
];

/// What the core may use: its name, and whether only as an option.
const CORE: &[(&str, bool)] = &[("thiserror", false), ("serde", true)];
const CORE_TESTS: &[&str] = &["proptest"];

pub(super) fn check(packages: &[Package], files: &[File]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for package in packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            let what = format!("crate {} has no place in the picture of arrows", package.name);
            let fix = "put the code in one of the rooms that there are, or add the crate to ARROWS with a decision record";
            violations.push(Violation::new(&package.manifest_path, 1, what, fix));
            continue;
        };
        for dependency in &package.dependencies {
            let fault = arrow(package, dependency, allowed).or_else(|| core(package, dependency));
            if let Some((what, fix)) = fault {
                let line = line_of(package, dependency, files);
                violations.push(Violation::new(&package.manifest_path, line, what, fix));
            }
        }
    }
    violations
}

fn arrow(package: &Package, dependency: &Dependency, allowed: &[&str]) -> Option<(String, String)> {
    let ours = ARROWS.iter().any(|(name, _)| *name == dependency.name);
    let free =
        dependency.kind == Some(Kind::Dev) && package.name != "xtask" && dependency.name != "xtask";
    if !ours || free || allowed.contains(&dependency.name.as_str()) {
        return None;
    }
    let what = format!("{} may not depend on {}", package.name, dependency.name);
    let fix = match allowed {
        [] => {
            "it depends on none of our crates: move the line that needs it to the crate that has it"
                .into()
        }
        _ => format!("its arrows are {}: move the line that needs it", allowed.join(" and ")),
    };
    Some((what, fix))
}

fn core(package: &Package, dependency: &Dependency) -> Option<(String, String)> {
    if package.name != "quell-core" || ARROWS.iter().any(|(name, _)| *name == dependency.name) {
        return None;
    }
    let name = dependency.name.as_str();
    if dependency.kind == Some(Kind::Dev) {
        let what = format!("quell-core may not test with {name}");
        return (!CORE_TESTS.contains(&name))
            .then(|| (what, format!("it tests with {}", CORE_TESTS.join(", "))));
    }
    match CORE.iter().find(|(allowed, _)| *allowed == name) {
        Some((_, true)) if !dependency.optional => {
            let what = format!("quell-core may depend on {name} only as an option");
            Some((what, "write optional = true and put it behind a feature".into()))
        }
        Some(_) => None,
        None => {
            let names: Vec<_> = CORE.iter().map(|(name, _)| *name).collect();
            let what = format!("quell-core may not depend on {name}");
            Some((
                what,
                format!("it decides with {} alone: do the rest in quell", names.join(", ")),
            ))
        }
    }
}

/// Where the manifest names the dependency, within the table of its kind when there is one.
fn line_of(package: &Package, dependency: &Dependency, files: &[File]) -> usize {
    let Some(file) = files.iter().find(|file| file.path == package.manifest_path) else { return 1 };
    let header = match dependency.kind {
        None => "[dependencies",
        Some(Kind::Build) => "[build-dependencies",
        Some(Kind::Dev) => "[dev-dependencies",
    };
    let start = file.text.lines().position(|line| line.starts_with(header)).unwrap_or(0);
    let tail: String = file.text.lines().skip(start).flat_map(|line| [line, "\n"]).collect();
    start
        + line_where(&tail, |line| {
            let name = line.trim_start().strip_prefix(&dependency.name);
            name.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate with one dependency of a kind, optional or not.
    fn check_one(name: &str, dependency: &str, kind: &str, optional: bool) -> Vec<Violation> {
        let json = format!(
            r#"{{"id": "x", "name": "{name}", "version": "1.0.0", "manifest_path": "crates/{name}/Cargo.toml",
                "dependencies": [{{"name": "{dependency}", "kind": {kind}, "optional": {optional}}}]}}"#
        );
        let manifest = format!(
            "[package]\nname = \"{name}\"\n\n[dependencies]\n{dependency}.workspace = true\n"
        );
        let file = File::new(&format!("crates/{name}/Cargo.toml"), &manifest);
        check(&[serde_json::from_str(&json).unwrap()], &[file])
    }

    #[test]
    fn arrows_of_the_picture_are_allowed() {
        for (from, to) in [
            ("quell", "quell-config"),
            ("quell-server", "quell-sim"),
            ("quell-server", "tokio"),
            ("quell-server", "quell-charts"),
            ("quell-lab", "quell-sim"),
        ] {
            assert_eq!(check_one(from, to, "null", false), []);
        }
    }

    #[test]
    fn an_arrow_that_points_back_is_found_on_its_line() {
        let backward = [
            ("quell-core", "quell"),
            ("quell-config", "quell"),
            ("quell-sim", "quell"),
            ("quell-http1", "quell"),
            ("quell-http1", "quell-core"),
            ("quell-http1", "quell-server"),
            ("quell", "quell-http1"),
            ("quell-server", "quell-core"),
            ("xtask", "quell-sim"),
            ("quell", "xtask"),
            ("quell-sim", "quell-lab"),
            ("quell-server", "quell-lab"),
            ("quell-charts", "quell-sim"),
            ("quell-lab", "quell-server"),
        ];
        for (from, to) in backward {
            for kind in ["null", "\"build\""] {
                let found = check_one(from, to, kind, false);
                assert_eq!(found.len(), 1, "{from} to {to}");
                assert_eq!(found[0].line, 5, "{}", found[0]);
            }
        }
    }

    #[test]
    fn tests_may_use_any_of_our_crates_but_xtask_stands_alone() {
        assert_eq!(check_one("quell", "quell-sim", "\"dev\"", false), []);
        assert_eq!(check_one("xtask", "quell-core", "\"dev\"", false).len(), 1);
        assert_eq!(check_one("quell", "xtask", "\"dev\"", false).len(), 1);
    }

    #[test]
    fn the_core_uses_nothing_off_its_list() {
        for (name, kind) in [("tokio", "null"), ("cc", "\"build\""), ("tokio", "\"dev\"")] {
            assert_eq!(check_one("quell-core", name, kind, true).len(), 1, "{name} {kind}");
        }
        assert_eq!(check_one("quell-core", "thiserror", "null", false), []);
        assert_eq!(check_one("quell-core", "proptest", "\"dev\"", false), []);
    }

    #[test]
    fn the_core_has_serde_only_as_an_option() {
        assert_eq!(check_one("quell-core", "serde", "null", true), []);
        assert_eq!(check_one("quell-core", "serde", "null", false).len(), 1);
    }

    #[test]
    fn a_crate_outside_the_picture_is_found() {
        assert_eq!(check_one("quell-utils", "anyhow", "null", false).len(), 1);
    }
}

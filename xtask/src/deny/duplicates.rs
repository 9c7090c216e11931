//! Every crate comes in one version.
//!
//! What only tests use does not count, and neither does what other platforms use: it is not shipped.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Config;
use crate::metadata::Metadata;
use crate::violation::{Violation, line_where};

pub(super) fn check(
    config: &Config,
    metadata: &Metadata,
    text: &str,
    lock: &str,
) -> Vec<Violation> {
    let crates = versions(metadata);
    let mut violations = Vec::new();
    for (name, versions) in &crates {
        let counted = versions.keys().filter(|version| {
            !config.bans.skip.iter().any(|skip| skip.spec.matches(name, version))
        });
        if counted.count() > 1 {
            let line = line_where(lock, |line| line == format!("name = \"{name}\""));
            let fix = format!(
                "make those that ask agree, or skip one as {name}@VERSION in deny.toml with a reason"
            );
            violations.push(Violation::new("Cargo.lock", line, story(name, versions), fix));
        }
    }
    for skip in &config.bans.skip {
        let name = skip.spec.name.as_str();
        let needed = crates.get(name).is_some_and(|versions| {
            versions.len() > 1 && versions.keys().any(|version| skip.spec.matches(name, version))
        });
        if !needed {
            let version = skip.spec.version.as_deref().unwrap_or_default();
            let line = line_where(text, |line| line.contains(&format!("\"{name}@{version}\"")));
            let what = format!("{name} {version} is skipped and is no duplicate");
            violations.push(Violation::new("deny.toml", line, what, "remove the line"));
        }
    }
    violations
}

type Askers<'a> = BTreeSet<&'a str>;

/// The versions of each crate, each with those that ask for it.
fn versions(metadata: &Metadata) -> BTreeMap<&str, BTreeMap<&str, Askers<'_>>> {
    let mut reachable = metadata.reachable(false);
    let mut crates: BTreeMap<&str, BTreeMap<&str, Askers<'_>>> = BTreeMap::new();
    for package in &metadata.packages {
        if let Some(askers) = reachable.remove(package.id.as_str()) {
            crates
                .entry(&package.name)
                .or_default()
                .entry(&package.version)
                .or_default()
                .extend(askers);
        }
    }
    crates
}

fn story(name: &str, versions: &BTreeMap<&str, Askers<'_>>) -> String {
    let tell = |(version, askers): (&&str, &Askers<'_>)| {
        let askers: Vec<_> = askers.iter().copied().collect();
        format!("{version} for {}", askers.join(", "))
    };
    let versions: Vec<_> = versions.iter().map(tell).collect();
    format!("{name} comes in {} versions ({})", versions.len(), versions.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::MINIMAL;
    use super::*;

    /// One crate of ours that asks, with the given kinds, for crates `name@version`.
    fn whats(asked: &[(&str, &str, &str)]) -> Vec<String> {
        let package = |name: &str, version: &str| {
            format!(
                r#"{{"id": "{name}@{version}", "name": "{name}", "version": "{version}", "manifest_path": ""}}"#
            )
        };
        let edge = |(name, version, kind): &(&str, &str, &str)| {
            format!(r#"{{"pkg": "{name}@{version}", "dep_kinds": [{{"kind": {kind}}}]}}"#)
        };
        let packages: Vec<_> =
            asked.iter().map(|(name, version, _)| package(name, version)).collect();
        let json = format!(
            r#"{{"packages": [{}, {}], "workspace_members": ["ours@0.1.0"],
                "resolve": {{"nodes": [{{"id": "ours@0.1.0", "deps": [{}]}}]}}}}"#,
            package("ours", "0.1.0"),
            packages.join(","),
            asked.iter().map(edge).collect::<Vec<_>>().join(",")
        );
        let config = Config::parse(MINIMAL).unwrap();
        let violations = check(&config, &serde_json::from_str(&json).unwrap(), MINIMAL, "");
        violations.into_iter().map(|violation| violation.what).collect()
    }

    const SKIPPED: [(&str, &str, &str); 2] =
        [("twice", "1.0.0", "null"), ("twice", "2.0.0", "null")];

    #[test]
    fn a_second_version_is_caught_and_both_askers_are_named() {
        let whats =
            whats(&[&SKIPPED[..], &[("a", "1.0.0", "null"), ("a", "2.0.0", "\"build\"")]].concat());
        assert_eq!(whats, ["a comes in 2 versions (1.0.0 for ours; 2.0.0 for ours)"]);
    }

    #[test]
    fn a_second_version_for_tests_alone_is_free() {
        let whats =
            whats(&[&SKIPPED[..], &[("a", "1.0.0", "null"), ("a", "2.0.0", "\"dev\"")]].concat());
        assert_eq!(whats, [""; 0]);
    }

    #[test]
    fn a_skip_forgives_one_version_and_not_a_third() {
        assert_eq!(whats(&SKIPPED), [""; 0]);
        assert_eq!(whats(&[&SKIPPED[..], &[("twice", "3.0.0", "null")]].concat()).len(), 1);
    }

    #[test]
    fn a_skip_that_is_no_longer_needed_is_caught() {
        assert_eq!(whats(&SKIPPED[1..]), ["twice 1.0.0 is skipped and is no duplicate"]);
    }
}

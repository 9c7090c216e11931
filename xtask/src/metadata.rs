//! The part of `cargo metadata` that the checks read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    #[serde(default)]
    pub(crate) workspace_members: Vec<String>,
    /// Absent with `--no-deps`.
    resolve: Option<Resolve>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: String,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency as a manifest states it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<Kind>,
    #[serde(default)]
    pub(crate) optional: bool,
}

/// cargo says `null` for a normal dependency, hence the `Option` around it everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Build,
    Dev,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<Kind>,
}

impl Metadata {
    /// Packages that end up in what is built, each with the names of those that ask for it. Development
    /// dependencies of ours count only `with_dev`; those of others are never even resolved.
    pub(crate) fn reachable(&self, with_dev: bool) -> BTreeMap<&str, BTreeSet<&str>> {
        let nodes: BTreeMap<_, _> = self
            .resolve
            .iter()
            .flat_map(|resolve| &resolve.nodes)
            .map(|node| (node.id.as_str(), node))
            .collect();
        let names: BTreeMap<_, _> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package.name.as_str()))
            .collect();
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut open: Vec<&str> = self.workspace_members.iter().map(String::as_str).collect();
        for member in &open {
            found.entry(member).or_default();
        }
        while let Some(id) = open.pop() {
            let Some(node) = nodes.get(id) else { continue };
            for edge in &node.deps {
                if !with_dev && edge.dep_kinds.iter().all(|kind| kind.kind == Some(Kind::Dev)) {
                    continue;
                }
                if !found.contains_key(edge.pkg.as_str()) {
                    open.push(&edge.pkg);
                }
                found.entry(&edge.pkg).or_default().extend(names.get(id));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Metadata {
        let package = |id: &str| {
            format!(
                r#"{{"id": "{id}", "name": "{id}", "version": "1.0.0", "manifest_path": "{id}/Cargo.toml"}}"#
            )
        };
        let packages = ["ours", "used", "builds", "tests"].map(package).join(",");
        let edge = |to: &str, kind: &str| {
            format!(r#"{{"pkg": "{to}", "dep_kinds": [{{"kind": {kind}}}]}}"#)
        };
        let ours = [edge("used", "null"), edge("tests", r#""dev""#)].join(",");
        let nodes =
            [("ours", ours), ("used", edge("builds", r#""build""#)), ("builds", String::new())]
                .map(|(id, deps)| format!(r#"{{"id": "{id}", "deps": [{deps}]}}"#))
                .join(",");
        serde_json::from_str(&format!(
            r#"{{"packages": [{packages}], "workspace_members": ["ours"], "resolve": {{"nodes": [{nodes}]}}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn normal_and_build_dependencies_are_followed_and_development_ones_are_not() {
        let graph = graph();
        let reachable = graph.reachable(false);
        assert_eq!(reachable.keys().copied().collect::<Vec<_>>(), ["builds", "ours", "used"]);
        assert!(reachable["builds"].contains("used"), "the parent is named");
    }

    #[test]
    fn development_dependencies_count_when_asked_for() {
        assert!(graph().reachable(true).contains_key("tests"));
    }
}

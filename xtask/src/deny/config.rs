//! The part of cargo-deny's `deny.toml` that is honoured here.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use spdx::{Licensee, ParseMode};

/// Unknown fields are refused everywhere: they are rules that nobody would check.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Config {
    pub(super) graph: Graph,
    pub(super) licenses: Licenses,
    pub(super) bans: Bans,
    /// Needs a database from the network, so it is left to cargo-deny itself.
    #[serde(default, rename = "advisories")]
    _advisories: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Graph {
    /// Dependencies for other platforms are not looked at.
    pub(super) targets: Vec<String>,
    all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    pub(super) exceptions: Vec<Exception>,
    /// Whether what only our tests use is looked at too.
    #[serde(default)]
    pub(super) include_dev: bool,
    /// Only tells cargo-deny what to warn about.
    #[serde(default, rename = "unused-allowed-license")]
    _unused_allowed_license: Option<IgnoredAny>,
    #[serde(skip)]
    pub(super) allowed: Vec<Licensee>,
}

/// A licence that is allowed for one crate alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Exception {
    #[serde(rename = "crate")]
    pub(super) spec: Spec,
    allow: Vec<String>,
    #[serde(skip)]
    pub(super) allowed: Vec<Licensee>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bans {
    multiple_versions: String,
    #[serde(default)]
    pub(super) skip: Vec<Skip>,
}

/// A version that does not count as a duplicate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Skip {
    #[serde(rename = "crate")]
    pub(super) spec: Spec,
    reason: String,
}

/// `name`, or `name@1.2.3` for one version alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) version: Option<String>,
}

impl From<String> for Spec {
    fn from(text: String) -> Self {
        match text.split_once('@') {
            Some((name, version)) => Self { name: name.into(), version: Some(version.into()) },
            None => Self { name: text, version: None },
        }
    }
}

impl Spec {
    pub(super) fn matches(&self, name: &str, version: &str) -> bool {
        self.name == name && self.version.as_deref().is_none_or(|wanted| wanted == version)
    }
}

impl Config {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut config: Self = toml::from_str(text)
            .context("cannot be read: teach `cargo xtask deny` the setting, or leave it out")?;
        ensure!(
            config.graph.all_features,
            "graph.all-features is false: write true, as CI builds all features"
        );
        ensure!(
            config.bans.multiple_versions == "deny",
            "bans.multiple-versions is {:?}: write \"deny\", and list what must stay under skip",
            config.bans.multiple_versions
        );
        for skip in &config.bans.skip {
            let name = &skip.spec.name;
            ensure!(
                skip.spec.version.is_some(),
                "bans.skip has {name} in all versions: write {name}@1.2.3"
            );
            ensure!(
                !skip.reason.trim().is_empty(),
                "bans.skip has {name} without a reason: say who needs it"
            );
        }
        config.licenses.allowed = licensees(&config.licenses.allow)?;
        for exception in &mut config.licenses.exceptions {
            exception.allowed = licensees(&exception.allow)?;
        }
        Ok(config)
    }
}

fn licensees(names: &[String]) -> Result<Vec<Licensee>> {
    let parse = |name: &String| {
        Licensee::parse_mode(name, ParseMode::STRICT)
            .with_context(|| format!("licenses allow {name:?}: write an SPDX identifier"))
    };
    names.iter().map(parse).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::deny) const MINIMAL: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
all-features = true

[licenses]
allow = ["MIT", "Apache-2.0 WITH LLVM-exception"]
exceptions = [{ crate = "weighty", allow = ["OpenSSL"] }]

[bans]
multiple-versions = "deny"
skip = [{ crate = "twice@1.0.0", reason = "old needs it" }]
"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(MINIMAL.contains(from));
        format!("{:#}", Config::parse(&MINIMAL.replace(from, to)).unwrap_err())
    }

    #[test]
    fn a_spec_with_a_version_matches_that_one_alone() {
        let config = Config::parse(MINIMAL).unwrap();
        let spec = &config.bans.skip[0].spec;
        assert!(
            spec.matches("twice", "1.0.0")
                && !spec.matches("twice", "2.0.0")
                && !spec.matches("once", "1.0.0")
        );
        assert!(config.licenses.exceptions[0].spec.matches("weighty", "7.0.0"));
    }

    #[test]
    fn a_setting_that_would_not_be_checked_is_refused() {
        assert!(refused("[bans]", "[bans]\nwildcards = \"deny\"").contains("wildcards"));
        assert!(refused("\"deny\"", "\"warn\"").contains("multiple-versions"));
        assert!(refused("all-features = true", "all-features = false").contains("all-features"));
    }

    #[test]
    fn a_skip_names_its_version_and_its_reason() {
        assert!(refused("twice@1.0.0", "twice").contains("all versions"));
        assert!(refused("old needs it", " ").contains("reason"));
    }

    #[test]
    fn a_licence_that_spdx_does_not_know_is_refused() {
        assert!(refused("\"MIT\"", "\"MITT\"").contains("MITT"));
    }
}

//! Every crate we build with has terms that are on the list.

use spdx::{Expression, ParseMode};

use super::config::Config;
use crate::metadata::{Metadata, Package};
use crate::violation::{Violation, line_where};

pub(super) fn check(
    config: &Config,
    metadata: &Metadata,
    text: &str,
    lock: &str,
) -> Vec<Violation> {
    let reachable = metadata.reachable(config.licenses.include_dev);
    let packages: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| reachable.contains_key(package.id.as_str()))
        .collect();
    let mut violations = Vec::new();
    for package in &packages {
        if let Some((what, fix)) = fault(config, package) {
            let line = line_where(lock, |line| line == format!("name = \"{}\"", package.name));
            let what = format!("{} {}: {what}", package.name, package.version);
            violations.push(Violation::new("Cargo.lock", line, what, fix));
        }
    }
    for exception in &config.licenses.exceptions {
        if !packages.iter().any(|package| exception.spec.matches(&package.name, &package.version)) {
            let name = &exception.spec.name;
            let line = line_where(text, |line| line.contains(&format!("crate = \"{name}")));
            let what = format!("the exception for {name} matches no crate");
            violations.push(Violation::new("deny.toml", line, what, "remove it"));
        }
    }
    violations
}

fn fault(config: &Config, package: &Package) -> Option<(String, String)> {
    let Some(terms) = &package.license else {
        return Some((
            "it states no licence".into(),
            "do without it, or read its terms and record them as a decision".into(),
        ));
    };
    // Old manifests write `MIT/Apache-2.0`, which means OR.
    let expression = match Expression::parse_mode(terms, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => {
            return Some((
                format!("its licence {terms:?} is not SPDX ({})", error.reason),
                "do without it".into(),
            ));
        }
    };
    let exceptions = config
        .licenses
        .exceptions
        .iter()
        .filter(|exception| exception.spec.matches(&package.name, &package.version));
    let allowed: Vec<_> = exceptions
        .flat_map(|exception| &exception.allowed)
        .chain(&config.licenses.allowed)
        .collect();
    if expression.evaluate(|wanted| allowed.iter().any(|licence| licence.satisfies(wanted))) {
        return None;
    }
    let name = &package.name;
    let fix = format!(
        "do without it, or add {{ crate = \"{name}\", allow = [...] }} to licenses.exceptions in deny.toml"
    );
    Some((format!("its licence {terms:?} is not on the list"), fix))
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::MINIMAL;
    use super::*;

    /// Checks one crate with these terms, `null` for none.
    fn whats(name: &str, terms: &str) -> Vec<String> {
        let package = |name: &str, terms: &str| {
            format!(
                r#"{{"id": "{name}", "name": "{name}", "version": "1.0.0", "license": {terms}, "manifest_path": ""}}"#
            )
        };
        let packages = [package(name, terms), package("elsewhere", r#""GPL-3.0-only""#)].join(",");
        let json = format!(
            r#"{{"packages": [{packages}], "workspace_members": ["{name}"], "resolve": {{"nodes": []}}}}"#
        );
        let config = Config::parse(MINIMAL).unwrap();
        let violations = check(&config, &serde_json::from_str(&json).unwrap(), MINIMAL, "");
        violations
            .into_iter()
            .map(|violation| violation.what)
            .filter(|what| !what.contains("exception for"))
            .collect()
    }

    #[test]
    fn terms_on_the_list_pass_in_every_spelling() {
        for terms in
            ["MIT", "GPL-3.0-only OR MIT", "MIT/GPL-2.0", "MIT AND Apache-2.0 WITH LLVM-exception"]
        {
            assert_eq!(whats("a", &format!("\"{terms}\"")), [""; 0], "{terms}");
        }
    }

    #[test]
    fn terms_off_the_list_are_caught() {
        for terms in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "OpenSSL"] {
            let whats = whats("a", &format!("\"{terms}\""));
            assert!(whats.len() == 1 && whats[0].contains("not on the list"), "{terms}: {whats:?}");
        }
    }

    #[test]
    fn no_terms_and_unknown_terms_are_caught() {
        assert!(whats("a", "null")[0].contains("states no licence"));
        assert!(whats("a", r#""see the file""#)[0].contains("not SPDX"));
    }

    #[test]
    fn an_exception_holds_for_its_crate_alone() {
        assert_eq!(whats("weighty", r#""MIT AND OpenSSL""#), [""; 0]);
        assert_eq!(whats("other", r#""MIT AND OpenSSL""#).len(), 1);
    }

    #[test]
    fn an_exception_that_nobody_needs_is_caught_on_its_line() {
        let config = Config::parse(MINIMAL).unwrap();
        let nothing = serde_json::from_str(r#"{"packages": []}"#).unwrap();
        let violations = check(&config, &nothing, MINIMAL, "");
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, 8, "{}", violations[0]);
    }
}

//! Links between the documents lead somewhere.
//!
//! **Why.** A file that moved takes its readers with it only if every link follows. Addresses on the web are left
//! alone: whether they answer today is not this change's fault.
//!
//! **How.** Inline links, images and reference definitions, outside code. A target counts when git knows it, as
//! a file or as a folder: what is only on this disk is missing for everyone else.

use std::collections::BTreeSet;

use crate::violation::Violation;
use crate::workspace::File;

pub(super) fn check(file: &File, paths: &BTreeSet<String>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in file.text.lines().enumerate() {
        let marker =
            ["```", "~~~"].into_iter().find(|marker| line.trim_start().starts_with(marker));
        match (fence, marker) {
            (None, Some(_)) => fence = marker,
            (Some(open), Some(close)) if open == close => fence = None,
            (None, None) => {
                let broken =
                    targets(line).into_iter().filter(|target| !resolves(&file.path, target, paths));
                violations.extend(broken.map(|target| {
                    let what = format!("the link to {target} leads nowhere");
                    Violation::new(
                        &file.path,
                        index + 1,
                        what,
                        "write the path as seen from this file, or add the file",
                    )
                }));
            }
            _ => {}
        }
    }
    violations
}

/// Targets of links in a line: `[text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut targets = Vec::new();
    if let Some((name, target)) = line.trim_start().split_once("]: ")
        && name.starts_with('[')
        && !name.starts_with("[^")
    {
        targets.push(target.trim());
    }
    targets.extend(line.split("](").skip(1).filter_map(|rest| match rest.strip_prefix('<') {
        Some(rest) => rest.split('>').next(),
        None => rest.split(')').next(),
    }));
    let path = |target: &str| {
        target
            .split([' ', '#', '?'])
            .next()
            .unwrap_or_default()
            .trim_matches(['<', '>'])
            .to_string()
    };
    targets
        .into_iter()
        .filter(|target| !is_address(target))
        .map(path)
        .filter(|path| !path.is_empty())
        .collect()
}

/// The line with what is between backticks taken out.
fn without_code(line: &str) -> String {
    let pairs = line.matches('`').count() / 2 * 2;
    let parts = line.splitn(pairs + 1, '`').enumerate();
    parts.filter(|(index, _)| index % 2 == 0).map(|(_, part)| part).collect()
}

/// Whether the target names a scheme, such as `https:` or `mailto:`.
fn is_address(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

fn resolves(from: &str, target: &str, paths: &BTreeSet<String>) -> bool {
    let (mut parts, target): (Vec<&str>, _) = match target.strip_prefix('/') {
        Some(target) => (Vec::new(), target), // from the root of the repository
        None => (from.split('/').collect(), target),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false; // outside of the repository
                }
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    path.is_empty()
        || paths.contains(&path)
        || paths.range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let paths =
            ["README.md", "docs/a.md", "docs/b/c.md", "docs/pic.png"].map(String::from).into();
        check(&File::new("docs/a.md", text), &paths)
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn links_to_files_folders_and_the_root_resolve() {
        for target in [
            "b/c.md",
            "./b/c.md",
            "../README.md",
            "b",
            "b/",
            "..",
            "/README.md",
            "b/c.md#part",
            "<b/c.md>",
        ] {
            assert_eq!(
                lines(&format!("see [it]({target}), ![it](pic.png)")),
                [0_usize; 0],
                "{target}"
            );
        }
    }

    #[test]
    fn each_kind_of_dead_link_is_caught_on_its_line() {
        let dead = [
            "[a](gone.md)",
            "![a](gone.png)",
            "[a](gone.md \"title\")",
            "[a](gone.md#part)",
            "[name]: gone.md",
            "[ok](b/c.md) and [a](gone.md)",
            "[outside](../../README.md)",
            "[half](b/c)",
            "`code` [a](gone.md)",
        ];
        for text in dead {
            assert_eq!(lines(&format!("\n{text}\n")), [2], "{text}");
        }
    }

    #[test]
    fn addresses_anchors_drafts_footnotes_and_code_are_left_alone() {
        let text = "[a](https://example.com/x.md) [b](mailto:a@example.com) [c](#here) [draft]()\n\
                    [^1]: gone.md\n`[a](gone.md)`\n```\n[a](gone.md)\n~~~\n```\n[name]: https://example.com\n";
        assert_eq!(lines(text), [0_usize; 0]);
    }

    #[test]
    fn a_link_after_a_block_of_code_is_looked_at_again() {
        assert_eq!(lines("```\n```\n[a](gone.md)\n"), [3]);
    }
}

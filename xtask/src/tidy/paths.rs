//! Nothing points at one particular machine.
//!
//! **Why.** A path that exists on its author's machine alone works until someone else tries, and then in a way
//! that says nothing about the cause. Paths here are in parts, or this file would be found.

use crate::violation::Violation;
use crate::workspace::File;

/// Folders of particular machines; only as the start of a path.
pub(super) const ABSOLUTE: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tm", "p/h")];

/// What lies beside the checkout.
const BESIDE: &str = concat!("../sha", "red");

/// The one thing beside the checkout that may be named, and the one file that may: it checks that it is there.
const CORPORA: (&str, &str) = (".ci/run", "/corpora");

pub(super) fn check(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let named = ABSOLUTE.iter().copied().filter(|path| starts_a_path(line, path));
        for path in named.chain(is_beside(file, line).then_some(BESIDE)) {
            let what = format!("{path} is a path of one machine");
            let fix =
                "use a path relative to the root, a temporary folder or an environment variable";
            violations.push(Violation::new(&file.path, index + 1, what, fix));
        }
    }
    violations
}

/// Whether `path` is named from the root of the disk, and not as a part of `docs/…` or of an address.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(offset, _)| {
        let before = line[..offset].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._-~}".contains(before))
    })
}

fn is_beside(file: &File, line: &str) -> bool {
    let allowed = |rest: &str| file.path == CORPORA.0 && rest.starts_with(CORPORA.1);
    line.match_indices(BESIDE).any(|(offset, _)| !allowed(&line[offset + BESIDE.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&File::new(path, text)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn each_machine_path_is_caught_on_its_line() {
        for path in ABSOLUTE.iter().chain([&BESIDE]) {
            for text in [format!("\ncd {path}x"), format!("\n\"{path}x\""), format!("\n{path}x")] {
                assert_eq!(lines("docs/a.md", &text), [2], "{text}");
            }
        }
    }

    #[test]
    fn the_same_letters_inside_a_longer_path_are_free() {
        let text = format!("docs{0}a\nhttps://example.com{0}a\n$HOME}}{0}a", ABSOLUTE[0]);
        assert_eq!(lines("docs/a.md", &text), [0_usize; 0]);
    }

    #[test]
    fn only_the_ci_entry_may_name_the_corpora_beside_the_checkout() {
        let text = format!("ls {BESIDE}{}", CORPORA.1);
        assert_eq!(lines(CORPORA.0, &text), [0_usize; 0]);
        assert_eq!(lines("xtask/run", &text), [1]);
        assert_eq!(lines(CORPORA.0, &format!("ls {BESIDE}/other")), [1]);
    }
}

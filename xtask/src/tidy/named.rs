//! Tests that the documents name exist.
//!
//! **Why.** The list of pitfalls and the table of invariants say which test holds what. A test that was renamed or removed leaves
//! a promise that nothing keeps, and nobody notices.
//!
//! **How.** A name between backticks with four underscores or more is a test: nothing else here is named like that.

use std::collections::BTreeSet;

use crate::violation::Violation;
use crate::workspace::File;

/// Names of all functions in these files.
pub(super) fn functions(files: &[File]) -> BTreeSet<&str> {
    let rust = files.iter().filter(|file| file.is_rust());
    rust.flat_map(|file| file.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
        .collect()
}

pub(super) fn check(file: &File, functions: &BTreeSet<&str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2) {
            let word =
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if word && name.matches('_').count() >= 4 && !functions.contains(name) {
                let what = format!("there is no test {name}");
                violations.push(Violation::new(
                    &file.path,
                    index + 1,
                    what,
                    "name the one that holds this now, or write it",
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_test_must_exist_and_other_code_is_left_alone() {
        let files = [File::new("a.rs", "#[test]\nfn a_test_that_is_really_there() {}")];
        let functions = functions(&files);
        let doc = |text| File::new("docs/pitfalls.md", text);
        assert!(
            check(&doc("`a_test_that_is_really_there`, `quell_retry_budget_tokens`"), &functions)
                .is_empty()
        );
        assert_eq!(check(&doc("`a_test_that_is_long_gone`"), &functions).len(), 1);
    }
}

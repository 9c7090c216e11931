//! A broken rule, told so that it can be mended without asking anyone.

use std::fmt;

use anyhow::{Result, bail};

/// Printed as `path:line: what is wrong: what to do`, which editors turn into a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl Violation {
    pub(crate) fn new(
        path: &str,
        line: usize,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.what, self.fix)
    }
}

/// Prints all of them, in the order of the tree, and fails if there is one.
pub(crate) fn report(mut violations: Vec<Violation>) -> Result<()> {
    violations.sort();
    violations.dedup();
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => bail!("1 violation"),
        count => bail!("{count} violations"),
    }
}

/// The line, from 1, that holds the byte at `offset`.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The first line, from 1, for which `wanted` holds; 1 when none does, so that a message never lacks a place.
pub(crate) fn line_where(text: &str, wanted: impl Fn(&str) -> bool) -> usize {
    text.lines().position(wanted).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_as_place_then_fault_then_fix() {
        let violation = Violation::new("a/b.rs", 7, "too long", "split it");
        assert_eq!(violation.to_string(), "a/b.rs:7: too long: split it");
    }

    #[test]
    fn one_violation_fails_and_none_passes() {
        assert!(report(Vec::new()).is_ok());
        assert!(report(vec![Violation::new("a", 1, "b", "c")]).is_err());
    }

    #[test]
    fn lines_count_from_one_and_a_missing_one_points_at_the_top() {
        assert_eq!(line_at("a\nb", 0), 1);
        assert_eq!(line_at("a\nb", 2), 2);
        assert_eq!(line_where("a\nb", |line| line == "b"), 2);
        assert_eq!(line_where("a\nb", |line| line == "c"), 1);
    }
}

//! Files stay small enough to be read in one sitting.
//!
//! **Why.** A file past a few hundred lines holds more than one idea, and the second one is found by nobody.
//!
//! **How.** Lines with code on them count; comments and blank lines are free, so that nobody saves on the why. Tests
//! are free too: the `mod tests` that ends a file, and files that are tests as a whole.

use super::source::Source;
use crate::violation::Violation;

/// Lines of code that a file may have; 60 to 250 is what we aim at.
pub(super) const MAX: usize = 400;

pub(super) fn check(source: &Source<'_>) -> Vec<Violation> {
    if source.file.is_test() {
        return Vec::new();
    }
    let end = tests_start(&source.code).unwrap_or(usize::MAX);
    let mut code = source
        .uncommented
        .lines()
        .enumerate()
        .take(end)
        .filter(|(_, line)| !line.trim().is_empty());
    let Some((first_too_many, _)) = code.by_ref().nth(MAX) else { return Vec::new() };
    let count = MAX + 1 + code.count();
    let what = format!("{count} lines of code, and {MAX} is the most");
    let fix = "split the file where a second idea starts, and name the new one after its main type";
    vec![Violation::new(&source.file.path, first_too_many + 1, what, fix)]
}

/// The index of the line at which the tests that end the file begin. Relies on rustfmt, which CI enforces first:
/// what belongs to the module is indented, and its closing brace is the next thing that is not.
fn tests_start(code: &str) -> Option<usize> {
    let lines: Vec<_> = code.lines().collect();
    let module = lines.iter().rposition(|line| line.starts_with("mod tests {"))?;
    let outside = |line: &&&str| line.starts_with(|first: char| !first.is_whitespace());
    let mut after = lines[module + 1..].iter().filter(outside);
    if after.next() != Some(&"}") || after.next().is_some() {
        return None;
    }
    let attributes = lines[..module].iter().rev().take_while(|line| line.starts_with("#[")).count();
    let start = module - attributes;
    lines[start..module].contains(&"#[cfg(test)]").then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    fn found(path: &str, text: &str) -> Vec<Violation> {
        check(&Source::new(&File::new(path, text)))
    }

    fn code(lines: usize) -> String {
        "static A: u8 = 0;\n".repeat(lines)
    }

    fn tests(lines: usize) -> String {
        format!("\n#[cfg(test)]\nmod tests {{\n{}}}\n", "    static B: u8 = 0;\n".repeat(lines))
    }

    #[test]
    fn the_last_allowed_line_passes_and_the_next_is_pointed_at() {
        assert_eq!(found("a.rs", &code(MAX)), []);
        let violations = found("a.rs", &code(MAX + 2));
        assert_eq!(violations[0].line, MAX + 1);
        assert!(violations[0].what.starts_with(&format!("{} lines", MAX + 2)), "{}", violations[0]);
    }

    #[test]
    fn comments_and_blank_lines_are_free() {
        assert_eq!(
            found("a.rs", &(code(MAX) + "// why\n\n/* why\nwhy */\n" + &"/// why\n".repeat(MAX))),
            []
        );
    }

    #[test]
    fn tests_that_end_the_file_are_free_and_others_are_not() {
        assert_eq!(found("a.rs", &(code(MAX) + &tests(MAX))), []);
        assert_eq!(found("a.rs", &(code(MAX - 9) + &tests(20) + &code(1))).len(), 1);
        let without_cfg = tests(MAX).replace("#[cfg(test)]", "");
        assert_eq!(found("a.rs", &(code(MAX) + &without_cfg)).len(), 1);
    }

    #[test]
    fn an_attribute_between_cfg_and_module_changes_nothing() {
        let tests = tests(MAX).replace("mod tests", "#[allow(clippy::float_cmp)]\nmod tests");
        assert_eq!(found("a.rs", &(code(MAX) + &tests)), []);
    }

    #[test]
    fn files_that_are_tests_are_free() {
        for path in ["crates/quell/tests/a.rs", "crates/quell-core/src/budget/tests.rs"] {
            assert_eq!(found(path, &code(MAX + 1)), []);
        }
        assert_eq!(found("crates/quell/src/tests_of_time.rs", &code(MAX + 1)).len(), 1);
    }
}

//! Nothing unfinished is committed.
//!
//! **Why.** A test that is switched off protects nothing and looks as if it did, and a note to oneself in code is
//! read by nobody who can act on it. Finish it, or write down elsewhere that it is missing.

use super::source::Source;
use crate::violation::Violation;

/// In two parts, or this line would be found.
const NOTE: &str = concat!("FIX", "ME");

const UNFINISHED: &str = "finish it, or leave the item out until it exists";
const IGNORED: &str = "mend the test or remove it; a slow one takes its count from QUELL_FULL";

const IN_CODE: &[(&str, &str)] = &[
    ("todo!", UNFINISHED),
    ("unimplemented!", UNFINISHED),
    ("dbg!", "remove it; say it in an assertion or an event if it is worth saying"),
    ("#[ignore", IGNORED),
];

pub(super) fn check(source: &Source<'_>) -> Vec<Violation> {
    let path = source.file.path.as_str();
    let mut violations = Vec::new();
    let mut tell =
        |line, what: String, fix: &str| violations.push(Violation::new(path, line, what, fix));
    for (banned, fix) in IN_CODE {
        for line in source.lines_with(banned) {
            tell(line, format!("`{banned}` is left over"), fix);
        }
    }
    for line in source.lines_with("cfg_attr") {
        let text = source.code.lines().nth(line - 1).unwrap_or_default();
        if text.contains(", ignore") {
            tell(line, "a test is switched off under a condition".into(), IGNORED);
        }
    }
    for (index, text) in source.file.text.lines().enumerate() {
        if text.contains(NOTE) {
            tell(index + 1, format!("{NOTE} is left over"), UNFINISHED);
        }
        if is_ignored_example(text) {
            tell(
                index + 1,
                "the example is not compiled".into(),
                "mend it, or use `text` if it is no code",
            );
        }
    }
    violations
}

/// The opening fence of an example in a doc comment that rustdoc is told to skip.
fn is_ignored_example(line: &str) -> bool {
    let comment = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
    let fence = comment.and_then(|text| text.trim_start().strip_prefix("```"));
    fence.is_some_and(|flags| flags.split([',', ' ']).any(|flag| flag.starts_with("ignore")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::new(&File::new("a.rs", text)))
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn each_leftover_is_caught_on_its_line() {
        let note = format!("// {NOTE} later");
        let planted = [
            "fn a() { todo!() }",
            "fn a() { unimplemented!(\"b\") }",
            "fn a() { dbg!(1); }",
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(not(unix), ignore)]",
            "/// ```ignore",
            "//! ```rust,ignore",
            note.as_str(),
        ];
        for text in planted {
            assert_eq!(lines(&format!("\n{text}\n")), [2], "{text}");
        }
    }

    #[test]
    fn quoting_a_leftover_is_not_leaving_one() {
        let text = "// use todo!() nowhere\nconst A: &str = \"dbg!(1) #[ignore]\";\n/// ```\n/// let ignore = 1;\n";
        assert_eq!(lines(text), [0_usize; 0]);
    }
}

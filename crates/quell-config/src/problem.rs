//! Problem: what is wrong in a file, and where, with the line shown.
//!
//! Texts of files hold what must not be shown, so a problem keeps only the line it shows, with secrets blanked out.

use std::{error::Error, fmt, ops::Range};

/// Most problems that are kept: whoever has more will read no more.
const MOST: usize = 20;
/// Most characters of a line that are shown.
const WIDTH: usize = 120;

/// Where a setting was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// Its name as given.
        name: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// In a variable of the environment or a flag, by its name.
    Setting(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Setting(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong. The message names the setting, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, and what to write.
    pub message: String,
    /// Where.
    pub place: Place,
    shown: Option<Shown>,
}

/// A line and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    line: String,
    before: usize,
    width: usize,
}

/// How the fix begins, at the end of a message.
const FIXES: [&str; 4] = [": write ", "; write ", ": did you mean ", ": leave it out"];

impl Problem {
    /// What is wrong, and what to write if the message says so.
    fn parts(&self) -> (&str, Option<&str>) {
        let ends = FIXES.iter().filter_map(|fix| self.message.rfind(fix)).max();
        match ends.and_then(|end| Some((self.message.get(..end)?, self.message.get(end + 2..)?))) {
            Some((what, fix)) => (what, Some(fix)),
            None => (&self.message, None),
        }
    }
}

/// As compilers tell it, but for the `error: ` in front, which whoever shows an error writes anyway.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, shown, .. } = self;
        let (what, help) = self.parts();
        write!(f, "{what}\n  --> {place}")?;
        let mut indent = 1;
        if let (Some(Shown { line, before, width }), Place::File { line: number, .. }) =
            (shown, place)
        {
            let margin = number.to_string().len();
            write!(f, "\n {:margin$} |\n {number} | {line}\n {:margin$} | ", "", "")?;
            write!(f, "{:before$}{}", "", "^".repeat(*width))?;
            if help.is_some() {
                write!(f, "\n {:margin$} |", "")?;
            }
            indent = margin;
        }
        match help {
            Some(help) => write!(f, "\n {:indent$} = help: {help}", ""),
            None => Ok(()),
        }
    }
}

/// All that is wrong with a file, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    problems: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// One after the other; there is at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        let more = problems.len().saturating_sub(MOST);
        problems.truncate(MOST);
        Self { problems, more }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let gap = if i == 0 { "" } else { "\n\nerror: " };
            write!(f, "{gap}{problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl Error for Problems {}

/// A file's text, for as long as it is read.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

impl Source {
    /// A problem with this part of the text; what is in `masks` is not shown.
    pub(super) fn problem(
        &self,
        message: String,
        span: &Range<usize>,
        masks: &[Range<usize>],
    ) -> Problem {
        let at = self.floor(span.start);
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        let line = self.text[..start].matches('\n').count() + 1;
        let before = self.text[start..at].chars().count();
        let place = Place::File { name: self.name.clone(), line, column: before + 1 };
        let meant = self.text[at..self.floor(span.end).clamp(at, end)].trim_end().chars().count();
        let hidden = |i: usize| masks.iter().any(|mask| mask.contains(&i));
        let chars = self.text[start..end].trim_end().char_indices();
        let line: Vec<char> = chars
            .map(|(i, c)| match c {
                _ if hidden(start + i) => '*',
                c if c.is_control() => ' ',
                c => c,
            })
            .collect();
        let skipped = before.saturating_sub(WIDTH / 2);
        let shown = Shown {
            line: line.iter().skip(skipped).take(WIDTH).collect(),
            before: before - skipped,
            width: meant.clamp(1, WIDTH / 2),
        };
        Problem { message, place, shown: Some(shown) }
    }

    /// A problem with what was written elsewhere.
    pub(super) fn outside(message: String, name: &str) -> Problem {
        Problem { message, place: Place::Setting(name.to_owned()), shown: None }
    }

    fn floor(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, span: Range<usize>, masks: &[Range<usize>]) -> String {
        let source = Source { name: "f.toml".into(), text: text.into() };
        source.problem("wrong".into(), &span, masks).to_string()
    }

    #[test]
    fn a_problem_shows_its_line_and_points_at_it() {
        let expected = "wrong\n  --> f.toml:2:3\n   |\n 2 | a bc d\n   |   ^^";
        assert_eq!(shown("x\na bc d\ny", 4..6, &[]), expected);
        let end = "wrong\n  --> f.toml:1:3\n   |\n 1 | ab\n   |   ^";
        assert_eq!(shown("ab", 2..2, &[]), end);
        assert_eq!(shown("ab", 90..99, &[]), end);
        assert_eq!(shown("", 0..0, &[]), "wrong\n  --> f.toml:1:1\n   |\n 1 | \n   | ^");
    }

    #[test]
    fn what_to_write_stands_below_what_is_wrong() {
        let source = Source { name: "f.toml".into(), text: "load = 3".into() };
        let told = |message: &str| source.problem(message.into(), &(7..8), &[]).to_string();
        let shown = "\n  --> f.toml:1:8\n   |\n 1 | load = 3\n   |        ^";
        for (message, what, help) in [
            ("load is 3: write \"3/s\"", "load is 3", "write \"3/s\""),
            ("laod is odd: did you mean `load`?", "laod is odd", "did you mean `load`?"),
            ("it has \": write x\": leave it out", "it has \": write x\"", "leave it out"),
        ] {
            assert_eq!(told(message), format!("{what}{shown}\n   |\n   = help: {help}"));
        }
        let flag = Source::outside("max is 0: write 1".into(), "--set").to_string();
        assert_eq!(flag, "max is 0\n  --> --set\n   = help: write 1");
    }

    #[test]
    fn what_must_not_be_shown_is_not_and_neither_are_control_characters() {
        let text = shown("key = 'hunter2' \x1b[31mx", 0..3, &[6..10, 10..15]);
        assert!(!text.contains("hunter2") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("key = *********"), "{text}");
    }

    #[test]
    fn a_line_of_a_megabyte_is_shown_in_part_and_with_its_place() {
        let line = format!("{}é wrong {}", "a".repeat(500_000), "b".repeat(500_000));
        let text = shown(&line, 500_003..500_008, &[]);
        assert!(text.len() < 500 && text.contains("f.toml:1:500003"), "{text}");
        let (caret, word) = (text.lines().last().unwrap(), text.lines().nth(3).unwrap());
        let find = |line: &str, what| line[..line.find(what).unwrap()].chars().count();
        let columns = |caret: &str| find(caret, "^") - find(caret, "|");
        assert_eq!(columns(caret), find(word, "wrong") - find(word, "|"));
    }

    #[test]
    fn nobody_reads_a_thousand_problems() {
        let problems = (0..1_000).map(|i| Source::outside(format!("p{i}"), "--set")).collect();
        let text = Problems::new(problems).to_string();
        assert!(text.ends_with("and 980 more") && text.contains("p19\n  --> --set"), "{text}");
    }
}

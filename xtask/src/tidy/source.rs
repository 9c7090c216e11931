//! Rust text with its comments and literals made blank.
//!
//! **Why.** A rule about code must not stumble over prose: "no `tokio` here" in a comment keeps the rule, it does
//! not break it. And the checkers themselves quote, in strings, all that they forbid.
//!
//! **How.** One pass over the bytes that knows just enough of the language: comments (nested ones too), strings
//! (escaped, raw, byte and C), characters, and that `'a` alone is a lifetime. What is blanked becomes spaces, byte
//! for byte, so an offset in a view is an offset in the file.

use crate::violation::line_at;
use crate::workspace::File;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a File,
    /// Without comments.
    pub(super) uncommented: String,
    /// Without comments and without what is in quotes.
    pub(super) code: String,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: &'a File) -> Self {
        let spans = spans(file.text.as_bytes());
        let comments = spans.iter().filter(|span| span.comment);
        let uncommented = blank(&file.text, comments.map(|span| (span.start, span.end)));
        let code = blank(&file.text, spans.iter().map(|span| (span.start, span.end)));
        Self { file, uncommented, code }
    }

    /// Lines, from 1, where `word` stands in the code and is not part of a longer name.
    pub(super) fn lines_with(&self, word: &str) -> impl Iterator<Item = usize> {
        words(&self.code, word).map(|offset| line_at(&self.code, offset))
    }
}

/// Offsets of `word` in `text` where it is not part of a longer name: `log::` is not in `catalog::`.
pub(super) fn words(text: &str, word: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let open_end = word.bytes().last().is_some_and(is_name);
    text.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
        let before = offset.checked_sub(1).is_some_and(|index| is_name(bytes[index]));
        let after = open_end && bytes.get(offset + word.len()).copied().is_some_and(is_name);
        !before && !after
    })
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

struct Span {
    start: usize,
    end: usize,
    comment: bool,
}

fn blank(text: &str, spans: impl Iterator<Item = (usize, usize)>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (start, end) in spans {
        for byte in bytes[start..end].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
    }
    String::from_utf8_lossy(&bytes).into_owned() // spans begin and end at ASCII, so no character is cut
}

fn spans(text: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let name_before = at > 0 && is_name(text[at - 1]);
        let (length, comment) = match rest[0] {
            b'/' if rest.starts_with(b"//") => (line_comment(rest), true),
            b'/' if rest.starts_with(b"/*") => (block_comment(rest), true),
            b'"' => (quoted(rest, b'"'), false),
            b'\'' => (character(rest), false),
            b'r' | b'b' | b'c' if !name_before => (prefixed(rest), false),
            _ => (0, false),
        };
        if length > 0 {
            spans.push(Span { start: at, end: at + length, comment });
        }
        at += length.max(1);
    }
    spans
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of what starts and ends with `quote`, in which a backslash takes the next byte's meaning away.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal, or 0 for the quote of a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => quoted(rest, b'\''),
        Some(_) => {
            let width =
                1 + rest[2..].iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        None => 0,
    }
}

/// Length of a literal that starts with letters, such as `r#"…"#` or `b'x'`, or 0 for a plain name.
fn prefixed(rest: &[u8]) -> usize {
    let letters = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let hashes = rest[letters..].iter().take_while(|byte| **byte == b'#').count();
    let open = letters + hashes;
    match rest.get(open) {
        Some(b'"') if rest[letters - 1] == b'r' => {
            let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let end = rest[open + 1..].windows(close.len()).position(|window| window == close);
            end.map_or(rest.len(), |end| open + 1 + end + close.len())
        }
        Some(b'"') if hashes == 0 => letters + quoted(&rest[letters..], b'"'),
        Some(b'\'') if hashes == 0 && rest[0] == b'b' => letters + quoted(&rest[letters..], b'\''),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(&File::new("a.rs", text)).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_of_every_kind_are_blank() {
        assert_eq!(code("a // x\nb /* x /* x */ x */ c /// x\n//! x\nd"), "a b c d");
    }

    #[test]
    fn literals_of_every_kind_are_blank() {
        assert_eq!(
            code(r#"a("x", "\"x", b"x", 'x', '\'', '"', b'x', 'é') b"#),
            "a( , , , , , , , ) b"
        );
        assert_eq!(code("a(r\"x\\\", r#\"x\"x\"#, br##\"x\"#x\"##) b"), "a( , , ) b");
    }

    #[test]
    fn lifetimes_raw_names_and_names_that_end_in_r_are_code() {
        assert_eq!(code("fn r#for<'a>(bar: &'a str, c: u8)"), "fn r#for<'a>(bar: &'a str, c: u8)");
    }

    #[test]
    fn quotes_in_comments_and_comments_in_quotes_do_not_mislead() {
        assert_eq!(code("a // don't \"\nb(\"// x\") c"), "a b( ) c");
    }

    #[test]
    fn offsets_survive_so_lines_are_right() {
        let file = File::new("a.rs", "/* é\n\n*/ let s = \"é\n\"; tokio");
        assert_eq!(Source::new(&file).lines_with("tokio").collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert_eq!(words("catalog:: log:: log::x", "log::").count(), 2);
        assert_eq!(words("tokio tokio_util my_tokio", "tokio").count(), 1);
    }

    #[test]
    fn text_that_ends_in_the_middle_is_no_reason_to_panic() {
        for text in ["\"", "'", "'\\", "/*", "r#\"", "b'", "\"\\", "/", "r", "b", "'é"] {
            code(text);
        }
    }
}

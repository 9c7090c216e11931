//! The head of a request of HTTP/1, byte by byte and once.

use http::StatusCode;

use super::check::is_host;
use super::class::{TARGET, TEXT, TOKEN, is};
use super::malformed::{Malformed, TARGET_TOO_LONG, TOO_MANY_FIELDS, bad, refuse};
use crate::limits::{LONGEST_HEAD, LONGEST_HEAD_TOLD, LONGEST_METHOD, LONGEST_TARGET, MOST_FIELDS};

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// The next head.
    Nothing,
    /// So many bytes.
    Length(u64),
    Chunks,
    /// HTTP/2.
    Another,
}

/// A head that is being read: how far, and what is known of it. The bytes themselves stay with the caller.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    /// Where the line begins that is not complete.
    line: usize,
    /// The first byte that nobody has looked at.
    at: usize,
    part: Part,
    fields: usize,
    /// Whether an empty line stood before the request line; one may.
    blank: bool,
    /// Whether it is of HTTP/1.0, which knows no chunks.
    old: bool,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum Part {
    #[default]
    RequestLine,
    Name,
    /// The name ended here.
    Value(usize),
}

const LINE: Malformed = bad("line", "the request line is not a method, a target and a version");
const CONTROL: Malformed = bad("control", "a line ends without CR LF, or holds a control byte");
pub(super) const LENGTH: Malformed = bad("framing", "Content-Length is not one number");
const TWO_WAYS: Malformed = bad("framing", "both Transfer-Encoding and Content-Length");
const CODING: Malformed = bad("framing", "Transfer-Encoding is not just chunked");

pub(super) const NEARLY: Malformed =
    bad("framing", "a field's name could be read as Content-Length or Transfer-Encoding");

const TOO_LONG: Malformed =
    refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head", LONGEST_HEAD_TOLD);
const VERSION: Malformed = refuse(
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
    "version",
    "the version is neither HTTP/1.1 nor HTTP/1.0",
);
const UNKNOWN_CODING: Malformed =
    refuse(StatusCode::NOT_IMPLEMENTED, "coding", "no transfer coding but chunked is known");

impl Head {
    /// Whether a byte of it has come.
    pub(super) fn has_begun(&self) -> bool {
        self.at > 0
    }

    /// Looks at `bytes`, which begin with this head. Tells its length and what follows, or `None` if some of it is
    /// missing: then it is to be asked again with the same bytes and more.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        is_first: bool,
    ) -> Result<Option<(usize, Follows)>, Malformed> {
        while self.at < bytes.len() {
            if let Part::Name = self.part {
                let length = bytes[self.at..].iter().take_while(|byte| is(**byte, TOKEN)).count();
                self.at += length;
                match bytes.get(self.at) {
                    None => break,
                    Some(b':') if self.at > self.line => {
                        self.part = Part::Value(self.at);
                        self.at += 1;
                        continue;
                    }
                    Some(b'\r') if self.at == self.line => {} // the empty line, or what should be
                    Some(_) => return Err(self.bad_name(bytes[self.at])),
                }
            }
            self.at = skip_text(bytes, self.at);
            match bytes.get(self.at..self.at + 2) {
                Some(b"\r\n") => {}
                None if bytes.get(self.at).is_none_or(|byte| *byte == b'\r') => break,
                _ => return Err(CONTROL),
            }
            let end = self.at;
            self.at += 2;
            match self.part {
                Part::RequestLine => {
                    if end > self.line {
                        if self.request_line(&bytes[self.line..end], is_first)? {
                            return Ok(Some((bytes.len(), Follows::Another)));
                        }
                        self.part = Part::Name;
                    } else if std::mem::replace(&mut self.blank, true) {
                        return Err(bad("line", "empty lines before the request line"));
                    }
                }
                Part::Name if self.at > LONGEST_HEAD => return Err(TOO_LONG),
                Part::Name => return self.framing().map(|framing| Some((self.at, framing))),
                Part::Value(colon) => {
                    self.part = Part::Name;
                    self.field(&bytes[self.line..colon], &bytes[colon + 1..end])?;
                }
            }
            self.line = self.at;
            if self.at > LONGEST_HEAD {
                return Err(TOO_LONG);
            }
        }
        match self.part {
            // Nobody's method is this long.
            Part::RequestLine if self.at - self.line > LONGEST_TARGET + LONGEST_METHOD => {
                Err(TARGET_TOO_LONG)
            }
            _ if self.at > LONGEST_HEAD => Err(TOO_LONG),
            _ => Ok(None),
        }
    }

    #[cold]
    fn bad_name(&self, byte: u8) -> Malformed {
        let at_start = self.at == self.line;
        match byte {
            b' ' | b'\t' if at_start => bad("field", "a header field goes on in the next line"),
            b' ' | b'\t' => bad("field", "a blank in a header field's name, or before its colon"),
            b':' => bad("field", "a header field without a name"),
            b'\r' | b'\n' => bad("field", "a header field without a colon, or without CR LF"),
            _ => bad("field", "a byte that no header field's name may have"),
        }
    }

    /// Tells whether it begins HTTP/2.
    fn request_line(&mut self, line: &[u8], is_first: bool) -> Result<bool, Malformed> {
        let method_end = line.iter().position(|byte| !is(*byte, TOKEN)).ok_or(LINE)?;
        let (method, rest) = line.split_at(method_end);
        let [b' ', rest @ ..] = rest else { return Err(LINE) };
        let target_end = rest.iter().position(|byte| !is(*byte, TARGET)).ok_or(LINE)?;
        let (target, rest) = rest.split_at(target_end);
        let [b' ', version @ ..] = rest else {
            return Err(bad("target", "a byte that no target may have, or no version"));
        };
        if method.is_empty() {
            return Err(LINE);
        }
        match version {
            b"HTTP/1.1" => {}
            b"HTTP/1.0" => self.old = true,
            b"HTTP/2.0" if is_first && method == b"PRI" && target == b"*" => return Ok(true),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                return Err(VERSION);
            }
            _ => return Err(LINE),
        }
        if target.len() > LONGEST_TARGET {
            return Err(TARGET_TOO_LONG);
        }
        if !is_form_of_target(method, target) {
            return Err(bad("target", "neither a path nor an http or https URL"));
        }
        Ok(false)
    }

    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        self.fields += 1;
        if self.fields > MOST_FIELDS {
            return Err(TOO_MANY_FIELDS);
        }
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = number(trim(value)).ok_or(LENGTH)?;
                if self.length.replace(length).is_some() { Err(LENGTH) } else { Ok(()) }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                coding(trim(value))?;
                if std::mem::replace(&mut self.chunked, true) { Err(CODING) } else { Ok(()) }
            }
            13.. if is_nearly_framing(name) => Err(NEARLY),
            _ => Ok(()),
        }
    }

    fn framing(&self) -> Result<Follows, Malformed> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(TWO_WAYS),
            (true, None) if self.old => Err(bad("framing", "HTTP/1.0 has no Transfer-Encoding")),
            (true, None) => Ok(Follows::Chunks),
            (false, None | Some(0)) => Ok(Follows::Nothing),
            (false, Some(length)) => Ok(Follows::Length(length)),
        }
    }
}

/// The first byte from here on that no line may have inside: its end, if all is well.
#[inline]
fn skip_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let found = controls(u64::from_le_bytes(*eight));
        if found == 0 {
            at += 8;
            continue;
        }
        at += found.trailing_zeros() as usize / 8;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is(**byte, TEXT)).count()
}

/// Marks the top bit of the first byte that is below a blank, or DEL. Bytes after it may be marked wrongly.
#[inline]
const fn controls(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below_blank = eight.wrapping_sub(ONES * 0x20) & !eight;
    let not_del = eight ^ (ONES * 0x7f);
    let del = not_del.wrapping_sub(ONES) & !not_del;
    (below_blank | del) & (ONES * 0x80)
}

fn is_form_of_target(method: &[u8], target: &[u8]) -> bool {
    match target {
        [b'/', ..] => true,
        [] => false,
        b"*" => method == b"OPTIONS",
        // What CONNECT names is refused later, and said to be.
        _ if method == b"CONNECT" => true,
        _ => ["http://", "https://"].iter().any(|scheme| {
            let (start, rest) = target.split_at(scheme.len().min(target.len()));
            let host = rest.iter().take_while(|byte| !b"/?".contains(byte)).count();
            start.eq_ignore_ascii_case(scheme.as_bytes()) && is_host(&rest[..host])
        }),
    }
}

/// Whether a name tells of framing to those who take `_` for `-`, or leave out what is not a letter.
#[inline]
pub(super) fn is_nearly_framing(name: &[u8]) -> bool {
    let letters_are = |letters: &[u8]| {
        let own = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
        own.map(u8::to_ascii_lowercase).eq(letters.iter().copied())
    };
    match (name.first(), name.last()) {
        (Some(b'c' | b'C'), Some(b'h' | b'H')) => letters_are(b"contentlength"),
        (Some(b't' | b'T'), Some(b'g' | b'G')) => letters_are(b"transferencoding"),
        _ => false,
    }
}

/// Without the blanks around it.
fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Digits only, and few enough that no parser overflows.
fn number(digits: &[u8]) -> Option<u64> {
    if !(1..=18).contains(&digits.len()) {
        return None;
    }
    digits.iter().try_fold(0, |sum: u64, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

/// `chunked` and nothing else; another coding by itself or before it is not ours to undo.
fn coding(value: &[u8]) -> Result<(), Malformed> {
    let is_known = |coding: &[u8]| {
        coding.eq_ignore_ascii_case(b"chunked") || coding.eq_ignore_ascii_case(b"identity")
    };
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let first = match value.iter().position(|byte| *byte == b',') {
        Some(comma) if trim(&value[comma + 1..]).eq_ignore_ascii_case(b"chunked") => {
            trim(&value[..comma])
        }
        Some(_) => return Err(CODING),
        None => value,
    };
    let is_token = !first.is_empty() && first.iter().all(|byte| is(*byte, TOKEN));
    Err(if is_token && !is_known(first) { UNKNOWN_CODING } else { CODING })
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;

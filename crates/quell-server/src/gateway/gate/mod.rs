//! The gate: requests that two parsers could read differently are refused before anything else happens.
//!
//! **Why.** Where a front and the service behind it disagree about where a request ends, a caller can hide one
//! request in the body of another. Parsers that repair what they are given are how such disagreements begin: bare line
//! feeds, a `Content-Length` beside chunks, blanks in many places.
//!
//! **How.** Twice, because each place sees what the other cannot:
//!
//! 1. [`Gate`] looks at the bytes of HTTP/1 before anything else does (the `wire` asks it). It follows the messages (`head`,
//!    then a body of known length, or `chunks`, or none, then the next head) and lets only whole, well-formed heads
//!    through. Each byte of a head is looked at once and not copied; bodies of known length are counted, not read.
//! 2. [`check()`] looks at the parsed request, of HTTP/2 too: which host it is for, what may not be in it.

mod check;
mod chunks;
mod head;
mod wire;

use http::StatusCode;
use quell::http::headers::ATTEMPTS;

pub(super) use check::check;
pub(super) use wire::{Gate, Phase, Refused};

/// Fields in one head at most; each line counts, so crumbs of cookies do too.
pub(super) const MOST_FIELDS: usize = 100;
/// The longest head, in bytes.
pub(super) const LONGEST_HEAD: usize = 32 * 1024;
/// The longest target that is passed on.
const LONGEST_TARGET: usize = 8 * 1024;

/// Why a request goes no further: the status, a word and a sentence for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) error: &'static str,
}

/// A path that routes cannot be chosen by.
pub(super) const WALKS: Malformed = Malformed {
    status: StatusCode::BAD_REQUEST,
    code: "target",
    error: "the path has . or .. in it, and routes are chosen by paths",
};

/// A path that a route takes and cannot rewrite.
pub(super) const SPELT: Malformed = Malformed {
    status: StatusCode::BAD_REQUEST,
    code: "target",
    error: "the route rewrites its path, and this one is spelt in another way or has a second slash behind it",
};

/// A body that is not waited for any longer.
pub(super) const LATE: Malformed = Malformed {
    status: StatusCode::REQUEST_TIMEOUT,
    code: "body",
    error: "the request's body comes too slowly",
};

impl Malformed {
    /// The whole reply, for a connection that nobody else will write to.
    pub(super) fn reply(&self) -> Vec<u8> {
        let Self { status, code, error } = self;
        let body = format!("{{\"error\":\"{error}\",\"code\":\"{code}\"}}");
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{ATTEMPTS}: 0\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

const fn refuse(status: StatusCode, code: &'static str, error: &'static str) -> Malformed {
    Malformed { status, code, error }
}

const fn bad(code: &'static str, error: &'static str) -> Malformed {
    refuse(StatusCode::BAD_REQUEST, code, error)
}

const TOO_MANY_FIELDS: Malformed =
    refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "fields", "more than 100 header fields");
const TARGET_TOO_LONG: Malformed =
    refuse(StatusCode::URI_TOO_LONG, "target", "the target is longer than 8 KiB");

/// What bytes may be part of, by [`CLASSES`].
const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const TEXT: u8 = 4;

/// The classes of every byte: of names and methods (`tchar`), of targets, of values (visible, blank, tab or over ASCII).
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"!#$%&'*+-.^_`|~") {
            classes[i] |= TOKEN;
        }
        // What URIs may have, and what clients are known to leave as it is.
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"-._~%:/?[]@!$&'()*+,;=|{}^\\") {
            classes[i] |= TARGET;
        }
        if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
            classes[i] |= TEXT;
        }
        i += 1;
    }
    classes
}

const fn is_one_of(byte: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

#[inline]
fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

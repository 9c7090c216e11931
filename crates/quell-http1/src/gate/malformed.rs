//! Malformed: why a request goes no further, and what its caller is told.

use http::StatusCode;

use crate::limits::{LONGEST_TARGET_TOLD, MOST_FIELDS_TOLD};

/// Why a request goes no further: the status, a word and a sentence for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The status of the reply.
    pub status: StatusCode,
    /// A word for programs. Several sentences may share one.
    pub code: &'static str,
    /// A sentence for people, in plain ASCII without quotes.
    pub error: &'static str,
}

/// A body that is not waited for any longer.
pub(crate) const LATE: Malformed =
    refuse(StatusCode::REQUEST_TIMEOUT, "body", "the request's body comes too slowly");
pub(super) const TOO_MANY_FIELDS: Malformed =
    refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "fields", MOST_FIELDS_TOLD);
pub(super) const TARGET_TOO_LONG: Malformed =
    refuse(StatusCode::URI_TOO_LONG, "target", LONGEST_TARGET_TOLD);

impl Malformed {
    /// Writes the whole reply, for a connection that nobody else will write to. `fields` are the host's own.
    pub(crate) fn write(&self, fields: &[(&str, &str)], out: &mut Vec<u8>) {
        let Self { status, code, error } = self;
        let body = format!("{{\"error\":\"{error}\",\"code\":\"{code}\"}}");
        let length = body.len();
        let mut text = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
        for (name, value) in fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        out.extend_from_slice(text.as_bytes());
    }
}

pub(super) const fn refuse(
    status: StatusCode,
    code: &'static str,
    error: &'static str,
) -> Malformed {
    Malformed { status, code, error }
}

pub(super) const fn bad(code: &'static str, error: &'static str) -> Malformed {
    refuse(StatusCode::BAD_REQUEST, code, error)
}

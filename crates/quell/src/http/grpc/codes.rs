//! Codes: those that are worth another attempt, and what a reply comes to.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use http_body::Body;
use quell_core::{Failure, Fault, Outcome};

use super::{Code, Peeked};
use crate::http::{Pushback, Statuses, Word, grpc_pushback};

/// Codes that are worth another attempt; [`Code::UNAVAILABLE`] and [`Code::RESOURCE_EXHAUSTED`] unless said. What they say
/// of the server's health does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes(u32);

impl Default for Codes {
    fn default() -> Self {
        Self::of([Code::UNAVAILABLE, Code::RESOURCE_EXHAUSTED])
    }
}

impl Codes {
    /// These codes.
    ///
    /// ```
    /// use quell::http::grpc::{Code, Codes};
    ///
    /// let codes = Codes::of([Code::UNAVAILABLE, Code::ABORTED]);
    /// assert!(codes.contains(Code::ABORTED) && !codes.contains(Code::RESOURCE_EXHAUSTED));
    /// ```
    pub fn of(codes: impl IntoIterator<Item = Code>) -> Self {
        Self(codes.into_iter().fold(0, |bits, code| bits | 1 << code.get()))
    }

    /// Whether this one is among them.
    pub const fn contains(self, code: Code) -> bool {
        self.0 & (1 << code.get()) != 0
    }

    /// What a reply comes to as far as its first frame; `unix_now` is for dates in its headers.
    pub fn classify<B: Body>(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Peeked<B>,
        unix_now: Duration,
    ) -> Outcome {
        let (code, told) = match (Code::read(headers), body.trailers()) {
            (Some(code), _) => (code, headers),
            (None, _) if status != StatusCode::OK => (Code::of_status(status), headers),
            (None, Some(trailers)) => (Code::read(trailers).unwrap_or(Code::UNKNOWN), trailers),
            (None, None) if body.is_broken() => return Outcome::Failed(Failure::of(Fault::Server)),
            (None, None) if body.is_over() => (Code::UNKNOWN, headers), // it never said its status
            (None, None) => return Outcome::Success,                    // there is a message
        };
        let status = code.like();
        let worth = [status.as_u16()];
        let statuses = Statuses::of(if self.contains(code) { &worth } else { &[] });
        match statuses.classify(status, told, unix_now) {
            Outcome::Failed(failure) => {
                Outcome::Failed(pushed_back(failure, pushback(headers, body.trailers())))
            }
            other => other,
        }
    }
}

/// The strictest word on another attempt, wherever it stands: a server's own is in the trailers, that of a hop in between
/// in the headers.
fn pushback(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Option<Pushback> {
    let all = [Some(headers), trailers].into_iter().flatten();
    let said = all.flat_map(|fields| [grpc_pushback(fields), Word::read(fields).map(as_pushback)]);
    said.flatten().max_by_key(|pushback| match pushback {
        Pushback::After(wait) => *wait,
        Pushback::Stop => Duration::MAX,
    })
}

fn as_pushback(word: Word) -> Pushback {
    match word {
        Word::No => Pushback::Stop,
        Word::After(wait) => Pushback::After(wait),
    }
}

fn pushed_back(failure: Failure, pushback: Option<Pushback>) -> Failure {
    match pushback {
        None => failure,
        Some(Pushback::Stop) => failure.forbidden(),
        // A server that names a time has too much to do, and is not broken: the same as a 503 with a hint.
        Some(Pushback::After(wait)) if failure.retryable => Failure {
            fault: Fault::Overload,
            bad: false,
            hint: Some(failure.hint.map_or(wait, |hint| hint.max(wait))),
            ..failure
        },
        Some(Pushback::After(_)) => failure,
    }
}

#[cfg(test)]
#[path = "codes_tests.rs"]
mod tests;

//! Status: what gRPC's codes mean to the policies.

use std::{error::Error, time::Duration};

use ::http::{HeaderMap, HeaderValue, Response, StatusCode};
use ::tonic::{Code, ConnectError, TimeoutExpired};
use http_body::Body as HttpBody;
use quell_core::{Delivery, Failure, Fault, Outcome};

use super::Body;
use crate::http::{Pushback, Statuses, delivery, grpc_pushback};

pub(super) const GRPC_STATUS: &str = "grpc-status";

/// Longer chains of causes than this are not followed.
const DEEPEST: usize = 32;

/// Codes that are worth another attempt, one bit each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Codes(u32);

impl Codes {
    pub(super) fn of(codes: &[Code]) -> Self {
        Self(codes.iter().fold(0, |bits, code| bits | 1 << (*code as u32)))
    }

    fn contains(self, code: Code) -> bool {
        self.0 & (1 << (code as u32)) != 0
    }

    /// What a reply comes to as far as its first frame; `unix_now` is for dates in its headers.
    pub(super) fn classify<R: HttpBody>(
        self,
        reply: &Response<Body<R>>,
        unix_now: Duration,
    ) -> Outcome {
        let (headers, body) = (reply.headers(), reply.body());
        let (code, told) = match (code_in(headers), body.trailers()) {
            (Some(code), _) => (code, headers),
            (None, _) if reply.status() != StatusCode::OK => (code_of(reply.status()), headers),
            (None, Some(trailers)) => (code_in(trailers).unwrap_or(Code::Unknown), trailers),
            (None, None) if body.is_broken() => return Outcome::Failed(Failure::of(Fault::Server)),
            (None, None) if body.is_over() => (Code::Unknown, headers), // it never said its status
            (None, None) => return Outcome::Success,                    // there is a message
        };
        let status = like(code);
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

fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get(GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

/// What a reply that is not gRPC's means: by gRPC's own table, but that who says 429 has too much to do and is not broken.
fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 => Code::ResourceExhausted,
        502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// The HTTP status that means the same, for policies, logs and metrics know those.
fn like(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::Cancelled => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// The strictest word on another attempt, wherever it stands.
fn pushback(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Option<Pushback> {
    let said = [Some(headers), trailers].into_iter().flatten().filter_map(grpc_pushback);
    said.max_by_key(|pushback| match pushback {
        Pushback::After(wait) => *wait,
        Pushback::Stop => Duration::MAX,
    })
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

/// What an error of the channel comes to.
pub(super) fn failure(error: &(dyn Error + 'static)) -> Failure {
    if is_due_to::<ConnectError>(error) {
        return Failure::of(Fault::Connect);
    }
    match delivery(error) {
        Delivery::NeverSent => Failure::of(Fault::Connect),
        _ if is_due_to::<TimeoutExpired>(error) => Failure::of(Fault::Timeout),
        delivery => Failure { delivery, ..Failure::of(Fault::Server) },
    }
}

/// Whether an error of this kind is among the causes.
pub(super) fn is_due_to<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.take(DEEPEST).any(|error| error.is::<E>())
}

/// A time as the value of `grpc-timeout`: eight digits at most, in the finest unit that has room for it. It is rounded
/// down, so it is never more than is left.
pub(super) fn timeout(left: Duration) -> HeaderValue {
    const ROOM: u128 = 100_000_000;
    let nanos = left.as_nanos();
    let units = [('n', 1), ('u', 1_000), ('m', 1_000_000), ('S', 1_000_000_000)];
    let fits = units.iter().find(|(_, size)| nanos / size < ROOM);
    let text = match fits {
        Some((unit, size)) => format!("{}{unit}", nanos / size),
        None => format!("{}S", ROOM - 1), // three years
    };
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("0n")) // digits and a letter always are one
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;

//! What gRPC means to the policies: codes, trailers, pushback, timeouts, refusals.
//!
//! **Why.** A gRPC reply is an HTTP 200 whatever became of the call: its status stands in the trailers, or in the headers
//! where there is nothing else. Whoever judges by the head alone sees successes only, and repeats nothing or the wrong
//! thing. What has to be known to do better needs no library for gRPC, so it is here for all who pass its messages on.
//!
//! **How.** [`peek()`] looks at a reply's first frame. If it is the trailers, the call failed before it said anything and can be
//! made again; once there is a message the reply is a success, and nothing is repeated any more. So is a stream that has
//! nothing to say for a tenth of a second. [`Codes::classify`] judges what was seen, and the [`Peeked`] body gives that
//! frame and then the rest. [`stamp`] writes what an attempt carries, and [`refusal()`] is a reply of our own.
//!
//! A stream that fails after its first message has been judged by then: its trailers reach the caller as they are, and
//! neither the breaker nor the budget learns of them.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use std::{convert::Infallible, time::Duration};
//! use bytes::Bytes;
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use http_body::Frame;
//! use quell::{Clock, http::grpc::{self, Codes}};
//!
//! # /// A stream of one frame.
//! # struct Once(Option<Frame<Bytes>>);
//! # impl http_body::Body for Once {
//! #     type Data = Bytes;
//! #     type Error = Infallible;
//! #     fn poll_frame(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>)
//! #     -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
//! #         std::task::Poll::Ready(self.0.take().map(Ok))
//! #     }
//! # }
//! let (head, mut trailers) = (HeaderMap::new(), HeaderMap::new());
//! trailers.insert("grpc-status", HeaderValue::from_static("14"));
//! trailers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("250"));
//! let body = Once(Some(Frame::trailers(trailers)));
//!
//! let body = grpc::peek(StatusCode::OK, &head, body, Clock::system()).await;
//! let outcome = Codes::default().classify(StatusCode::OK, &head, &body, Duration::ZERO);
//! assert!(outcome.is_retryable());
//! assert_eq!(outcome.hint(), Some(Duration::from_millis(250)));
//! # });
//! ```

mod code;
mod codes;
mod peek;
mod peeked;
mod refusal;
mod timeout;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};

pub use code::Code;
pub use codes::Codes;
pub use peek::{Peek, peek};
pub use peeked::Peeked;
pub use refusal::{refusal, say};
pub use timeout::timeout;

pub(super) use timeout::read as read_timeout;

/// Of a reply, in its headers or trailers: the code that the call ended with.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Of a reply, beside the code: the same for people.
pub const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Of a request: how long its caller will wait.
pub const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Of a request: how many attempts came before it. The first has none.
pub const PREVIOUS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
/// Of a reply: in how many milliseconds to come back; a negative number is never.
pub const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Whether a request or reply is gRPC's, by its `content-type`. Its sibling for browsers, gRPC-Web, is not: that has its
/// trailers in the body.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::grpc::is_grpc;
///
/// let with = |value| HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static(value))]);
/// assert!(is_grpc(&with("application/grpc")) && is_grpc(&with("application/grpc+proto")));
/// assert!(!is_grpc(&with("application/grpc-web")) && !is_grpc(&HeaderMap::new()));
/// ```
pub fn is_grpc(headers: &HeaderMap) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let Some(told) = headers.get(CONTENT_TYPE) else { return false };
    let Some((start, rest)) = told.as_bytes().split_at_checked(GRPC.len()) else { return false };
    start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Writes what an attempt carries beside [what every one does](super::headers::stamp), in place of what an earlier one
/// carried: how many came before it, and what is left of the caller's own time, if it named one.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use quell::http::grpc;
///
/// let mut headers = HeaderMap::new();
/// grpc::stamp(&mut headers, 3, Some(Duration::from_secs(1)));
/// assert_eq!(headers["grpc-previous-rpc-attempts"], "2");
/// assert_eq!(headers["grpc-timeout"], "1000000u");
/// grpc::stamp(&mut headers, 1, None);
/// assert!(!headers.contains_key("grpc-previous-rpc-attempts"));
/// ```
pub fn stamp(headers: &mut HeaderMap, attempt: u32, left: Option<Duration>) {
    match attempt {
        ..=1 => drop(headers.remove(PREVIOUS)),
        number => drop(headers.insert(PREVIOUS, HeaderValue::from(number - 1))),
    }
    if let Some(left) = left {
        headers.insert(TIMEOUT, timeout(left));
    }
}

//! Refusals: replies of our own to callers who speak gRPC.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, header::CONTENT_TYPE};
use quell_core::{Reason, credit::Sends};

use super::{Code, MESSAGE, PUSHBACK, STATUS};
use crate::http::{
    Word,
    headers::{self, Answer},
};

/// A reply of our own: a 200 that is nothing but trailers in its headers. It has this code, the reason's word as its message,
/// the same fields as [any refusal](crate::http::refusal()), and `grpc-retry-pushback-ms` as far as there is a word to say:
/// when to come back, or `-1` for not at all. The code is the reason's own unless the host knows better.
///
/// ```
/// use std::time::Duration;
/// use quell::{Reason, http::grpc::{self, Code}};
///
/// let reason = Reason::BreakerOpen;
/// let wait = Some(Duration::from_micros(1_200));
/// let reply = grpc::refusal(Code::new(reason.grpc_code()), reason, 0, wait);
/// assert_eq!(&reply.headers()["grpc-status"], "14");
/// assert_eq!(&reply.headers()["grpc-message"], "breaker_open");
/// assert_eq!(&reply.headers()["grpc-retry-pushback-ms"], "2");
/// ```
pub fn refusal(
    code: Code,
    reason: Reason,
    attempts: u32,
    retry_in: Option<Duration>,
) -> Response<()> {
    let answer = Answer::stopped(Sends::new(attempts), reason, retry_in, true);
    let mut reply = Response::new(());
    say(reply.headers_mut(), code, reason.as_str(), answer.word);
    headers::answer(reply.headers_mut(), answer);
    reply
}

/// Writes gRPC's part of a reply of our own: its content type, this code, a message of plain letters, and the same word on
/// another attempt as in `quell-retry`. For hosts that already have a refusal in HTTP.
///
/// ```
/// use http::HeaderMap;
/// use quell::http::{Word, grpc::{self, Code}};
///
/// let mut headers = HeaderMap::new();
/// grpc::say(&mut headers, Code::UNAUTHENTICATED, "unauthorized", Some(Word::No));
/// assert_eq!(headers["grpc-status"], "16");
/// assert_eq!(headers["grpc-retry-pushback-ms"], "-1");
/// ```
pub fn say(headers: &mut HeaderMap, code: Code, message: &'static str, word: Option<Word>) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(u16::from(code.get())));
    headers.insert(MESSAGE, HeaderValue::from_static(message));
    if let Some(word) = word {
        headers.insert(PUSHBACK, pushback(word));
    }
}

/// Whole milliseconds, rounded up: never earlier than meant. More than fits is a stop to every client.
fn pushback(word: Word) -> HeaderValue {
    match word {
        Word::No => HeaderValue::from_static("-1"),
        Word::After(wait) => {
            let millis = wait.as_nanos().div_ceil(1_000_000);
            HeaderValue::from(i32::try_from(millis).unwrap_or(-1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Pushback, grpc_pushback};

    fn told(reason: Reason, wait: Option<Duration>) -> Option<Pushback> {
        let reply = refusal(Code::new(reason.grpc_code()), reason, 1, wait);
        grpc_pushback(reply.headers())
    }

    /// H2.
    #[test]
    fn a_pushback_of_ours_says_what_our_own_word_says_and_is_never_early() {
        for &reason in Reason::ALL {
            let wait = Some(Duration::from_nanos(1_000_001));
            let expected = Word::on(reason, wait).map(|word| match word {
                Word::No => Pushback::Stop,
                Word::After(_) => Pushback::After(Duration::from_millis(2)),
            });
            assert_eq!(told(reason, wait), expected, "{reason}");
        }
        assert_eq!(told(Reason::HintTooLong, Some(Duration::MAX)), Some(Pushback::Stop));
    }
}

//! Line: what the upstream does to one attempt.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use quell_core::{Failure, Fault, Outcome};

use crate::Clock;

/// What a scripted upstream replies: its body says the status once more.
pub type Reply = Response<Full<Bytes>>;

/// What the upstream does to one attempt: a line of a [`Script`](super::Script).
///
/// ```
/// use std::time::Duration;
/// use quell::test::{Line, Script};
///
/// let busy = Line::status(503).hint(Duration::from_secs(2)).slow(Duration::from_millis(300));
/// let script = Script::new().line(busy).outage(Duration::from_secs(1)..Duration::from_secs(5), Line::hang());
/// assert_eq!(script.ledger().attempts(), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    what: What,
    hint: Option<Duration>,
    slow: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Status(u16),
    Reset,
    RefuseConnect,
    Hang,
}

impl Line {
    const fn new(what: What) -> Self {
        Self { what, hint: None, slow: Duration::ZERO }
    }

    /// 200.
    pub const fn ok() -> Self {
        Self::status(200)
    }

    /// A reply with this status; 500 in place of a number that is none.
    pub const fn status(code: u16) -> Self {
        Self::new(What::Status(if code < 100 || code > 999 { 500 } else { code }))
    }

    /// The connection breaks after the request got through: nobody knows whether it was acted on.
    pub const fn reset() -> Self {
        Self::new(What::Reset)
    }

    /// No connection: nothing was sent.
    pub const fn refuse_connect() -> Self {
        Self::new(What::RefuseConnect)
    }

    /// No answer, ever. A blocking attempt gives up at its timeout; an async one has to be cut off.
    pub const fn hang() -> Self {
        Self::new(What::Hang)
    }

    /// The reply asks to come back after this long: as `retry-after`, or in milliseconds if it is not whole seconds. What
    /// is no reply says nothing.
    pub const fn hint(self, hint: Duration) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// It takes this long.
    pub const fn slow(self, by: Duration) -> Self {
        Self { slow: by, ..self }
    }

    pub(super) fn takes(&self) -> Option<Duration> {
        (self.what != What::Hang).then_some(self.slow)
    }

    /// What the reply really said.
    pub(super) fn told(&self) -> Option<Duration> {
        self.hint.filter(|_| matches!(self.what, What::Status(_)))
    }

    pub(super) fn got_through(&self) -> bool {
        self.what != What::RefuseConnect
    }

    pub(super) fn is_ok(&self) -> bool {
        matches!(self.what, What::Status(..400))
    }

    pub(super) fn play(&self) -> io::Result<Reply> {
        let code = match self.what {
            What::Status(code) => code,
            What::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            What::RefuseConnect => return Err(io::ErrorKind::ConnectionRefused.into()),
            What::Hang => return Err(io::ErrorKind::TimedOut.into()),
        };
        let mut reply = Response::new(Full::from(code.to_string()));
        *reply.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
        match self.hint {
            Some(hint) if hint.subsec_nanos() == 0 => {
                reply.headers_mut().insert(header::RETRY_AFTER, hint.as_secs().into());
            }
            Some(hint) => {
                let whole = u64::try_from(hint.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
                reply.headers_mut().insert("retry-after-ms", HeaderValue::from(whole));
            }
            None => {}
        }
        Ok(reply)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Status(code) => write!(f, "{code}")?,
            What::Reset => f.write_str("connection reset")?,
            What::RefuseConnect => f.write_str("connection refused")?,
            What::Hang => f.write_str("no answer")?,
        }
        match self.told() {
            Some(hint) => write!(f, ", come back after {hint:?}"),
            None => Ok(()),
        }
    }
}

/// What an attempt on a [`Script`](super::Script) came to. Calls know it by themselves.
///
/// ```
/// use quell::{Fault, Outcome, test};
///
/// let refused = Err(std::io::ErrorKind::ConnectionRefused.into());
/// let Outcome::Failed(failure) = test::classify(&refused, &test::Clock::manual()) else { panic!() };
/// assert_eq!(failure.fault, Fault::Connect);
/// ```
pub fn classify(result: &io::Result<Reply>, clock: &Clock) -> Outcome {
    let error = match result {
        Ok(reply) => {
            return crate::http::classify(reply.status(), reply.headers(), clock.unix_now());
        }
        Err(error) => error,
    };
    Outcome::Failed(Failure::of(match error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Connect,
        io::ErrorKind::TimedOut => Fault::Timeout,
        _ => Fault::Server,
    }))
}

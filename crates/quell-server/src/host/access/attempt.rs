//! Attempt: what the log says of one attempt of a call.
//!
//! **Why.** An operator who reads the logs of several hosts side by side wants the same words in all of them.

use std::fmt::Write as _;
use std::time::Duration;

use quell::core::{Outcome, Reason, Time};
use quell::observe::labels::Came;
use quell::observe::{Next, Tried};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::redact::redact;

/// Bytes of an error's body that are hashed.
pub(crate) const HASHED: usize = 4 * 1024;

/// An attempt as it is written. Names and order are for people and their tools: they stay.
#[derive(Debug, Serialize)]
pub(crate) struct Attempt {
    endpoint: Option<String>,
    kind: &'static str,
    offset_ms: f64,
    queued_ms: f64,
    duration_ms: f64,
    code: Option<u16>,
    error: Option<&'static str>,
    error_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_body: Option<String>,
    hint_ms: Option<f64>,
    delay_ms: Option<f64>,
    reason: Option<&'static str>,
}

impl Attempt {
    /// What an attempt came to, of a call that began at this instant of the upstream's clock.
    pub(crate) fn of(
        tried: &Tried,
        since: Time,
        endpoint: Option<String>,
        code: Option<u16>,
    ) -> Self {
        let hint = match &tried.outcome {
            Outcome::Failed(failure) => failure.hint,
            _ => None,
        };
        let (delay, reason) = match tried.next {
            Next::Retry { at } => (Some(at.since(tried.ended)), None),
            Next::Stop(reason) => (None, reason),
        };
        Self {
            endpoint,
            kind: match tried.attempt {
                _ if tried.hedge => "hedge",
                ..=1 => "first",
                _ => "retry",
            },
            offset_ms: millis(tried.started.since(since)),
            queued_ms: millis(tried.queued),
            duration_ms: millis(tried.took()),
            code,
            error: (tried.outcome != Outcome::Success).then(|| Came::of(&tried.outcome).as_str()),
            error_hash: None,
            error_body: None,
            hint_ms: hint.map(millis),
            delay_ms: delay.map(millis),
            reason: reason.map(Reason::as_str),
        }
    }

    /// Whether it ended with an error of this code, and what the error said is not noted yet.
    pub(crate) fn lacks_error_of(&self, code: u16) -> bool {
        self.code == Some(code) && self.error.is_some() && self.error_hash.is_none()
    }

    /// The error's body begins so; this many bytes of it may be shown.
    pub(crate) fn met(&mut self, body: &[u8], shown: usize) {
        let hash = Sha256::digest(&body[..body.len().min(HASHED)]);
        let mut hex = String::with_capacity(16);
        for byte in &hash[..8] {
            let _ = write!(hex, "{byte:02x}");
        }
        self.error_hash = Some(hex);
        if shown > 0 {
            let text = String::from_utf8_lossy(&body[..body.len().min(shown)]);
            self.error_body = Some(redact(&text));
        }
    }
}

/// A time as the log writes it.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

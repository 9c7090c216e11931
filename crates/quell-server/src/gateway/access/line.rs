//! Line: what is noted of one request, and written at its end.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use quell::core::{Outcome, Reason, Time};
use quell::http::grpc;
use quell::observe::{Next, Tried};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Access;
use super::redact::redact;
use crate::gateway::body::Body;
use crate::gateway::counters::{Came, Verdict};
use crate::gateway::route::Route;
use crate::host::trace::Traced;

/// Bytes of an error's body that are hashed.
const HASHED: usize = 4 * 1024;
/// Bytes of a path that are written.
const LONGEST_PATH: usize = 1024;
/// Attempts that are written; a policy makes fewer.
const MOST_ATTEMPTS: usize = 32;
/// What stands for a caller who left.
const CLIENT_GONE: u16 = 499;

/// A request's line, written when this is dropped.
#[derive(Debug)]
pub(in crate::gateway) struct Line {
    access: Arc<Access>,
    began: Instant,
    noted: RefCell<Noted>,
}

#[derive(Debug)]
struct Noted {
    since: Time,
    record: Record,
    /// The beginning of an error's body on its way to the caller.
    error: Vec<u8>,
    /// Whether the caller gets a reply of ours, or none.
    is_own: bool,
    /// Its spans, if it has some.
    traced: Option<Traced>,
}

/// The line as it is written. Names and order are for people and their tools: they stay.
#[derive(Debug, Serialize)]
struct Record {
    time: String,
    method: String,
    path: String,
    protocol: &'static str,
    route: Option<String>,
    upstream: Option<String>,
    tenant: Option<String>,
    status: u16,
    grpc_status: Option<u32>,
    outcome: &'static str,
    reason: Option<&'static str>,
    replayed: bool,
    duration_ms: f64,
    bytes_in: Option<u64>,
    bytes_out: u64,
    /// Whether the caller did not get all of the reply.
    cut_off: bool,
    attempts: Vec<Attempt>,
}

#[derive(Debug, Serialize)]
struct Attempt {
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

impl Line {
    /// Of a request whose head was read. Unless something else is noted, its caller left.
    pub(in crate::gateway) fn begin<B>(access: &Arc<Access>, request: &Request<B>) -> Box<Self> {
        let length = request.headers().get(CONTENT_LENGTH);
        let record = Record {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            method: request.method().as_str().to_owned(),
            path: beginning(request.uri().path(), LONGEST_PATH).to_owned(),
            protocol: protocol(request.version()),
            route: None,
            upstream: None,
            tenant: None,
            status: CLIENT_GONE,
            grpc_status: None,
            outcome: Verdict::Abandoned.as_str(),
            reason: Some(Reason::ClientGone.as_str()),
            replayed: false,
            duration_ms: 0.0,
            bytes_in: length.and_then(|length| length.to_str().ok()?.parse().ok()),
            bytes_out: 0,
            cut_off: true,
            attempts: Vec::new(),
        };
        let traced = access.traces.as_ref().map(|traces| Traced::begin(traces, request));
        let access = Arc::clone(access);
        let noted = Noted { since: Time::ZERO, record, error: Vec::new(), is_own: true, traced };
        Box::new(Self { access, began: Instant::now(), noted: RefCell::new(noted) })
    }

    /// It goes this way, as of this instant of the upstream's clock.
    pub(in crate::gateway) fn routed(&self, route: &Route, since: Time) {
        let mut noted = self.noted.borrow_mut();
        noted.since = since;
        if let Some(traced) = &mut noted.traced {
            traced.routed(&route.name, route.backend.upstream.name());
        }
        noted.record.route = Some(route.name.to_string());
        noted.record.upstream = Some(route.backend.upstream.name().to_owned());
    }

    /// Its caller is known.
    pub(in crate::gateway) fn tenant(&self, name: &str) {
        self.noted.borrow_mut().record.tenant = Some(name.to_owned());
    }

    /// What it came to, and why there was no further attempt.
    pub(in crate::gateway) fn ended(&self, verdict: Verdict, reason: Option<Reason>) {
        let Noted { record, traced, .. } = &mut *self.noted.borrow_mut();
        if let Some(traced) = traced {
            traced.ended(verdict, reason);
        }
        record.outcome = verdict.as_str();
        record.reason = match reason {
            None if verdict == Verdict::Abandoned => Some(Reason::ClientGone.as_str()),
            reason => reason.map(Reason::as_str),
        };
    }

    /// An attempt of it goes out with these header fields.
    pub(in crate::gateway) fn send(&self, attempt: u32, headers: &mut HeaderMap) {
        if let Some(traced) = &mut self.noted.borrow_mut().traced {
            traced.send(attempt, headers);
        }
    }

    /// An attempt of it has ended.
    pub(in crate::gateway) fn tried(&self, route: &Route, tried: &Tried, code: Option<StatusCode>) {
        let mut noted = self.noted.borrow_mut();
        let endpoint = route.backend.endpoints.get(usize::from(tried.endpoint));
        let endpoint = endpoint.map(|endpoint| endpoint.target.to_string());
        if let Some(traced) = &mut noted.traced {
            traced.tried(endpoint.clone(), tried, code);
        }
        if noted.record.attempts.len() == MOST_ATTEMPTS {
            return;
        }
        let hint = match &tried.outcome {
            Outcome::Failed(failure) => failure.hint,
            _ => None,
        };
        let (delay, reason) = match tried.next {
            Next::Retry { at } => (Some(at.since(tried.ended)), None),
            Next::Stop(reason) => (None, reason),
        };
        let attempt = Attempt {
            endpoint,
            kind: match tried.attempt {
                _ if tried.hedge => "hedge",
                ..=1 => "first",
                _ => "retry",
            },
            offset_ms: millis(tried.started.since(noted.since)),
            queued_ms: millis(tried.queued),
            duration_ms: millis(tried.took()),
            code: code.map(|code| code.as_u16()),
            error: (tried.outcome != Outcome::Success).then(|| Came::of(&tried.outcome).as_str()),
            error_hash: None,
            error_body: None,
            hint_ms: hint.map(millis),
            delay_ms: delay.map(millis),
            reason: reason.map(Reason::as_str),
        };
        noted.record.attempts.push(attempt);
    }

    /// How many bytes of an error's body are of use.
    pub(in crate::gateway) fn most_of_error(&self) -> usize {
        HASHED.max(self.access.error_body)
    }

    /// The latest attempt's reply was an error whose body begins so, and was read whole.
    pub(in crate::gateway) fn error(&self, body: &[u8]) {
        if let Some(attempt) = self.noted.borrow_mut().record.attempts.last_mut() {
            attempt.met(body, self.access.error_body);
        }
    }

    /// The caller gets this.
    pub(in crate::gateway) fn answered(&self, response: &Response<Body>) {
        let Noted { record, is_own, traced, .. } = &mut *self.noted.borrow_mut();
        if let Some(traced) = traced {
            traced.answered(response.status());
        }
        *is_own = response.body().is_own();
        record.status = response.status().as_u16();
        // Nobody asked for the body.
        record.cut_off = record.method != "HEAD";
        record.replayed = response.headers().contains_key(quell::http::keyed::REPLAYED);
        record.grpc_status = grpc_status(response.headers());
    }

    /// And these trailers.
    pub(in crate::gateway) fn trailers(&self, trailers: &HeaderMap) {
        let record = &mut self.noted.borrow_mut().record;
        record.grpc_status = grpc_status(trailers).or(record.grpc_status);
    }

    /// And these bytes of it.
    pub(in crate::gateway) fn passed(&self, bytes: &[u8]) {
        let most = self.most_of_error();
        let Noted { record, error, is_own, .. } = &mut *self.noted.borrow_mut();
        record.bytes_out += bytes.len() as u64;
        if record.status >= 400 && !*is_own && error.len() < most {
            error.extend_from_slice(&bytes[..bytes.len().min(most - error.len())]);
        }
    }

    /// All that there was to give was taken.
    pub(in crate::gateway) fn whole(&self) {
        self.noted.borrow_mut().record.cut_off = false;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Noted { record, error, is_own, .. } = self.noted.get_mut();
        record.duration_ms = millis(self.began.elapsed());
        let status = record.status;
        let given = |attempt: &&mut Attempt| {
            attempt.code == Some(status) && attempt.error.is_some() && attempt.error_hash.is_none()
        };
        if !*is_own
            && (!record.cut_off || error.len() >= HASHED)
            && let Some(attempt) = record.attempts.iter_mut().rev().find(given)
        {
            attempt.met(error, self.access.error_body);
        }
        if self.access.lines.is_some()
            && let Ok(mut line) = serde_json::to_vec(record)
        {
            line.push(b'\n');
            self.access.send(line);
        }
    }
}

impl Attempt {
    fn met(&mut self, body: &[u8], shown: usize) {
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

fn grpc_status(fields: &HeaderMap) -> Option<u32> {
    fields.get(grpc::STATUS)?.to_str().ok()?.parse().ok()
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

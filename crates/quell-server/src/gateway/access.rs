//! Line: what is noted of one request, and written at its end.
//!
//! **Why.** Why there is such a log is said in `host::access`. What stands in it of a request over HTTP is decided here.
//!
//! **How.** A [`Line`] goes along with its request and is written when the reply's body has ended, or was dropped: a caller
//! who leaves gets a line, too. Of the request there are method and path in it: no query, no header field, no body. With the
//! log off nothing is allocated.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use quell::core::{Reason, Time};
use quell::http::grpc;
use quell::observe::Tried;
use serde::Serialize;

use super::body::Body;
use super::counters::Verdict;
use super::route::Route;
use crate::host::access::{Access, Attempt, HASHED, millis};
use crate::host::trace::Traced;

/// Bytes of a path that are written.
const LONGEST_PATH: usize = 1024;
/// Attempts that are written; a policy makes fewer.
const MOST_ATTEMPTS: usize = 32;
/// What stands for a caller who left.
const CLIENT_GONE: u16 = 499;

/// A request's line, written when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
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

impl Line {
    /// Of a request whose head was read. Unless something else is noted, its caller left.
    pub(super) fn begin<B>(access: &Arc<Access>, request: &Request<B>) -> Box<Self> {
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
        let traced = access.traces().map(|traces| Traced::begin(traces, request));
        let access = Arc::clone(access);
        let noted = Noted { since: Time::ZERO, record, error: Vec::new(), is_own: true, traced };
        Box::new(Self { access, began: Instant::now(), noted: RefCell::new(noted) })
    }

    /// It goes this way, as of this instant of the upstream's clock.
    pub(super) fn routed(&self, route: &Route, since: Time) {
        let mut noted = self.noted.borrow_mut();
        noted.since = since;
        if let Some(traced) = &mut noted.traced {
            traced.routed(&route.name, route.backend.upstream.name());
        }
        noted.record.route = Some(route.name.to_string());
        noted.record.upstream = Some(route.backend.upstream.name().to_owned());
    }

    /// Its caller is known.
    pub(super) fn tenant(&self, name: &str) {
        self.noted.borrow_mut().record.tenant = Some(name.to_owned());
    }

    /// What it came to, and why there was no further attempt.
    pub(super) fn ended(&self, verdict: Verdict, reason: Option<Reason>) {
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
    pub(super) fn send(&self, attempt: u32, headers: &mut HeaderMap) {
        if let Some(traced) = &mut self.noted.borrow_mut().traced {
            traced.send(attempt, headers);
        }
    }

    /// An attempt of it has ended.
    pub(super) fn tried(&self, route: &Route, tried: &Tried, code: Option<StatusCode>) {
        let mut noted = self.noted.borrow_mut();
        let endpoint = route.backend.endpoints.get(usize::from(tried.endpoint));
        let endpoint = endpoint.map(|endpoint| endpoint.target.to_string());
        if let Some(traced) = &mut noted.traced {
            traced.tried(endpoint.clone(), tried, code);
        }
        if noted.record.attempts.len() == MOST_ATTEMPTS {
            return;
        }
        let attempt = Attempt::of(tried, noted.since, endpoint, code.map(|code| code.as_u16()));
        noted.record.attempts.push(attempt);
    }

    /// How many bytes of an error's body are of use.
    pub(super) fn most_of_error(&self) -> usize {
        HASHED.max(self.access.error_body())
    }

    /// The latest attempt's reply was an error whose body begins so, and was read whole.
    pub(super) fn error(&self, body: &[u8]) {
        if let Some(attempt) = self.noted.borrow_mut().record.attempts.last_mut() {
            attempt.met(body, self.access.error_body());
        }
    }

    /// The caller gets this.
    pub(super) fn answered(&self, response: &Response<Body>) {
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
    pub(super) fn trailers(&self, trailers: &HeaderMap) {
        let record = &mut self.noted.borrow_mut().record;
        record.grpc_status = grpc_status(trailers).or(record.grpc_status);
    }

    /// And these bytes of it.
    pub(super) fn passed(&self, bytes: &[u8]) {
        let most = self.most_of_error();
        let Noted { record, error, is_own, .. } = &mut *self.noted.borrow_mut();
        record.bytes_out += bytes.len() as u64;
        if record.status >= 400 && !*is_own && error.len() < most {
            error.extend_from_slice(&bytes[..bytes.len().min(most - error.len())]);
        }
    }

    /// All that there was to give was taken.
    pub(super) fn whole(&self) {
        self.noted.borrow_mut().record.cut_off = false;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Noted { record, error, is_own, .. } = self.noted.get_mut();
        record.duration_ms = millis(self.began.elapsed());
        let status = record.status;
        let given = |attempt: &&mut Attempt| attempt.lacks_error_of(status);
        if !*is_own
            && (!record.cut_off || error.len() >= HASHED)
            && let Some(attempt) = record.attempts.iter_mut().rev().find(given)
        {
            attempt.met(error, self.access.error_body());
        }
        self.access.record(record);
    }
}

fn grpc_status(fields: &HeaderMap) -> Option<u32> {
    fields.get(grpc::STATUS)?.to_str().ok()?.parse().ok()
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

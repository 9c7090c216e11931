//! Quota: the header fields of a rate limit, and the future that adds them to a reply.

use std::{
    convert::Infallible,
    fmt::Write,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum_core::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use pin_project_lite::pin_project;
use quell_core::{Time, limiter};

use super::respond::Whole;
use crate::Clock;

const QUOTA: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What of the fields is the same in every reply.
#[derive(Debug)]
pub(super) struct Headers {
    name: Box<str>,
    policy: HeaderValue,
    legacy: bool,
    on_pass: bool,
}

/// What is to be added to the reply of a request that passed.
#[derive(Debug, Default)]
pub(super) struct Passing(HeaderMap);

impl Headers {
    /// `None` if the name cannot stand in a header.
    pub(super) fn new(
        name: &str,
        spec: limiter::Spec,
        legacy: bool,
        on_pass: bool,
    ) -> Option<Self> {
        let fits = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
            return None;
        }
        let window = (f64::from(spec.burst) / spec.per_second).ceil().max(1.0) as u64;
        let policy = format!("\"{name}\";q={};w={window}", spec.burst);
        let policy = HeaderValue::try_from(policy).ok()?;
        Some(Self { name: name.into(), policy, legacy, on_pass })
    }

    /// For a request that passed: the quota lasts until the bucket is full again.
    pub(super) fn passing(&self, status: &limiter::Status, now: Time, clock: &Clock) -> Passing {
        let mut fields = HeaderMap::new();
        if self.on_pass {
            self.write(status, Whole::of(status.reset.since(now)), clock, &mut fields);
        }
        Passing(fields)
    }

    /// For a request that was refused: there is more at the instant that `Retry-After` names.
    pub(super) fn refuse(
        &self,
        status: &limiter::Status,
        wait: Option<Whole>,
        now: Time,
        clock: &Clock,
        fields: &mut HeaderMap,
    ) {
        let until = wait.unwrap_or_else(|| Whole::of(status.reset.since(now)));
        self.write(status, until, clock, fields);
    }

    fn write(
        &self,
        status: &limiter::Status,
        Whole(until): Whole,
        clock: &Clock,
        fields: &mut HeaderMap,
    ) {
        let mut quota = String::with_capacity(self.name.len() + 32);
        // Writing to a string cannot fail.
        let _ = write!(quota, "\"{}\";r={};t={until}", self.name, status.tokens);
        fields.extend(HeaderValue::try_from(quota).ok().map(|quota| (QUOTA, quota)));
        fields.insert(POLICY, self.policy.clone());
        if self.legacy {
            let unix_now = clock.unix_now().as_nanos().div_ceil(1_000_000_000);
            let unix_now = u64::try_from(unix_now).unwrap_or(u64::MAX);
            fields.insert(LIMIT, HeaderValue::from(status.capacity));
            fields.insert(REMAINING, HeaderValue::from(status.tokens));
            fields.insert(RESET, HeaderValue::from(unix_now.saturating_add(until)));
        }
    }
}

pin_project! {
    /// The reply of a service behind a [`RateLimit`](super::RateLimit), or the refusal.
    #[derive(Debug)]
    pub struct Limiting<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = Project]
    #[derive(Debug)]
    enum State<F> {
        Passed { #[pin] inner: F, passing: Passing },
        Refused { response: Option<Response> },
    }
}

impl<F> Limiting<F> {
    pub(super) fn passed(inner: F, passing: Passing) -> Self {
        Self { state: State::Passed { inner, passing } }
    }

    pub(super) fn refused(response: Response) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Limiting<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Project::Passed { inner, passing } => {
                let Ok(mut response) = ready!(inner.poll(cx));
                response.headers_mut().extend(std::mem::take(&mut passing.0));
                Poll::Ready(Ok(response))
            }
            // There is nothing to give to whoever polls again after the end.
            Project::Refused { response } => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
        }
    }
}

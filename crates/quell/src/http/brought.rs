//! Brought: what a request says of its caller's time and of the chain's retries.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use quell_core::credit::Retries;

use super::{
    grpc,
    headers::{BAGGAGE, CREDIT, DEADLINE},
    when,
    word::texts,
};

/// Envoy's way to say how much time is left, in milliseconds.
const ENVOY_DEADLINE: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// More time than this is this: nobody waits for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the caller says it will wait: `quell-deadline-ms`, `x-envoy-expected-rq-timeout-ms` and `grpc-timeout`, of
/// which the shortest counts. What cannot be read was not said, and what can is a day at most; nothing left means that the
/// caller has gone.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::headers;
///
/// let mut request = HeaderMap::new();
/// assert_eq!(headers::deadline(&request), None);
/// request.insert("quell-deadline-ms", HeaderValue::from_static("1500"));
/// request.insert("grpc-timeout", HeaderValue::from_static("2S"));
/// assert_eq!(headers::deadline(&request), Some(Duration::from_millis(1_500)));
/// ```
pub fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let ours = texts(headers, DEADLINE).chain(texts(headers, ENVOY_DEADLINE));
    let ours = ours.filter_map(when::number).map(Duration::from_millis);
    let all = ours.chain(texts(headers, grpc::TIMEOUT).filter_map(grpc::read_timeout));
    all.min().map(|left| left.min(LONGEST))
}

/// The credit of retries that a request carries: `quell-retry-credit`, or our member of `baggage`, of which the smallest
/// counts. What cannot be read allows nothing. Whether to believe it is the reader's business: strangers may only tighten.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use quell::{core::credit::Retries, http::headers};
///
/// let mut request = HeaderMap::new();
/// assert_eq!(headers::credit(&request), None);
/// request.insert("quell-retry-credit", HeaderValue::from_static("2"));
/// request.insert("baggage", HeaderValue::from_static("user=7,quell-retry-credit=1"));
/// assert_eq!(headers::credit(&request), Some(Retries::new(1)));
/// ```
pub fn credit(headers: &HeaderMap) -> Option<Retries> {
    let values = |name| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let told = values(CREDIT).map(Retries::read);
    told.chain(values(BAGGAGE).filter_map(Retries::in_baggage)).min()
}

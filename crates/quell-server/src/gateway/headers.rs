//! Header rules: what is passed on, what is dropped and what is added, on either way.
//!
//! Hop-by-hop fields end here, as do those that `Connection` nominates; but it may not nominate Quell's own, or any
//! caller could switch the policies of the next hop off. Fields that say where a request came from are written here
//! and nowhere else: there are no trusted hops yet, so what strangers claim is dropped.

use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, VIA};

use quell::http::headers::DEADLINE;

use super::config::{Host, Target};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const PROTO: HeaderValue = HeaderValue::from_static("http");
const QUELL: HeaderValue = HeaderValue::from_static("1.1 quell");

/// Fields that mean this connection only.
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authorization"
            | "proxy-authenticate"
    )
}

/// Fields of a request that only we may write. `expect` is here because we have answered it ourselves.
fn is_ours(name: &str) -> bool {
    let forwarded = name.starts_with("x-forwarded-");
    forwarded
        || matches!(
            name,
            "forwarded"
                | "x-real-ip"
                | "via"
                | "expect"
                | "quell-attempt"
                | "quell-retry-credit"
                | "quell-deadline-ms"
        )
}

/// How long the caller says it will wait. Garbage says nothing.
pub(super) fn told_deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(DEADLINE)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}

/// Makes a caller's fields into those of our request, the same for all attempts.
pub(super) fn onward(headers: &mut HeaderMap, peer: &HeaderValue, host: Host, to: &Target) {
    drop_hop_by_hop(headers);
    drop_where(headers, is_ours);
    let forwarded_host = match host {
        Host::Rewrite => headers.insert(HOST, to.authority.clone()),
        Host::Keep => match headers.get(HOST) {
            Some(host) => Some(host.clone()),
            None => headers.insert(HOST, to.authority.clone()), // an HTTP/1.0 caller that names none
        },
    };
    if let Some(host) = forwarded_host {
        headers.insert(FORWARDED_HOST, host);
    }
    headers.insert(FORWARDED_FOR, peer.clone());
    headers.insert(FORWARDED_PROTO, PROTO);
    headers.insert(VIA, QUELL);
}

/// Makes an upstream's fields into those of our reply.
pub(super) fn back(headers: &mut HeaderMap) {
    drop_hop_by_hop(headers);
    drop_where(headers, |name| matches!(name, "quell-attempts" | "quell-stop"));
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        drop_nominated(headers);
    }
    drop_where(headers, is_hop_by_hop);
}

fn drop_nominated(headers: &mut HeaderMap) {
    let mut nominated = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',') {
            // Names that frame or route the message may not be nominated away either.
            if let Ok(name) = HeaderName::from_bytes(token.trim_ascii())
                && !name.as_str().starts_with("quell-")
                && !matches!(name.as_str(), "host" | "content-length" | "close")
            {
                nominated.push(name);
            }
        }
    }
    for name in nominated {
        headers.remove(name);
    }
}

/// One pass over what is there, which is cheaper than asking for everything that might be.
fn drop_where(headers: &mut HeaderMap, unwanted: impl Fn(&str) -> bool) {
    while let Some(name) = headers.keys().find(|name| unwanted(name.as_str())).cloned() {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn sent_on(fields: &[(&'static str, &'static str)], host: Host) -> HeaderMap {
        let mut headers = map(fields);
        let to = "http://up:81".parse().unwrap();
        onward(&mut headers, &HeaderValue::from_static("10.1.1.1"), host, &to);
        headers
    }

    #[test]
    fn hop_by_hop_fields_and_what_connection_nominates_end_here() {
        let fields = [
            ("host", "a"),
            ("connection", "keep-alive, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("accept", "*/*"),
        ];
        let headers = sent_on(&fields, Host::Keep);
        let expected = map(&[
            ("host", "a"),
            ("accept", "*/*"),
            ("via", "1.1 quell"),
            ("x-forwarded-for", "10.1.1.1"),
        ]);
        assert_eq!(headers.len(), expected.len() + 2);
        for (name, value) in &expected {
            assert_eq!(headers.get(name), Some(value));
        }
    }

    #[test]
    fn connection_may_not_nominate_policy_or_framing_fields() {
        let mut headers = map(&[
            ("connection", "quell-stop, quell-attempts, content-length, host, close"),
            ("content-length", "3"),
            ("host", "a"),
            ("quell-note", "x"),
        ]);
        drop_hop_by_hop(&mut headers);
        assert_eq!(headers, map(&[("content-length", "3"), ("host", "a"), ("quell-note", "x")]));
    }

    #[test]
    fn strangers_claims_are_replaced_by_what_we_saw() {
        let fields = [
            ("host", "a"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-for", "7.7.7.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
            ("forwarded", "for=6.6.6.6"),
            ("via", "1.1 other"),
            ("quell-attempt", "9"),
            ("quell-retry-credit", "9"),
            ("quell-deadline-ms", "9"),
        ];
        let headers = sent_on(&fields, Host::Rewrite);
        let expected = [
            ("host", "up:81"),
            ("x-forwarded-for", "10.1.1.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a"),
            ("via", "1.1 quell"),
        ];
        assert_eq!(headers, map(&expected));
    }

    #[test]
    fn a_told_deadline_is_whole_milliseconds_or_nothing() {
        let told = |value| told_deadline(&map(&[("quell-deadline-ms", value)]));
        assert_eq!(told("250"), Some(Duration::from_millis(250)));
        for garbage in ["", "-1", "1.5", "1s", "99999999999999999999999"] {
            assert_eq!(told(garbage), None, "{garbage:?}");
        }
    }
}

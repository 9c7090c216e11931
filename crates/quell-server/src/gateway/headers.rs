//! Header rules: what is passed on, what is dropped and what is added, on either way.
//!
//! Hop-by-hop fields end here, as do those that `Connection` nominates; but it may not nominate Quell's own, or any
//! caller could switch the policies of the next hop off. Fields that say where a request came from are written here
//! and nowhere else, unless a trusted hop was there before us: what strangers claim is dropped.

use std::net::IpAddr;

use crate::config::HostField;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE, VIA,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri, Version};

use super::lane::Lane;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
const SWITCH: HeaderValue = HeaderValue::from_static("upgrade");
const QUELL: HeaderValue = HeaderValue::from_static("1.1 quell");

/// What of the caller and its connection the upstream gets to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// Where the caller is.
    pub(super) peer: &'a HeaderValue,
    /// Whether it came by TLS.
    pub(super) is_tls: bool,
    /// Whether it is a hop of ours, whose word on who came before it counts.
    pub(super) is_trusted: bool,
}

/// Which of the fields that matter here a head has: one look at each of its names, in place of a search for each that it
/// might have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// Fields that mean this connection only.
    const HOP_BY_HOP: u8 = 1;
    /// Fields of a request that only we may write, whoever the caller is, and those that a trusted hop may.
    const OURS: u8 = 2;
    const FORWARDED: u8 = 4;
    const DEADLINE: u8 = 8;
    const CREDIT: u8 = 16;
    const CREDENTIAL: u8 = 32;

    pub(super) fn of(headers: &HeaderMap) -> Self {
        let marks = headers.keys().map(|name| Self::of_one(name.as_str()).0);
        Self(marks.fold(0, |all, marks| all | marks))
    }

    /// `expect` is ours because we have answered it.
    fn of_one(name: &str) -> Self {
        Self(match name {
            "connection"
            | "keep-alive"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "proxy-authorization"
            | "proxy-authenticate" => Self::HOP_BY_HOP,
            "quell-deadline-ms" => Self::OURS | Self::DEADLINE,
            "quell-retry-credit" => Self::OURS | Self::CREDIT,
            "forwarded" | "x-real-ip" | "via" | "expect" | "quell-attempt" => Self::OURS,
            "x-envoy-expected-rq-timeout-ms" | "grpc-timeout" => Self::DEADLINE,
            "baggage" => Self::CREDIT,
            "authorization" | "x-api-key" | "api-key" => Self::CREDENTIAL,
            name if name.starts_with("x-forwarded-") => Self::FORWARDED,
            _ => 0,
        })
    }

    const fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }

    pub(super) const fn has_deadline(self) -> bool {
        self.has(Self::DEADLINE)
    }

    pub(super) const fn has_credential(self) -> bool {
        self.has(Self::CREDENTIAL)
    }

    pub(super) const fn has_credit(self) -> bool {
        self.has(Self::CREDIT)
    }
}

/// What goes on.
#[derive(Debug)]
pub(super) struct Onward {
    /// The protocol that the caller wants to switch to.
    pub(super) upgrade: Option<HeaderValue>,
    /// Fields that we add, the same for all attempts. They are not among the others, so that they need not be found again.
    pub(super) added: Vec<(HeaderName, HeaderValue)>,
    /// Whether what an attempt adds may stand in place of what the caller sent.
    pub(super) may_replace: bool,
}

/// Makes a caller's fields into those of our request: with a `Host`, whatever the version was.
pub(super) fn onward(parts: &mut Parts, marks: Marks, facts: Facts<'_>) -> Onward {
    let Facts { peer, is_tls, is_trusted } = facts;
    let headers = &mut parts.headers;
    let (mut upgrade, mut trailers) = (None, false);
    if marks.has(Marks::HOP_BY_HOP) {
        upgrade = self::upgrade(parts.version, headers);
        trailers =
            headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
        drop_hop_by_hop(headers);
    }
    let is_forwarded = marks.has(Marks::FORWARDED);
    let before = match is_forwarded && is_trusted {
        true => headers.get(FORWARDED_FOR).cloned(),
        false => None,
    };
    if marks.has(Marks::OURS) || is_forwarded {
        let ours = if is_trusted { Marks::OURS } else { Marks::OURS | Marks::FORWARDED };
        drop_where(headers, |name| name == FORWARDED_FOR || Marks::of_one(name).has(ours));
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
        if let Some(host) =
            parts.uri.authority().and_then(|a| HeaderValue::from_str(a.as_str()).ok())
        {
            headers.insert(HOST, host);
        }
    }
    if trailers {
        headers.insert(TE, TRAILERS);
    }
    let mut added = Vec::with_capacity(8);
    let is_told = |name| is_forwarded && is_trusted && headers.contains_key(name);
    if !is_told(FORWARDED_HOST)
        && let Some(host) = headers.get(HOST).cloned()
    {
        added.push((FORWARDED_HOST, host));
    }
    if !is_told(FORWARDED_PROTO) {
        added.push((FORWARDED_PROTO, if is_tls { HTTPS } else { HTTP }));
    }
    let through = before.and_then(|before| and(&before, peer)).unwrap_or_else(|| peer.clone());
    added.extend([(FORWARDED_FOR, through), (VIA, QUELL)]);
    if let Some(upgrade) = &upgrade {
        added.extend([(CONNECTION, SWITCH), (UPGRADE, upgrade.clone())]);
    }
    Onward { upgrade, added, may_replace: marks.has_credit() }
}

fn and(before: &HeaderValue, peer: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&[before.as_bytes(), b", ", peer.as_bytes()].concat()).ok()
}

/// Where a request came from, by the word of hops that are trusted: the last address that is none of theirs.
pub(super) fn origin(headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let values = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<_> = values.flat_map(|value| value.split(',')).collect();
    let known = named.into_iter().rev().map_while(|name| name.trim().parse::<IpAddr>().ok());
    let mut last = None;
    for ip in known {
        last = Some(ip);
        if !is_trusted(ip) {
            break;
        }
    }
    last
}

/// The protocol that a caller asks to switch to. HTTP/2 by this way is not offered: who wants it begins with it.
fn upgrade(version: Version, headers: &HeaderMap) -> Option<HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let wanted = headers.get(UPGRADE)?;
    let named = |value: &HeaderValue| {
        value
            .as_bytes()
            .split(|byte| *byte == b',')
            .any(|t| t.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
    };
    let asked = headers.get_all(CONNECTION).iter().any(named);
    (asked && !wanted.as_bytes().to_ascii_lowercase().starts_with(b"h2")).then(|| wanted.clone())
}

/// HTTP/2 may split cookies into crumbs; HTTP/1 has one field.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// The host that a request to this endpoint names, if not the one it came with.
pub(super) fn named<'a>(headers: &HeaderMap, lane: &'a Lane) -> Option<&'a HeaderValue> {
    let is_ours = lane.host == HostField::Rewrite || !headers.contains_key(HOST);
    is_ours.then_some(&lane.endpoint.target.authority)
}

/// Makes a request fit for an HTTP/2 connection, which names the host in its target.
pub(super) fn fit<B>(request: &mut Request<B>, lane: &Lane) {
    let named = named(request.headers(), lane);
    let host = request.headers_mut().remove(HOST);
    let host = named.cloned().or(host);
    let scheme = if lane.endpoint.target.tls { Scheme::HTTPS } else { Scheme::HTTP };
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    (parts.scheme, parts.authority) = (Some(scheme), authority);
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
}

/// The target as an origin server wants it: without scheme and host, which the `Host` field has.
pub(super) fn to_origin_form(uri: &mut Uri) {
    if uri.authority().is_some() {
        let target = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let target = match target.starts_with('?') {
            true => PathAndQuery::try_from(format!("/{target}")).ok(),
            false => uri.path_and_query().cloned(),
        };
        *uri = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
}

/// Makes an upstream's fields into those of our reply. What it says of the chain below is read before.
pub(super) fn back(headers: &mut HeaderMap) {
    if Marks::of(headers).has(Marks::HOP_BY_HOP) {
        drop_hop_by_hop(headers);
    }
}

/// One length, or none; the same one twice becomes one. HTTP/2's parser looks only where a body follows, and who writes the
/// reply would break off.
#[must_use]
pub(super) fn has_one_length(headers: &mut HeaderMap) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(first), Some(second)) = (lengths.next(), lengths.next()) else { return true };
    let is_one = first == second && lengths.all(|length| length == first);
    let first = first.clone();
    headers.insert(CONTENT_LENGTH, first);
    is_one
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        drop_nominated(headers);
    }
    drop_where(headers, |name| Marks::of_one(name).has(Marks::HOP_BY_HOP));
}

/// Whether a field may stand before a reply or behind a body: none that frames, routes or vouches for a message, and none
/// of those that only we may write.
pub(super) fn may_trail(name: &HeaderName) -> bool {
    let name = name.as_str();
    !Marks::of_one(name).has(Marks::HOP_BY_HOP | Marks::OURS | Marks::FORWARDED)
        && !name.starts_with("quell-")
        && !matches!(
            name,
            "host"
                | "content-length"
                | "content-type"
                | "content-encoding"
                | "content-range"
                | "trailer"
                | "authorization"
                | "cookie"
                | "set-cookie"
                | "idempotency-key"
        )
}

/// Whether `Connection` may keep a field to itself: none of ours, and none that frames or routes the message.
pub(super) fn may_be_nominated(name: &HeaderName) -> bool {
    !name.as_str().starts_with("quell-") && !matches!(*name, HOST | CONTENT_LENGTH | UPGRADE)
}

fn drop_nominated(headers: &mut HeaderMap) {
    let mut nominated = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',') {
            if let Ok(name) = HeaderName::from_bytes(token.trim_ascii())
                && may_be_nominated(&name)
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

    fn parts(version: Version, fields: &[(&'static str, &'static str)]) -> Parts {
        let mut parts =
            Request::builder().version(version).uri("http://b/x").body(()).unwrap().into_parts().0;
        parts.headers = map(fields);
        parts
    }

    fn sent_on(fields: &[(&'static str, &'static str)], is_trusted: bool) -> HeaderMap {
        sent(&mut parts(Version::HTTP_11, fields), false, is_trusted)
    }

    /// All that goes on.
    fn sent(parts: &mut Parts, is_tls: bool, is_trusted: bool) -> HeaderMap {
        let peer = HeaderValue::from_static("10.1.1.1");
        let marks = Marks::of(&parts.headers);
        let onward = onward(parts, marks, Facts { peer: &peer, is_tls, is_trusted });
        let mut all = parts.headers.clone();
        for (name, value) in onward.added {
            assert_eq!(all.insert(&name, value), None, "{name} twice");
        }
        all
    }

    #[test]
    fn hop_by_hop_fields_and_what_connection_nominates_end_here() {
        let fields = [
            ("host", "a"),
            ("connection", "keep-alive, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("te", "gzip"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "x"),
            ("transfer-encoding", "chunked"),
            ("accept", "*/*"),
        ];
        let headers = sent_on(&fields, false);
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

    /// H14.
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

    const CLAIMS: [(&str, &str); 10] = [
        ("host", "a"),
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "evil"),
        ("forwarded", "for=6.6.6.6"),
        ("via", "1.1 other"),
        ("te", "trailers"),
        ("quell-attempt", "9"),
        ("quell-retry-credit", "9"),
        ("quell-deadline-ms", "9"),
    ];

    #[test]
    fn strangers_claims_are_replaced_by_what_we_saw() {
        let expected = [
            ("host", "a"),
            ("te", "trailers"),
            ("x-forwarded-for", "10.1.1.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a"),
            ("via", "1.1 quell"),
        ];
        assert_eq!(sent_on(&CLAIMS, false), map(&expected));
    }

    #[test]
    fn a_trusted_hops_claims_are_added_to() {
        let expected = [
            ("host", "a"),
            ("te", "trailers"),
            ("x-forwarded-for", "6.6.6.6, 10.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil"),
            ("via", "1.1 quell"),
        ];
        assert_eq!(sent_on(&CLAIMS, true), map(&expected));
    }

    #[test]
    fn the_origin_is_the_last_address_that_is_no_hop_of_ours() {
        let ours = |ip: IpAddr| ip.to_string().starts_with("10.");
        let from =
            |value| origin(&map(&[("x-forwarded-for", value)]), ours).map(|ip| ip.to_string());
        assert_eq!(from("6.6.6.6, 7.7.7.7, 10.0.0.1").as_deref(), Some("7.7.7.7"));
        assert_eq!(from("10.0.0.2").as_deref(), Some("10.0.0.2"));
        assert_eq!(from("6.6.6.6, nonsense, 10.0.0.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(from("nonsense"), None);
    }

    #[test]
    fn only_who_names_it_in_connection_switches_protocols_and_never_to_http_2() {
        let asked = |fields| upgrade(Version::HTTP_11, &map(fields));
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
        assert_eq!(asked(&both).unwrap(), "websocket");
        assert_eq!(asked(&both[1..]), None);
        assert_eq!(asked(&[("connection", "upgrade"), ("upgrade", "h2c")]), None);
        assert_eq!(upgrade(Version::HTTP_10, &map(&both)), None);
        assert_eq!(upgrade(Version::HTTP_2, &map(&both)), None);
    }

    #[test]
    fn http_2_names_its_host_in_the_target_and_its_crumbs_are_joined() {
        let mut parts = parts(Version::HTTP_2, &[("cookie", "a=1"), ("cookie", "b=2")]);
        let all = sent(&mut parts, true, false);
        to_origin_form(&mut parts.uri);
        assert_eq!(
            (&parts.headers["host"], &parts.headers["cookie"]),
            (&"b".parse().unwrap(), &"a=1; b=2".parse().unwrap())
        );
        assert_eq!((parts.uri.to_string().as_str(), &all["x-forwarded-proto"]), ("/x", &HTTPS));
    }
}

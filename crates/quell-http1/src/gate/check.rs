//! What is checked of a request after it was parsed, of HTTP/1 and HTTP/2 alike.

use http::{HeaderMap, HeaderName, Method, Request, StatusCode, Version, header};

use super::head::{LENGTH, NEARLY, is_nearly_framing};
use super::malformed::{Malformed, TARGET_TOO_LONG, TOO_MANY_FIELDS, bad, refuse};
use crate::limits::{LONGEST_TARGET, MOST_FIELDS};

const CONNECT: Malformed =
    refuse(StatusCode::NOT_IMPLEMENTED, "connect", "CONNECT is not supported");
const NO_HOST: Malformed = bad("host", "no Host field");
const BAD_HOST: Malformed = bad("host", "the Host field is not a host with or without a port");
const OTHER_HOST: Malformed = bad("host", "the target names another host than the Host field");

/// Fields that speak of a connection of HTTP/1, and have no place in HTTP/2.
static OF_HTTP_1: [HeaderName; 5] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether the request can be passed on: for one host that everybody agrees on, and of a size that is passed on.
pub fn check<B>(request: &Request<B>) -> Result<(), Malformed> {
    let (uri, headers) = (request.uri(), request.headers());
    if request.method() == Method::CONNECT {
        return Err(CONNECT);
    }
    check_host(request)?;
    if headers.len() > MOST_FIELDS {
        return Err(TOO_MANY_FIELDS);
    }
    if uri.path().len() + uri.query().map_or(0, str::len) > LONGEST_TARGET {
        return Err(TARGET_TOO_LONG);
    }
    if request.version() == Version::HTTP_2 { check_http_2(headers) } else { Ok(()) }
}

/// Exactly one `Host` (HTTP/1.0 may do without, HTTP/2 has an authority), and none that contradicts the target.
fn check_host<B>(request: &Request<B>) -> Result<(), Malformed> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().map(|host| host.as_bytes());
    if hosts.next().is_some() {
        return Err(bad("host", "more than one Host field"));
    }
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    match (authority, host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => Err(OTHER_HOST),
        (_, Some(host)) if !is_host(host) => Err(BAD_HOST),
        (_, Some(_)) => Ok(()),
        (Some(authority), None) if request.version() == Version::HTTP_2 => {
            if is_host(authority) {
                Ok(())
            } else {
                Err(BAD_HOST)
            }
        }
        (_, None) if request.version() == Version::HTTP_10 => Ok(()),
        (_, None) => Err(NO_HOST),
    }
}

fn check_http_2(headers: &HeaderMap) -> Result<(), Malformed> {
    if OF_HTTP_1.iter().any(|name| headers.contains_key(name)) {
        return Err(bad("field", "a field of HTTP/1's connections"));
    }
    // HTTP/1 behind us may frame by what HTTP/2 does not.
    if headers.get_all(header::CONTENT_LENGTH).iter().count() > 1 {
        return Err(LENGTH);
    }
    let is_nearly = |name: &HeaderName| {
        *name != header::CONTENT_LENGTH && is_nearly_framing(name.as_str().as_bytes())
    };
    if headers.keys().any(is_nearly) {
        return Err(NEARLY);
    }
    let mut tes = headers.get_all(header::TE).iter();
    if tes.any(|te| !te.as_bytes().eq_ignore_ascii_case(b"trailers")) {
        return Err(bad("field", "TE is not trailers"));
    }
    Ok(())
}

/// A name or an address, with or without a port. No user, no blanks, nothing escaped.
pub(super) fn is_host(host: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let is_address = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
    let (length, rest) = match host.split_first() {
        Some((b'[', address)) => {
            let length = address.iter().take_while(|byte| is_address(byte)).count();
            let Some((b']', rest)) = address[length..].split_first() else { return false };
            (length, rest)
        }
        _ => {
            let length = host.iter().take_while(|byte| is_name(byte)).count();
            (length, &host[length..])
        }
    };
    let is_port =
        |port: &[u8]| (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit);
    length > 0 && (rest.is_empty() || matches!(rest, [b':', port @ ..] if is_port(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: Version, uri: &str, fields: &[(&str, &str)]) -> Option<&'static str> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap()).err().map(|malformed| malformed.code)
    }

    fn refused(uri: &str, fields: &[(&str, &str)]) -> Option<&'static str> {
        of(Version::HTTP_11, uri, fields)
    }

    /// H12.
    #[test]
    fn exactly_one_host_that_agrees_with_the_target() {
        assert_eq!(refused("/", &[("host", "a")]), None);
        assert_eq!(refused("http://A/x", &[("host", "a")]), None);
        assert_eq!(refused("/", &[]), Some("host"));
        assert_eq!(refused("/", &[("host", "a"), ("host", "a")]), Some("host"));
        assert_eq!(refused("http://b/", &[("host", "a")]), Some("host"));
        assert_eq!(refused("http://u@a/", &[("host", "a")]), Some("host"));
        assert_eq!(of(Version::HTTP_10, "/", &[]), None);
    }

    /// H12.
    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for host in
            ["a", "A-1.example_2.com:80", "127.0.0.1:65535", "[::1]", "[fe80::1.2.3.4]:8080"]
        {
            assert_eq!(refused("/", &[("host", host)]), None, "{host}");
        }
        for host in [
            "", ":80", "a:", "a:b", "a:123456", "a b", "a,b", "u@a", "a/b", "a?b", "a#b", "a%41",
            "[::1", "[]", "[g]", "[::1]x", "http://a", "\"a\"",
        ] {
            assert_eq!(refused("/", &[("host", host)]), Some("host"), "{host}");
        }
    }

    #[test]
    fn http_2_names_its_host_once_and_has_no_fields_of_http_1s_connections() {
        let http_2 = |uri: &str, fields: &[_]| of(Version::HTTP_2, uri, fields);
        assert_eq!(http_2("http://a/x", &[]), None);
        assert_eq!(http_2("http://a/x", &[("host", "a"), ("te", "trailers")]), None);
        assert_eq!(http_2("/x", &[("host", "a")]), None);
        assert_eq!(http_2("/x", &[]), Some("host"));
        assert_eq!(http_2("http://a/x", &[("host", "b")]), Some("host"));
        assert_eq!(http_2("http://u@a/x", &[]), Some("host"));
        for name in &OF_HTTP_1 {
            assert_eq!(http_2("http://a/", &[(name.as_str(), "x")]), Some("field"), "{name}");
        }
        assert_eq!(http_2("http://a/", &[("te", "gzip")]), Some("field"));
        let length = ("content-length", "5");
        assert_eq!(http_2("http://a/", &[length]), None);
        assert_eq!(http_2("http://a/", &[length, length]), Some("framing"));
        assert_eq!(http_2("http://a/", &[("content_length", "5")]), Some("framing"));
    }

    /// H15.
    #[test]
    fn every_crumb_of_a_cookie_counts_as_a_field() {
        let crumbs = |count| [&[("host", "a")], vec![("cookie", "a=1"); count].as_slice()].concat();
        assert_eq!(refused("/", &crumbs(MOST_FIELDS - 1)), None);
        assert_eq!(refused("/", &crumbs(MOST_FIELDS)), Some("fields"));
        assert_eq!(of(Version::HTTP_2, "/", &crumbs(MOST_FIELDS)), Some("fields"));
    }

    #[test]
    fn connect_and_endless_targets_are_refused() {
        let connect = Request::connect("a:1").body(()).unwrap();
        assert_eq!(check(&connect).unwrap_err().status, StatusCode::NOT_IMPLEMENTED);
        let long = format!("/{}", "x".repeat(LONGEST_TARGET));
        assert_eq!(refused(&long, &[("host", "a")]), Some("target"));
    }
}

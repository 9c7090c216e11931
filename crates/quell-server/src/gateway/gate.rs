//! The gate: requests that two parsers could read differently are refused before anything else happens.
//!
//! It sees what hyper leaves visible: missing or repeated `Host`, an absolute target that names another host,
//! transfer codings other than `chunked`. What hyper repairs silently (bare line feeds, `Content-Length` beside
//! `Transfer-Encoding`, which it drops) is out of its sight; such requests are framed anew on the way to the upstream,
//! so they cannot smuggle, and a strict gate in front of the parser is to refuse them.

use http::{Method, Request, StatusCode, Version, header};

/// The longest target that is passed on.
const LONGEST_TARGET: usize = 8 * 1024;

/// Why a request goes no further: the status, a word and a sentence for the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) error: &'static str,
}

const fn bad(code: &'static str, error: &'static str) -> Malformed {
    Malformed { status: StatusCode::BAD_REQUEST, code, error }
}

pub(super) fn check<B>(request: &Request<B>) -> Result<(), Malformed> {
    if request.method() == Method::CONNECT {
        let status = StatusCode::NOT_IMPLEMENTED;
        return Err(Malformed { status, code: "connect", error: "CONNECT is not supported" });
    }
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(bad("host", "more than one Host field"));
    }
    if host.is_none() && request.version() == Version::HTTP_11 {
        return Err(bad("host", "no Host field"));
    }
    if let (Some(authority), Some(host)) = (request.uri().authority(), host)
        && !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
    {
        return Err(bad("host", "the target names another host than the Host field"));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if headers.contains_key(header::CONTENT_LENGTH) {
            return Err(bad("framing", "both Transfer-Encoding and Content-Length"));
        }
        if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(bad("framing", "Transfer-Encoding is not just chunked"));
        }
    }
    let uri = request.uri();
    if uri.path().len() + uri.query().map_or(0, str::len) > LONGEST_TARGET {
        let status = StatusCode::URI_TOO_LONG;
        return Err(Malformed { status, code: "target", error: "the target is too long" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, fields: &[(&str, &str)]) -> Option<&'static str> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap()).err().map(|malformed| malformed.code)
    }

    #[test]
    fn exactly_one_host_that_agrees_with_the_target() {
        assert_eq!(refused("/", &[("host", "a")]), None);
        assert_eq!(refused("http://A/x", &[("host", "a")]), None);
        assert_eq!(refused("/", &[]), Some("host"));
        assert_eq!(refused("/", &[("host", "a"), ("host", "a")]), Some("host"));
        assert_eq!(refused("http://b/", &[("host", "a")]), Some("host"));
        let old = Request::builder().version(Version::HTTP_10).body(()).unwrap();
        assert_eq!(check(&old), Ok(()));
    }

    #[test]
    fn one_way_to_frame_a_body() {
        let framed = |fields: &[_]| refused("/", &[&[("host", "a")], fields].concat());
        assert_eq!(framed(&[("transfer-encoding", "Chunked")]), None);
        assert_eq!(framed(&[("content-length", "3")]), None);
        for coding in ["identity, chunked", "gzip", "chunked, chunked", ""] {
            assert_eq!(framed(&[("transfer-encoding", coding)]), Some("framing"), "{coding}");
        }
        let both = [("transfer-encoding", "chunked"), ("content-length", "3")];
        assert_eq!(framed(&both), Some("framing"));
    }

    #[test]
    fn connect_and_endless_targets_are_refused() {
        let connect = Request::connect("a:1").body(()).unwrap();
        assert_eq!(check(&connect).unwrap_err().status, StatusCode::NOT_IMPLEMENTED);
        let long = format!("/{}", "x".repeat(LONGEST_TARGET));
        assert_eq!(refused(&long, &[("host", "a")]), Some("target"));
    }
}

//! Digest: what makes two requests the same, as bytes of a fixed length that tell nothing.

use http::{HeaderMap, request::Parts};
use quell_core::idempotency::{Fingerprint, feed_scope};
use sha2::{Digest, Sha256};

use crate::{http::IDEMPOTENCY_KEY, store::Key};

const LONGEST_KEY: usize = 255;

/// What a request says of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried<'a> {
    /// This is it.
    Key(&'a [u8]),
    /// Nothing.
    None,
    /// Empty, too long, not visible ASCII, or more than one: a promise that cannot be kept.
    Unusable,
}

/// What these header fields say of a key: 1 to 255 visible characters, once.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::keyed::{Carried, carried};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(carried(&headers), Carried::None);
/// headers.insert("idempotency-key", HeaderValue::from_static("8e03978e40d5"));
/// assert_eq!(carried(&headers), Carried::Key(b"8e03978e40d5"));
/// headers.append("idempotency-key", HeaderValue::from_static("another"));
/// assert_eq!(carried(&headers), Carried::Unusable);
/// ```
pub fn carried(headers: &HeaderMap) -> Carried<'_> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    match (keys.next(), keys.next()) {
        (None, _) => Carried::None,
        (Some(key), None) => {
            let key = key.as_bytes();
            let fits = (1..=LONGEST_KEY).contains(&key.len());
            let usable = fits && key.iter().all(|byte| byte.is_ascii_graphic());
            if usable { Carried::Key(key) } else { Carried::Unusable }
        }
        (Some(_), Some(_)) => Carried::Unusable,
    }
}

/// Tenant, route, method, path and key.
pub(super) fn scope(tenant: Option<&[u8]>, route: &str, parts: &Parts, key: &[u8]) -> Key {
    let (method, path) = (parts.method.as_str().as_bytes(), parts.uri.path().as_bytes());
    // The number of parts tells no tenant from one without a name.
    let known = [route.as_bytes(), method, path, key, tenant.unwrap_or_default()];
    Key(sha256(if tenant.is_some() { &known } else { &known[..4] }))
}

/// The payload: body and query.
pub(super) fn fingerprint(parts: &Parts, body: &[u8]) -> Fingerprint {
    let query = parts.uri.query().unwrap_or_default();
    Fingerprint(sha256(&[query.as_bytes(), body]))
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    feed_scope(parts, |bytes| digest.update(bytes));
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn parts(method: &str, uri: &str) -> Parts {
        Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0
    }

    /// R4.
    #[test]
    fn tenant_route_method_path_and_key_are_told_apart_however_they_are_cut() {
        let (pay, refund) = (parts("POST", "/pay"), parts("POST", "/refund"));
        let scopes = [
            scope(None, "r", &pay, b"k"),
            scope(Some(b""), "r", &pay, b"k"),
            scope(Some(b"t"), "r", &pay, b"k"),
            scope(Some(b"kt"), "r", &pay, b"k"),
            scope(Some(b"t"), "r", &pay, b"kk"),
            scope(Some(b"t"), "r", &refund, b"k"),
            scope(Some(b"t"), "r", &parts("PATCH", "/pay"), b"k"),
            scope(Some(b"t"), "rPOST", &parts("POST", "/pay"), b"k"),
        ];
        for (i, one) in scopes.iter().enumerate() {
            assert!(scopes[i + 1..].iter().all(|other| one != other), "{i}");
        }
        assert_eq!(scope(Some(b"t"), "r", &pay, b"k"), scopes[2]);
    }

    #[test]
    fn query_and_body_make_the_payload() {
        let of = |uri, body: &[u8]| fingerprint(&parts("POST", uri), body);
        assert_eq!(of("/pay?a=1", b"x"), of("/pay?a=1", b"x"));
        assert_ne!(of("/pay?a=1", b"x"), of("/pay?a=2", b"x"));
        assert_ne!(of("/pay?a=1", b"x"), of("/pay?a=", b"1x"));
    }

    #[test]
    fn a_key_is_one_header_of_1_to_255_visible_characters() {
        let with = |keys: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            }
            headers
        };
        assert_eq!(carried(&with(&[])), Carried::None);
        assert_eq!(carried(&with(&[b"k"])), Carried::Key(b"k"));
        assert_eq!(carried(&with(&[&[b'k'; 255]])), Carried::Key(&[b'k'; 255]));
        let unusable: [&[&[u8]]; 6] =
            [&[b""], &[&[b'k'; 256]], &[b"a b"], &[b"a\tb"], &["ä".as_bytes()], &[b"a", b"a"]];
        for keys in unusable {
            assert_eq!(carried(&with(keys)), Carried::Unusable, "{keys:?}");
        }
    }
}

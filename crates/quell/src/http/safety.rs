//! Safety: which requests may reach an upstream twice.

use http::{HeaderMap, Method};

/// The header by which an upstream recognises a request that it has already seen.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Whether sending this request twice does no more than sending it once: by its method, or because it has a key.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method};
/// use quell::http::{IDEMPOTENCY_KEY, is_repeatable};
///
/// let mut headers = HeaderMap::new();
/// assert!(is_repeatable(&Method::PUT, &headers));
/// assert!(!is_repeatable(&Method::POST, &headers));
/// headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("8e03978e40d5"));
/// assert!(is_repeatable(&Method::POST, &headers));
/// ```
pub fn is_repeatable(method: &Method, headers: &HeaderMap) -> bool {
    method.is_idempotent() || headers.get(IDEMPOTENCY_KEY).is_some_and(|key| !key.is_empty())
}

/// Whether requests are repeated whose method does not allow it by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsafeMethods {
    /// They are not.
    Never,
    /// If they carry an `Idempotency-Key`.
    #[default]
    WithKey,
    /// They are.
    Always,
}

impl UnsafeMethods {
    /// Whether a request with this method and these headers may reach an upstream twice.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue, Method};
    /// use quell::http::{IDEMPOTENCY_KEY, UnsafeMethods};
    ///
    /// let keyed = HeaderMap::from_iter([(IDEMPOTENCY_KEY.parse()?, HeaderValue::from_static("8e03978e40d5"))]);
    /// assert!(UnsafeMethods::WithKey.repeats(&Method::POST, &keyed));
    /// assert!(!UnsafeMethods::Never.repeats(&Method::POST, &keyed));
    /// assert!(UnsafeMethods::Never.repeats(&Method::GET, &keyed));
    /// assert!(UnsafeMethods::Always.repeats(&Method::POST, &HeaderMap::new()));
    /// # Ok::<_, http::header::InvalidHeaderName>(())
    /// ```
    pub fn repeats(self, method: &Method, headers: &HeaderMap) -> bool {
        match self {
            Self::Never => method.is_idempotent(),
            Self::WithKey => is_repeatable(method, headers),
            Self::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H5.
    #[test]
    fn post_patch_and_what_nobody_knows_are_not_repeated_without_a_key() {
        let mut headers = HeaderMap::new();
        for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert!(is_repeatable(&method.parse().unwrap(), &headers), "{method}");
        }
        for method in ["POST", "PATCH", "CONNECT", "BREW", "get"] {
            assert!(!is_repeatable(&method.parse().unwrap(), &headers), "{method}");
        }
        headers.insert(IDEMPOTENCY_KEY, "".parse().unwrap());
        assert!(!is_repeatable(&Method::POST, &headers));
        headers.insert(IDEMPOTENCY_KEY, "k".parse().unwrap());
        assert!(is_repeatable(&Method::POST, &headers));
    }
}

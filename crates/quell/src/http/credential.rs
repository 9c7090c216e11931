//! Credential: as whom a request calls the upstream.
//!
//! **Why.** An upstream that says "429, come back in 30 s" often means one customer, and not everybody who calls through this
//! process. Whoever shows another credential need not wait.

use ::http::HeaderMap;

use crate::classes::caller_key;

/// Where people show one.
const FIELDS: [&str; 3] = ["authorization", "x-api-key", "api-key"];

/// What stands for the credential in a request's `Authorization`, `x-api-key` and `api-key`, for
/// [`Arrival::credential`](quell_core::Arrival::credential); 0 if there is none. See [`caller_key`].
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use quell::http::credential;
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(credential(&headers), 0);
/// headers.insert("authorization", HeaderValue::from_static("Bearer one"));
/// let one = credential(&headers);
/// headers.insert("authorization", HeaderValue::from_static("Bearer two"));
/// assert_ne!(credential(&headers), one);
/// ```
pub fn credential(headers: &HeaderMap) -> u64 {
    let shown = FIELDS.iter().filter_map(|name| headers.get(*name));
    shown.fold(0, |all: u64, value| all.rotate_left(1) ^ caller_key(value.as_bytes()))
}

//! The gate of `quell-http1`, and what this gateway refuses beside it: paths that its routes cannot read.

use http::StatusCode;

pub(super) use quell_http1::gate::{Malformed, Phase, check};

/// A path that routes cannot be chosen by.
pub(super) const WALKS: Malformed = Malformed {
    status: StatusCode::BAD_REQUEST,
    code: "target",
    error: "the path has . or .. in it, and routes are chosen by paths",
};

/// A path that a route takes and cannot rewrite.
pub(super) const SPELT: Malformed = Malformed {
    status: StatusCode::BAD_REQUEST,
    code: "target",
    error: "the route rewrites its path, and this one is spelt in another way or has a second slash behind it",
};

//! Wanted: what somebody asks for, as it is sent. The same for who asks and who is asked.

use serde::{Deserialize, Serialize};

/// What somebody asks for: the body of `POST /levers`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Whose calls: an upstream's, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upstream: Option<String>,
    /// ... or one route's. Neither where there is only one upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    /// `retries-off`, `attempts`, `limit`, `open`, `close`, `drop` or `reset-budget`.
    pub(crate) lever: String,
    /// How many, for `attempts` and `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<u32>,
    /// For how long, such as `10m`, or `forever`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub(crate) length: Option<String>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

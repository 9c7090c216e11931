//! What HTTP means to the policies: statuses, hints, the safety of methods, headers along a chain.
//!
//! **Why.** Every host that speaks HTTP has to agree on what a 503 says about the upstream, when a `Retry-After`
//! forbids to come back, whether a `POST` may be sent twice and what hops tell each other. It is written down here
//! once.
//!
//! ```
//! use std::time::Duration;
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use quell::{Fault, Outcome, http::classify};
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("retry-after", HeaderValue::from_static("7"));
//! let outcome = classify(StatusCode::SERVICE_UNAVAILABLE, &headers, Duration::ZERO);
//! let Outcome::Failed(failure) = outcome else { panic!() };
//! assert_eq!((failure.fault, failure.hint), (Fault::Overload, Some(Duration::from_secs(7))));
//! ```

mod brought;
mod classify;
mod credential;
mod delivery;
pub mod grpc;
pub mod headers;
mod hint;
pub(crate) mod hop;
#[cfg(feature = "keys")]
pub mod keyed;
mod pool;
pub mod quota;
pub(crate) mod refusal;
mod replay;
mod reply;
mod safety;
mod shape;
pub(crate) mod when;
pub(crate) mod whole;
pub(crate) mod word;

pub use classify::{Statuses, classify};
pub use credential::credential;
pub use delivery::delivery;
pub use hint::hint;
pub use pool::{LONGEST_KEPT, Pool};
pub use refusal::{own, reasoned, refusal};
pub use replay::{Replay, ReplayBody, ReplayError};
pub use reply::{Keep, ReplyBody};
pub use safety::{IDEMPOTENCY_KEY, UnsafeMethods, is_repeatable};
pub use shape::Shape;
pub use word::{Pushback, Word, grpc_pushback};

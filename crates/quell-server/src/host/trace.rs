//! Traces: a span per call and one per attempt, for whoever follows a request through many services.
//!
//! **Why.** A trace that shows one slow call hides that it was three attempts and two sleeps; one that begins anew at every
//! proxy cannot be followed at all. So the caller's W3C context is kept, or begun where there is none, and each attempt
//! hands on a span of its own.
//!
//! **How.** Behind the feature `otlp`, since most do without it and it is heavy. A build without it refuses a file that asks
//! for traces, rather than have somebody look for them in vain; it passes the caller's `traceparent` on as it is.

#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod post;

#[cfg(not(feature = "otlp"))]
pub(crate) use none::{Traced, Traces};
#[cfg(feature = "otlp")]
pub(crate) use otlp::{Traced, Traces};

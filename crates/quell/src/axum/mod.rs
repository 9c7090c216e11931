//! Layers for axum servers: a rate limit, an in-flight limit with a queue, idempotency keys, and what requests bring.
//!
//! **Why.** A service is overloaded by its callers, whatever they use. These three layers let it defend itself: against one
//! caller who asks too often, against all who ask for more than it can do, and against having the same effect twice
//! when a caller who got no answer asks again.
//!
//! **How.** Each is a layer for a whole router or for one route. The order matters, and axum runs the layer that was added last
//! first: [`RateLimit`] outermost, so that a flood costs next to nothing; then [`Idempotency`], so that a stored reply
//! takes no slot; then [`Admission`], right in front of the handlers. [`ContextLayer`] goes innermost: it hands what a
//! request brought to the calls that its handler makes.
//!
//! ```
//! use std::sync::Arc;
//! use axum::{Router, routing::post};
//! use quell::{axum::{Admission, ContextLayer, Idempotency, RateLimit}, store::Memory};
//!
//! let app: Router = Router::new()
//!     .route("/pay", post(|| async { "paid" }))
//!     .layer(ContextLayer::new())
//!     .layer(Admission::new("api").build()?)
//!     .layer(Idempotency::new("payments", Arc::new(Memory::new())).build()?)
//!     .layer(RateLimit::new("default").per_second(50.0).by_header("x-api-key").build()?);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
mod behind;
pub mod context;
pub mod idempotency;
mod limiting;
pub mod rate_limit;
mod respond;

pub use admission::Admission;
pub use behind::Behind;
pub use context::ContextLayer;
pub use idempotency::Idempotency;
pub use limiting::Limiting;
pub use quell_core::Priority;
pub use rate_limit::RateLimit;

//! Layers for axum servers.
//!
//! **Why.** A service is overloaded by its callers, whatever they use. These layers let it defend itself.
//!
//! See [`RateLimit`] and [`Admission`] for examples.

pub mod admission;
mod behind;
mod quota;
pub mod rate_limit;
mod respond;

pub use admission::Admission;
pub use behind::Behind;
pub use quell_core::Priority;
pub use quota::Limiting;
pub use rate_limit::RateLimit;

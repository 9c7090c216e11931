//! Layers for axum servers.
//!
//! **Why.** A service is overloaded by its callers, whatever they use. These layers let it defend itself.
//!
//! See [`RateLimit`] for an example.

mod quota;
pub mod rate_limit;
mod respond;

pub use quota::Limiting;
pub use rate_limit::RateLimit;

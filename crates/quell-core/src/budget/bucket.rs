//! Bucket: what every kind that saves up tokens is written with.
//!
//! **Why.** Kinds differ in what they charge for and when they hold back. How many tokens there can be, what a success
//! adds and how many there are at first means the same in all of them, so it is written and checked once.
//!
//! **How.** A [`Bucket`] by itself is a plain [`tokens`] budget, and that is where its numbers are
//! checked. [`Spec::bucket`](super::Spec::bucket) finds it in whichever kind has one.
//!
//! ```
//! use quell_core::budget::{Bucket, Spec, grpc};
//!
//! let bucket = Bucket { start: Some(10), ..Bucket::full(20, 0.1) };
//! assert_eq!(Spec::from(grpc::Spec { bucket }).bucket(), Some(bucket));
//! assert_eq!(bucket.starts_at(), 10);
//! ```

use super::tokens;

/// A bucket of tokens, as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Tokens the budget can hold.
    pub max: u32,
    /// Tokens earned by one success: `0.1` means one per ten successes.
    pub ratio: f64,
    /// Tokens there are at the start; full unless said.
    pub start: Option<u32>,
}

impl Bucket {
    /// One that starts full.
    pub const fn full(max: u32, ratio: f64) -> Self {
        Self { max, ratio, start: None }
    }

    /// Tokens there are at the start.
    pub fn starts_at(&self) -> u32 {
        self.start.unwrap_or(self.max)
    }
}

impl From<Bucket> for tokens::Spec {
    fn from(Bucket { max, ratio, start }: Bucket) -> Self {
        Self { max, ratio, start, ..Self::default() }
    }
}

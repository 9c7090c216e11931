//! Budgets: what retries may cost.
//!
//! Each kind of budget is a file of its own with the same verbs: `take`, `refund`, `earn`, `fill`.

pub mod tokens;

pub use tokens::{Paid, Tokens};

//! What the benchmark programs share: the work, and how it is measured.

pub mod does;
pub mod measure;
pub mod pair;
pub mod services;
pub mod work;

//! What the benchmark programs share: the work, and how it is measured.

pub mod measure;
pub mod work;

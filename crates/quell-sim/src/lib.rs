//! Pretends: the outage before production has it.

pub mod verdict;

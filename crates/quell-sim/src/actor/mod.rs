//! The actors of a run: who asks, who decides, who works.

pub(crate) mod arrivals;
pub(crate) mod callers;
pub(crate) mod ends;
pub(crate) mod kinds;
pub(crate) mod kinds_served;
pub(crate) mod links;
pub(crate) mod meter;
pub(crate) mod quell;
pub(crate) mod ruled;
pub(crate) mod service;
pub(crate) mod shards;
pub(crate) mod sharing;
pub(crate) mod shop;
pub(crate) mod store;
pub(crate) mod topic;
pub(crate) mod trouble;

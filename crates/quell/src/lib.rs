//! Retries that cannot cause a retry storm.

pub mod clock;
mod key;
pub mod observe;
pub mod run;
pub mod upstream;

/// The lock around an upstream.
mod sync {
    pub(crate) use parking_lot::Mutex;
}

pub use quell_core as core;

pub use clock::Clock;
pub use observe::Observe;
pub use quell_core::{Delivery, Failure, Fault, Outcome, Reason, Snapshot};
pub use upstream::Upstream;

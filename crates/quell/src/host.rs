//! Host: what an upstream takes from the process it lives in.

use std::{fmt, sync::Arc};

use crate::{Clock, key, observe::Observe};

/// What an upstream takes from the process it lives in.
#[derive(Clone)]
pub struct Host {
    /// What time it is.
    pub clock: Clock,
    /// Who watches.
    pub observer: Option<Arc<dyn Observe>>,
    /// Where chance starts: the same seed and the same events give the same decisions.
    pub seed: u64,
}

impl Default for Host {
    /// The system clock, nobody watching, and a seed of its own.
    fn default() -> Self {
        Self { clock: Clock::system(), observer: None, seed: key::seed() }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clock, observer: _, seed } = self;
        f.debug_struct("Host").field("clock", clock).field("seed", seed).finish_non_exhaustive()
    }
}

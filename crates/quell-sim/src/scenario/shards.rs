//! A service that is split by what requests are about.

use super::{Invalid, wrong};

/// Shards of one service. Every request is about a key, the same for all its attempts; keys are spread evenly, and
/// each belongs to one shard. The service's workers are divided among the shards, and each has a queue of its own, bounded
/// as the service says. Quell's callers name the shard as the key of the breaker, which matters where
/// [`UpstreamSpec::breaker_keys`](quell_core::spec::UpstreamSpec::breaker_keys) is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards {
    /// How many: from 1 to the service's workers, and at most 1024.
    pub count: u32,
    /// To how many of them the faults of the service happen: the first so many. From 0 to `count`; all, by default.
    pub hit: u32,
}

impl Shards {
    const MOST: u32 = 1_024;

    /// So many, and what happens to the service happens to all of them.
    ///
    /// ```
    /// use quell_sim::scenario::{Service, Shards};
    ///
    /// let one_of_three_dies = Shards { hit: 1, ..Shards::new(3) };
    /// let service = Service { shards: Some(one_of_three_dies), ..Service::constant(36, std::time::Duration::from_millis(100)) };
    /// assert_eq!(service.capacity(), 360.0);
    /// ```
    pub const fn new(count: u32) -> Self {
        Self { count, hit: count }
    }

    pub(super) fn check(self, workers: u32) -> Result<(), Invalid> {
        if !(1..=Self::MOST.min(workers)).contains(&self.count) {
            let fix = "is out of range: write from 1 to the number of workers, and at most 1024";
            return wrong("service.shards.count", fix);
        }
        if self.hit > self.count {
            return wrong("service.shards.hit", "is more than there are: write at most the count");
        }
        Ok(())
    }

    /// The workers of one of them.
    pub(crate) const fn workers(self, all: u32, shard: u32) -> u32 {
        all / self.count + (shard < all % self.count) as u32
    }

    /// To which of them this key belongs.
    pub(crate) const fn of(self, key: u32) -> u32 {
        ((key as u64 * self.count as u64) >> 32) as u32
    }
}

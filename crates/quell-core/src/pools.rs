//! Pools: how much of an upstream's limit one kind of calls may hold.
//!
//! **Why.** One kind of calls that hangs takes every slot of the upstream, and then the kinds that would have been served at
//! once wait behind it. A cap for each kind keeps the rest of the slots for the rest.
//!
//! **How.** A pool counts the attempts of its calls that are under way, and their ghosts: what hangs holds its slots until it ends,
//! whether or not somebody still waits for it. Of the ghosts, one endpoint's hold at most its share of the cap, as they do
//! of the limit. A full pool refuses at once, with [`in_flight_full`](crate::Reason::InFlightFull): the queue is for the
//! upstream's own slots. While ghosts fill a pool, a probe takes the place of its own oldest ghost, as elsewhere;
//! a breaker's probes pass in any case. What the pools are called is the host's business; here they
//! are numbered as they are written. Their caps may add up to more than the limit, or to less.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Admission, Ask, Time, Upstream, in_flight::Limit, pools::{Pool, Spec}, spec::UpstreamSpec};
//!
//! let (slow, quick) = (Pool::of(0), Pool::of(1));
//! let pools = Spec::of(&[1, 50])?;
//! let spec = UpstreamSpec { in_flight: Limit::Fixed(60), pools, ..UpstreamSpec::gateway() };
//! let mut upstream = Upstream::new(spec, Duration::from_secs(5), 1, Time::ZERO)?;
//! let mut ask = |pool| upstream.admit(Time::ZERO, &Ask { pool, ..Ask::first(Time::ZERO) });
//! assert!(matches!(ask(slow), Admission::Go(_)));
//! assert!(matches!(ask(slow), Admission::No(_)));
//! assert!(matches!(ask(quick), Admission::Go(_)));
//! # Ok::<_, quell_core::spec::Invalid>(())
//! ```

use crate::in_flight::Limit;

/// Most pools an upstream can have.
pub const MOST: usize = 8;

/// Which pool a call belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pool(u16);

impl Pool {
    /// None: only the upstream's own limit counts.
    pub const NONE: Self = Self(0);

    /// The one that is written at this place; the first is 0. If there is none, the call belongs to no pool.
    pub const fn of(place: u8) -> Self {
        Self(place as u16 + 1)
    }
}

/// Pools as written in a policy: how many slots each may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spec([Option<u32>; MOST]);

impl Spec {
    /// No pools.
    pub const NONE: Self = Self([None; MOST]);

    /// One for each cap.
    pub fn of(caps: &[u32]) -> Result<Self, Invalid> {
        let mut spec = Self::NONE;
        let Some(places) = spec.0.get_mut(..caps.len()) else {
            return Err(Invalid::TooMany(caps.len()));
        };
        for (place, &cap) in places.iter_mut().zip(caps) {
            *place = Some(cap);
        }
        Ok(spec)
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// Why there can be no such pools. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// They are few so that they cost nothing where there are none.
    #[error("in_flight.pools has {0} pools: write at most 8")]
    TooMany(usize),
    /// Every call of it would be refused.
    #[error("in_flight.pools[{0}] is 0, so each of its calls would be refused: write at least 1")]
    Empty(usize),
    /// It would cap nothing.
    #[error(
        "in_flight.pools[{pool}] is {cap}, which caps nothing: write at most the limit, {limit}"
    )]
    Above {
        /// Which.
        pool: usize,
        /// As written.
        cap: u32,
        /// The most that may be under way at all.
        limit: u32,
    },
}

/// What a pool looks like at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// How many slots it may hold.
    pub cap: u32,
    /// Its attempts under way.
    pub in_flight: u32,
    /// Its attempts that nobody waits for any more.
    pub ghosts: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Pools {
    caps: [Option<u32>; MOST],
    /// Counted with or without a cap, as a reload may change that.
    under_way: [u32; MOST],
    endpoints: u32,
    /// At each endpoint, and at those that a reload took away.
    ghosts: Vec<[u32; MOST]>,
}

impl Pools {
    /// Empty pools of an upstream with this limit and so many endpoints; `None` if it has none.
    pub fn new(spec: Spec, limit: Limit, endpoints: u16) -> Result<Option<Box<Self>>, Invalid> {
        let limit = match limit {
            Limit::Off => u32::MAX,
            Limit::Fixed(limit) | Limit::Adaptive { ceiling: limit } => limit,
        };
        for (pool, cap) in spec.0.iter().enumerate() {
            match *cap {
                Some(0) => return Err(Invalid::Empty(pool)),
                Some(cap) if cap > limit => return Err(Invalid::Above { pool, cap, limit }),
                _ => {}
            }
        }
        let ghosts = || vec![[0; MOST]; usize::from(endpoints)];
        let pools = || Self {
            caps: spec.0,
            under_way: [0; MOST],
            endpoints: u32::from(endpoints),
            ghosts: ghosts(),
        };
        Ok((!spec.is_none()).then(|| Box::new(pools())))
    }

    /// Takes on the caps of those just made, or none; who holds a slot goes on holding it, and a lower cap drains.
    pub fn adopt(&mut self, fresh: Option<&Self>) {
        self.caps = fresh.map_or([None; MOST], |fresh| fresh.caps);
    }

    /// From now on so many endpoints, of which the first `stay` keep their ghosts; `all` have something under way.
    pub(crate) fn set_endpoints(&mut self, count: usize, stay: usize, all: usize) {
        self.endpoints = count as u32;
        self.ghosts.truncate(stay);
        self.ghosts.resize(all, [0; MOST]);
    }

    /// Whether it holds as much as it may.
    pub fn is_full(&self, pool: Pool) -> bool {
        let Some((at, Some(cap))) = Self::at(pool).map(|at| (at, self.caps[at])) else {
            return false;
        };
        let share = (cap / self.endpoints).max(1);
        let held: u32 = self.ghosts.iter().map(|ghosts| ghosts[at].min(share)).sum();
        self.under_way[at].saturating_add(held) >= cap
    }

    /// Whether ghosts of it stand at this endpoint.
    pub fn haunts(&self, endpoint: usize, pool: Pool) -> bool {
        Self::at(pool).is_some_and(|at| self.ghosts[endpoint][at] > 0)
    }

    /// An attempt goes out.
    pub fn sent(&mut self, pool: Pool) {
        if let Some(at) = Self::at(pool) {
            self.under_way[at] += 1;
        }
    }

    /// An attempt is over.
    pub fn done(&mut self, pool: Pool) {
        if let Some(at) = Self::at(pool) {
            self.under_way[at] -= 1;
        }
    }

    /// Nobody waits for an attempt any more.
    pub fn ghost(&mut self, endpoint: usize, pool: Pool) {
        if let Some(at) = Self::at(pool) {
            self.under_way[at] -= 1;
            self.ghosts[endpoint][at] += 1;
        }
    }

    /// A ghost has ended.
    pub fn gone(&mut self, endpoint: usize, pool: Pool) {
        if let Some(at) = Self::at(pool) {
            self.ghosts[endpoint][at] -= 1;
        }
    }

    /// How they look now.
    pub fn snapshot(&self) -> [Option<Snapshot>; MOST] {
        core::array::from_fn(|at| {
            let ghosts = self.ghosts.iter().map(|ghosts| ghosts[at]).sum();
            self.caps[at].map(|cap| Snapshot { cap, in_flight: self.under_way[at], ghosts })
        })
    }

    fn at(pool: Pool) -> Option<usize> {
        usize::from(pool.0).checked_sub(1).filter(|&at| at < MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_endpoints_ghosts_hold_no_more_than_its_share_of_a_pool() {
        let mut pools = Pools::new(Spec::of(&[6]).unwrap(), Limit::Off, 3).unwrap().unwrap();
        let pool = Pool::of(0);
        for _ in 0..100 {
            pools.sent(pool);
            pools.ghost(2, pool);
        }
        for _ in 0..4 {
            assert!(!pools.is_full(pool));
            pools.sent(pool);
        }
        assert!(pools.is_full(pool));
        assert!(pools.haunts(2, pool) && !pools.haunts(0, pool));
    }

    #[test]
    fn a_pool_that_is_not_there_is_no_pool() {
        let mut pools = Pools::new(Spec::of(&[1]).unwrap(), Limit::Off, 1).unwrap().unwrap();
        for pool in [Pool::NONE, Pool::of(1), Pool::of(7), Pool::of(8), Pool::of(255)] {
            for _ in 0..9 {
                pools.sent(pool);
                assert!(!pools.is_full(pool));
            }
            pools.ghost(0, pool);
            pools.gone(0, pool);
            pools.done(pool);
            assert!(!pools.is_full(pool) && !pools.haunts(0, pool));
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_field_and_the_fix() {
        let adaptive = Limit::Adaptive { ceiling: 64 };
        let errors = [
            Spec::of(&[1; MOST + 1]).unwrap_err(),
            Pools::new(Spec::of(&[3, 0]).unwrap(), Limit::Off, 1).unwrap_err(),
            Pools::new(Spec::of(&[201]).unwrap(), Limit::Fixed(200), 1).unwrap_err(),
            Pools::new(Spec::of(&[65]).unwrap(), adaptive, 1).unwrap_err(),
        ];
        for error in errors {
            let message = error.to_string();
            assert!(
                message.starts_with("in_flight.pools") && message.contains("write"),
                "{message}"
            );
        }
        assert!(Pools::new(Spec::NONE, Limit::Fixed(1), 1).unwrap().is_none());
    }
}

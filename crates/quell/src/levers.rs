//! Levers: what people change by hand in an incident, on an upstream that is in use.
//!
//! **Why.** A deploy takes minutes, and an incident does not wait. Each lever is one sentence that somebody says at night:
//! "no retries to payments for ten minutes", "at most twenty at a time", "drop what waits". Levers end by themselves, so
//! that nobody has to remember them in the morning; see [`quell_core::Lever`].
//!
//! ```
//! use std::time::Duration;
//! use quell::{Clock, Quell, core::Lever, levers::route_key};
//!
//! let payments = Quell::upstream("payments").clock(Clock::manual()).build()?;
//! let upstream = payments.shared();
//! let ten_minutes = Some(Duration::from_secs(600));
//! upstream.pull(Lever::RetriesOff, None, ten_minutes).unwrap();
//! upstream.pull(Lever::Attempts(1), Some(route_key("search")), None).unwrap();
//! let pulled = upstream.levers();
//! assert_eq!((pulled[0].lever, pulled[0].left), (Lever::RetriesOff, ten_minutes));
//! assert!(upstream.undo(Lever::RetriesOff, None));
//! assert_eq!(upstream.levers().len(), 1);
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::time::Duration;

use quell_core::{Lever, Stuck, endpoints};

use crate::Upstream;

/// A lever that is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// Which.
    pub lever: Lever,
    /// The [key](route_key) of the route it is about; `None` is all of the upstream.
    pub route: Option<u64>,
    /// How long it still lasts; `None` is until it is undone.
    pub left: Option<Duration>,
}

/// What stands for a route's name where the core tells routes apart: for
/// [`Policy::for_route`](quell_core::Policy::for_route). The same in every process.
pub const fn route_key(name: &str) -> u64 {
    // FNV-1a.
    let (name, mut hash, mut i) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while i < name.len() {
        hash = (hash ^ name[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

impl Upstream {
    /// Pulls a lever for all calls or for those of one route, for so long or until it is [undone](Upstream::undo). Pulling
    /// one again replaces it.
    pub fn pull(
        &self,
        lever: Lever,
        route: Option<u64>,
        length: Option<Duration>,
    ) -> Result<(), Stuck> {
        self.with_core(|now, core, wake| {
            core.pull(now, lever, route, length.map(|length| now + length), wake)
        })
    }

    /// Lets go of a lever, whatever its number; then all is as if nobody had pulled it. False if it was not pulled.
    pub fn undo(&self, lever: Lever, route: Option<u64>) -> bool {
        self.with_core(|now, core, wake| core.undo(now, lever, route, wake))
    }

    /// The levers that are pulled.
    pub fn levers(&self) -> Vec<Pulled> {
        self.with_core(|now, core, _| {
            let shown = |own: &quell_core::Pulled| Pulled {
                lever: own.lever,
                route: own.route,
                left: own.until.map(|until| until.since(now)),
            };
            core.levers(now).iter().map(shown).collect()
        })
    }

    /// Refuses whoever waits in the queue (reason `shed`), of one route or all, and ends the calls that sleep before a retry,
    /// each when it wakes: with the reply that was kept for it, if there was one. Answers how many were in the queue.
    ///
    /// ```
    /// # let payments = quell::Quell::upstream("payments").clock(quell::Clock::manual()).build()?;
    /// assert_eq!(payments.shared().drop_waiting(None), 0);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn drop_waiting(&self, route: Option<u64>) -> usize {
        self.with_core(|now, core, wake| core.drop_waiting(now, route, wake))
    }

    /// Fills the retry budget as at the start, and those within it.
    ///
    /// ```
    /// # let payments = quell::Quell::upstream("payments").clock(quell::Clock::manual()).build()?;
    /// payments.shared().reset_budget();
    /// assert_eq!(payments.snapshot().budget, 1.0);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn reset_budget(&self) {
        self.with_core(|now, core, _| core.reset_budget(now));
    }

    /// How each of its endpoints looks now, in their order.
    ///
    /// ```
    /// # let payments = quell::Quell::upstream("payments").clock(quell::Clock::manual()).build()?;
    /// let endpoints = payments.shared().endpoints();
    /// assert_eq!((endpoints.len(), endpoints[0].in_flight), (1, 0));
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn endpoints(&self) -> Vec<endpoints::Snapshot> {
        self.with_core(|now, core, _| core.endpoints(now).collect())
    }

    /// The median time to a success, once known.
    ///
    /// ```
    /// # let payments = quell::Quell::upstream("payments").clock(quell::Clock::manual()).build()?;
    /// assert_eq!(payments.shared().p50(), None);
    /// # Ok::<_, quell::Invalid>(())
    /// ```
    pub fn p50(&self) -> Option<Duration> {
        self.with_core(|_, core, _| core.p50())
    }
}

//! Arrival: what a host knows of a call when it comes.
//!
//! **Why.** A gateway, a library, a server layer and a simulator all learn the same few facts about a call before its first
//! step: when its caller came, when its caller leaves, what kind of call it is. One struct for all of them means that a new
//! fact is written once, and that a host which does not know a fact leaves its default.

use crate::{
    Priority, Time,
    budget::purse::Child,
    credit::{Credit, Received, Role},
    pools::Pool,
};

/// What a host knows of a call before its first step. See [`Call::of`](super::Call::of).
///
/// ```
/// use core::time::Duration;
/// use quell_core::{Arrival, Call, Priority, Time};
///
/// let now = Time::ZERO + Duration::from_secs(1);
/// let mut arrival = Arrival { since: now, priority: Priority::Critical, ..Arrival::new() };
/// arrival.leaves_by(now + Duration::from_millis(500));
/// assert_eq!(Call::of(arrival).deadline(), now + Duration::from_millis(500));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// When the caller came; the instant of the first step unless it is earlier.
    pub since: Time,
    /// When the caller leaves, if it said so; else [`Time::MAX`]. It can only shorten the policy's own timeout.
    pub deadline: Time,
    /// How important the call is.
    pub priority: Priority,
    /// What each attempt costs of the upstream's rate limit.
    pub cost: u32,
    /// Which breaker decides on the call, where keys have breakers of their own: a hash of the shard, say.
    pub key: Option<u64>,
    /// Which pool of the upstream's slots the call's attempts hold.
    pub pool: Pool,
    /// What kind of call it is: a hash of its operation. All that compares how long calls take compares a call with its own kind.
    pub class: u64,
    /// Whose call it is: a hash of the tenant, or else of the address. Under pressure callers share fairly.
    pub caller: u64,
    /// Which credential the upstream sees: a hash of it. A hint to one credential does not hold back others.
    pub credential: u64,
    /// Which part of the upstream's retry budget the call draws on, if a route or tenant has one of its own. See
    /// [`Upstream::child`](crate::Upstream::child).
    pub child: Child,
    /// What is left of the chain's credit of retries. Without it the policy's attempts alone count.
    pub credit: Option<Credit>,
}

impl Default for Arrival {
    fn default() -> Self {
        Self::new()
    }
}

impl Arrival {
    /// A call of which nothing is known.
    #[inline(always)]
    pub const fn new() -> Self {
        Self {
            since: Time::MAX,
            deadline: Time::MAX,
            priority: Priority::Default,
            cost: 1,
            key: None,
            pool: Pool::NONE,
            class: 0,
            caller: 0,
            credential: 0,
            child: Child::NONE,
            credit: None,
        }
    }

    /// The caller leaves then, if not before.
    #[inline]
    pub fn leaves_by(&mut self, deadline: Time) {
        self.deadline = self.deadline.min(deadline);
    }

    /// The call is part of a chain, and this hop may make so many attempts by itself.
    #[inline]
    pub fn joins_chain(&mut self, role: Role, attempts: u32, received: Option<Received>) {
        self.credit = Some(Credit::new(role, attempts, received));
    }
}

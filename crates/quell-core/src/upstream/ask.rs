//! The words of an upstream's verbs: who asks, what is answered, what comes back.

use core::time::Duration;

use crate::{
    Reason, Time,
    breaker::{Mode, Pass, State, Stub},
    budget,
    endpoints::Tried,
    in_flight::Evidence,
    keyed::Seat,
    mode::{Modes, WouldRefuse},
    pace::Known,
    pools::{self, Pool},
    queue::Ticket,
};

/// Who asks to send.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// When the caller came.
    pub since: Time,
    /// Which send of its call this would be; the first is 1.
    pub attempt: u32,
    /// When the call is over, whatever happens.
    pub deadline: Time,
    /// Whether the caller itself said so; if not, it may leave sooner, when its patience ends.
    pub told: bool,
    /// Who goes first under pressure.
    pub priority: Priority,
    /// Where the call has been.
    pub tried: Tried,
    /// What it costs of a rate limit.
    pub cost: u32,
    /// Whose breaker decides on it, where keys have one of their own; a shard's, say.
    pub key: Option<u64>,
    /// Which pool's slot it would hold.
    pub pool: Pool,
    /// Which route it is of, for levers that are pulled for one.
    pub route: Option<u64>,
    /// What kind of call it is, for all that compares how long calls take; 0 where nobody says.
    pub class: u64,
    /// Whose call it is, for a fair share under pressure; 0 where nobody says.
    pub caller: u64,
    /// Which credential the upstream sees, for hints that mean that one alone; 0 for none.
    pub credential: u64,
    /// Whether its request is still being handed over: see [`Call::given`](crate::Call::given).
    pub uploads: bool,
}

/// How important a call is: under pressure the less important waits, and is shed, first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// The first to be given up.
    Sheddable,
    /// Like most.
    #[default]
    Default,
    /// The last to be given up.
    Critical,
}

impl Ask {
    /// A first attempt by a caller who came at `since` and says no more.
    pub const fn first(since: Time) -> Self {
        let priority = Priority::Default;
        let tried = Tried::NOWHERE;
        let (deadline, told) = (Time::MAX, false);
        Self {
            since,
            attempt: 1,
            deadline,
            told,
            priority,
            tried,
            cost: 1,
            key: None,
            pool: Pool::NONE,
            route: None,
            class: 0,
            caller: 0,
            credential: 0,
            uploads: false,
        }
    }

    /// A retry stands behind the first attempts of its priority.
    pub(super) fn rank(&self) -> u8 {
        2 * self.priority as u8 + u8::from(self.attempt <= 1)
    }
}

/// The answer to an [`Ask`].
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Send now.
    Go(Permit),
    /// Wait for a [`Wake`]; call [`Upstream::poll`](super::Upstream::poll) at this instant if none has come.
    Queued(Ticket, Time),
    /// Do not send.
    No(Refusal),
}

/// Why not, and when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Why not.
    pub reason: Reason,
    /// When it may be different.
    pub retry_at: Time,
}

/// The right to send one attempt. It has to come back through [`Upstream::release`](super::Upstream::release).
#[must_use = "a permit that is not released holds its slot for ever"]
#[derive(Debug)]
pub struct Permit {
    pub(super) since: Time,
    pub(super) number: u64,
    pub(super) pass: Pass,
    /// Where the pass is from, if from a key's own breaker.
    pub(super) seat: Seat,
    /// What was taken of the rate limit. As wide as leaves no gap: a permit is moved often, and gaps are moved byte by byte.
    pub(super) cost: u64,
    pub(super) endpoint: u16,
    /// Whose slot it holds.
    pub(super) pool: Pool,
    /// What kind of call it is, and whose.
    pub(super) class: u16,
    pub(super) caller: u8,
    /// 1 while its request is still being handed over, then 0. An [`Admission`] is moved in one piece only if no field of a permit
    /// is a `bool`, whose spare values would tell its variants apart.
    pub(super) uploads: u8,
    /// From its class's own breaker.
    pub(super) own: Stub,
    /// Which credential the upstream sees.
    pub(super) credential: u64,
}

/// Names an attempt that was admitted, also after its permit was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId {
    pub(super) endpoint: u16,
    pub(super) number: u64,
}

impl Permit {
    /// Names the attempt: see [`Upstream::ghost_ended`](super::Upstream::ghost_ended).
    pub const fn id(&self) -> AttemptId {
        AttemptId { endpoint: self.endpoint, number: self.number }
    }

    /// The pass of its class's own breaker.
    pub(super) fn own(&self) -> Pass {
        self.own.pass(self.pass.sent_at())
    }

    /// Whether the upstream has all of its request: only then it holds a slot.
    #[inline]
    pub(super) const fn is_whole(&self) -> bool {
        self.uploads == 0
    }

    /// Which endpoint to send to.
    pub const fn endpoint(&self) -> u16 {
        self.endpoint
    }
}

/// How an attempt ended its hold on a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It came to an end.
    Done,
    /// It was never sent.
    Unsent,
    /// It was sent and nobody waits for it any more; the endpoint may still be working on it.
    Ghost,
}

/// Somebody's wait in the queue is over.
#[derive(Debug)]
pub struct Wake {
    /// Whose.
    pub ticket: Ticket,
    /// How.
    pub result: Result<Permit, Refusal>,
}

/// What an upstream looks like at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshot {
    /// Attempts under way.
    pub in_flight: u32,
    /// How many may be.
    pub limit: u32,
    /// What speaks for trouble, while it does; without it the limit is loose.
    pub trouble: Option<Evidence>,
    /// Slots held for attempts that nobody waits for any more.
    pub ghosts: usize,
    /// The pools, in the order they are written.
    pub pools: [Option<pools::Snapshot>; pools::MOST],
    /// Calls waiting for a slot.
    pub queued: usize,
    /// Retries and hedges that were paid for and have not come to an end: asleep, waiting for a slot, or sent.
    pub retrying: u32,
    /// How long callers are believed to wait.
    pub patience: Duration,
    /// What was learned of the service.
    pub known: Option<Known>,
    /// How full the retry budget is, from 0 to 1.
    pub budget: f64,
    /// The retry budget in full.
    pub retries: budget::Snapshot,
    /// The breaker; in report mode, what it would be.
    pub breaker: State,
    /// What the breaker's decisions mean for traffic.
    pub breaker_mode: Mode,
    /// Keys that have a breaker of their own.
    pub breaker_keys: usize,
    /// Keys whose own breaker is open; the one that all share who came too late for their own counts as one.
    pub breaker_keys_open: usize,
    /// Attempts that were sent although the breaker, in report mode, would have refused them.
    pub breaker_would_refuse: u64,
    /// Whose decisions are obeyed, and whose only counted.
    pub modes: Modes,
    /// What was done although a control in report mode spoke against it.
    pub would_refuse: WouldRefuse,
    /// Until when the upstream asked retries to hold back; in the past if it did not.
    pub not_before: Time,
}

//! The words of a call's steps: what happened, and what to do next.

use crate::{Outcome, Permit, Reason, Refusal, Time, queue::Ticket};

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The call begins.
    Start,
    /// The wait in the queue ended in a slot.
    Granted(Permit),
    /// The wait in the queue ended in a refusal.
    Refused(Refusal),
    /// The attempt in this slot came to an end.
    Ended {
        /// Which.
        slot: u8,
        /// How.
        outcome: Outcome,
    },
    /// The attempt in this slot ran into its timeout.
    TimedOut {
        /// Which.
        slot: u8,
    },
    /// The open attempt has taken until its [`Send::hedge_at`].
    HedgeDue,
    /// The sleep is over.
    Woke,
    /// The reply before this sleep cannot be kept, for its length: it is delivered instead of retried.
    NotKept,
}

/// What to do next.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Send an attempt; tell the call with [`Call::sent`](super::Call::sent) when its first byte goes out.
    Send(Send),
    /// Wait in the queue for a [`Wake`](crate::Wake) with this ticket; poll the upstream at the latest then.
    Enqueue {
        /// The place in the queue.
        ticket: Ticket,
        /// When to poll.
        until: Time,
    },
    /// Keep the reply, if there was one, and sleep.
    Sleep {
        /// Until when.
        until: Time,
    },
    /// Go on waiting for the attempt that is still open.
    Await,
    /// It is over.
    Finish(Finish),
}

/// An attempt to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// Names the attempt in [`Input`]s.
    pub slot: u8,
    /// Its number within the call; the first is 1. Deferred attempts have one too.
    pub attempt: u32,
    /// Which endpoint to send to.
    pub endpoint: u16,
    /// When to give up on it.
    pub timeout_at: Time,
    /// When to say [`Input::HedgeDue`] if it has not ended by then.
    pub hedge_at: Option<Time>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// What the caller gets.
    pub answer: Answer,
    /// Why there was no further attempt; `None` after a success.
    pub reason: Option<Reason>,
    /// How many attempts were made, those that were deferred included.
    pub attempts: u32,
    /// When the caller may come back, if it was refused.
    pub retry_at: Option<Time>,
}

/// What a caller gets in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// What has just ended: the reply or the error.
    This,
    /// The reply of an earlier attempt, which the host kept.
    Kept,
    /// Our own refusal.
    Refusal,
}

//! Protocol: how requests of a kind are repeated, and what their replies mean.

use std::{future::Future, time::Duration};

use quell_core::{
    Outcome, Reason, Time,
    credit::{Retries, Sends},
};

use crate::{Clock, Rules, run::Try};

/// The way out: how a request of this kind is sent more than once.
///
/// [`Plain`](super::Plain), [`Once`](super::Once) and [`Http`](super::Http) are what most services need.
pub trait Outbound<Req>: Clone {
    /// A call's request, from which every attempt takes its own.
    type Source;
    /// What goes to the service below.
    type Outgoing;

    /// A call begins.
    fn source(&self, request: Req, rules: &Rules) -> Self::Source;

    /// The request of the next attempt. `last` says that no other can follow, so that nothing need be copied. `None` if
    /// there is nothing left to send: the call ends.
    fn next(&self, source: &mut Self::Source, attempt: &Try, last: bool) -> Option<Self::Outgoing>;

    /// Whether the request may reach the upstream twice, where the rules do not say that all may.
    fn is_repeatable(&self, source: &Self::Source) -> bool;

    /// Whether the request can be sent again in full.
    fn is_replayable(&self, source: &Self::Source) -> bool;

    /// Whether the request itself broke off, so that an error is its sender's and not the upstream's.
    fn is_broken(&self, source: &Self::Source) -> bool {
        let _ = source;
        false
    }

    /// Whether requests tell the hops below how often they may retry. Then the call has a credit.
    fn is_chained(&self) -> bool {
        false
    }
}

/// The way back: what a reply of this kind means, and how it is kept while a call sleeps.
pub trait Inbound<Res, Err>: Clone {
    /// What the caller gets for a reply of the service below.
    type Answer;
    /// A failed reply that is being made ready to be kept.
    type Keeping: Future<Output = Result<Result<Self::Answer, Err>, Result<Self::Answer, Err>>>;

    /// A reply came.
    fn answer(&self, reply: Res) -> Self::Answer;

    /// What an attempt with this result came to.
    fn classify(&self, result: &Result<Self::Answer, Err>, clock: &Clock, rules: &Rules)
    -> Outcome;

    /// What the reply told of the chain below: how many sends it took, and what credit it hands back.
    fn told(&self, answer: &Self::Answer) -> Option<(Sends, Retries)> {
        let _ = answer;
        None
    }

    /// Makes a failed reply ready to be kept. What cannot be, for its length or because it is not all there by then, comes
    /// back as an error, and the call ends with it.
    fn keep(&self, result: Result<Self::Answer, Err>, clock: &Clock, by: Time) -> Self::Keeping;

    /// The call ends with this reply after more than one attempt, or with a failure: what it took, for whoever reads it.
    fn mark(&self, answer: &mut Self::Answer, ended: Ended) {
        let _ = (answer, ended);
    }

    /// A reply of our own where there is none to give, for protocols in which a refusal is a reply; otherwise the call
    /// ends in an error.
    fn refuse(&self, refused: &Refused) -> Option<Self::Answer> {
        let _ = refused;
        None
    }
}

/// What it took to get a reply: [`Http`](super::Http) puts it into the reply's extensions, unless the first attempt
/// succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How many attempts were made.
    pub attempts: u32,
    /// Why there was no further one; `None` after a success.
    pub reason: Option<Reason>,
    /// From the call's first moment to its end.
    pub elapsed: Duration,
}

/// A call without a reply to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Why there was no (further) attempt.
    pub reason: Reason,
    /// How many attempts were made, all without a reply.
    pub attempts: u32,
    /// When it may make sense to come back.
    pub retry_in: Option<Duration>,
}

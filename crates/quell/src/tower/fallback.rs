//! Fallback: a reply that stands in for one that cannot be had.

use std::fmt;

use quell_core::{
    Outcome, Time,
    credit::{Retries, Sends},
};

use super::protocol::{About, Ended, Inbound, Outbound, Refused};
use crate::{Clock, Rules, Upstream, run::Try};

/// A protocol with a reply that stands in for an upstream in trouble: see [`QuellLayer::fallback`](super::QuellLayer::fallback).
#[derive(Clone)]
pub struct Fallback<P, F> {
    protocol: P,
    stand_in: F,
}

impl<P, F> Fallback<P, F> {
    pub(super) fn new(protocol: P, stand_in: F) -> Self {
        Self { protocol, stand_in }
    }
}

impl<P: fmt::Debug, F> fmt::Debug for Fallback<P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

impl<P: Outbound<Req>, F: Clone, Req> Outbound<Req> for Fallback<P, F> {
    type Source = P::Source;
    type Outgoing = P::Outgoing;

    fn about(&self, request: &Req, upstream: &Upstream) -> About {
        self.protocol.about(request, upstream)
    }

    fn source(&self, request: Req, rules: &Rules) -> Self::Source {
        self.protocol.source(request, rules)
    }

    fn next(&self, source: &mut Self::Source, attempt: &Try) -> Option<Self::Outgoing> {
        self.protocol.next(source, attempt)
    }

    fn is_repeatable(&self, source: &Self::Source) -> bool {
        self.protocol.is_repeatable(source)
    }

    fn is_replayable(&self, source: &Self::Source) -> bool {
        self.protocol.is_replayable(source)
    }

    fn is_whole(&self, source: &Self::Source) -> bool {
        self.protocol.is_whole(source)
    }

    fn is_broken(&self, source: &Self::Source) -> bool {
        self.protocol.is_broken(source)
    }

    fn is_chained(&self) -> bool {
        self.protocol.is_chained()
    }
}

impl<P, F, Res, Err> Inbound<Res, Err> for Fallback<P, F>
where
    P: Inbound<Res, Err>,
    F: Fn(&Refused) -> P::Answer + Clone,
{
    type Answer = P::Answer;
    type Keeping = P::Keeping;

    fn answer(&self, reply: Res) -> Self::Answer {
        self.protocol.answer(reply)
    }

    fn classify(
        &self,
        result: &Result<Self::Answer, Err>,
        clock: &Clock,
        rules: &Rules,
    ) -> Outcome {
        self.protocol.classify(result, clock, rules)
    }

    fn told(&self, answer: &Self::Answer) -> Option<(Sends, Retries)> {
        self.protocol.told(answer)
    }

    fn keep(&self, result: Result<Self::Answer, Err>, clock: &Clock, by: Time) -> Self::Keeping {
        self.protocol.keep(result, clock, by)
    }

    fn mark(&self, answer: &mut Self::Answer, ended: Ended) {
        self.protocol.mark(answer, ended);
    }

    fn refuse(&self, refused: &Refused) -> Option<Self::Answer> {
        self.protocol.refuse(refused)
    }

    fn stand_in(&self, refused: &Refused) -> Option<Self::Answer> {
        Some((self.stand_in)(refused))
    }
}

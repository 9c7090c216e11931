//! About: what a host tells a call of its request and its attempts, and what it can ask.

use core::time::Duration;

use super::Call;
use crate::{
    AttemptId, Policy, Reason, Time, Upstream,
    credit::{Credit, Retries, Sends},
    queue::Ticket,
};

impl Call {
    /// The request is not here yet, or not all of it: its attempts hold no slot until they are [given](Call::given). Say so
    /// before the attempt is asked for.
    pub fn set_uploads(&mut self, uploads: bool) {
        self.uploads = uploads;
    }

    /// The upstream has been handed all of the request of the attempt in this slot: its work, and its time, begin now. So
    /// does the policy's own timeout, unless the caller said when it will leave: a long upload is not a slow service.
    /// Needed once for an attempt of a call that [uploads](Call::set_uploads); harmless for others.
    pub fn given(&mut self, now: Time, slot: u8, policy: &Policy, upstream: &mut Upstream) {
        if let Some(open) = &mut self.open[usize::from(slot)] {
            upstream.given(now, &mut open.permit);
            let is_first = self.uploads && !core::mem::replace(&mut self.given, true);
            if is_first && !self.is_told() {
                self.deadline = now.plus(policy.timeout);
            }
        }
    }

    /// When an upload has to be over that flows: when the caller leaves, if it said so.
    pub fn uploads_until(&self) -> Time {
        if self.is_told() { self.deadline } else { Time::MAX }
    }

    /// Whether the caller said when it leaves.
    pub(super) fn is_told(&self) -> bool {
        self.arrival.deadline < Time::MAX
    }

    /// Whether the request may safely reach the upstream twice.
    pub fn set_repeatable(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
    }

    /// Whether the request can be sent again in full; one of which nothing was taken yet always can.
    pub fn set_replayable(&mut self, replayable: bool) {
        self.replayable = replayable;
    }

    /// How long to wait before the next retry, if there is one, in place of the policy's backoff. A hint of the upstream
    /// and the deadline hold all the same. Say so before [`Input::Ended`](super::Input::Ended).
    pub fn set_wait(&mut self, wait: Duration) {
        self.wait = Some(wait);
    }

    /// What is left of the chain's credit, and how many sends were made here and below.
    pub fn credit(&self) -> Option<&Credit> {
        self.arrival.credit.as_ref()
    }

    /// What the attempt in this slot hands on: its `quell-retry-credit`.
    pub fn handed_on(&self, slot: u8) -> Option<Retries> {
        self.extra[usize::from(slot)].as_ref()?.loan
    }

    /// The reply of the attempt in this slot told how many sends it took there and below (`quell-attempts`) and what
    /// it hands back (`quell-retry-credit`). Say so before [`Input::Ended`](super::Input::Ended); silence needs no word.
    pub fn debit(&mut self, slot: u8, below: Sends, returned: Retries) {
        let extra = self.extra[usize::from(slot)].as_mut();
        let loan = extra.and_then(|extra| extra.loan.take());
        if let (Some(credit), Some(loan)) = (&mut self.arrival.credit, loan) {
            credit.settle(loan, below, returned);
        }
    }

    /// The attempt's first byte goes out: from now on the upstream may act on it.
    #[inline]
    pub fn sent(&mut self, slot: u8) {
        if let Some(open) = &mut self.open[usize::from(slot)] {
            open.sent = true;
        }
    }

    /// The slot of the latest attempt; the first if there was none yet.
    pub fn latest(&self) -> u8 {
        self.latest
    }

    /// Names the open attempt in this slot: see [`Upstream::ghost_ended`](crate::Upstream::ghost_ended).
    pub fn attempt_id(&self, slot: u8) -> Option<AttemptId> {
        Some(self.open.get(usize::from(slot))?.as_ref()?.permit.id())
    }

    /// Whether it has finished or was abandoned.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Once it is over: why there was no further attempt; `None` after a success.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// When the caller came; unknown before the first step, unless it was told.
    pub fn since(&self) -> Time {
        self.arrival.since
    }

    /// Its place in the queue, while it has one.
    pub fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// When the call is over, whatever happens; unknown before the first step.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Attempts made so far, those that were deferred included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

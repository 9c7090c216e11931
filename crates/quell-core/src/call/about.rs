//! About: what a host tells a call of its request and its attempts, and what it can ask.

use core::time::Duration;

use super::Call;
use crate::{
    AttemptId, Policy, Priority, Reason, Time, Upstream,
    budget::purse::Child,
    credit::{Credit, Retries, Sends},
    pools::Pool,
    queue::Ticket,
};

impl Call {
    /// The caller came before the first step.
    pub fn set_since(&mut self, since: Time) {
        self.since = since;
    }

    /// The caller said when it will leave. It can only shorten the policy's own timeout.
    pub fn set_deadline(&mut self, deadline: Time) {
        self.deadline = self.deadline.min(deadline);
        self.told = true;
    }

    /// How important the call is.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Whose retries it counts among, if a route or tenant has a budget of its own within the upstream's.
    /// See [`Upstream::child`](crate::Upstream::child).
    pub fn set_child(&mut self, child: Child) {
        self.child = child;
        self.plain = false;
    }

    /// What each attempt costs of the upstream's rate limit; 1 unless said otherwise.
    pub fn set_cost(&mut self, cost: u32) {
        self.cost = cost;
    }

    /// Whose breaker decides on it, where keys have one of their own: a hash of the shard it goes to, say.
    pub fn set_key(&mut self, key: u64) {
        self.key = Some(key);
    }

    /// Which pool of the upstream's slots its attempts hold.
    pub fn set_pool(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// What kind of call it is: a hash of its operation. All that compares how long calls take compares it with its own kind.
    pub fn set_class(&mut self, class: u64) {
        self.class = class;
    }

    /// Whose call it is: a hash of the tenant, or else of the address. Under pressure callers share fairly.
    pub fn set_caller(&mut self, caller: u64) {
        self.caller = caller;
    }

    /// Which credential the upstream sees: a hash of it. What the upstream asks this one to wait for, others need not.
    pub fn set_credential(&mut self, credential: u64) {
        self.credential = credential;
    }

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
            if is_first && !self.told {
                self.deadline = now.plus(policy.timeout);
            }
        }
    }

    /// When an upload has to be over that flows: when the caller leaves, if it said so.
    pub fn uploads_until(&self) -> Time {
        if self.told { self.deadline } else { Time::MAX }
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

    /// The call is part of a chain that shares one credit of retries. Without it the policy's attempts alone count.
    pub fn set_credit(&mut self, credit: Credit) {
        self.credit = Some(credit);
        self.plain = false;
    }

    /// What is left of the chain's credit, and how many sends were made here and below.
    pub fn credit(&self) -> Option<&Credit> {
        self.credit.as_ref()
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
        if let (Some(credit), Some(loan)) = (&mut self.credit, loan) {
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
        self.since
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

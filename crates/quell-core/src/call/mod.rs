//! Call: every decision of the retry loop, once.
//!
//! **Why.** The loop "send, wait, send again" looks trivial and is where most retry bugs live: asked for
//! budget after the sleep, slept past the deadline, repeated what must not be repeated, lost the real reply.
//! It is written here once; hosts only do what it says and hand back what happened. The simulator
//! therefore does not model the loop, it runs it.
//!
//! A retry that was paid for and never got as far as an attempt is refunded; one whose connection failed *was* an
//! attempt, and stays paid.
//!
//! **How.** [`Call::step`] takes what happened and answers what to do next. The call holds all that it took:
//! permits, its place in the queue, what it paid. Whoever drops a call early says so with
//! [`Call::abandon`], and everything goes back where it belongs.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::*;
//! use quell_core::spec::{PolicySpec, UpstreamSpec};
//!
//! let (now, mut wake) = (Time::ZERO, Vec::new());
//! let policy = Policy::new(PolicySpec::library())?;
//! let mut upstream = Upstream::new(UpstreamSpec::library(), policy.per_try(), 1, now)?;
//! let mut call = Call::new(policy, now);
//! call.set_repeatable(true);
//!
//! let Step::Send(send) = call.step(now, Input::Start, &mut upstream, &mut wake) else { panic!() };
//! let failed = Input::Ended { slot: send.slot, outcome: Outcome::Failed(Failure::of(Fault::Server)) };
//! let Step::Sleep { until } = call.step(now, failed, &mut upstream, &mut wake) else { panic!() };
//! let Step::Send(send) = call.step(until, Input::Woke, &mut upstream, &mut wake) else { panic!() };
//! assert_eq!(send.attempt, 2);
//! let success = Input::Ended { slot: send.slot, outcome: Outcome::Success };
//! let Step::Finish(finish) = call.step(until, success, &mut upstream, &mut wake) else { panic!() };
//! assert_eq!((finish.answer, finish.reason), (Answer::This, None));
//! # Ok::<_, spec::Invalid>(())
//! ```

mod step;

use core::time::Duration;

pub use step::{Answer, Finish, Input, Send, Step};

use crate::{
    Admission, Ask, Delivery, Failure, Fault, Outcome, Permit, Policy, Priority, Reason, Refusal,
    Release, Time, Upstream, Wake,
    budget::{Receipt, purse::Child},
    credit::{Credit, Retries, Sends},
    endpoints::Tried,
    queue::Ticket,
};

/// Attempts of one call that may be open at once: one, and one hedge.
const SLOTS: usize = 2;

#[derive(Debug)]
struct Open {
    permit: Permit,
    sent: bool,
    /// Chain credit handed on with it, until it is settled.
    loan: Option<Retries>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Call {
    policy: Policy,
    since: Time,
    deadline: Time,
    told: bool,
    priority: Priority,
    tried: Tried,
    cost: u32,
    child: Child,
    repeatable: bool,
    replayable: bool,
    /// Attempts made so far.
    attempts: u32,
    /// The backoff before the last retry.
    waited: Duration,
    open: [Option<Open>; SLOTS],
    ticket: Option<Ticket>,
    /// What was paid for the next attempt, and for those that are open: apart from them, for hardly any has.
    paid: Option<Receipt>,
    open_paid: [Option<Receipt>; SLOTS],
    credit: Option<Credit>,
    kept: bool,
    over: bool,
}

impl Call {
    /// A call by a caller who came at `since`. Until told otherwise it may not be repeated once it was sent.
    pub fn new(policy: Policy, since: Time) -> Self {
        Self {
            policy,
            since,
            deadline: since + policy.timeout,
            told: false,
            priority: Priority::Default,
            tried: Tried::default(),
            cost: 1,
            child: Child::NONE,
            repeatable: false,
            replayable: true,
            attempts: 0,
            waited: Duration::ZERO,
            open: [None, None],
            ticket: None,
            paid: None,
            credit: None,
            open_paid: [None, None],
            kept: false,
            over: false,
        }
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
    /// See [`Upstream::child`].
    pub fn set_child(&mut self, child: Child) {
        self.child = child;
    }

    /// What each attempt costs of the upstream's rate limit; 1 unless said otherwise.
    pub fn set_cost(&mut self, cost: u32) {
        self.cost = cost;
    }

    /// Whether the request may safely reach the upstream twice.
    pub fn set_repeatable(&mut self, repeatable: bool) {
        self.repeatable = repeatable;
    }

    /// Whether the request can be sent again in full.
    pub fn set_replayable(&mut self, replayable: bool) {
        self.replayable = replayable;
    }

    /// The call is part of a chain that shares one credit of retries. Without it the policy's attempts alone count.
    pub fn set_credit(&mut self, credit: Credit) {
        self.credit = Some(credit);
    }

    /// What is left of the chain's credit, and how many sends were made here and below.
    pub fn credit(&self) -> Option<&Credit> {
        self.credit.as_ref()
    }

    /// What the attempt in this slot hands on: its `quell-retry-credit`.
    pub fn handed_on(&self, slot: u8) -> Option<Retries> {
        self.open[usize::from(slot)].as_ref()?.loan
    }

    /// The reply of the attempt in this slot told how many sends it took there and below (`quell-attempts`) and what
    /// it hands back (`quell-retry-credit`). Say so before [`Input::Ended`]; silence needs no word.
    pub fn debit(&mut self, slot: u8, below: Sends, returned: Retries) {
        let open = self.open[usize::from(slot)].as_mut();
        if let (Some(credit), Some(open)) = (&mut self.credit, open)
            && let Some(loan) = open.loan.take()
        {
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

    /// When the call is over, whatever happens.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Attempts made so far.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Decides what to do next. Others whose wait ends by this are put into `wake`.
    pub fn step(
        &mut self,
        now: Time,
        input: Input,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        match input {
            Input::Start => self.ask(now, upstream),
            Input::Woke => self.ask(now, upstream),
            Input::NotKept => {
                self.give_back(now, upstream);
                self.finish(Answer::This, Some(Reason::NotReplayable), None)
            }
            Input::HedgeDue => self.hedge(now, upstream),
            Input::Granted(permit) => {
                self.ticket = None;
                self.launch(now, permit, upstream)
            }
            Input::Refused(refusal) => {
                self.ticket = None;
                self.refused(now, refusal, upstream)
            }
            Input::Ended { slot, outcome } => {
                self.end(now, slot, outcome, Release::Done, upstream, wake)
            }
            Input::TimedOut { slot } => {
                let mut failure = Failure::of(Fault::Timeout);
                if self.open[usize::from(slot)].as_ref().is_some_and(|open| !open.sent) {
                    failure.delivery = Delivery::NeverSent; // it never got past connecting
                }
                self.end(now, slot, Outcome::Failed(failure), Release::Ghost, upstream, wake)
            }
        }
    }

    /// The caller left, or the host gave up. What was not sent goes back, what was sent becomes a ghost, and the
    /// upstream is judged by none of it. After a finished call it does nothing.
    pub fn abandon(&mut self, now: Time, upstream: &mut Upstream, wake: &mut Vec<Wake>) {
        if core::mem::replace(&mut self.over, true) {
            return;
        }
        if let Some(ticket) = self.ticket.take() {
            upstream.leave(ticket);
        }
        self.give_back(now, upstream);
        self.let_go(now, upstream, wake);
        upstream.gave_up(now, self.since);
    }

    /// Lets go of every open attempt: what was not sent goes back, what was sent becomes a ghost.
    fn let_go(&mut self, now: Time, upstream: &mut Upstream, wake: &mut Vec<Wake>) {
        for (open, paid) in self.open.iter_mut().zip(&mut self.open_paid) {
            let (Some(open), paid) = (open.take(), paid.take()) else { continue };
            let how = if open.sent { Release::Ghost } else { Release::Unsent };
            if let (false, Some(paid)) = (open.sent, paid) {
                upstream.refund(now, paid);
            }
            upstream.release(now, open.permit, how, wake);
        }
    }

    /// Who asks for the next attempt.
    fn next(&self) -> Ask {
        Ask {
            since: self.since,
            attempt: self.attempts + 1,
            deadline: self.deadline,
            told: self.told,
            priority: self.priority,
            tried: self.tried,
            cost: self.cost,
        }
    }

    fn ask(&mut self, now: Time, upstream: &mut Upstream) -> Step {
        match upstream.admit(now, &self.next()) {
            Admission::Go(permit) => self.launch(now, permit, upstream),
            Admission::Queued(ticket, until) => {
                self.ticket = Some(ticket);
                Step::Enqueue { ticket, until }
            }
            Admission::No(refusal) => self.refused(now, refusal, upstream),
        }
    }

    /// A second attempt beside the first, if nothing speaks against it. It waits in no queue.
    fn hedge(&mut self, now: Time, upstream: &mut Upstream) -> Step {
        let one_open = self.open.iter().flatten().count() == 1;
        let allowed = one_open
            && self.policy.hedge.is_some()
            && self.attempts < self.policy.attempts
            && self.repeatable
            && self.replayable
            && !upstream.is_degraded(now);
        if !allowed {
            return Step::Await;
        }
        // Whatever makes the first attempt slow, a hedge is paid for as a retry after a timeout would be.
        let Ok(paid) = upstream.pay(now, Fault::Timeout, self.child) else { return Step::Await };
        self.paid = Some(paid);
        match upstream.admit(now, &self.next()) {
            Admission::Go(permit) => return self.launch(now, permit, upstream),
            Admission::Queued(ticket, _) => drop(upstream.leave(ticket)),
            Admission::No(_) => {}
        }
        self.give_back(now, upstream);
        Step::Await
    }

    fn launch(&mut self, now: Time, permit: Permit, upstream: &Upstream) -> Step {
        self.attempts += 1;
        let slot = self.open.iter().position(Option::is_none).unwrap_or(0);
        let endpoint = permit.endpoint();
        self.tried = self.tried.with(endpoint);
        if self.paid.is_some() {
            self.open_paid[slot] = self.paid.take();
        }
        let loan = self.credit.as_mut().map(Credit::lend);
        self.open[slot] = Some(Open { permit, sent: false, loan });
        // Computed here, after queue and sleep: what remains is what is left now.
        let timeout_at = (now + self.policy.per_try).min(self.deadline);
        let hedge_at = self.hedge_at(now, upstream);
        Step::Send(Send {
            slot: slot as u8,
            attempt: self.attempts,
            endpoint,
            timeout_at,
            hedge_at,
        })
    }

    /// Only a lone attempt is hedged, and only if there is one more to make.
    fn hedge_at(&self, now: Time, upstream: &Upstream) -> Option<Time> {
        let hedge = self.policy.hedge.as_ref()?;
        let lone = self.open.iter().flatten().count() == 1;
        (lone && self.attempts < self.policy.attempts).then_some(())?;
        Some(now + hedge.delay(upstream.latency())?)
    }

    fn refused(&mut self, now: Time, refusal: Refusal, upstream: &mut Upstream) -> Step {
        self.give_back(now, upstream);
        let answer = if self.kept { Answer::Kept } else { Answer::Refusal };
        self.finish(answer, Some(refusal.reason), Some(refusal.retry_at))
    }

    fn end(
        &mut self,
        now: Time,
        slot: u8,
        outcome: Outcome,
        how: Release,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        let Some(open) = self.open[usize::from(slot)].take() else { return Step::Await };
        if let (Some(credit), Some(loan)) = (&mut self.credit, open.loan)
            && let Outcome::Failed(Failure { delivery: Delivery::NeverSent, .. }) = outcome
        {
            credit.unsent(loan);
        }
        upstream.judge(now, &open.permit, &outcome);
        if self.child != Child::NONE {
            upstream.judge_child(now, self.child, &outcome);
        }
        if self.open_paid[usize::from(slot)].is_some() {
            self.settle(now, slot, &outcome, upstream);
        }
        upstream.release(now, open.permit, if open.sent { how } else { Release::Done }, wake);
        if matches!(outcome, Outcome::Success | Outcome::Abandoned) {
            // The loser of a hedge: its slot is free or a ghost, and nothing is judged by it.
            self.let_go(now, upstream, wake);
        }
        match outcome {
            Outcome::Success => self.finish(Answer::This, None, None),
            Outcome::Abandoned => self.finish(Answer::This, Some(Reason::ClientGone), None),
            _ if self.open.iter().any(Option::is_some) => Step::Await,
            Outcome::Failed(failure) => self.after(now, failure, upstream),
            Outcome::Defer { after } => {
                self.attempts -= 1; // coming back when asked to burns no attempt
                self.after(now, Failure::of(Fault::Overload).with_hint(after), upstream)
            }
        }
    }

    /// The attempt that was paid for will not be made.
    fn give_back(&mut self, now: Time, upstream: &mut Upstream) {
        if let Some(paid) = self.paid.take() {
            upstream.refund(now, paid);
        }
    }

    /// What was paid for an attempt that has ended is spent, unless success is worth something.
    #[cold]
    fn settle(&mut self, now: Time, slot: u8, outcome: &Outcome, upstream: &mut Upstream) {
        let paid = self.open_paid[usize::from(slot)].take();
        if let (Outcome::Success, Some(paid)) = (outcome, paid) {
            upstream.retried_well(now, paid);
        }
    }

    /// A failure: another attempt, or the end.
    fn after(&mut self, now: Time, failure: Failure, upstream: &mut Upstream) -> Step {
        match self.plan(now, &failure, upstream) {
            Ok((until, paid)) => {
                self.kept |= failure.code.is_some();
                self.paid = Some(paid);
                if let Some(credit) = &mut self.credit {
                    credit.spend(failure.delivery);
                }
                Step::Sleep { until }
            }
            Err(reason) => {
                let answer =
                    if self.kept && failure.code.is_none() { Answer::Kept } else { Answer::This };
                self.finish(answer, Some(reason), None)
            }
        }
    }

    /// Every reason not to try again; the budget is asked last, before the wait.
    fn plan(
        &mut self,
        now: Time,
        failure: &Failure,
        upstream: &mut Upstream,
    ) -> Result<(Time, Receipt), Reason> {
        if !failure.retryable {
            return Err(Reason::NotRetryable);
        }
        if self.attempts >= self.policy.attempts {
            return Err(Reason::AttemptsSpent);
        }
        if failure.delivery != Delivery::NeverSent {
            if !self.repeatable {
                return Err(Reason::NotSafe);
            }
            if !self.replayable {
                return Err(Reason::NotReplayable);
            }
        }
        if let Some(credit) = &self.credit {
            credit.allows(failure.delivery)?;
        }
        let until = self.wake_at(now, failure, upstream)?;
        let needs = upstream.p50().unwrap_or(Duration::ZERO);
        if until + needs >= self.deadline {
            return Err(Reason::Deadline);
        }
        if upstream.stops_retries(now) {
            return Err(Reason::BreakerOpen);
        }
        Ok((until, upstream.pay(now, failure.fault, self.child)?))
    }

    /// Never before the upstream's hint; the spread comes after it.
    fn wake_at(
        &mut self,
        now: Time,
        failure: &Failure,
        upstream: &mut Upstream,
    ) -> Result<Time, Reason> {
        if let Some(hint) = failure.hint
            && (hint > self.policy.hint_cap || now + hint >= self.deadline)
        {
            return Err(Reason::HintTooLong);
        }
        let retry = self.attempts.max(1);
        self.waited = self.policy.backoff.delay(retry, self.waited, upstream.rng());
        let not_before = upstream.not_before();
        let held_until = failure.hint.map_or(not_before, |hint| not_before.max(now + hint));
        Ok(held_until.max(now) + self.waited)
    }

    fn finish(&mut self, answer: Answer, reason: Option<Reason>, retry_at: Option<Time>) -> Step {
        self.over = true;
        Step::Finish(Finish { answer, reason, attempts: self.attempts, retry_at })
    }
}

#[cfg(test)]
mod tests;

//! Call: every decision of the retry loop, once.
//!
//! **Why.** The loop "send, wait, send again" looks trivial and is where most retry bugs live: asked for
//! budget after the sleep, slept past the deadline, repeated what must not be repeated, lost the real reply.
//! It is written here once; hosts only do what it says and hand back what happened. The simulator
//! therefore does not model the loop, it runs it.
//!
//! An attempt that ends in [`Outcome::Defer`] was by its own word not acted on: it is made again even where a failed one
//! would not be, and burns none of the policy's attempts. It is a send all the same, so what follows is a retry to
//! everybody else: paid for, held back and queued as one. How often is up to the deadline, which no wait passes, and to
//! the budget.
//!
//! A retry that was paid for and never got as far as an attempt is refunded; one whose connection failed *was* an
//! attempt, and stays paid.
//!
//! **How.** [`Call::step`] takes what happened and answers what to do next. The call holds all that it took:
//! permits, its place in the queue, what it paid. Whoever drops a call early says so with
//! [`Call::abandon`], and everything goes back where it belongs. The policy stays with the host, which has many calls
//! of one policy, and hands it in with every step.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::*;
//! use quell_core::spec::{PolicySpec, UpstreamSpec};
//!
//! let (now, mut wake) = (Time::ZERO, Vec::new());
//! let policy = Policy::new(PolicySpec::library())?;
//! let mut upstream = Upstream::new(UpstreamSpec::library(), policy.per_try(), 1, now)?;
//! let mut call = Call::new();
//! call.set_repeatable(true);
//! let mut step = |now, input| call.step(now, input, &policy, &mut upstream, &mut wake);
//!
//! let Step::Send(send) = step(now, Input::Start) else { panic!() };
//! let failed = Input::Ended { slot: send.slot, outcome: Outcome::Failed(Failure::of(Fault::Server)) };
//! let Step::Sleep { until } = step(now, failed) else { panic!() };
//! let Step::Send(send) = step(until, Input::Woke) else { panic!() };
//! assert_eq!(send.attempt, 2);
//! let success = Input::Ended { slot: send.slot, outcome: Outcome::Success };
//! let Step::Finish(finish) = step(until, success) else { panic!() };
//! assert_eq!((finish.answer, finish.reason), (Answer::This, None));
//! # Ok::<_, spec::Invalid>(())
//! ```

mod about;
mod again;
mod arrival;
mod step;

use core::time::Duration;

pub use arrival::Arrival;
pub use step::{Answer, Finish, Input, Send, Step};

use crate::{
    Admission, Ask, Delivery, Failure, Fault, Outcome, Permit, Policy, Reason, Refusal, Release,
    Time, Upstream, Wake,
    budget::{Receipt, purse::Child},
    credit::Retries,
    endpoints::Tried,
    queue::Ticket,
};

/// Attempts of one call that may be open at once: one, and one hedge.
const SLOTS: usize = 2;

#[derive(Debug)]
struct Open {
    permit: Permit,
    sent: bool,
}

/// What an open attempt has besides: apart from it, for hardly any has.
#[derive(Debug)]
struct Extra {
    paid: Option<Receipt>,
    /// Chain credit handed on with it, until it is settled.
    loan: Option<Retries>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Call {
    arrival: Arrival,
    /// When the call is over: by its caller's word or by the policy, whichever is sooner.
    deadline: Time,
    tried: Tried,
    uploads: bool,
    /// Whether all of what it uploads was once given to the upstream.
    given: bool,
    repeatable: bool,
    replayable: bool,
    /// Attempts made so far.
    attempts: u32,
    /// Those of them that were deferred, and so do not count against the policy.
    deferred: u32,
    /// How often waiting calls had been dropped by hand when it last went to sleep.
    drops: u32,
    /// The backoff before the last retry.
    waited: Duration,
    /// The next one, where the host knows better than the policy.
    wait: Option<Duration>,
    open: [Option<Open>; SLOTS],
    ticket: Option<Ticket>,
    /// The slot of the latest attempt.
    latest: u8,
    /// One attempt and nothing else: no child, no credit, nothing paid, no hedge.
    plain: bool,
    extra: [Option<Extra>; SLOTS],
    /// What was paid for the next attempt.
    paid: Option<Receipt>,
    kept: bool,
    over: bool,
    /// Why there was no further attempt.
    reason: Option<Reason>,
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}

impl Call {
    /// A call of which nothing is known, that begins with its first step. Until told otherwise it may not be repeated once it
    /// was sent.
    #[inline(always)]
    pub const fn new() -> Self {
        Self::of(Arrival::new())
    }

    /// The same for a call of which something is known.
    #[inline(always)]
    pub const fn of(arrival: Arrival) -> Self {
        Self {
            deadline: arrival.deadline,
            plain: matches!(arrival.child, Child::NONE) && arrival.credit.is_none(),
            arrival,
            tried: Tried::NOWHERE,
            uploads: false,
            given: false,
            repeatable: false,
            replayable: true,
            attempts: 0,
            deferred: 0,
            drops: 0,
            waited: Duration::ZERO,
            wait: None,
            open: [None, None],
            ticket: None,
            latest: 0,
            extra: [None, None],
            paid: None,
            kept: false,
            over: false,
            reason: None,
        }
    }

    /// Decides what to do next. Others whose wait ends by this are put into `wake`.
    #[inline]
    pub fn step(
        &mut self,
        now: Time,
        input: Input,
        policy: &Policy,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        match input {
            Input::Start => self.start(now, policy, upstream),
            Input::Ended { slot, outcome: Outcome::Success } => {
                self.succeed(now, slot, policy, upstream, wake)
            }
            other => self.step_on(now, other, policy, upstream, wake),
        }
    }

    /// [`Call::step`] with [`Input::Start`]. With [`Call::succeed`] this is all that happens to almost every call.
    #[inline]
    pub fn start(&mut self, now: Time, policy: &Policy, upstream: &mut Upstream) -> Step {
        self.arrival.since = self.arrival.since.min(now);
        self.deadline = self.deadline.min(self.arrival.since.plus(policy.timeout));
        let ask = self.next(policy);
        match upstream.enter_calmly(now, &ask) {
            Some(class) => {
                let permit = upstream.go(now, &ask, class);
                self.launch(now, 0, permit, policy, upstream)
            }
            None => self.ask(now, policy, upstream),
        }
    }

    /// [`Call::step`] when the attempt in this slot succeeded.
    #[inline]
    pub fn succeed(
        &mut self,
        now: Time,
        slot: u8,
        policy: &Policy,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        self.end(now, slot, Outcome::Success, Release::Done, policy, upstream, wake)
    }

    #[cold]
    fn step_on(
        &mut self,
        now: Time,
        input: Input,
        policy: &Policy,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        match input {
            Input::Start => self.start(now, policy, upstream),
            Input::Woke => match upstream.was_dropped(now, policy.route, self.drops) {
                None => self.ask(now, policy, upstream),
                Some(refusal) => self.refused(now, refusal, upstream),
            },
            Input::NotKept => {
                self.give_back(now, upstream);
                self.finish(Answer::This, Some(Reason::NotReplayable), None)
            }
            Input::HedgeDue => self.hedge(now, policy, upstream),
            Input::Granted(permit) => {
                self.ticket = None;
                self.launch(now, 0, permit, policy, upstream)
            }
            Input::Refused(refusal) => {
                self.ticket = None;
                self.refused(now, refusal, upstream)
            }
            Input::Ended { slot, outcome } => {
                self.end(now, slot, outcome, Release::Done, policy, upstream, wake)
            }
            Input::TimedOut { slot } => {
                let mut failure = Failure::of(Fault::Timeout);
                if self.open[usize::from(slot)].as_ref().is_some_and(|open| !open.sent) {
                    failure.delivery = Delivery::NeverSent; // it never got past connecting
                }
                let outcome = Outcome::Failed(failure);
                self.end(now, slot, outcome, Release::Ghost, policy, upstream, wake)
            }
        }
    }

    /// The caller left, or the host gave up. What was not sent goes back, what was sent becomes a ghost, and the
    /// upstream is judged by none of it. After a finished call it does nothing.
    pub fn abandon(&mut self, now: Time, upstream: &mut Upstream, wake: &mut Vec<Wake>) {
        if core::mem::replace(&mut self.over, true) {
            return;
        }
        self.reason = Some(Reason::ClientGone);
        if let Some(ticket) = self.ticket.take() {
            upstream.leave(ticket);
        }
        self.give_back(now, upstream);
        self.let_go(now, upstream, wake);
        if self.arrival.since < Time::MAX {
            upstream.gave_up(now, self.arrival.since, self.arrival.class);
        }
    }

    fn is_open(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// Lets go of every open attempt: what was not sent goes back, what was sent becomes a ghost.
    #[cold]
    fn let_go(&mut self, now: Time, upstream: &mut Upstream, wake: &mut Vec<Wake>) {
        for (open, extra) in self.open.iter_mut().zip(&mut self.extra) {
            let paid = extra.take().and_then(|extra| extra.paid);
            let Some(open) = open.take() else { continue };
            let how = if open.sent { Release::Ghost } else { Release::Unsent };
            match paid {
                Some(paid) if !open.sent => upstream.refund(now, paid),
                Some(_) => upstream.retry_ended(),
                None => {}
            }
            upstream.release(now, open.permit, how, wake);
        }
    }

    /// Who asks for the next attempt.
    fn next(&self, policy: &Policy) -> Ask {
        Ask {
            since: self.arrival.since,
            attempt: self.attempts + 1,
            deadline: self.deadline,
            told: self.is_told(),
            priority: self.arrival.priority,
            tried: self.tried,
            cost: self.arrival.cost,
            key: self.arrival.key,
            pool: self.arrival.pool,
            route: policy.route,
            class: self.arrival.class,
            caller: self.arrival.caller,
            credential: self.arrival.credential,
            uploads: self.uploads,
        }
    }

    #[cold]
    fn ask(&mut self, now: Time, policy: &Policy, upstream: &mut Upstream) -> Step {
        match upstream.admit_closely(now, &self.next(policy)) {
            Admission::Go(permit) => self.launch(now, 0, permit, policy, upstream),
            Admission::Queued(ticket, until) => {
                self.ticket = Some(ticket);
                Step::Enqueue { ticket, until }
            }
            Admission::No(refusal) => self.refused(now, refusal, upstream),
        }
    }

    #[inline(always)]
    fn launch(
        &mut self,
        now: Time,
        slot: u8,
        permit: Permit,
        policy: &Policy,
        upstream: &Upstream,
    ) -> Step {
        self.attempts += 1;
        let index = usize::from(slot);
        let endpoint = permit.endpoint();
        self.tried = self.tried.with(endpoint);
        self.latest = slot;
        self.open[index] = Some(Open { permit, sent: false });
        if !self.plain {
            let may_be_hedged = policy.hedge.is_some() && self.burnt() < policy.attempts;
            let loan = self.arrival.credit.as_mut().map(|credit| {
                credit.raise(upstream.raised(now, policy.route, policy.attempts));
                credit.lend(may_be_hedged)
            });
            self.extra[index] = Some(Extra { paid: self.paid.take(), loan });
        }
        // Computed here, after queue and sleep: what remains is what is left now.
        let timeout_at = now.plus(policy.per_try).min(self.deadline);
        let hedge_at = self.hedge_at(now, policy, upstream);
        Step::Send(Send { slot, attempt: self.attempts, endpoint, timeout_at, hedge_at })
    }

    fn refused(&mut self, now: Time, refusal: Refusal, upstream: &mut Upstream) -> Step {
        self.give_back(now, upstream);
        let answer = if self.kept { Answer::Kept } else { Answer::Refusal };
        self.finish(answer, Some(refusal.reason), Some(refusal.retry_at))
    }

    /// Compiled twice: once for success, where most of it falls away.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "an outcome and all that it touches")]
    fn end(
        &mut self,
        now: Time,
        slot: u8,
        outcome: Outcome,
        how: Release,
        policy: &Policy,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) -> Step {
        let index = usize::from(slot);
        let Some(open) = &self.open[index] else { return Step::Await };
        upstream.judge(now, &open.permit, &outcome);
        upstream.free(now, &open.permit, if open.sent { how } else { Release::Done }, wake);
        self.open[index] = None;
        if !self.plain {
            self.settle(now, index, &outcome, upstream, wake);
        }
        if let Outcome::Defer { .. } = outcome {
            self.deferred += 1;
        }
        match outcome {
            Outcome::Success => self.finish(Answer::This, None, None),
            Outcome::Abandoned => self.finish(Answer::This, Some(Reason::ClientGone), None),
            _ if self.is_open() => Step::Await,
            Outcome::Failed(failure) => self.after(now, failure, self.repeatable, policy, upstream),
            Outcome::Defer { after } => {
                let failure = Failure::of(Fault::Overload).with_hint(after);
                self.after(now, failure, true, policy, upstream)
            }
        }
    }

    /// The attempt that was paid for will not be made.
    fn give_back(&mut self, now: Time, upstream: &mut Upstream) {
        if let Some(paid) = self.paid.take() {
            upstream.refund(now, paid);
        }
    }

    /// What an attempt's end means to its child, its credit and what was paid, and to a hedge that lost.
    #[cold]
    fn settle(
        &mut self,
        now: Time,
        index: usize,
        outcome: &Outcome,
        upstream: &mut Upstream,
        wake: &mut Vec<Wake>,
    ) {
        if self.arrival.child != Child::NONE {
            upstream.judge_child(now, self.arrival.child, outcome);
        }
        if let Some(Extra { paid, loan }) = self.extra[index].take() {
            if let (Some(credit), Some(loan)) = (&mut self.arrival.credit, loan)
                && let Outcome::Failed(Failure { delivery: Delivery::NeverSent, .. }) = outcome
            {
                credit.unsent(loan);
            }
            if let Some(paid) = paid {
                upstream.retry_ended();
                // What was paid is spent, unless success is worth something.
                if let Outcome::Success = outcome {
                    upstream.retried_well(now, paid);
                }
            }
        }
        if matches!(outcome, Outcome::Success | Outcome::Abandoned) {
            // The loser of a hedge: its slot is free or a ghost, and nothing is judged by it.
            self.let_go(now, upstream, wake);
        }
    }

    fn finish(&mut self, answer: Answer, reason: Option<Reason>, retry_at: Option<Time>) -> Step {
        self.over = true;
        self.reason = reason;
        Step::Finish(Finish { answer, reason, attempts: self.attempts, retry_at })
    }
}

#[cfg(test)]
mod hedge_tests;
#[cfg(test)]
mod tests;

//! Again: whether there is another attempt, after a failure or beside one that takes long.

use core::time::Duration;

use super::{Answer, Call, Step};
use crate::{Admission, Delivery, Failure, Fault, Policy, Reason, Time, Upstream, budget::Receipt};

impl Call {
    /// A failure: another attempt, or the end. `repeatable` says whether what was sent may be sent again.
    pub(super) fn after(
        &mut self,
        now: Time,
        failure: Failure,
        repeatable: bool,
        policy: &Policy,
        upstream: &mut Upstream,
    ) -> Step {
        match self.plan(now, &failure, repeatable, policy, upstream) {
            Ok((until, paid)) => {
                self.kept |= failure.code.is_some();
                self.paid = Some(paid);
                self.plain = false;
                self.drops = upstream.drops();
                if let Some(credit) = &mut self.arrival.credit {
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
        repeatable: bool,
        policy: &Policy,
        upstream: &mut Upstream,
    ) -> Result<(Time, Receipt), Reason> {
        failure.allows_another()?;
        let mut allowed = upstream.allowed(now, policy.route, policy.attempts)?;
        if let Some(credit) = &self.arrival.credit {
            // What was raised after the last attempt went out comes too late: whoever sent it may have kept nothing of it.
            allowed = allowed.min(policy.attempts.saturating_add(credit.raised()));
        }
        // Deferred ones do not count, up to the last number there is.
        if self.burnt() >= allowed || self.attempts == u32::MAX {
            return Err(Reason::AttemptsSpent);
        }
        if failure.delivery != Delivery::NeverSent && !repeatable {
            return Err(Reason::NotSafe);
        }
        // Even what never went out may have been taken from its giver, who has it only once.
        if !self.replayable {
            return Err(Reason::NotReplayable);
        }
        if let Some(credit) = &self.arrival.credit {
            credit.allows(failure.delivery)?;
        }
        let until = self.wake_at(now, failure, policy, upstream)?;
        let needs = upstream.latency(self.arrival.class).p50().unwrap_or(Duration::ZERO);
        if until + needs >= self.deadline {
            return Err(Reason::Deadline);
        }
        if upstream.stops_retries(now, self.arrival.key, self.arrival.class) {
            return Err(Reason::BreakerOpen);
        }
        Ok((until, upstream.pay(now, failure.fault, self.arrival.child)?))
    }

    /// Attempts that count against the policy.
    pub(super) const fn burnt(&self) -> u32 {
        self.attempts.saturating_sub(self.deferred)
    }

    /// Never before the upstream's hint; the spread comes after it.
    fn wake_at(
        &mut self,
        now: Time,
        failure: &Failure,
        policy: &Policy,
        upstream: &mut Upstream,
    ) -> Result<Time, Reason> {
        if let Some(hint) = failure.hint
            && (hint > policy.hint_cap || now + hint >= self.deadline)
        {
            return Err(Reason::HintTooLong);
        }
        self.waited = match self.wait.take() {
            Some(wait) => wait,
            None => {
                let backoff = policy.backoff_after(failure.fault);
                backoff.delay(self.burnt().max(1), self.waited, upstream.rng())
            }
        };
        let not_before = upstream.not_before(self.arrival.credential);
        let held_until = failure.hint.map_or(not_before, |hint| not_before.max(now + hint));
        Ok(held_until.max(now) + self.waited)
    }

    /// A second attempt beside the first, if nothing speaks against it. It waits in no queue.
    pub(super) fn hedge(&mut self, now: Time, policy: &Policy, upstream: &mut Upstream) -> Step {
        let [first, second] = &self.open;
        let slot = u8::from(first.is_some());
        let allowed = first.is_some() != second.is_some()
            && policy.hedge.is_some()
            && upstream
                .allowed(now, policy.route, policy.attempts)
                .is_ok_and(|allowed| self.burnt() < allowed)
            && self.repeatable
            && self.replayable
            && self.arrival.credit.is_none_or(|credit| credit.allows_hedge())
            && !upstream.is_degraded(now, self.arrival.key, self.arrival.class);
        if !allowed {
            return Step::Await;
        }
        // Whatever makes the first attempt slow, a hedge is paid for as a retry after a timeout would be.
        let Ok(paid) = upstream.pay(now, Fault::Timeout, self.arrival.child) else {
            return Step::Await;
        };
        self.paid = Some(paid);
        self.plain = false;
        match upstream.admit(now, &self.next(policy)) {
            Admission::Go(permit) => {
                if let Some(credit) = &mut self.arrival.credit {
                    credit.spend_on_hedge();
                }
                return self.launch(now, slot, permit, policy, upstream);
            }
            Admission::Queued(ticket, _) => drop(upstream.leave(ticket)),
            Admission::No(_) => {}
        }
        self.give_back(now, upstream);
        Step::Await
    }

    /// Only a lone attempt is hedged, and only if there is one more to make.
    pub(super) fn hedge_at(&self, now: Time, policy: &Policy, upstream: &Upstream) -> Option<Time> {
        let hedge = policy.hedge.as_ref()?;
        let lone = self.open.iter().flatten().count() == 1;
        (lone && self.burnt() < policy.attempts).then_some(())?;
        Some(now + hedge.delay(upstream.latency(self.arrival.class))?)
    }
}

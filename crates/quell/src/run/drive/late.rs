//! Late: when an attempt's time is over, and when a hedge is due.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use quell_core::{Failure, Fault, Input, Outcome, Step, Time};

use super::Driving;
use crate::{
    run::{Given, Sender, Waits},
    upstream::Terms,
};

impl<T: Terms, S: Sender> Driving<'_, T, S> {
    /// Looks at the hedge, and then at the clock.
    #[cold]
    pub(super) fn poll_slowly(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if let Some(hedge) = self.hedge
            && let Poll::Ready(reply) = hedge.as_mut().poll(cx)
        {
            let outcome = self.sender.classify(&reply);
            return Poll::Ready(self.ended(1, Some(reply), outcome));
        }
        loop {
            let Some((slot, until)) = self.first_to_time_out() else {
                return Poll::Ready(self.guard.step(Input::Woke)); // there is nothing to go on waiting for
            };
            if *self.waits == Waits::Blocking {
                return Poll::Pending; // which a thread cannot wait for
            }
            let wake_at = self.hedge_at.map_or(until, |at| at.min(until));
            let clock = self.guard.upstream().clock();
            ready!(self.timer.as_mut().poll_until(cx, clock, wake_at));
            if self.hedge_at.take_if(|at| *at < until).is_some() {
                self.ask_whether_repeatable(self.sender.is_whole());
                return Poll::Ready(self.guard.step(Input::HedgeDue));
            }
            match self.late(slot) {
                Ok(outcome) => {
                    *self.hedge_at = None;
                    return Poll::Ready(self.ended(slot, None, outcome));
                }
                Err(later) => {
                    if let Some(open) = &mut self.tries[usize::from(slot)] {
                        open.timeout_at = later;
                    }
                }
            }
        }
    }

    /// What an attempt comes to whose time seems to be over. Its own time begins when its request is out: as long as that
    /// flows only what the caller said of its own time counts, and a caller who has not given all of it by then, or stops,
    /// has left. `Err` is when to look again.
    fn late(&self, slot: u8) -> Result<Outcome, Time> {
        let now = self.guard.upstream().clock().now();
        let call = self.guard.called();
        let (since, by, late) = match self.given(slot) {
            Given::All(at) => (at, call.deadline(), Outcome::Failed(Failure::of(Fault::Timeout))),
            Given::Flowing => (now, call.uploads_until(), Outcome::Abandoned),
            Given::Stalled => return Ok(Outcome::Abandoned),
        };
        let until = (since + self.guard.policy().per_try()).min(by);
        if until > now { Err(until) } else { Ok(late) }
    }

    /// How far the caller is with the request of an attempt.
    pub(super) fn given(&self, slot: u8) -> Given {
        let under_way = match slot {
            0 => self.first.as_ref().as_pin_ref().map(Pin::get_ref),
            _ => self.hedge.as_deref(),
        };
        under_way.map_or(Given::All(Time::ZERO), |attempt| self.sender.given(attempt))
    }

    fn first_to_time_out(&self) -> Option<(u8, Time)> {
        let open = self.tries.iter().zip(0..).filter_map(|(open, slot)| Some((slot, (*open)?)));
        open.map(|(slot, open)| (slot, open.timeout_at)).min_by_key(|(_, at)| *at)
    }
}

//! Quell's former rule: rate × half of the callers' patience, at most eight times rate × base. It is the code that ships with
//! `quell-core`, told of the same answers and leavers as in an upstream.

use core::time::Duration;

use quell_core::{
    Time,
    in_flight::{InFlight, Limit},
};

use super::super::{Answered, Control};

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Former(InFlight);

impl Default for Former {
    fn default() -> Self {
        let limit = InFlight::new(Limit::Adaptive { ceiling: 4096 }, Duration::from_secs(5));
        Self(limit.unwrap_or_else(|_| unreachable!("the ceiling is above the least")))
    }
}

impl Control for Former {
    fn answered(&mut self, seen: &Answered) {
        if seen.good {
            self.0.served(seen.now, seen.took);
            if self.0.is_late(seen.now, seen.sent_at) {
                self.0.learn_patience(seen.took);
            }
        }
    }
    fn left(&mut self, _: Time, age: Duration, _: bool) {
        self.0.learn_patience(age);
    }
    fn limit(&self) -> u32 {
        self.0.limit()
    }
}

//! Quell's former rule: rate × half of the callers' patience, at most eight times rate × base; 8 to 4,096.

use core::time::Duration;

use quell_core::{Time, pace::Known};

use super::super::{Answered, Control};

const LEAST: f64 = 8.0;
const MOST: f64 = 4096.0;
/// Leavers who are enough to know better while nothing was answered.
const ENOUGH: u32 = 20;

/// See the [module](self).
#[derive(Debug)]
pub(in super::super) struct Former {
    limit: f64,
    left: u32,
}

impl Default for Former {
    fn default() -> Self {
        Self { limit: 512.0, left: 0 }
    }
}

impl Control for Former {
    fn answered(&mut self, seen: &Answered) {
        let Some(Known { rate, base }) = seen.known else { return };
        let patient = rate * seen.patience.as_secs_f64() / 2.0;
        let crowded = 8.0 * rate * base.as_secs_f64();
        (self.limit, self.left) = (patient.min(crowded).clamp(LEAST, MOST), 0);
    }
    fn left(&mut self, _: Time, _: Duration, _: bool) {
        self.left += 1;
        if self.limit == 512.0 && self.left >= ENOUGH {
            self.limit = LEAST;
        }
    }
    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

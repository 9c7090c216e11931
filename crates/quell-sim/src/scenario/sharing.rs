//! Services that work on everybody at once.

use super::{Invalid, Queue, Service, wrong};

/// All requests inside are worked on at once. Beyond one per worker they share the workers equally, and crowds may cost: with
/// `n` requests inside, all workers together are `1 + loss·(n − workers) ÷ workers` times slower.
///
/// ```
/// use quell_sim::scenario::Sharing;
///
/// assert_eq!(Sharing { loss: 0.0 }.speed(20, 10), 0.5); // half a worker each
/// assert_eq!(Sharing { loss: 1.0 }.speed(20, 10), 0.25); // and those at half their speed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sharing {
    /// What one more request per worker costs; 0 for nothing: from 0 to a million.
    pub loss: f64,
}

impl Sharing {
    /// How fast each of `busy` requests gets on: 1 with a worker of its own.
    pub fn speed(self, busy: usize, workers: usize) -> f64 {
        if busy <= workers {
            return 1.0;
        }
        let (busy, workers) = (busy as f64, workers as f64);
        // Not one worker left: nothing gets on.
        if workers == 0.0 {
            return 0.0;
        }
        workers / busy / (1.0 + self.loss * (busy - workers) / workers)
    }

    /// Whether this is a way to share workers.
    pub fn is_fine(self) -> bool {
        (0.0..=1e6).contains(&self.loss)
    }

    pub(super) fn check(self, service: &Service) -> Result<(), Invalid> {
        if !self.is_fine() {
            let fix =
                "is out of range: write what one more request per worker costs, such as 0.5, or 0";
            return wrong("service.sharing.loss", fix);
        }
        if service.queue != Queue::default() {
            let fix = "has no place where all are worked on at once: write queue or sharing";
            return wrong("service.queue", fix);
        }
        if !service.refusal_cost.is_zero() {
            let fix = "takes a worker, and here requests share them: write refusal_cost or sharing";
            return wrong("service.refusal_cost", fix);
        }
        Ok(())
    }
}

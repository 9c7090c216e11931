//! Patience: how long callers wait before they leave, learned from those who did.
//!
//! **Why.** Work that outlasts its caller's patience is done for nobody, and a service kept busy with it stays
//! down. Callers rarely say how long they wait, and a proxy's own timeout says nothing about it: a limit
//! derived from that stays stuck after every outage. Those who leave do tell.
//!
//! **How.** The 10th percentile of the last 200 samples, once there are 20. A sample is the age at which a
//! caller left without an answer, or the age at which a surprisingly late answer was still taken. One hasty
//! client cannot set everybody's patience: the tenth of all samples has to be that hasty, and whoever uses
//! the estimate never goes below a few service times.

use core::time::Duration;

use super::nanos;

const SAMPLES: usize = 200;
const ENOUGH: usize = 20;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Patience {
    samples: [u64; SAMPLES],
    /// Samples ever taken.
    taken: usize,
    learned: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { samples: [0; SAMPLES], taken: 0, learned: None }
    }
}

impl Patience {
    /// A caller left at this age, or took an answer at this age that was later than expected.
    pub(super) fn learn(&mut self, age: Duration) {
        self.samples[self.taken % SAMPLES] = nanos(age);
        self.taken += 1;
        if self.taken >= ENOUGH {
            let held = self.taken.min(SAMPLES);
            let mut sorted = self.samples;
            let (_, tenth, _) = sorted[..held].select_nth_unstable(held / 10);
            self.learned = Some(Duration::from_nanos(*tenth));
        }
    }

    /// What nine of ten callers bear, once enough of them have shown it.
    pub(super) fn learned(&self) -> Option<Duration> {
        self.learned
    }
}

//! Refusals: why Quell turned callers away, and who left while it let them wait.
//!
//! **Why.** A refusal without its reason cannot be argued with. And a caller who leaves inside Quell's queue was neither refused nor
//! lost at the service: whoever counts only refusals calls a queue that serves nobody healthy.

use quell_core::Reason;

const REASONS: usize = Reason::ALL.len();

/// Refusals by reason, before the outage, during it and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    by_reason: [[u64; REASONS]; 3],
    /// Callers whose patience ended in Quell's queue, in the same parts.
    pub left_queued: [u64; 3],
}

impl Default for Refusals {
    fn default() -> Self {
        Self { by_reason: [[0; REASONS]; 3], left_queued: [0; 3] }
    }
}

impl Refusals {
    /// One more, in this part of the run.
    pub fn add(&mut self, part: usize, reason: Reason) {
        self.by_reason[part][reason as usize] += 1;
    }

    /// How many for this reason, in the whole run.
    pub fn of(&self, reason: Reason) -> u64 {
        self.by_reason.iter().map(|part| part[reason as usize]).sum()
    }

    /// Every reason there was in this part of the run, with how often.
    pub fn in_part(&self, part: usize) -> Vec<(Reason, u64)> {
        let all = Reason::ALL.iter().zip(self.by_reason[part]);
        all.filter(|(_, count)| *count > 0).map(|(&reason, count)| (reason, count)).collect()
    }

    /// Every reason there was, with how often.
    pub fn all(&self) -> Vec<(Reason, u64)> {
        let all = Reason::ALL.iter().map(|&reason| (reason, self.of(reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// All of them together; who left in the queue is not among them.
    pub fn total(&self) -> u64 {
        self.by_reason.iter().flatten().sum()
    }

    /// Who left in the queue, in the whole run.
    pub fn left(&self) -> u64 {
        self.left_queued.iter().sum()
    }

    /// Both together.
    pub fn and(mut self, other: &Self) -> Self {
        for part in 0..3 {
            self.left_queued[part] += other.left_queued[part];
            for (own, more) in self.by_reason[part].iter_mut().zip(other.by_reason[part]) {
                *own += more;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_reason_and_by_part() {
        let mut refusals = Refusals::default();
        refusals.add(0, Reason::QueueFull);
        refusals.add(2, Reason::QueueFull);
        refusals.add(2, Reason::BreakerOpen);
        refusals.left_queued[1] = 4;
        assert_eq!(refusals.in_part(0), [(Reason::QueueFull, 1)]);
        assert_eq!(refusals.all(), [(Reason::BreakerOpen, 1), (Reason::QueueFull, 2)]);
        let both = refusals.clone().and(&refusals);
        assert_eq!((both.total(), both.left(), both.of(Reason::QueueFull)), (6, 8, 4));
    }
}

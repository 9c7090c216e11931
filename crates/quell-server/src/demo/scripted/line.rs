//! The line: who is served when, computed and not waited for.
//!
//! **Why.** Timers fire a millisecond or more late. A worker that starts its next job when the timer of
//! the last one fired loses that millisecond each time, and a service of 36 × 100 ms quietly has 1–2 %
//! less capacity than it says. Here lateness delays a reply at most, never the schedule.
//!
//! **How.** First come, first served, and every job takes equally long, so jobs are done in the order they
//! came and the next free worker is always the one that was taken longest ago. That makes the moment a job
//! is done known on arrival. A stall stops the service clock: all times here are on that clock, which runs
//! behind by as long as the service stood still.

use std::collections::VecDeque;
use std::time::Duration;

/// Jobs in the line, waiting or in service; `now` is the time since some fixed start.
#[derive(Debug)]
pub(super) struct Line<J> {
    service: Duration,
    /// When each worker is free, the earliest first.
    free: VecDeque<Duration>,
    /// What is not done yet, with the moment it will be.
    jobs: VecDeque<(Duration, J)>,
    stalled_at: Option<Duration>,
    lost: Duration,
}

impl<J> Line<J> {
    pub(super) fn new(workers: usize, service: Duration) -> Self {
        let free = std::iter::repeat_n(Duration::ZERO, workers.max(1)).collect();
        Self { service, free, jobs: VecDeque::new(), stalled_at: None, lost: Duration::ZERO }
    }

    /// Takes a place in the line.
    pub(super) fn join(&mut self, now: Duration, job: J) {
        let free = self.free.pop_front().unwrap_or_default();
        let done = self.worked(now).max(free) + self.service;
        self.free.push_back(done);
        self.jobs.push_back((done, job));
    }

    /// The next job that is done by now. To be asked again until there is none.
    pub(super) fn next_done(&mut self, now: Duration) -> Option<J> {
        let (done, _) = self.jobs.front()?;
        if *done > self.worked(now) {
            return None;
        }
        self.jobs.pop_front().map(|(_, job)| job)
    }

    /// When the next job will be done, if nothing stands in the way.
    pub(super) fn due(&self) -> Option<Duration> {
        let (done, _) = self.jobs.front()?;
        self.stalled_at.is_none().then(|| *done + self.lost)
    }

    /// From now on the workers make no progress.
    pub(super) fn stall(&mut self, now: Duration) {
        self.stalled_at.get_or_insert(now);
    }

    /// The workers go on where they stopped.
    pub(super) fn resume(&mut self, now: Duration) {
        if let Some(since) = self.stalled_at.take() {
            self.lost += now.saturating_sub(since);
        }
    }

    /// Jobs waiting and jobs in service.
    pub(super) fn lengths(&self) -> (usize, usize) {
        let in_service = self.jobs.len().min(self.free.len());
        (self.jobs.len() - in_service, in_service)
    }

    /// The service clock.
    fn worked(&self, now: Duration) -> Duration {
        self.stalled_at.unwrap_or(now).saturating_sub(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn done(line: &mut Line<u32>, at: u32) -> Vec<u32> {
        std::iter::from_fn(|| line.next_done(MS * at)).collect()
    }

    #[test]
    fn jobs_are_done_in_order_as_many_at_a_time_as_there_are_workers() {
        let mut line = Line::new(2, MS * 10);
        (1..=5).for_each(|job| line.join(Duration::ZERO, job));
        assert_eq!(line.lengths(), (3, 2));
        assert!(done(&mut line, 9).is_empty());
        assert_eq!(done(&mut line, 10), [1, 2]);
        assert_eq!(line.due(), Some(MS * 20));
        assert_eq!(done(&mut line, 30), [3, 4, 5]);
        assert_eq!((line.due(), line.lengths()), (None, (0, 0)));
    }

    #[test]
    fn looking_late_costs_no_capacity() {
        let mut line = Line::new(36, MS * 100);
        (0..3_600).for_each(|job| line.join(Duration::ZERO, job));
        let by = |line: &mut Line<u32>, looks: std::ops::Range<u32>| -> usize {
            looks.map(|i| done(line, i * 7).len()).sum()
        };
        assert_eq!(by(&mut line, 0..715), 36 * 49); // the last look is at 4,998 ms
        assert_eq!(by(&mut line, 715..1_430), 36 * 51); // and here at 10,003 ms: 3,600 in 10 s
    }

    #[test]
    fn an_idle_worker_saves_up_nothing() {
        let mut line = Line::new(1, MS * 10);
        line.join(MS * 1_000, 1);
        line.join(MS * 1_001, 2);
        assert_eq!(done(&mut line, 1_010), [1]);
        assert_eq!(line.due(), Some(MS * 1_020));
    }

    #[test]
    fn a_stall_pushes_everything_back_by_its_length() {
        let mut line = Line::new(1, MS * 10);
        line.join(Duration::ZERO, 1);
        line.stall(MS * 4);
        line.stall(MS * 50); // already stalled
        line.join(MS * 60, 2);
        assert_eq!(line.due(), None);
        assert!(done(&mut line, 90).is_empty());
        line.resume(MS * 104);
        assert_eq!(line.due(), Some(MS * 110));
        assert!(done(&mut line, 109).is_empty());
        assert_eq!(done(&mut line, 120), [1, 2]);
        line.resume(MS * 500); // not stalled
        line.join(MS * 500, 3);
        assert_eq!(line.due(), Some(MS * 510));
    }
}

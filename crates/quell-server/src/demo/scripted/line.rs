//! The line: who is served when, computed and not waited for.
//!
//! **Why.** Timers fire a millisecond or more late. A worker that starts its next job when the timer of
//! the last one fired loses that millisecond each time, and a service of 36 × 100 ms quietly has 1–2 %
//! less capacity than it says. Here lateness delays a reply at most, never the schedule.
//!
//! **How.** All jobs in service get on equally fast, so one clock counts the service each of them had so far, and a
//! job is done when that clock reaches its start plus its work. The clock runs at full speed while every job has a
//! worker, slower when jobs share the workers, and not at all in a stall. Between two events its speed is constant,
//! so the next job to be done is known, and when. What is done at an instant frees its worker at that instant,
//! whenever somebody looks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::pace::{Sharing, Times};

/// Jobs in the line, waiting or in service; `now` is the time since some fixed start.
///
/// Before anything else is asked of it, whatever is done by now has to be taken with [`Line::next_done`].
#[derive(Debug)]
pub(super) struct Line<J> {
    workers: usize,
    sharing: Sharing,
    pub(super) times: Times,
    /// With how long each takes, where it says so.
    waiting: VecDeque<(J, Option<Duration>)>,
    /// Jobs in service, the next to be done first.
    busy: BTreeMap<Due, J>,
    started: u64,
    /// When it was last looked at, and the service every job had had by then since the beginning, in nanoseconds.
    at: Duration,
    clock: f64,
    stalled: bool,
}

/// Where the clock stands when a job is done; equals in the order they started.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Due {
    clock: f64,
    nth: u64,
}

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.clock.total_cmp(&other.clock).then(self.nth.cmp(&other.nth))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Line<J> {
    pub(super) fn new(workers: usize, sharing: Sharing, times: Times) -> Self {
        Self {
            workers: workers.max(1),
            sharing,
            times,
            waiting: VecDeque::new(),
            busy: BTreeMap::new(),
            started: 0,
            at: Duration::ZERO,
            clock: 0.0,
            stalled: false,
        }
    }

    /// Takes a place in the line, for as long as the job says or as is drawn for it.
    pub(super) fn join(&mut self, now: Duration, job: J, time: Option<Duration>) {
        self.pass(now);
        self.waiting.push_back((job, time));
        self.start();
    }

    /// The next job that is done by now. To be asked again until there is none.
    pub(super) fn next_done(&mut self, now: Duration) -> Option<J> {
        let at = self.due().filter(|due| *due <= now)?;
        let (due, job) = self.busy.pop_first()?;
        (self.at, self.clock) = (at, due.clock);
        self.start();
        Some(job)
    }

    /// When the next job will be done, if nothing stands in the way.
    pub(super) fn due(&self) -> Option<Duration> {
        let (due, _) = self.busy.first_key_value()?;
        let left = (due.clock - self.clock).max(0.0) / self.speed();
        left.is_finite().then(|| self.at.saturating_add(Duration::from_nanos(left.ceil() as u64)))
    }

    /// From now on the workers make no progress, or go on where they stopped.
    pub(super) fn stall(&mut self, now: Duration, stalled: bool) {
        self.pass(now);
        self.stalled = stalled;
    }

    /// Jobs waiting and jobs in service.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.waiting.len(), self.busy.len())
    }

    fn pass(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.clock += passed.as_nanos() as f64 * self.speed();
        self.at += passed;
    }

    /// Whoever waits begins, if there is room.
    fn start(&mut self) {
        while self.sharing.has_room(self.busy.len(), self.workers)
            && let Some((job, time)) = self.waiting.pop_front()
        {
            let work = self.times.next(time).as_nanos() as f64;
            self.busy.insert(Due { clock: self.clock + work, nth: self.started }, job);
            self.started += 1;
        }
    }

    /// How fast the clock runs.
    fn speed(&self) -> f64 {
        if self.stalled { 0.0 } else { self.sharing.speed(self.busy.len(), self.workers) }
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;

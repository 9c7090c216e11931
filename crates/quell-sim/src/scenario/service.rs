//! The service of a scenario: how fast it works, how it queues, and how it behaves when there is too much.

use core::time::Duration;

use super::{Invalid, Shards, Sharing, wrong};
use crate::dist::{Dist, Draw};

/// A service. [`Service::constant`] is one that serves first come, first served, the departed included.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// How many it can work on at once.
    pub workers: u32,
    /// How long each takes.
    pub time: Dist,
    /// Whether it works on everybody at once; then nobody waits for a worker. `None`, the usual, for one request per worker.
    pub sharing: Option<Sharing>,
    /// How requests wait for a worker.
    pub queue: Queue,
    /// What it does with requests whose caller has left.
    pub abandonment: Abandonment,
    /// How likely a request fails at once, by utilisation: attempts of the last second ÷ what it can do in one.
    pub failures: Curve,
    /// How many times longer work takes, by requests inside (waiting or served) per worker.
    pub crowding: Curve,
    /// How it warms up after it was down ([`OutageKind::Fail`](super::OutageKind::Fail)).
    pub cold: Option<Cold>,
    /// What a refusal costs: so much of a worker's time, before it takes the next request. Zero by default. The refused are
    /// answered at once all the same; where refusing takes all workers' time, nobody is served.
    pub refusal_cost: Duration,
    /// Whether it is split by what requests are about; `None`, the usual, for one that serves them all alike.
    pub shards: Option<Shards>,
    /// Whether all requests change the same thing, without a lock (optimistic concurrency): one succeeds only if no other
    /// has succeeded since a worker began with it, and fails with a conflict otherwise. `false`, by default. In a service
    /// of several shards each has a thing of its own.
    pub contended: bool,
    /// What it says when it fails at once or refuses: come back after so long (`Retry-After`). Whole seconds in the real world, any
    /// duration here; `None`, by default: nothing. It goes for errors of [`Fail`](super::OutageKind::Fail) and
    /// [`Brownout`](super::OutageKind::Brownout), of the curve of failures, and for refusals; callers that use Quell
    /// heed it, others do not.
    pub hint: Option<Duration>,
}

impl Service {
    /// Workers that always take the same time.
    pub fn constant(workers: u32, time: Duration) -> Self {
        Self::new(workers, time)
    }

    /// Workers that take their time, in front of them an endless queue that serves the departed.
    pub fn new(workers: u32, time: impl Into<Dist>) -> Self {
        Self {
            workers,
            time: time.into(),
            sharing: None,
            queue: Queue::default(),
            abandonment: Abandonment::Serves,
            failures: Curve::NONE,
            crowding: Curve::NONE,
            cold: None,
            refusal_cost: Duration::ZERO,
            shards: None,
            contended: false,
            hint: None,
        }
    }

    /// The mean time it takes; zero if that cannot be said.
    pub fn mean(&self) -> Duration {
        Draw::new(&self.time).map_or(Duration::ZERO, |time| time.mean())
    }

    /// Requests per second it can do, uncrowded.
    pub fn capacity(&self) -> f64 {
        f64::from(self.workers) / self.mean().as_secs_f64()
    }

    /// Whether it can be run.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let time = Draw::new(&self.time)?;
        if self.workers == 0 {
            return wrong("service.workers", "is 0, so nothing is ever done: write at least 1");
        }
        if time.mean().is_zero() {
            return wrong(
                "service.time",
                "is 0s: write how long a request takes, such as \"100ms\"",
            );
        }
        self.shards.map_or(Ok(()), |shards| shards.check(self.workers))?;
        self.sharing.map_or(Ok(()), |sharing| sharing.check(self))?;
        let share = |y: f64| (0.0..=1.0).contains(&y);
        if !self.failures.is_fine(share) {
            let fix = "is no curve of shares: write rising utilisations with shares from 0 to 1";
            return wrong("service.failures", fix);
        }
        if !self.crowding.is_fine(|y| (0.0..=1e6).contains(&y)) {
            let fix = "is no curve of factors: write rising loads per worker with factors from 0";
            return wrong("service.crowding", fix);
        }
        match self.cold {
            Some(cold) if !(1.0..=1e6).contains(&cold.factor) => {
                wrong("service.cold.factor", "is out of range: write how many times slower, from 1")
            }
            _ => Ok(()),
        }
    }
}

/// How requests wait for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Who is next.
    pub order: Order,
    /// How many may wait; further ones are refused.
    pub max: Option<u32>,
    /// How long one may wait; after that it is refused.
    pub wait: Option<Duration>,
}

/// Who is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// Last come, first served.
    Lifo,
    /// First come, first served; last come while somebody has been waiting for 100 ms without a break.
    Adaptive,
}

/// What a service does with requests whose caller has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Abandonment {
    /// It does not know, and serves them like any other: what keeps storms alive.
    #[default]
    Serves,
    /// It notices so long after the caller left, and stops.
    Cancels {
        /// How long it takes to notice.
        after: Duration,
    },
    /// Requests say until when their caller waits, and whoever could not be served in time is not started.
    Deadline {
        /// How long before its deadline a request is no longer started: about one service time.
        margin: Duration,
    },
}

/// How a service warms up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cold {
    /// How many times slower it is at first.
    pub factor: f64,
    /// How long until that has fallen to 1, in a straight line.
    pub over: Duration,
}

/// A line through points, level before the first and after the last.
///
/// ```
/// use quell_sim::scenario::Curve;
///
/// let failures = Curve(vec![(0.5, 0.0), (1.0, 1.0)]); // 2·(u − 0.5), from 0 to 1
/// assert_eq!([0.25, 0.75, 1.5].map(|u| failures.at(u)), [Some(0.0), Some(0.5), Some(1.0)]);
/// assert_eq!(Curve::NONE.at(0.5), None);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve(pub Vec<(f64, f64)>);

impl Curve {
    /// No points: it does not apply.
    pub const NONE: Self = Self(Vec::new());

    /// The height at `x`; `None` without points.
    pub fn at(&self, x: f64) -> Option<f64> {
        let points = &self.0;
        let i = points.partition_point(|point| point.0 <= x);
        let (Some(&left), Some(&right)) = (points.get(i.wrapping_sub(1)), points.get(i)) else {
            return if i == 0 { points.first() } else { points.last() }.map(|point| point.1);
        };
        Some(left.1 + (right.1 - left.1) * (x - left.0) / (right.0 - left.0))
    }

    /// Whether it is never there.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Its greatest height; 0 without points.
    pub(crate) fn highest(&self) -> f64 {
        self.0.iter().fold(0.0, |highest, point| point.1.max(highest))
    }

    /// Whether it is at 0 for good from before `x` on.
    pub(crate) fn ends_before(&self, x: f64) -> bool {
        self.0.last().is_none_or(|last| last.0 < x && last.1 == 0.0)
    }

    pub(super) fn is_fine(&self, y: impl Fn(f64) -> bool) -> bool {
        self.0.iter().all(|point| point.0.is_finite() && y(point.1))
            && self.0.is_sorted_by(|a, b| a.0 <= b.0)
    }
}

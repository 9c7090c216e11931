//! Window: good and bad outcomes of the recent past, at a constant cost.
//!
//! **Why.** A counter that never forgets needs ever more failures to move a rate; one that forgets all at
//! once lets a burst hide behind the boundary. Fixed buckets that fall off one by one do neither.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Time, window::Window};
//!
//! let mut window = Window::new(Duration::from_secs(10), Time::ZERO);
//! window.add(Time::ZERO, false);
//! assert_eq!(window.bad(), 1);
//! window.add(Time::ZERO + Duration::from_secs(11), true);
//! assert_eq!((window.bad(), window.total()), (0, 1));
//! ```

use core::time::Duration;

use crate::{Time, time::nanos};

/// Buckets in a window: what counts is exact to one of them.
const BUCKETS: usize = 10;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    good: u64,
    bad: u64,
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct Window {
    open: Bucket,
    /// When the open bucket is over.
    ends: Time,
    width: u64,
    /// A ring of those before it, and their sum.
    closed: [Bucket; BUCKETS - 1],
    next: usize,
    sum: Bucket,
}

impl Window {
    /// An empty window that looks back over `length`.
    pub fn new(length: Duration, now: Time) -> Self {
        let width = (nanos(length) / BUCKETS as u64).max(1);
        let ends = now + Duration::from_nanos(width);
        let (open, closed) = (Bucket::default(), [Bucket::default(); BUCKETS - 1]);
        Self { open, ends, width, closed, next: 0, sum: Bucket::default() }
    }

    /// Counts one outcome.
    #[inline]
    pub fn add(&mut self, now: Time, good: bool) {
        self.forget(now);
        match good {
            true => self.open.good += 1,
            false => self.open.bad += 1,
        }
    }

    /// Lets go of what counts no more.
    #[inline]
    pub fn forget(&mut self, now: Time) {
        if now >= self.ends {
            self.slide(now);
        }
    }

    /// Bad outcomes that still count, as of the last [`Window::add`] or [`Window::forget`].
    #[inline]
    pub fn bad(&self) -> u64 {
        self.sum.bad + self.open.bad
    }

    /// All outcomes that still count, as of the last [`Window::add`] or [`Window::forget`].
    pub fn total(&self) -> u64 {
        self.sum.good + self.open.good + self.bad()
    }

    /// Takes on the length of one just made. Where that is another, all that still counts counts as of now.
    pub fn adopt(&mut self, fresh: Self, now: Time) {
        self.forget(now);
        if self.width != fresh.width {
            let (good, bad) = (self.sum.good + self.open.good, self.bad());
            *self = Self { open: Bucket { good, bad }, ..fresh };
        }
    }

    /// Whether nothing counts any more.
    pub fn is_empty(&self, now: Time) -> bool {
        let rest = Duration::from_nanos(self.width.saturating_mul(BUCKETS as u64 - 1));
        self.total() == 0 || now >= self.ends + rest
    }

    #[cold]
    fn slide(&mut self, now: Time) {
        let steps = now.nanos_since(self.ends) / self.width + 1;
        for _ in 0..steps.min(BUCKETS as u64) {
            let over = core::mem::take(&mut self.open);
            let old = core::mem::replace(&mut self.closed[self.next], over);
            self.next = (self.next + 1) % self.closed.len();
            self.sum.good = self.sum.good + over.good - old.good;
            self.sum.bad = self.sum.bad + over.bad - old.bad;
        }
        self.ends = self.ends + Duration::from_nanos(self.width.saturating_mul(steps));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn outcomes_fall_off_bucket_by_bucket() {
        let mut window = Window::new(LENGTH, Time::ZERO);
        for second in 0..10 {
            window.add(at(second * 1_000), false);
        }
        for second in 10..20 {
            assert_eq!(window.bad(), 20 - second);
            window.add(at(second * 1_000), true);
            assert_eq!(window.total(), 10);
        }
    }

    #[test]
    fn thirty_idle_days_cost_one_turn_of_the_ring() {
        let mut window = Window::new(LENGTH, Time::ZERO);
        window.add(Time::ZERO, false);
        window.add(at(30 * 86_400_000), true);
        assert_eq!((window.bad(), window.total()), (0, 1));
    }

    #[test]
    fn a_clock_that_steps_back_counts_into_the_current_bucket() {
        let mut window = Window::new(LENGTH, at(50_000));
        window.add(Time::ZERO, false);
        assert_eq!(window.bad(), 1);
    }
}

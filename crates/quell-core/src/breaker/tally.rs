//! Tally: good and bad calls over a stretch of time, over the last calls, or both.

use super::Spec;
use crate::{Time, window::Window};

/// Two kinds of calls, and whether there are too many of one.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Kept even where it does not count, so that the usual path asks nothing.
    pub(super) window: Window,
    timed: bool,
    calls: Option<Calls>,
}

impl Tally {
    pub(super) fn new(spec: &Spec, now: Time) -> Self {
        let calls = spec.over.calls().map(Calls::new);
        Self { window: Window::new(spec.window, now), timed: spec.over.is_timed(), calls }
    }

    pub(super) fn add(&mut self, now: Time, good: bool) {
        if self.timed {
            self.window.add(now, good);
        }
        if let Some(calls) = &mut self.calls {
            calls.add(good);
        }
    }

    /// Lets go of what counts no more. The last calls count however long ago they were.
    pub(super) fn forget(&mut self, now: Time) {
        self.window.forget(now);
    }

    /// Takes on the windows of one just made and keeps what was seen: over time as [`Window::adopt`] says, of the last calls
    /// as many as fit. A window that did not count before starts empty.
    pub(super) fn adopt(&mut self, fresh: Self, now: Time) {
        if self.timed && fresh.timed {
            self.window.adopt(fresh.window, now);
        } else {
            self.window = fresh.window;
        }
        self.timed = fresh.timed;
        self.calls = match (self.calls.take(), fresh.calls) {
            (Some(own), Some(fresh)) if own.size == fresh.size => Some(own),
            (Some(own), Some(mut fresh)) => {
                own.oldest_first().for_each(|good| fresh.add(good));
                Some(fresh)
            }
            (_, fresh) => fresh,
        };
    }

    /// Whether nothing is counted.
    pub(super) fn is_empty(&self, now: Time) -> bool {
        (!self.timed || self.window.is_empty(now))
            && self.calls.as_ref().is_none_or(|calls| calls.len == 0)
    }

    /// Whether at least this share of at least so many calls was bad.
    pub(super) fn reaches(&self, min_calls: u32, rate: f64) -> bool {
        let too_many = |bad: u64, total: u64| {
            bad > 0 && total >= u64::from(min_calls) && bad as f64 >= rate * total as f64
        };
        (self.timed && too_many(self.window.bad(), self.window.total()))
            || self.calls.as_ref().is_some_and(|calls| too_many(calls.bad.into(), calls.len.into()))
    }
}

/// The last so many calls, one bit each: the oldest makes room for the newest, so it slides by single calls.
#[derive(Debug, Clone)]
struct Calls {
    /// A set bit is a bad call.
    bits: Box<[u64]>,
    size: u32,
    next: u32,
    len: u32,
    bad: u32,
}

impl Calls {
    fn new(size: u32) -> Self {
        let bits = vec![0; size.div_ceil(64) as usize].into_boxed_slice();
        Self { bits, size, next: 0, len: 0, bad: 0 }
    }

    /// How the calls went, good or not.
    fn oldest_first(&self) -> impl Iterator<Item = bool> {
        let first = self.next + self.size - self.len;
        let places = (0..self.len).map(move |i| (first + i) % self.size);
        places.map(|place| self.bits[(place / 64) as usize] & 1 << (place % 64) == 0)
    }

    fn add(&mut self, good: bool) {
        let (word, bit) = (&mut self.bits[(self.next / 64) as usize], 1 << (self.next % 64));
        self.bad -= u32::from(*word & bit != 0);
        self.bad += u32::from(!good);
        *word = if good { *word & !bit } else { *word | bit };
        self.len = self.size.min(self.len + 1);
        self.next = if self.next + 1 == self.size { 0 } else { self.next + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_slide_by_single_calls() {
        for size in [1, 3, 63, 64, 65, 100, 4_096] {
            let mut calls = Calls::new(size);
            let is_good = |i: u32| i % 3 != 1 && i % 7 != 2;
            for i in 0..3 * size + 5 {
                calls.add(is_good(i));
                let first = (i + 1).saturating_sub(size);
                let bad = (first..=i).filter(|&i| !is_good(i)).count() as u32;
                assert_eq!((calls.bad, calls.len), (bad, (i + 1).min(size)), "{size}, call {i}");
            }
        }
    }
}

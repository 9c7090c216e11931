//! Ring: successes and retries of the recent past, side by side.
//!
//! **Why.** A budget over a window has to forget both at the same pace. If it forgot retries sooner than successes, a
//! burst could be had twice from the same successes at the window's edge.
//!
//! **How.** `N` equal parts of which the current one is still filling: the window's length is `N - 1` of them. So all of
//! the window is always in view, and up to one part more. A retry is counted in the part it was paid in or a later
//! one than the successes it was paid with, so it is forgotten no sooner than they.

use core::time::Duration;

use super::{PRICE, Paid};
use crate::{Time, time::nanos};

/// What happened in one part of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) successes: u64,
    pub(super) retries: u64,
}

#[derive(Debug)]
pub(super) struct Ring<const N: usize> {
    parts: [Part; N],
    current: usize,
    /// Counts the parts; wraps.
    number: u32,
    /// When the current part is over.
    ends: Time,
    width: u64,
    sum: Part,
}

impl<const N: usize> Ring<N> {
    /// Nothing happened yet.
    pub(super) fn new(window: Duration, now: Time) -> Self {
        let width = nanos(window).div_ceil((N as u64 - 1).max(1)).max(1);
        let ends = now + Duration::from_nanos(width);
        Self {
            parts: [Part::default(); N],
            current: 0,
            number: 0,
            ends,
            width,
            sum: Part::default(),
        }
    }

    /// What still counts, and from now on does not.
    pub(super) fn slide(&mut self, now: Time) -> Part {
        if self.is_over(now) {
            let steps = self.steps(now);
            for _ in 0..steps.min(N as u64) {
                self.current = (self.current + 1) % N;
                let old = core::mem::take(&mut self.parts[self.current]);
                self.sum.successes = self.sum.successes.saturating_sub(old.successes);
                self.sum.retries = self.sum.retries.saturating_sub(old.retries);
            }
            self.number = self.number.wrapping_add(steps as u32);
            self.ends = self.ends + Duration::from_nanos(self.width.saturating_mul(steps));
        }
        self.sum
    }

    /// What would still count, for a look.
    pub(super) fn look(&self, now: Time) -> Part {
        if !self.is_over(now) {
            return self.sum;
        }
        let keep = (N as u64).saturating_sub(self.steps(now)) as usize;
        let kept = (0..keep).map(|age| &self.parts[(self.current + N - age) % N]);
        kept.fold(Part::default(), |sum, part| Part {
            successes: sum.successes + part.successes,
            retries: sum.retries + part.retries,
        })
    }

    pub(super) fn succeeded(&mut self, now: Time) {
        self.slide(now);
        self.parts[self.current].successes += 1;
        self.sum.successes += 1;
    }

    /// Counts a retry; answers where, for [`Ring::unretried`].
    pub(super) fn retried(&mut self) -> u32 {
        self.parts[self.current].retries += 1;
        self.sum.retries += 1;
        self.number
    }

    /// The retry that was paid for there was never sent. One that is forgotten already stays so, and so does one that
    /// cost less than a retry costs here: it was paid for before a reload.
    pub(super) fn unretried(&mut self, now: Time, paid: &Paid) {
        self.slide(now);
        if paid.amount < PRICE {
            return;
        }
        let age = self.number.wrapping_sub(paid.at) as usize;
        if age < N {
            let part = &mut self.parts[(self.current + N - age) % N];
            if part.retries > 0 {
                part.retries -= 1;
                self.sum.retries -= 1;
            }
        }
    }

    /// Counts so many retries that nobody made.
    pub(super) fn write_off(&mut self, retries: u64) {
        for part in [&mut self.parts[self.current], &mut self.sum] {
            part.retries = part.retries.saturating_add(retries);
        }
    }

    /// Takes on the length of one just made. Where that is another, all that still counts counts as of now: successes and
    /// the retries they paid for fall off together all the same.
    pub(super) fn adopt(&mut self, fresh: Self, now: Time) {
        let sum = self.slide(now);
        if self.width != fresh.width {
            *self = Self { number: self.number, sum, ..fresh };
            self.parts[self.current] = sum;
        }
    }

    pub(super) fn clear(&mut self) {
        self.parts = [Part::default(); N];
        self.sum = Part::default();
    }

    /// How much time is in view, in nanoseconds.
    pub(super) fn span(&self, now: Time) -> u64 {
        let whole = self.width.saturating_mul(N as u64 - 1);
        let over = now.nanos_since(self.ends);
        let left = if self.is_over(now) {
            self.width - over % self.width
        } else {
            self.ends.nanos_since(now).min(self.width)
        };
        whole.saturating_add(self.width - left)
    }

    /// The current part is; the one at the end of time never is.
    fn is_over(&self, now: Time) -> bool {
        now >= self.ends && self.ends < Time::MAX
    }

    /// Parts that begin until `now`, which is not before the end of the current one.
    fn steps(&self, now: Time) -> u64 {
        now.nanos_since(self.ends) / self.width + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_whole_window_is_always_in_view_and_at_most_a_part_more() {
        let mut ring = Ring::<11>::new(Duration::from_secs(10), at(0));
        ring.succeeded(at(0));
        ring.retried();
        ring.succeeded(at(999));
        assert_eq!(ring.look(at(10_999)), Part { successes: 2, retries: 1 });
        assert_eq!(ring.slide(at(10_999)), ring.look(at(10_999)));
        assert_eq!(ring.look(at(11_000)), Part::default());
        assert_eq!(ring.slide(at(11_000)), Part::default());
    }

    /// G9.
    #[test]
    fn the_end_of_time_is_one_turn_away() {
        let mut ring = Ring::<61>::new(Duration::from_millis(1), at(0));
        ring.succeeded(at(0));
        for now in [at(30 * 86_400_000), Time::MAX, Time::MAX] {
            assert_eq!(ring.look(now), Part::default());
            assert_eq!(ring.slide(now), Part::default());
        }
    }

    #[test]
    fn a_refund_finds_its_part_and_nothing_once_that_is_forgotten() {
        let mut ring = Ring::<11>::new(Duration::from_secs(10), at(0));
        let first = ring.retried();
        ring.slide(at(5_000));
        let second = ring.retried();
        let paid = |at| Paid { amount: PRICE, at };
        ring.unretried(at(6_000), &paid(first));
        assert_eq!(ring.look(at(6_000)).retries, 1);
        ring.unretried(at(30_000), &paid(second));
        assert_eq!(ring.look(at(30_000)).retries, 0);
    }
}

//! Meter: how much is asked of a service, for its utilisation.

use quell_core::Time;

/// Utilisation is that of so many whole tenths of a second.
const TENTHS: u64 = 10;

/// Attempts per second, over the last ten whole tenths of a second.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counts: [u32; TENTHS as usize + 1],
    tenth: u64,
    sum: u32,
}

impl Meter {
    fn place(tenth: u64) -> usize {
        (tenth % (TENTHS + 1)) as usize
    }

    pub(super) fn add(&mut self, now: Time) {
        self.turn(now);
        self.counts[Self::place(self.tenth)] += 1;
    }

    pub(super) fn per_second(&mut self, now: Time) -> f64 {
        self.turn(now);
        f64::from(self.sum)
    }

    fn turn(&mut self, now: Time) {
        let tenth = now.as_nanos() / 100_000_000;
        if tenth - self.tenth > TENTHS {
            *self = Self { tenth, ..Self::default() };
        }
        while self.tenth < tenth {
            self.sum += self.counts[Self::place(self.tenth)];
            self.tenth += 1;
            self.sum -= core::mem::take(&mut self.counts[Self::place(self.tenth)]);
        }
    }
}

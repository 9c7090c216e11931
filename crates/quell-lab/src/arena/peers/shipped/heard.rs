//! Heard: what comes back, what of it counts, and what it means that nothing does.

use quell_core::Time;

use super::{
    LEAST, Load, Plus,
    finder::{FEWEST, FIRST, Finder, SECOND},
    interval::{Interval, Seen},
    logs::exp,
};

/// Nobody looks more often while nothing is answered, in nanoseconds.
const SOONEST: u64 = 50_000_000;

impl Finder {
    /// Nothing was answered for a while, and now something is.
    fn silence_ends(&mut self, now: Time) {
        if self.gone > 0 {
            self.room.close(now);
            if self.confirmed {
                self.limit = self.limit.min(self.rest());
            }
        }
        (self.trial, self.bound_since, self.step) = (None, None, FIRST);
        self.sent_after = now;
        self.b_falls = now.plus(self.patience);
        self.settle(now, 1.5);
        if self.gone == 0 {
            self.slow = Some(Interval::since(now));
            self.looks_at = now.plus((3.0 * exp(self.b)) as u64);
        }
        self.begin(now);
    }

    /// True if the limit may have moved.
    #[inline]
    pub(super) fn answered(&mut self, now: Time, sent_at: Time, load: Load) -> bool {
        if now < self.idle_until {
            return false;
        }
        let took = now.nanos_since(sent_at);
        if now.nanos_since(self.last) > self.quiet {
            self.look_back(now);
        }
        (self.last, self.took, self.gone) = (now, took, 0);
        if now < self.counts_at || sent_at < self.sent_after {
            self.ignore(now, sent_at, load);
            return true;
        }
        let queued = core::mem::take(&mut self.pressed) || load.queued;
        self.open.add(took, Load { queued, ..load });
        if self.open.answers() >= self.enough {
            self.idle_until = self.ends_at;
        }
        now >= self.ends_at && self.look(now)
    }

    /// An answer that does not count yet.
    #[cold]
    fn ignore(&mut self, now: Time, sent_at: Time, load: Load) {
        if sent_at >= self.sent_after {
            self.forget_slow();
        } else if let Some(slow) = &mut self.slow {
            slow.add(now.nanos_since(sent_at), load);
        }
        self.wake(now);
        if now >= self.skip && sent_at >= self.changed {
            self.counts_at = now;
        }
        self.begin(now);
    }

    fn forget_slow(&mut self) {
        (self.slow, self.looks_at) = (None, Time::MAX);
    }

    /// All that was sent before a silence took as long, and nothing that was sent since is back in time: nothing has stood
    /// still, the service has become another one.
    pub(super) fn wake(&mut self, now: Time) {
        if now < self.looks_at {
            return;
        }
        let Some(slow) = self.slow else { return };
        if slow.answers() < FEWEST {
            self.looks_at = now.plus(SOONEST);
            return;
        }
        self.forget_slow();
        let Seen { n, u, var, .. } = slow.seen();
        let d = u - self.b;
        if d > 0.5 && var.sqrt() < 0.1 * d {
            self.w = exp(u);
            self.peak *= exp(d);
            self.moved(now, u, n, self.limit * exp(d));
        }
    }

    #[cold]
    fn look(&mut self, now: Time) -> bool {
        let (n, elapsed) = (self.open.answers(), self.open.lasted(now) as f64);
        if self.intervals == 0 && self.limit > LEAST {
            let twice = |Seen { u, var, .. }: Seen| 2.0 * exp(u + var / 2.0);
            if elapsed < 0.5 * SECOND || elapsed < twice(self.open.seen()) {
                return false;
            }
        }
        let over = n >= self.enough || elapsed >= 2.0 * SECOND && n >= FEWEST;
        if over {
            self.close(now);
            self.quiet = self.silence();
            self.enough = (self.v / 0.01).clamp(10.0, 200.0) as u32;
        }
        over
    }

    /// How long nothing is answered in what is worth a look, in nanoseconds.
    fn silence(&self) -> u64 {
        let usual = exp(self.b + 2.5 * self.v.sqrt());
        usual.max(40.0 * SECOND / self.rate).max(0.25 * SECOND) as u64
    }

    /// Nothing was answered for a while.
    #[cold]
    fn look_back(&mut self, now: Time) {
        if self.last == Time::ZERO {
            self.sent_after = now; // before that the service was not full yet
        } else if self.intervals > 1 {
            self.quiet = self.silence(); // fewer may come than when it was last looked at
            if now.nanos_since(self.last) > self.quiet.max(self.took / 2 * 3) {
                self.silence_ends(now);
            }
        }
    }

    pub(super) fn press(&mut self) {
        self.pressed = true;
    }

    pub(super) fn left(&mut self, now: Time, sent_at: Time, load: Load) {
        self.gone = self.gone.saturating_add(1);
        self.forget_slow();
        self.room.left(now);
        if self.intervals < 2 && self.gone >= 4 {
            self.limit = LEAST;
            self.room.close(now);
        }
        if now >= self.counts_at.max(self.idle_until) && sent_at >= self.sent_after {
            self.open.add_left(now.nanos_since(sent_at), load);
        }
    }
}

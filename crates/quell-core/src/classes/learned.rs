//! Learned: what the answers of a class say of what is usual for it.

use super::*;

impl Class {
    /// Sums up what came since the last look, so many nanoseconds ago; learns from it with this weight: 0 for not at all, 1 in health
    /// without a doubt.
    pub(crate) fn turn(&mut self, now: Time, lasted: f64, weight: f64) {
        let answers = f64::from(self.answers);
        if self.answers > 0 {
            self.learn(weight);
        }
        if answers > 0.0 && weight > 0.0 {
            let pace = answers * SECOND / lasted;
            self.pace += (pace - self.pace) * (lasted / (0.5 * SECOND + lasted));
            self.rate = (self.rate * (1.0 - 0.1 * lasted / SECOND)).max(self.pace);
        }
        self.believe(now);
        let sent = self.sent_since() as f64;
        self.looked = self.sent;
        if sent > 0.0 {
            self.sent_at = now;
        }
        if self.mean > 0.0 {
            let part = lasted / self.mean;
            let fade = exp(-part);
            let fresh = if part > 1e-3 { (1.0 - fade) / part } else { 1.0 };
            self.expected = self.expected * fade + sent * fresh;
        } else {
            self.expected = f64::from(self.live());
        }
        let live = f64::from(self.live());
        let slow = self.mean.max(0.1 * SECOND);
        self.used += (live - self.used) * (lasted / (slow + lasted));
        if weight >= 1.0 || weight > 0.0 && self.overdue == 0 {
            self.peak = (self.peak * (1.0 - 0.02 * lasted / SECOND)).max(self.used);
        }
        if now.nanos_since(self.mark) >= self.late {
            (self.older_mark, self.overdue) = (self.mark, self.old);
            (self.mark, self.old) = (now, self.live());
        } else if !self.is_known() {
            (self.mark, self.old, self.overdue) = (now, self.live(), 0);
            self.older_mark = now;
        }
    }

    fn learn(&mut self, weight: f64) {
        self.stride = (self.answers / SAMPLE).max(1);
        let n = f64::from(core::mem::take(&mut self.answers));
        let sampled = f64::from(core::mem::take(&mut self.sampled));
        let (logs, squares) = (core::mem::take(&mut self.logs), core::mem::take(&mut self.squares));
        let took = core::mem::take(&mut self.took) as f64;
        let lingered = f64::from(core::mem::take(&mut self.lingered));
        let waited = core::mem::take(&mut self.waited) as f64;
        if self.young {
            self.young_took += took + waited;
        } else if weight == 0.0 {
            return;
        }
        let weight = if self.young { 1.0 } else { weight };
        let memory = (self.rate * MEMORY).clamp(MEMORY_LEAST, MEMORY_MOST);
        self.n += n;
        let share = (weight * n / if self.young { self.n } else { memory.max(n) }).min(1.0);
        self.learned += ((took + waited) / (n + lingered) - self.learned) * share;
        if sampled == 0.0 {
            return;
        }
        let (mean, square) = (logs as f64 / sampled, squares as f64 / sampled);
        let log = natural(mean);
        let spread = natural(natural(square - mean * mean)).max(0.0);
        let off = log - self.log;
        self.log += off * share;
        self.var += (spread + off * off * (1.0 - share) - self.var) * share;
    }

    /// What is believed from now on.
    fn believe(&mut self, now: Time) {
        if self.n < FEWEST {
            return;
        }
        let age = now.nanos_since(self.born);
        let grown = self.n >= GROWN_UP || self.n >= 2.0 * FEWEST && age >= 5 * YOUNG;
        self.young &= !grown || age < YOUNG;
        let mut usual = f64::MAX;
        self.mean = self.learned;
        if self.young {
            let live =
                u64::from(self.live()).wrapping_mul(now.as_nanos()).wrapping_sub(self.starts);
            self.mean = self.mean.max((self.young_took + live as f64) / self.n);
        } else {
            usual = 1.4 * exp(self.log + 3.0 * self.var.sqrt());
        }
        self.mean = self.mean.max(1.0);
        let soonest = if self.young { 5.0 * SOONEST_LATE } else { SOONEST_LATE };
        self.late = (2.5 * self.learned).min(usual).max(soonest) as u64;
    }
}

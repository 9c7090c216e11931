//! Ours: a limit that asks the service.
//!
//! **Why.** A limit that is told nothing sees latency rise and cannot know why: because too much is under way (a queue, a
//! service that shares or thrashes), or because the service has become slower, which is legitimate. Less under way helps the
//! first and starves the second. So every cut is an experiment, and what it brings decides.
//!
//! **How.** All in logarithms of latency, per interval of [20, 200] answers: mean `u`, variance `v`, `se = √(v/n)`, the
//! share of answers that somebody waited behind (`bound`), and `used`, how many were under way when the answered calls were
//! sent. `b` is what `u` is at rest, `d = u − b`, high above `0.05 + 2 se`. A caller who leaves counts as an answer that took
//! at least that long; errors count as nothing. After every change, answers are ignored for the mean latency `w`, and until
//! the first answer to a call that was sent after it.
//!
//! - *At rest* (not bound, not high): `b` follows slowly; the limit settles at 1.1 × the most that was used + 2, never beyond
//!   where crowding was last seen. The queue in front absorbs bursts.
//! - *Bound, not high*: grow by a tenth, doubling up to a half; by 3 % near the last cut.
//! - *High*: × exp((0.03 + se/2 − d)/2). Half of it, because a service that thrashes slows down with the square.
//!   Once cuts have taken `used` down far enough to tell, latency either fell by at least half as much: it was our
//!   crowding. Or not: it was not, `b = u`, and the limit is what it was × exp(d) (Little).
//! - *A dip*, the same experiment without need, while it is not known whether `b` was measured in a crowd, or after
//!   15 s bound; again at once while latency falls, else rarely.
//! - *After a pause* all are slow alike: another service; no experiment is needed.
//! - *Silence* freezes everything. A second one with nothing healthy between halves the limit.

use core::time::Duration;

use quell_core::Time;

use super::{Answered, Control};
use crate::maths::{exp, ln};

const LEAST: f64 = 4.0;
const MOST: f64 = 4096.0;
const UNKNOWN: f64 = 1024.0;
/// High is more than this and two standard errors above rest.
const MARGIN: f64 = 0.05;
/// Growth: the first step, the largest, and near the last cut.
const FIRST: f64 = 0.1;
const LARGEST: f64 = 0.5;
const NEAR: f64 = 0.03;
/// Bound in this share of answers is bound.
const BOUND: f64 = 0.3;
/// Between dips without need.
const SPACING: f64 = 15.0;

/// The open interval.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    since: f64,
    n: f64,
    sum: f64,
    squares: f64,
    used: f64,
    bound: f64,
    left: f64,
}

/// An experiment: the limit before it, and the worst that was seen.
#[derive(Debug, Clone, Copy)]
struct Trial {
    limit: f64,
    used: f64,
    u: f64,
    dip: bool,
}

/// See the [module](self). Times in seconds.
#[derive(Debug)]
pub(super) struct Ours {
    limit: f64,
    open: Sums,
    pressed: bool,
    /// Answers before this instant do not count, nor until one of a call that was sent after the change, nor those to calls
    /// that were sent in a silence.
    skip: f64,
    changed: Option<f64>,
    sent_after: f64,
    gapped: bool,
    intervals: u32,
    v: f64,
    w: f64,
    b: f64,
    /// Answers that `b` rests on, and when it may fall: after a silence the quick ones come first.
    m: f64,
    b_falls: f64,
    /// Whether `b` is known not to be that of a crowd.
    confirmed: bool,
    /// The most that was used in health, and answered per second.
    peak: f64,
    rate: f64,
    patience: f64,
    step: f64,
    cut: f64,
    trial: Option<Trial>,
    bound_since: Option<f64>,
    next_dip: f64,
    spacing: f64,
    /// The last good answer, and those who left since.
    last: f64,
    took: f64,
    used: f64,
    gone: u32,
    healthy: bool,
}

impl Default for Ours {
    fn default() -> Self {
        Self {
            limit: UNKNOWN,
            open: Sums::default(),
            pressed: false,
            skip: 0.0,
            changed: None,
            sent_after: 0.0,
            gapped: false,
            intervals: 0,
            v: 0.25,
            w: 0.1,
            b: 0.0,
            m: 0.0,
            b_falls: 0.0,
            confirmed: false,
            peak: 0.0,
            rate: 0.0,
            patience: 5.0,
            step: LARGEST,
            cut: MOST,
            trial: None,
            bound_since: None,
            next_dip: 0.0,
            spacing: SPACING,
            last: 0.0,
            took: 0.0,
            used: 0.0,
            gone: 0,
            healthy: true,
        }
    }
}

fn secs(t: Time) -> f64 {
    t.as_nanos() as f64 / 1e9
}

impl Ours {
    fn begin(&mut self, now: f64) {
        self.open = Sums { since: now, ..Sums::default() };
    }

    fn set(&mut self, now: f64, limit: f64) {
        let most = (self.rate * self.patience / 2.0).min(MOST);
        let limit = limit.min(most).max(LEAST);
        if (limit - self.limit).abs() >= 0.5 {
            self.skip = self.skip.max(now + self.w.min(2.0));
            self.changed = Some(now);
        }
        self.limit = limit;
    }

    fn rest(&self) -> f64 {
        (1.1 * self.peak + 2.0).min(self.cut).max(LEAST)
    }

    fn count(&mut self, took: Duration, used: f64, pressed: bool) {
        let l = ln(took.as_secs_f64().max(1e-6));
        let open = &mut self.open;
        open.n += 1.0;
        open.sum += l;
        open.squares += l * l;
        open.used += used;
        open.bound += f64::from(u8::from(pressed));
    }

    /// How far down an experiment must go to tell anything.
    fn depth(&self) -> f64 {
        (0.4 * self.v.sqrt()).clamp(0.25, 0.6)
    }

    fn close(&mut self, now: f64) {
        let Sums { since, n, sum, squares, used, bound, left } = self.open;
        self.begin(now);
        let gapped = core::mem::take(&mut self.gapped);
        let (u, used, bound) = (sum / n, used / n, bound / n);
        let var = (squares / n - u * u).max(0.0);
        let weight = if var > self.v { 0.3 } else { (n / 150.0).clamp(0.05, 0.3) };
        self.v += (var - self.v) * if self.intervals == 0 { 1.0 } else { weight };
        self.w = exp(u + self.v / 2.0);
        let se = (self.v / n).sqrt();
        let fade = exp(-0.02 * (now - since).min(1.0));
        self.rate = (self.rate * fade).max(n / (now - since));
        self.intervals = self.intervals.saturating_add(1);
        if self.intervals == 1 {
            self.peak = used;
            self.set(now, (1.5 * used + 4.0).min(self.limit));
            self.skip = now + 2.0 * self.w;
            return;
        }
        let before = if self.intervals == 2 { u } else { self.b };
        if self.intervals == 2 || u < self.b - MARGIN - 3.0 * se && now >= self.b_falls {
            (self.b, self.m) = (u, n);
        }
        let d = u - self.b;
        let high = d > MARGIN + 2.0 * se;
        if bound < BOUND && !(high && used > 0.8 * self.limit) {
            if !high {
                self.peak = (self.peak * fade).max(used);
                self.healthy = true;
            }
            (self.trial, self.bound_since, self.confirmed) = (None, None, true);
            self.m = (self.m + n).min(1000.0);
            self.b += d.clamp(-0.2, 0.2) * n / self.m;
            self.limit = self.rest().max(self.limit * 0.8);
            self.step = FIRST;
            return;
        }
        let bound_for = now - *self.bound_since.get_or_insert(now);
        if gapped && d > 0.5 && var.sqrt() < 0.1 * d {
            return self.moved(now, u, n, self.limit * exp(d));
        }
        if let Some(trial) = self.trial {
            let went = ln(trial.used / used.max(1.0));
            if trial.dip || went >= 0.8 * self.depth() {
                self.trial = None;
                // Callers who leave are never a reason to let more in.
                let ours = trial.u - u >= 0.5 * went || left > 0.02 * n;
                let news = (u - before).abs() > MARGIN + 3.0 * se;
                self.spacing = if news { SPACING } else { (self.spacing * 3.0).min(60.0) };
                // While it falls there may be more of it below.
                self.confirmed = !ours || self.confirmed && !trial.dip;
                self.next_dip = if self.confirmed { now + self.spacing } else { now };
                if !ours && news {
                    return self.moved(now, u, n, trial.limit * exp((u - before).max(0.0)));
                }
                if !ours {
                    (self.b, self.m) = (u, n);
                }
                if !ours || trial.dip {
                    self.step = NEAR;
                    let over = if ours { (trial.u - self.b - 0.03).max(0.0) } else { 0.0 };
                    return self.set(now, (trial.limit * exp(-over / 2.0)).max(self.limit));
                }
            }
        }
        if high {
            if self.trial.is_none_or(|trial| u > trial.u + 3.0 * se) {
                let limit = self.trial.map_or(self.limit, |trial| trial.limit);
                self.trial = Some(Trial { limit, used, u, dip: false });
            }
            (self.cut, self.step) = (self.limit, NEAR);
            self.set(now, self.limit * exp((0.03 + 0.5 * se - d) / 2.0).max(0.4));
        } else if (bound_for > SPACING || !self.confirmed) && now >= self.next_dip {
            self.trial = Some(Trial { limit: self.limit, used, u, dip: true });
            self.set(now, self.limit * exp(-self.depth()));
            self.skip = now + 1.3 * self.w;
        } else {
            self.trial = self.trial.filter(|trial| self.limit <= 0.9 * trial.limit);
            self.peak = self.peak.max(used);
            self.healthy = true;
            if self.limit > 1.2 * self.cut {
                self.cut = MOST;
            }
            let near = self.limit > 0.8 * self.cut;
            let step = if near { self.step.min(NEAR) } else { self.step };
            self.step = (2.0 * step).min(LARGEST);
            self.set(now, self.limit * (1.0 + step) + if step > NEAR { 2.0 } else { 0.0 });
        }
    }

    /// It is not our crowding: the service has become another one.
    fn moved(&mut self, now: f64, u: f64, n: f64, limit: f64) {
        (self.b, self.m) = (u, n);
        (self.trial, self.cut, self.step) = (None, MOST, FIRST);
        self.set(now, limit);
    }

    /// Nothing was answered for a while, and now something is.
    fn silence_ends(&mut self, now: f64) {
        let share = if self.healthy { 1.0 } else { 0.5 };
        self.limit = (self.limit.min(self.rest()) * share).max(LEAST);
        (self.healthy, self.trial, self.changed, self.step) = (false, None, None, FIRST);
        self.sent_after = now;
        self.skip = now + 1.5 * self.w.min(2.0);
        self.b_falls = now + self.patience;
        self.begin(now);
    }
}

impl Control for Ours {
    fn answered(&mut self, seen: &Answered) {
        if !seen.good {
            return;
        }
        let (now, sent_at) = (secs(seen.now), secs(seen.sent_at));
        let (quiet, base) = (now - self.last, 2.0 * exp(self.b));
        if self.intervals > 1 && quiet > base.max(1.5 * self.took).max(0.5) {
            self.silence_ends(now);
        }
        if !self.gapped && quiet > base.max(10.0 / self.rate) {
            self.gapped = true;
            self.begin(now);
        }
        (self.last, self.took, self.gone) = (now, seen.took.as_secs_f64(), 0);
        self.patience = seen.patience.as_secs_f64();
        if now >= self.skip && self.changed.is_some_and(|changed| sent_at >= changed) {
            self.changed = None;
        }
        let pressed = core::mem::take(&mut self.pressed) || seen.queued > 0;
        if self.changed.is_some() || now < self.skip || sent_at < self.sent_after {
            self.open.since = now;
            return;
        }
        // At first the calls under way were sent when there were fewer.
        let used = if self.intervals == 0 { seen.in_flight } else { seen.sent_with };
        self.used = f64::from(used);
        self.count(seen.took, self.used, pressed);
        let Sums { since, n, sum, squares, .. } = self.open;
        let elapsed = now - since;
        if self.intervals == 0 {
            let u = sum / n;
            self.v = (squares / n - u * u).max(0.0);
            if elapsed < (2.0 * exp(u + self.v / 2.0)).max(0.5) {
                return;
            }
        }
        let enough = n >= (self.v / 0.01).clamp(20.0, 200.0);
        let long = self.gapped || elapsed >= (0.25 * self.w).max(0.1);
        if enough && long || elapsed >= 2.0 && n >= 8.0 {
            self.close(now);
        }
    }

    fn left(&mut self, _: Time, _: Duration, _: bool) {}

    fn unanswered(&mut self, now: Time, took: Duration) {
        let at = secs(now);
        self.gone = self.gone.saturating_add(1);
        if self.intervals < 2 && self.gone >= 20 {
            self.limit = self.limit.min(8.0);
        }
        if self.changed.is_none() && at >= self.skip && at - took.as_secs_f64() >= self.sent_after {
            self.count(took, self.used, self.pressed);
            self.open.left += 1.0;
        }
    }

    fn pressed(&mut self, _: Time) {
        self.pressed = true;
    }

    fn limit(&self) -> u32 {
        self.limit as u32
    }
}

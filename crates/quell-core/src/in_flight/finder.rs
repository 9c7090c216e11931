//! Finder: a limit that asks the service.
//!
//! **Why.** A limit that is told nothing sees latency rise and cannot know why: because too much is under way (a queue, a
//! service that shares or thrashes), or because the service has become slower, which is legitimate. Less under way helps the
//! first and starves the second. So every cut is an experiment, and what it brings decides.
//!
//! **How.** All in logarithms of latency, per interval of 10 to 200 answers: their mean `u`, variance `v`, standard error
//! `se = √(v/n)`, mean latency `w = exp(u + v/2)`; `used`, how many were under way; `bound`, the share that somebody waited
//! behind. `b` is what `u` is at rest, `d = u − b`; high is above `0.05 + 2 se`. A caller who leaves counts as an answer that
//! took at least that long; errors count as nothing. After every cut, dip and growth answers are ignored for `w`, and
//! until the first answer to a call that was sent after it: the quick ones come first.
//!
//! - *At rest* (not bound; not high, or not full): `b` follows slowly; the limit settles at 1.1 × the most that was used + 2, never
//!   beyond where crowding was last seen. The queue in front absorbs bursts.
//! - *Bound, not high*: grow by a tenth, then by twice as much each time, up to twofold; by 3 % near the last cut.
//! - *High*: × exp((0.03 + se/2 − d)/2). Half of it, because a service that thrashes slows down with the square. Once cuts
//!   have taken `used` down far enough to tell, latency either fell by at least half as much: it was our crowding. Or not: then
//!   it was not, `b = u`, and the limit is what it was × exp(d) (Little), twice as much at most.
//! - *A dip*, the same experiment without need: while it is not known whether `b` was measured in a crowd (again and further
//!   down as long as latency falls), or after 15 s bound.
//! - *After a silence* in which nobody left, all that was sent before its end took as long, and nothing sent since is back within
//!   three times `b`: it did not stand still, it is another service, and no experiment is needed. Where somebody left,
//!   what is under way goes back to what rest needs. A silence teaches nothing else.
//!
//! What comes back is gathered in `finder/heard.rs`. What it does in 119 worlds is measured by `cargo xtask lab arena`; each constant below was chosen there.

mod heard;

use core::time::Duration;

use super::{
    LEAST, UNKNOWN,
    interval::{Interval, Seen},
    logs::exp,
};
use crate::{Time, time::nanos};

/// No limit.
const MOST: f64 = u32::MAX as f64;
/// High is more than this and two standard errors above rest.
const MARGIN: f64 = 0.05;
/// Growth: the first step, the largest, and near the last cut.
const FIRST: f64 = 0.1;
const LARGEST: f64 = 1.0;
const NEAR: f64 = 0.03;
/// Bound in this share of answers is bound.
const BOUND: f64 = 0.3;
/// An experiment says how much slower the service is, not how many it can take: no more than twice as many at once.
const MOST_SLOWER: f64 = 2.0;
/// Between dips without need, in seconds.
const SPACING: f64 = 15.0;
const SECOND: f64 = 1e9;
/// Fewer answers tell nothing.
const FEWEST: u32 = 8;

/// An experiment: the limit before it, and the worst that was seen.
#[derive(Debug, Clone, Copy)]
struct Trial {
    limit: f64,
    used: f64,
    u: f64,
    dip: bool,
}

/// See the [module](self). Latencies in nanoseconds.
#[derive(Debug)]
pub(super) struct Finder {
    limit: f64,
    /// Never less: what little traffic needs in health.
    least: f64,
    /// What callers' patience allows, by the upstream's best rate and how long they wait.
    most: f64,
    rate: f64,
    patience: u64,
    open: Interval,
    /// Somebody found no slot since the last answer.
    pressed: bool,
    /// The open interval may end then, and holds enough until then.
    ends_at: Time,
    idle_until: Time,
    enough: u32,
    /// Answers count from then on: never, until one comes after `skip` to a call that was sent after `changed`. Those to calls
    /// that were sent in a silence do not count at all.
    counts_at: Time,
    skip: Time,
    changed: Time,
    sent_after: Time,
    /// Nothing answered for longer than this is worth a look, in nanoseconds.
    quiet: u64,
    /// After a silence in which nobody left: the answers to calls that were sent before its end, until one that was sent later
    /// is back; and when to judge by them.
    slow: Option<Interval>,
    looks_at: Time,
    intervals: u32,
    /// Variance, mean latency and what is normal, as in the head.
    v: f64,
    w: f64,
    b: f64,
    /// Answers that `b` rests on, and when it may fall: after a silence the quick ones come first.
    m: f64,
    b_falls: Time,
    /// Whether `b` is known not to be that of a crowd.
    confirmed: bool,
    /// The most that was used in health.
    peak: f64,
    /// By how much it would grow next, and where it was last cut.
    step: f64,
    cut: f64,
    trial: Option<Trial>,
    bound_since: Option<Time>,
    next_dip: Time,
    /// The last good answer, and those who left since.
    last: Time,
    /// The longest that an answer took in this interval, and in this one or the one before.
    took: u64,
    longest: u64,
    gone: u32,
    /// Whether the last interval was high, and whether an experiment showed that the crowd was ours.
    high: bool,
    ours: bool,
    /// Whether the interval before was at the least already.
    settled: bool,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            limit: f64::from(UNKNOWN),
            least: LEAST,
            most: MOST,
            rate: 0.0,
            patience: 5 * SECOND as u64,
            open: Interval::default(),
            pressed: false,
            ends_at: Time::ZERO,
            idle_until: Time::ZERO,
            enough: FEWEST,
            counts_at: Time::ZERO,
            skip: Time::ZERO,
            changed: Time::ZERO,
            quiet: 1,
            sent_after: Time::ZERO,
            slow: None,
            looks_at: Time::MAX,
            intervals: 0,
            v: 0.25,
            w: 0.1 * SECOND,
            b: 0.0,
            m: 0.0,
            b_falls: Time::ZERO,
            confirmed: false,
            peak: 0.0,
            step: LARGEST,
            cut: MOST,
            trial: None,
            bound_since: None,
            next_dip: Time::ZERO,
            last: Time::ZERO,
            took: 0,
            longest: 0,
            gone: 0,
            high: false,
            ours: false,
            settled: false,
        }
    }
}

impl Finder {
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Begins where health ended: with this limit, what is normal and its variance, as logarithms of nanoseconds.
    pub(super) fn begin_at(&mut self, now: Time, limit: f64, needs: f64, b: f64, v: f64) {
        let (rate, patience, most) = (self.rate, self.patience, self.most);
        *self = Self {
            limit,
            least: (1.1 * needs + 2.0).clamp(LEAST, 2.0 * LEAST),
            rate,
            patience,
            most,
            b,
            v,
            w: exp(b + v / 2.0),
            m: 100.0,
            intervals: 2,
            confirmed: true,
            peak: (limit - 2.0) / 1.1,
            step: FIRST,
            last: now,
            sent_after: now,
            ..Self::default()
        };
        self.settle(now, 1.0);
        self.begin(now);
        self.quiet = self.silence();
        self.enough = (v / 0.01).clamp(10.0, 200.0) as u32;
    }

    /// What it began with may be that of a crowd; and at least so many were let in before.
    pub(super) fn doubt(&mut self, limit: f64) {
        (self.limit, self.confirmed) = (self.limit.max(limit), false);
    }

    /// Whether latency was high when it was last looked at.
    pub(super) fn is_high(&self) -> bool {
        self.high
    }

    /// Whether an experiment showed, since this was last asked, that the crowd was ours.
    pub(super) fn shows_crowd(&mut self) -> bool {
        core::mem::take(&mut self.ours)
    }

    /// Begins anew with this limit, knowing nothing.
    pub(super) fn start_low(&mut self, now: Time, limit: f64) {
        let (rate, patience, most) = (self.rate, self.patience, self.most);
        *self = Self { limit, rate, patience, most, sent_after: now, ..Self::default() };
    }

    /// What the upstream does at its best, how long callers wait, and the most that may be under way.
    pub(super) fn bounds(&mut self, rate: f64, patience: Duration, most: f64) {
        (self.rate, self.patience, self.most) = (rate, nanos(patience), most);
    }

    fn set(&mut self, now: Time, limit: f64) {
        let limit = limit.min(self.most).max(self.least);
        if (limit - self.limit).abs() >= 0.5 {
            self.settle(now, 1.0);
        }
        self.limit = limit;
    }

    /// Answers do not count for so many mean latencies, nor until one comes to a call that is sent after now.
    fn settle(&mut self, now: Time, times: f64) {
        self.skip = now.plus((times * self.w.min(2.0 * SECOND)) as u64);
        (self.changed, self.counts_at) = (now, Time::MAX);
    }

    /// Opens an interval.
    fn begin(&mut self, now: Time) {
        self.longest = core::mem::take(&mut self.took);
        self.open = Interval::since(now);
        self.ends_at = now.plus((0.25 * self.w).max(0.1 * SECOND) as u64);
    }

    fn rest(&self) -> f64 {
        (1.1 * self.peak + 2.0).min(self.cut).max(self.least)
    }

    /// How far down an experiment must go to tell anything.
    fn depth(&self) -> f64 {
        (0.4 * self.v.sqrt()).clamp(0.25, 0.6)
    }

    /// Decides by an interval that is over.
    fn close(&mut self, now: Time) {
        let (seen, lasted) = (self.open.seen(), self.open.lasted(now) as f64 / SECOND);
        let Seen { n, u, var, used, bound, .. } = seen;
        let weight = if var > self.v { 0.3 } else { (n / 150.0).clamp(0.05, 0.3) };
        self.v += (var - self.v) * if self.intervals == 0 { 1.0 } else { weight };
        self.w = exp(u + self.v / 2.0);
        self.intervals = self.intervals.saturating_add(1);
        self.begin(now);
        if self.intervals == 1 {
            if self.limit > self.least {
                self.set(now, (1.5 * used + 4.0).min(self.limit));
                self.settle(now, 2.0);
            }
            return;
        }
        let se = (self.v / n).sqrt();
        let before = if self.intervals == 2 { u } else { self.b };
        if self.intervals == 2 || u < self.b - MARGIN - 3.0 * se && now >= self.b_falls {
            // Some of it is luck. Nothing is below the least.
            (self.b, self.m) = (u + 2.0 * se, n);
            self.confirmed |= self.limit <= self.least;
        }
        let d = u - self.b;
        let high = d > MARGIN + 2.0 * se;
        self.high = high;
        let full = used > 0.8 * self.limit;
        let settled = self.limit <= self.least;
        if bound < BOUND && !(full && (high || !self.confirmed)) {
            self.settled = false;
            return self.rests(&seen, high, exp(-0.02 * lasted.min(1.0)));
        }
        if !high {
            self.limit = self.limit.max(used); // there was room
        }
        let bound_for = now.nanos_since(*self.bound_since.get_or_insert(now)) as f64 / SECOND;
        if self.trial.is_some_and(|trial| self.is_over(&trial, &seen, se))
            && self.concludes(now, &seen, before, se)
        {
            self.settled = false;
            return;
        }
        self.settled = settled;
        if high {
            self.cuts(now, &seen, se);
        } else if now >= self.next_dip && (bound_for > SPACING || !self.confirmed) {
            self.trial = Some(Trial { limit: self.limit, used, u, dip: true });
            self.set(now, self.limit * exp(-self.depth()));
            self.settle(now, 1.3);
        } else {
            self.grows(now, used);
        }
    }

    /// There is room: follows what is, and takes back what is not needed.
    fn rests(&mut self, seen: &Seen, high: bool, fade: f64) {
        if !high {
            self.peak = (self.peak * fade).max(seen.used);
        }
        (self.trial, self.bound_since, self.confirmed) = (None, None, true);
        self.m = (self.m + seen.n).min(1000.0);
        self.b += (seen.u - self.b).clamp(-0.2, 0.2) * seen.n / self.m;
        self.limit = self.rest().max(self.limit * 0.8);
        self.step = FIRST;
    }

    /// Whether an experiment has gone far enough to tell.
    fn is_over(&self, trial: &Trial, seen: &Seen, se: f64) -> bool {
        let far = trial.used >= seen.used.max(1.0) * exp(0.8 * self.depth());
        // With as little as may be under way there is no crowd to blame.
        let least = self.limit <= self.least && self.settled;
        trial.dip || least || far && seen.u <= trial.u + MARGIN + 3.0 * se
    }

    /// What an experiment has shown. True if the limit follows from it.
    fn concludes(&mut self, now: Time, seen: &Seen, before: f64, se: f64) -> bool {
        let Some(trial) = self.trial.take() else { return false };
        let Seen { n, u, .. } = *seen;
        let went = trial.used / seen.used.max(1.0);
        // Callers who leave are never a reason to let more in.
        let ours = exp(2.0 * (trial.u - u)) >= went.max(1.1) || seen.left > 0.02;
        let news = (u - before).abs() > MARGIN + 3.0 * se;
        self.ours |= ours;
        // While it falls there may be more of it below.
        self.confirmed = !ours || self.confirmed && !trial.dip;
        let spacing = if self.confirmed { SPACING * SECOND } else { 0.0 };
        self.next_dip = now.plus(spacing as u64);
        if !ours && news {
            let slower = if went > 1.2 { exp((u - before).max(0.0)).min(MOST_SLOWER) } else { 1.0 };
            self.moved(now, u, n, trial.limit * slower);
            return true;
        }
        if !ours || !self.confirmed {
            (self.b, self.m) = (u, n);
        }
        let back = self.confirmed && (!ours || trial.dip);
        if back {
            self.step = NEAR;
            let over = if ours { (trial.u - self.b - 0.03).max(0.0) } else { 0.0 };
            self.set(now, (trial.limit * exp(-over / 2.0)).max(self.limit));
        }
        back
    }

    /// Latency is high: less, and whether that helps will show.
    fn cuts(&mut self, now: Time, seen: &Seen, se: f64) {
        if self.trial.is_none_or(|trial| seen.u > trial.u + 3.0 * se) {
            let limit = self.trial.map_or(self.limit, |trial| trial.limit);
            self.trial = Some(Trial { limit, used: seen.used, u: seen.u, dip: false });
        }
        // What stands at its least was not cut.
        if self.limit > self.least {
            (self.cut, self.step) = (self.limit.max(self.least + 1.0), NEAR);
        }
        let d = seen.u - self.b;
        self.set(now, self.limit * exp((0.03 + 0.5 * se - d) / 2.0).max(0.4));
    }

    /// Somebody waits, and work takes no longer for it: more.
    fn grows(&mut self, now: Time, used: f64) {
        self.peak = self.peak.max(used);
        if self.limit > 1.2 * self.cut {
            self.cut = MOST;
        }
        let near = self.limit > 0.8 * self.cut;
        let step = if near { self.step.min(NEAR) } else { self.step };
        self.step = (2.0 * step).min(LARGEST);
        self.set(now, self.limit * (1.0 + step) + if step > NEAR { 1.0 } else { 0.0 });
    }

    /// It is not our crowding: the service has become another one.
    fn moved(&mut self, now: Time, u: f64, n: f64, limit: f64) {
        (self.b, self.m) = (u, n);
        (self.trial, self.cut, self.step) = (None, MOST, FIRST);
        self.set(now, limit);
    }
}

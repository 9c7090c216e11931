//! InFlight: how much may be under way at once, found by watching.
//!
//! **Why.** A storm lives on queued work whose callers have left. A limit below what the upstream can finish
//! within its callers' patience starves it, and nothing else heals a stalled service at once. Nobody
//! knows the right number, and a wrong one written by hand never heals or refuses healthy traffic, so
//! the limit is told neither the upstream's capacity, nor its service time, nor how long callers wait.
//!
//! **How.** Without evidence of trouble an adaptive limit is *loose*: several times what is under way, so that nobody is refused in
//! health, whatever the mix, the bursts and the pauses. Every 50 ms it is watched (`watch.rs`) whether anything speaks for trouble.
//! If so it is *tight*: what was under way in health and a tenth more, and from there it is found (`finder.rs`) by what answers take,
//! each compared with its own [class](crate::classes), and how that changes with how many are under way; never more than
//! what the service can finish while its callers wait, `rate · T/2` summed over all classes. `T` is the callers'
//! [patience](crate::patience), never under three times the mean time of their class nor under 50 ms. Health confirmed loosens it
//! again.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{in_flight::{InFlight, Limit}};
//!
//! let limit = InFlight::new(Limit::Adaptive { ceiling: 4096 }, Duration::from_secs(5))?;
//! assert_eq!(limit.limit(), 1024); // nothing is known yet, and nobody complains
//! # Ok::<_, quell_core::in_flight::Invalid>(())
//! ```

mod finder;
mod interval;
pub(crate) mod logs;
mod watch;

use core::time::Duration;

use finder::Finder;
pub use watch::Evidence;
use watch::{Sight, Turn, Watch};

use crate::{
    Time,
    classes::{Class, Classes},
    pace::{Known, Pace},
    patience::Patience,
    time::nanos,
};

/// The least that may be under way.
const LEAST: f64 = 4.0;
/// No ceiling is lower.
const LEAST_CEILING: u32 = 8;
/// So many service times an answer may take in health.
const USUAL: u32 = 3;
/// The least patience that is believed, and the least while nothing is known of the service.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
/// How long callers are believed to wait before any of them has shown it.
const UNTOLD_PATIENCE: Duration = Duration::from_secs(5);
/// What may be under way while nothing is known and nobody complains.
const UNKNOWN: u32 = 1024;

/// An in-flight limit as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    Off,
    /// This many.
    Fixed(u32),
    /// As many as the upstream can serve while its callers wait.
    Adaptive {
        /// Never more than this many.
        ceiling: u32,
    },
}

/// Why a [`Limit`] is not one. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Everything would be refused.
    #[error(
        "in_flight.limit is 0, so every call would be refused: write at least 1, or \"adaptive\""
    )]
    Fixed,
    /// The limit could not even reach its minimum.
    #[error("in_flight.ceiling is {0}: write at least 8, such as 4096")]
    Ceiling(u32),
}

/// How busy an upstream is when an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// How many are under way, itself included.
    pub under_way: u32,
    /// Whether somebody waits for a slot.
    pub queued: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct InFlight {
    kind: Limit,
    limit: u32,
    /// How many may be under way before anything else is looked at: the limit while it is loose and nothing else has a say, and
    /// otherwise none.
    open: u32,
    /// Whether something else has a say.
    is_shut: bool,
    per_try: Duration,
    left: Patience,
    /// `T`, as of the last look.
    patience: Duration,
    pace: Pace,
    watch: Watch,
    finder: Finder,
    /// Somebody found no slot since the last look.
    pressed: bool,
    /// Latencies are compared as they are: no class was known when trouble came.
    raw: bool,
    /// While a limit is held by hand: what stands underneath.
    beneath: Option<(Limit, u32)>,
}

impl InFlight {
    /// A limit for calls whose attempts may take `per_try` each.
    pub fn new(kind: Limit, per_try: Duration) -> Result<Self, Invalid> {
        let limit = match kind {
            Limit::Fixed(0) => return Err(Invalid::Fixed),
            Limit::Adaptive { ceiling } if ceiling < LEAST_CEILING => {
                return Err(Invalid::Ceiling(ceiling));
            }
            Limit::Off => u32::MAX,
            Limit::Fixed(n) => n,
            Limit::Adaptive { ceiling } => UNKNOWN.min(ceiling),
        };
        Ok(Self {
            kind,
            limit,
            open: if matches!(kind, Limit::Adaptive { .. }) { limit } else { 0 },
            is_shut: false,
            per_try,
            left: Patience::default(),
            patience: per_try.min(UNTOLD_PATIENCE),
            pace: Pace::default(),
            watch: Watch::default(),
            finder: Finder::default(),
            pressed: false,
            raw: true,
            beneath: None,
        })
    }

    /// Takes on the kind and timeout of one just made and keeps all that was learned: patience and pace, which are watched
    /// under every kind, and the limit that was found. What is under way beyond the new limit drains. One that is held by
    /// hand stays.
    pub fn adopt(&mut self, fresh: &Self) {
        let held = self.is_held().then_some(self.limit);
        (self.kind, self.limit, self.per_try) = (fresh.kind, fresh.limit, fresh.per_try);
        self.reopen();
        self.follow();
        self.beneath = None;
        if let Some(held) = held {
            self.hold(held);
        }
    }

    /// This many from now on, whatever was written: for whoever decides elsewhere.
    pub fn set(&mut self, limit: u32) {
        let limit = limit.max(1);
        let set = (Limit::Fixed(limit), limit);
        match &mut self.beneath {
            Some(beneath) => *beneath = set,
            None => (self.kind, self.limit) = set,
        }
        self.reopen();
    }

    /// This many until [let go](InFlight::let_go), whatever was written or is found. Meanwhile only patience and pace are
    /// watched: what comes back under a limit set by hand says nothing of the right one.
    pub fn hold(&mut self, limit: u32) {
        self.beneath.get_or_insert((self.kind, self.limit));
        let limit = limit.max(1);
        (self.kind, self.limit) = (Limit::Fixed(limit), limit);
        self.reopen();
    }

    /// As it was before it was held.
    pub fn let_go(&mut self) {
        if let Some(beneath) = self.beneath.take() {
            (self.kind, self.limit) = beneath;
            self.reopen();
        }
    }

    /// Whether more than the limit has to be looked at for every call.
    pub(crate) fn shut(&mut self, is_shut: bool) {
        self.is_shut = is_shut;
        self.reopen();
    }

    fn reopen(&mut self) {
        self.open = if self.is_shut || self.is_haunted() { 0 } else { self.limit };
    }

    /// How many may be under way before anything else is looked at.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Whether it is held by hand.
    pub fn is_held(&self) -> bool {
        self.beneath.is_some()
    }

    /// How many may be under way.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether nothing speaks for trouble.
    #[inline]
    pub fn is_loose(&self) -> bool {
        self.watch.is_loose()
    }

    /// What spoke for trouble, while it does.
    pub fn evidence(&self) -> Option<Evidence> {
        self.watch.evidence.filter(|_| self.is_adaptive())
    }

    /// Whether it finds itself.
    pub(crate) fn is_adaptive(&self) -> bool {
        matches!(self.kind, Limit::Adaptive { .. })
    }

    /// Whether ghosts hold slots: not while the limit is loose.
    #[inline]
    pub(crate) fn is_haunted(&self) -> bool {
        !self.watch.is_loose() || !matches!(self.kind, Limit::Adaptive { .. })
    }

    /// How many may be under way, for one who finds the limit reached.
    #[cold]
    pub(crate) fn stretch(&mut self, now: Time) -> u32 {
        if self.is_loose() && matches!(self.kind, Limit::Adaptive { .. }) {
            self.watch.stretch(now, self.rate());
            self.follow();
        }
        self.limit
    }

    fn rate(&self) -> f64 {
        self.pace.known().map_or(0.0, |known| known.rate)
    }

    /// What was learned of the upstream, once enough was served.
    pub fn known(&self) -> Option<Known> {
        self.pace.known()
    }

    /// `T`: how long callers wait for an answer.
    #[inline]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The upstream did its work on what was sent at that instant. Whether the class failed of late.
    #[inline]
    pub(crate) fn served(
        &mut self,
        now: Time,
        sent_at: Time,
        good: bool,
        class: &mut Class,
    ) -> bool {
        self.watch.served(now);
        class.answers(now, sent_at, good)
    }

    /// The same for a limit that is not loose: finds a better one. True if that moved it.
    pub(crate) fn found(&mut self, now: Time, sent_at: Time, load: Load, class: &Class) -> bool {
        let Some(offset) = self.offset(class) else {
            self.finder.hears(now);
            return false;
        };
        let moved = self.finder.answered(now, sent_at, load, offset);
        self.hear(now);
        moved && self.follow()
    }

    /// What an experiment has shown.
    fn hear(&mut self, now: Time) {
        if self.finder.shows_crowd() {
            self.watch.ours(now);
        }
    }

    fn offset(&self, class: &Class) -> Option<i64> {
        class.offset.or(self.raw.then_some(0))
    }

    /// The upstream replied, and did what it was asked.
    #[inline]
    pub(crate) fn replied(&mut self, now: Time) {
        if self.watch.is_silent(now) {
            self.watch.resumes(now, self.rate());
        }
        self.watch.replied(now);
    }

    /// It replied that it did not.
    #[cold]
    pub(crate) fn declined(&mut self, now: Time) {
        self.replied(now);
        self.watch.declined();
    }

    /// It was a failure.
    #[cold]
    pub(crate) fn failed(&mut self) {
        self.watch.failed();
    }

    /// Nobody waits any more for what was sent at that instant. If its caller left before the answer was due: until when
    /// the upstream would have been busy with it.
    #[cold]
    pub(crate) fn left(
        &mut self,
        now: Time,
        sent_at: Time,
        load: Load,
        class: &mut Class,
    ) -> Option<Time> {
        let age = now.nanos_since(sent_at);
        if self.is_early(age, class) {
            class.forget(age);
            let due = if class.is_known() { class.mean as u64 } else { age.saturating_mul(2) };
            let sees = self.watch.has_served() && self.is_loose() && !class.in_trouble;
            return sees.then(|| sent_at.plus(due));
        }
        if self.is_loose() && class.is_overtaken(sent_at) {
            class.lingers(age);
            return Some(now.plus(age));
        }
        if class.in_trouble && self.is_loose() {
            return None; // it speaks for its class alone
        }
        if self.watch.left() && self.is_loose() {
            self.watch.tighten(now, Evidence::Leaving);
            self.raw = true;
            self.finder.start_low(now, LEAST);
        } else if !self.is_loose()
            && let Some(offset) = self.offset(class)
        {
            self.finder.left(now, sent_at, load, offset);
        }
        self.follow();
        None
    }

    /// Whether whoever leaves at this age leaves before an answer was due. Of a class that is not known nobody can say,
    /// unless nothing was ever served.
    fn is_early(&self, age: u64, class: &Class) -> bool {
        match class.is_known() {
            true => age < class.late,
            false => self.watch.has_served() || age < nanos(UNKNOWN_PATIENCE),
        }
    }

    /// When the classes are to be looked at again.
    #[inline]
    pub(crate) fn next_look(&self) -> Time {
        self.watch.next()
    }

    /// When to [look again](InFlight::wake) although nothing is answered; mostly never.
    pub(crate) fn looks_at(&self) -> Time {
        match self.kind {
            Limit::Adaptive { .. } if !self.is_loose() => self.finder.looks_at(),
            _ => Time::MAX,
        }
    }

    /// Does what is due. True if that moved the limit.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        if self.is_loose() {
            return false;
        }
        self.finder.wake(now);
        self.hear(now);
        self.follow()
    }

    /// Looks at all classes. True if that moved the limit.
    pub(crate) fn look(
        &mut self,
        now: Time,
        classes: &mut Classes,
        load: Load,
        ghosts: usize,
    ) -> bool {
        let queued = core::mem::take(&mut self.pressed) || load.queued;
        let (load, high) = (Load { queued, ..load }, self.finder.is_high());
        let answers = self.keep_pace(classes);
        let sight = Sight { load, rate: self.rate(), answers, high, ghosts };
        match self.watch.look(now, classes, sight) {
            Turn::Tighten => self.tighten(now, classes),
            Turn::Loosen => self.watch.loosen(),
            Turn::None => self.sort_out(now, classes),
        }
        self.know(classes);
        self.follow()
    }

    /// How fast answers came since the last look. Their number.
    fn keep_pace(&mut self, classes: &Classes) -> u32 {
        let (answers, took) = classes.answered();
        if answers > 0 {
            self.pace.served(self.watch.served_at(), answers, took);
        }
        answers
    }

    /// In trouble from the beginning, latencies were compared as they are. Where there are several classes of which at least one
    /// is known by now, each is compared with its own from now on.
    fn sort_out(&mut self, now: Time, classes: &mut Classes) {
        let is_known = |class: &Class| class.is_grown() && class.rate > 0.0;
        if self.raw && !self.is_loose() && !classes.is_one() && classes.iter().any(is_known) {
            let limit = core::mem::replace(&mut self.limit, u32::MAX);
            self.tighten(now, classes);
            self.finder.doubt(f64::from(limit));
        }
    }

    /// How long callers wait, and what can be done meanwhile.
    pub(crate) fn know(&mut self, classes: &mut Classes) {
        let (others, mut most) = (self.left.learned(), 0.0);
        let peaks: f64 = classes.iter().map(|class| class.peak).sum();
        for class in classes.iter_mut() {
            class.set_patience(self.per_try, others.unwrap_or(UNTOLD_PATIENCE));
            class.share = (f64::from(self.limit) * class.peak / peaks.max(1.0)).max(1.0) as u32;
            most += class.rate * class.patience as f64 / 2e9;
        }
        let waits = others.unwrap_or(UNTOLD_PATIENCE).min(self.per_try);
        let known = self.pace.known();
        let least =
            known.map_or(UNKNOWN_PATIENCE, |known| (known.base * USUAL).max(LEAST_PATIENCE));
        self.patience = waits.max(least);
        if let Some(Known { rate, .. }) = known {
            // What classes did in health, or all together do by now, if that is more.
            let most = most.max(rate * self.patience.as_secs_f64() / 2.0);
            let ceiling = match self.kind {
                Limit::Adaptive { ceiling } => ceiling,
                _ => u32::MAX,
            };
            self.finder.bounds(rate, self.patience, most.min(f64::from(ceiling)));
        }
    }

    /// There is trouble: what was under way in health, and each class compared with its own usual time.
    #[cold]
    fn tighten(&mut self, now: Time, classes: &mut Classes) {
        let known = || classes.iter().filter(|class| class.is_grown());
        let rate: f64 = known().map(|class| class.rate).sum();
        self.raw = rate == 0.0;
        let used: f64 = classes.iter().map(Class::little).sum();
        if self.raw {
            return self.finder.start_low(now, (1.1 * used + 2.0).max(LEAST));
        }
        let limit = self.watch.tight().max(1.1 * used + 2.0).min(f64::from(self.limit));
        let mean = |of: fn(&Class) -> f64| known().map(|c| c.rate * of(c)).sum::<f64>() / rate;
        let (log, var) = (mean(|class| class.log), mean(|class| class.var));
        for class in classes.iter_mut() {
            class.offset = class.is_grown().then(|| logs::fixed(log - class.log));
        }
        self.finder.begin_at(now, limit, used, log, var);
    }

    /// Takes on the limit that was found. True if it is another one.
    #[inline]
    fn follow(&mut self) -> bool {
        let Limit::Adaptive { ceiling } = self.kind else { return false };
        let found = if self.is_loose() {
            self.watch.limit().min(f64::from(ceiling)) as u32
        } else {
            self.finder.limit().min(ceiling)
        };
        let is_new = core::mem::replace(&mut self.limit, found) != found;
        self.reopen();
        is_new
    }

    /// Somebody found no slot, whatever became of it.
    pub(crate) fn press(&mut self) {
        self.pressed = true;
        if !self.is_held() {
            self.finder.press();
        }
    }

    /// A caller who came then left without an answer. Whoever leaves before an answer was due says nothing of how long callers
    /// wait.
    #[cold]
    pub(crate) fn learn_patience(&mut self, now: Time, since: Time, class: &mut Class) {
        if !self.is_early(now.nanos_since(since), class) {
            self.waited(now, since, class);
        }
    }

    /// A late answer to somebody who came then was still taken.
    #[cold]
    pub(crate) fn waits(&mut self, now: Time, since: Time, class: &mut Class) {
        if now.nanos_since(since) > class.patience {
            self.waited(now, since, class);
        }
    }

    /// Somebody who came then waited until now.
    fn waited(&mut self, now: Time, since: Time, class: &mut Class) {
        let age = now.since(since);
        class.learn_patience(age);
        self.left.learn(age);
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;

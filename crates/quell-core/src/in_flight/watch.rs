//! Watch: whether anything speaks for trouble.
//!
//! **Why.** A limit that is close to what is used refuses ordinary fluctuation: bursts, pauses, a few slow calls among many quick
//! ones. A limit that is far from it lets a service collapse. So it is far in health, and close in trouble, and what
//! decides is evidence.
//!
//! **How.** Every 50 ms all classes are looked at. *Loose* is the limit without evidence: several times the most that was under way.
//! Whoever reaches it while answers come and nothing is crowded has it doubled. Evidence is any of:
//!
//! - *silence*: nothing came back for half a second, and at least four calls are overdue by their class's measure, or were when
//!   their callers left; where ten answers take longer than half a second, for as long as that, or until twenty are overdue;
//! - *leaving*: in half a second at least five callers, and a tenth of all that ended, left late;
//! - *errors*: in half a second more than half of at least ten ends were failures, in most classes;
//! - *crowding*: much more is under way than what was sent explains, in classes that make up half of the traffic, and it grows, while
//!   answers come: three times in a row.
//!
//! Then it is *tight*: a tenth above the most that was used in health, and the [finder](super::finder) goes on from there. It is
//! loose again once it has neither bound nor been high for two seconds or twenty service times; where an experiment showed that the
//! crowd was ours, not before a minute, and each time twice as long; where one showed that it was not, at once. A silence that nobody
//! left for, and after which everything is answered, was a pause: it is loose again at once, too.
//!
//! After a pause in which nothing was answered, what is under way says nothing about crowding for as long as the pause was, as long
//! as no more goes out than comes back. If what comes back takes longer now, the service has become another one, and what
//! is usual follows within that time.

mod lesson;

use core::time::Duration;

use self::lesson::{Lesson, Pause, Sum, is_more, is_much};
use super::{LEAST, Load, UNKNOWN};
use crate::{
    Time,
    classes::{Classes, Others},
};

/// Between looks.
const EVERY: Duration = Duration::from_millis(50);
/// Sums of ends, those that left and those that failed, begin anew so often.
const WINDOW: Duration = Duration::from_millis(500);
/// The shortest silence that is evidence, in nanoseconds.
const SILENCE: f64 = 0.5e9;
/// Answers in calm that confirm health.
const CONFIRMED: u32 = 10;
/// Calls that are overdue in a silence, and so many that its length relative to the rate does not matter.
const FEW: u32 = 4;
const MANY: u32 = 20;
/// So many looks in a row at a crowd are evidence.
const LOOKS: u32 = 3;
/// A shorter time without an answer is no pause, in nanoseconds.
const PAUSE: u64 = 100_000_000;
const SECOND: f64 = 1e9;
/// After a pause, answers that keep pace teach so many times as fast, for as long as the pause was but not for longer than this.
const KEEN: f64 = 8.0;
const LONGEST_TRIAL: f64 = 2.0 * SECOND;
/// For how long it stays tight after a crowd of ours, at first and at most.
const HOLD: Duration = Duration::from_secs(60);
const LONGEST_HOLD: Duration = Duration::from_secs(3_600);

/// What spoke for trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing came back, and calls are overdue.
    Silence,
    /// Callers leave whose answer is overdue.
    Leaving,
    /// Most of what comes back are failures.
    Errors,
    /// More is under way than what was sent explains.
    Crowding,
}

impl Evidence {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Leaving => "leaving",
            Self::Errors => "errors",
            Self::Crowding => "crowding",
        }
    }
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing.
    None,
    /// There is trouble.
    Tighten,
    /// Health is confirmed.
    Loosen,
}

/// What a look has to know besides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    pub(super) load: Load,
    /// Answers per second at the best of late; 0 for unknown.
    pub(super) rate: f64,
    /// Answers since the last look.
    pub(super) answers: u32,
    /// Whether latency is high in a tight limit.
    pub(super) high: bool,
    /// Calls whose callers have left, and at which the service still works.
    pub(super) ghosts: usize,
}

#[derive(Debug, Default)]
struct Window {
    since: Time,
    ends: u32,
    left: u32,
    failed: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Watch {
    next: Time,
    looked: Time,
    pub(super) evidence: Option<Evidence>,
    limit: f64,
    grown_at: Time,
    /// Anything but silence, and the last answer that was one.
    replied_at: Time,
    served_at: Time,
    /// Callers who left late since then, and since there was last no trouble.
    gone: u32,
    impatient: u32,
    /// There was a pause since the last look: it explains what is under way.
    paused: bool,
    pause: Pause,
    /// More was under way than what was sent explains, if only a little, when something last came back.
    suspect: bool,
    window: Window,
    used: f64,
    pub(super) peak: f64,
    was: u32,
    /// What is usual rests on enough answers.
    grown: bool,
    crowded: u32,
    /// How long a call takes on average, by its class, in nanoseconds.
    pub(super) time: f64,
    calm_since: Time,
    /// Answers since then.
    well: u32,
    hold_until: Time,
    hold: Duration,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            next: Time::ZERO,
            looked: Time::ZERO,
            evidence: None,
            limit: f64::from(UNKNOWN),
            grown_at: Time::ZERO,
            replied_at: Time::ZERO,
            served_at: Time::ZERO,
            gone: 0,
            impatient: 0,
            paused: false,
            pause: Pause::default(),
            suspect: false,
            window: Window::default(),
            used: 0.0,
            peak: 0.0,
            was: 0,
            grown: false,
            crowded: 0,
            time: 0.1 * SECOND,
            calm_since: Time::ZERO,
            well: 0,
            hold_until: Time::ZERO,
            hold: HOLD,
        }
    }
}

impl Watch {
    #[inline]
    pub(super) fn is_loose(&self) -> bool {
        self.evidence.is_none()
    }

    /// When it is to look again.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// How many may be under way without evidence of trouble.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    /// A tenth above what was used in health.
    pub(super) fn tight(&self) -> f64 {
        (1.1 * self.peak + 2.0).max(LEAST)
    }

    /// Whether nothing was answered for so long that it may have been a pause.
    #[inline]
    pub(super) fn is_silent(&self, now: Time) -> bool {
        now.is_past(self.replied_at, PAUSE)
    }

    /// The upstream answered. Those whom it served are counted [at the next look](Watch::look).
    #[inline]
    pub(super) fn replied(&mut self, now: Time) {
        (self.replied_at, self.gone) = (now, 0);
    }

    /// An answer was no service.
    #[cold]
    pub(super) fn declined(&mut self) {
        self.window.ends += 1;
    }

    /// It is about to answer after a silence, and so many per second is what it does.
    #[cold]
    pub(super) fn resumes(&mut self, now: Time, rate: f64) {
        let gap = now.nanos_since(self.replied_at) as f64;
        if gap > PAUSE as f64 && gap > 20.0 * SECOND / rate {
            (self.paused, self.pause.lasted) = (true, gap);
        }
    }

    /// It did its work.
    #[inline]
    pub(super) fn served(&mut self, now: Time) {
        self.served_at = now;
    }

    /// When it last did; at the beginning of time for never.
    pub(super) fn served_at(&self) -> Time {
        self.served_at
    }

    pub(super) fn has_served(&self) -> bool {
        self.served_at > Time::ZERO
    }

    /// It failed.
    #[cold]
    pub(super) fn failed(&mut self) {
        self.window.failed += 1;
    }

    /// A caller left late. True if nothing was ever served and this is the fourth.
    #[cold]
    pub(super) fn left(&mut self) -> bool {
        self.window.ends += 1;
        self.window.left += 1;
        self.gone += 1;
        self.impatient += 1;
        !self.has_served() && self.gone >= 4
    }

    /// Somebody finds the limit reached: more, while nothing speaks against it.
    #[cold]
    pub(super) fn stretch(&mut self, now: Time, rate: f64) {
        let young = (10.0 * SECOND / rate.max(1.0)).clamp(20e6, 200e6);
        let is_young = (now.nanos_since(self.replied_at) as f64) < young;
        if self.grown && self.crowded == 0 && is_young && now.since(self.grown_at) >= EVERY {
            self.limit *= 2.0;
            self.grown_at = now;
        }
    }

    /// Looks at all classes, in which there were so many answers since. Nothing is learned but in health.
    pub(super) fn look(&mut self, now: Time, classes: &mut Classes, sight: Sight) -> Turn {
        self.well = self.well.saturating_add(sight.answers);
        self.window.ends += sight.answers;
        let lasted = (now.nanos_since(self.looked) as f64).clamp(1.0, SECOND);
        (self.looked, self.next) = (now, now + EVERY);
        let loose = self.is_loose();
        let live = sight.load.under_way;
        if live == 0 && self.gone == 0 {
            self.replied_at = now; // nobody waits for anything: that is no silence
        }
        let lesson = self.lesson(now, classes, &sight);
        let sum = self.turn(now, lasted, classes, lesson, sight.load.queued);
        let paused = core::mem::take(&mut self.paused);
        // Long calls are under way for so long, and no sign that the service is crowded.
        let crowd = live.saturating_sub(sum.long);
        let suspicious = is_more(crowd, sum.expected);
        if sum.rate > 0.0 {
            self.time = sum.time / sum.rate;
        }
        let busy = f64::from(live) + sight.ghosts as f64;
        self.used += (busy - self.used) * lasted / (lasted + self.time.max(0.1 * SECOND));
        if self.flows(now, sight.rate) {
            self.suspect = suspicious;
        }
        if loose && !suspicious && !paused && self.crowded == 0 && sum.grown {
            self.peak = (self.peak * (1.0 - 0.02 * lasted / SECOND)).max(self.used);
        }
        let evidence = self.evidence(now, crowd, &sum, sight.rate, classes.most_fail(now));
        (self.was, self.grown) = (crowd, self.grown || sum.grown);
        if now.since(self.window.since) >= WINDOW {
            self.window = Window { since: now, ..Window::default() };
        }
        if loose {
            self.impatient = self.gone;
            self.settle(&sum);
            if evidence.is_some() {
                (self.evidence, self.calm_since, self.crowded) = (evidence, now, 0);
                return Turn::Tighten;
            }
            return Turn::None;
        }
        if self.was_pause(now, &sum, &sight) {
            return Turn::Loosen;
        }
        let quiet =
            now.nanos_since(self.served_at) as f64 > SILENCE.max(10.0 * SECOND / sight.rate);
        if evidence.is_some() || sight.load.queued || sight.high || quiet {
            (self.calm_since, self.well) = (now, 0);
        }
        let enough = (20.0 * self.time).max(2.0 * SECOND);
        let calm = now.nanos_since(self.calm_since) as f64 >= enough && self.well >= CONFIRMED;
        if calm && now >= self.hold_until {
            return Turn::Loosen;
        }
        Turn::None
    }

    /// What answers since the last look may teach.
    fn lesson(&mut self, now: Time, classes: &Classes, sight: &Sight) -> Lesson {
        let live = f64::from(sight.load.under_way);
        if self.paused && !self.suspect && self.grown {
            self.pause.ends(now, live);
        }
        let keeps_pace = self.pause.keeps_pace(now, live, classes.sent());
        let rests = !sight.high && !sight.load.queued && self.window.left == 0;
        match self.is_loose() {
            true if self.crowded > 0 || self.paused => Lesson::Nothing,
            true if keeps_pace && now >= self.pause.proven => Lesson::Anew,
            true if keeps_pace => Lesson::Nothing,
            true => Lesson::Usual,
            false if rests && self.calm_since < self.looked => Lesson::AtRest,
            false => Lesson::Nothing,
        }
    }

    /// What all classes come to, each summed up.
    fn turn(
        &mut self,
        now: Time,
        lasted: f64,
        classes: &mut Classes,
        lesson: Lesson,
        queued: bool,
    ) -> Sum {
        let (mut sum, rate) = (Sum::default(), classes.iter().map(|class| class.rate).sum::<f64>());
        let (replied_at, full) = (self.replied_at, classes.is_mixed(0));
        let (newest, whose, second) = classes.newest();
        for class in classes.awake() {
            let high = is_more(class.live() - class.overtaken(), class.expected);
            class.turn(now, lasted, lesson.weight(high));
            if self.pause.proven <= now && now < self.pause.until {
                class.expected = class.expected.max(f64::from(class.live()));
            }
            if class.key != 0 || !full {
                let newest = if class.key == whose { second } else { newest };
                let others = Others { rate: rate - class.rate, newest };
                class.part(now, replied_at, others, queued);
            }
            let expected = class.expected;
            sum.grown |= class.is_grown();
            sum.expected += expected;
            sum.rate += class.rate;
            sum.time += class.rate * class.mean;
            sum.overdue += if class.in_trouble { 0 } else { class.overdue };
            let long = class.overtaken();
            sum.long += long;
            if is_much(class.live() - long, expected, 0.0) {
                sum.crowded_rate += class.rate;
            }
        }
        sum
    }

    fn evidence(
        &mut self,
        now: Time,
        live: u32,
        sum: &Sum,
        rate: f64,
        most_fail: bool,
    ) -> Option<Evidence> {
        let silent = now.nanos_since(self.replied_at) as f64;
        let long = SILENCE.max(if rate > 0.0 { 10.0 * SECOND / rate } else { 0.0 });
        let (overdue, short) = (sum.overdue + self.gone, silent > SILENCE);
        if self.has_served() && (silent > long && overdue >= FEW || short && overdue >= MANY) {
            return Some(Evidence::Silence);
        }
        let Window { ends, left, failed, .. } = self.window;
        if left >= 5 && left * 10 > ends {
            return Some(Evidence::Leaving);
        }
        if failed >= 5 && ends >= 10 && failed * 2 > ends && most_fail {
            return Some(Evidence::Errors);
        }
        let expected = sum.expected;
        let much = is_much(live, expected, 4.0)
            && f64::from(live) > 1.1 * self.peak + 2.0
            && 2.0 * sum.crowded_rate >= sum.rate
            && sum.rate > 0.0;
        let flows = self.flows(now, rate);
        let grows = live >= self.was;
        let on_trial = now < self.pause.until && now < self.pause.proven;
        if much && flows && grows && !on_trial {
            self.crowded += 1;
        } else if !much {
            self.crowded = 0;
        }
        (self.crowded >= LOOKS).then_some(Evidence::Crowding)
    }

    /// Whether the trouble was a pause: nobody left for it, and all that stood still has been answered, so that no more is under
    /// way than what was sent explains.
    fn was_pause(&self, now: Time, sum: &Sum, sight: &Sight) -> bool {
        self.evidence == Some(Evidence::Silence)
            && self.impatient == 0
            && sum.overdue == 0
            && sight.ghosts == 0
            && !sight.load.queued
            && !is_more(sight.load.under_way, sum.expected)
            && self.served_at == self.replied_at
            && self.flows(now, sight.rate)
    }

    /// Whether something came back just now.
    fn flows(&self, now: Time, rate: f64) -> bool {
        let silent = now.nanos_since(self.replied_at) as f64;
        silent < (10.0 * SECOND / rate.max(1.0)).clamp(30e6, 200e6)
    }

    /// What is not needed is taken back slowly.
    fn settle(&mut self, sum: &Sum) {
        if sum.rate > 0.0 {
            let peak = self.peak.max(self.used);
            let quiet = (1024.0 / peak.max(LEAST)).min(256.0);
            self.limit = (peak + 64.0).max(1.2 * peak).max(quiet).max(self.limit * 0.8);
        }
    }

    /// There is trouble, or was, that somebody else found.
    pub(super) fn tighten(&mut self, now: Time, evidence: Evidence) {
        (self.evidence, self.calm_since, self.crowded) = (Some(evidence), now, 0);
    }

    /// Health is confirmed.
    pub(super) fn loosen(&mut self) {
        self.evidence = None;
        (self.crowded, self.gone, self.window) = (0, 0, Window::default());
        self.limit = self.limit.max(self.peak + 64.0);
    }

    /// An experiment showed that the crowd was ours.
    pub(super) fn ours(&mut self, now: Time) {
        if now >= self.hold_until {
            self.hold_until = now + self.hold;
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
        }
    }
}

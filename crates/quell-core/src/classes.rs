//! Classes: what is usual for each kind of call.
//!
//! **Why.** Behind one name there are calls of 3 ms and of 3 s. Their latency together is noise: a change of the mix looks like a
//! service in trouble, and trouble looks like a change of the mix. Compared with its own kind each call says something.
//!
//! **How.** Hosts say what kind a call is (an operation, or a method and the shape of a path) by a hash. The first 63 kinds have a
//! class of their own; the rest, and calls without a kind, share one. A class that has been idle for a minute makes room for
//! a new kind. Each class learns, from answers in health alone, how long they take (mean, logarithm and its spread, percentiles),
//! how many are under way and come back per second, and how long callers wait. All of it is summed up every 50 ms, so a call
//! costs a few additions.
//!
//! - *Overdue* is a call that is under way for longer than `late`: 2.5 times the mean, or 1.4 times what next to all answers of its
//!   kind are quicker than, whichever is less; never under 20 ms.
//! - *Expected under way* is what would be under way if each call took as long as its kind does: one for each that was sent, which
//!   fades with the mean time. A burst and a change of the mix explain themselves by it; a service that slows down does not.
//! - The first answers of a new kind are its quickest. So its mean is first the time that all of its calls have spent, those
//!   under way included, divided by the answers. With fewer than ten answers nothing is known, and nothing is ever overdue.

mod learned;
mod registry;

use core::time::Duration;

pub(crate) use registry::Classes;

use crate::{
    Time,
    breaker::{Breaker, State},
    in_flight::logs::{exp, log2, natural},
    latency::Latency,
    patience::Patience,
    time::nanos,
};

/// Answers until anything is known, and until a class is not young any more.
const FEWEST: f64 = 10.0;
const GROWN_UP: f64 = 100.0;
/// For how long a class is young at least, in nanoseconds.
const YOUNG: u64 = 2_000_000_000;
/// So many answers between two looks are enough to learn how they are spread; of more a sample is taken.
const SAMPLE: u32 = 32;
/// What is learned rests on the answers of so many seconds, within these bounds.
const MEMORY: f64 = 2.0;
const MEMORY_LEAST: f64 = 50.0;
const MEMORY_MOST: f64 = 1_000.0;
/// Nothing is late any sooner, in nanoseconds.
const SOONEST_LATE: f64 = 20e6;
/// Callers wait at least for so many service times, and for so long.
const USUAL: f64 = 3.0;
const LEAST_PATIENCE: f64 = 50e6;
/// All outcomes, in the unit of the share that were failures, of which each further outcome takes away a tenth.
const ALL: u32 = 1 << 16;
/// A class that was not asked for so long gives its place to another; the second is for one of which nothing is known.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_UNKNOWN: Duration = Duration::from_secs(10);
/// Outcomes count for so long when classes are compared.
const RECENT: Duration = Duration::from_secs(10);
/// The least that a class that hangs may have under way, and how often it is asked beyond that.
const LEAST_APART: f64 = 4.0;
const ASKED_EVERY: Duration = Duration::from_secs(2);
/// Once it answers again it may have e times as many under way after so many nanoseconds, and again.
const GROWS_IN: f64 = 0.3e9;
const SECOND: f64 = 1e9;

/// How one kind of call looks at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshot {
    /// Whose: what [`Arrival::class`](crate::Arrival::class) was told; 0 for all that came without, or too late for a class of
    /// their own.
    pub key: u64,
    /// Attempts under way.
    pub in_flight: u32,
    /// The most that was under way in health.
    pub peak: f64,
    /// Answers per second in health.
    pub rate: f64,
    /// The mean time to an answer, once known.
    pub mean: Option<Duration>,
    /// The median time to an answer, once known.
    pub p50: Option<Duration>,
    /// The 90th percentile of it, once known.
    pub p90: Option<Duration>,
    /// The age from which on an attempt is overdue, once known.
    pub late: Option<Duration>,
    /// How long its callers wait, as far as they have shown.
    pub patience: Duration,
    /// Its own breaker; closed where it needs none.
    pub breaker: State,
    /// Whether it is held apart, because it alone does not answer.
    pub in_trouble: bool,
}

/// One kind of call. See the [module](self). Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) key: u64,
    /// How many were sent and are not under way any more, ever; and how many were sent by the last look.
    sent: u64,
    ended: u64,
    looked: u64,
    /// Since the last look: answered, and how long those took together.
    answers: u32,
    took: u64,
    /// Of a sample of them: how many, and sums of their logarithms. Every so manieth is in it, and the next one after so many.
    sampled: u32,
    logs: u64,
    squares: u64,
    stride: u32,
    sample_in: u32,
    /// Long calls whose callers left, and how long those waited.
    lingered: u32,
    waited: u64,
    /// The sum of the instants at which those under way were sent: wraps, and comes out right.
    starts: u64,
    /// Those under way that were sent before `mark`, and before the mark before it, which is at least `late` ago.
    mark: Time,
    old: u32,
    older_mark: Time,
    pub(crate) overdue: u32,
    born: Time,
    pub(crate) answered_at: Time,
    /// When the last of those was sent that were answered in time.
    newest: Time,
    /// Answers that what is learned rests on, at most as many as are remembered; and all of a young class, with their times.
    n: f64,
    young_took: f64,
    young: bool,
    pub(crate) log: f64,
    pub(crate) var: f64,
    learned: f64,
    /// The mean time that is believed now, 0 for unknown; when a call is late, never for unknown.
    pub(crate) mean: f64,
    pub(crate) late: u64,
    pub(crate) rate: f64,
    pace: f64,
    used: f64,
    pub(crate) peak: f64,
    /// What is expected to be under way.
    pub(crate) expected: f64,
    pub(crate) latency: Latency,
    left: Patience,
    /// How long its callers wait.
    pub(crate) patience: u64,
    /// What to add to the logarithm of its latency to compare it with other classes, in 65,536ths of a doubling; `None` while
    /// that is not known.
    pub(crate) offset: Option<i64>,
    /// The share of its outcomes that were failures of late, and when the last was.
    failing: u32,
    failed_at: Time,
    /// Whether it is neither held apart nor has a breaker of its own.
    calm: bool,
    /// Its own breaker, once it fails and others do not.
    pub(crate) breaker: Option<Box<Breaker>>,
    /// What is its own of a tight limit, by what it had under way in health.
    pub(crate) share: u32,
    /// Whether it is held apart; and, if so, since when it answers again.
    pub(crate) in_trouble: bool,
    healed_at: Option<Time>,
    /// When the last of its attempts was sent, within one look.
    pub(crate) sent_at: Time,
}

/// The other classes, as one of them sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Others {
    /// Their answers per second.
    pub(crate) rate: f64,
    /// When the last of their calls was sent that were answered in time.
    pub(crate) newest: Time,
}

impl Class {
    fn new(key: u64, now: Time) -> Self {
        Self {
            key,
            sent: 0,
            ended: 0,
            looked: 0,
            answers: 0,
            took: 0,
            sampled: 0,
            logs: 0,
            squares: 0,
            stride: 1,
            sample_in: 1,
            lingered: 0,
            waited: 0,
            starts: 0,
            mark: now,
            old: 0,
            older_mark: now,
            overdue: 0,
            born: now,
            answered_at: now,
            newest: Time::ZERO,
            n: 0.0,
            young_took: 0.0,
            young: true,
            log: 0.0,
            var: 0.0,
            learned: 0.0,
            mean: 0.0,
            late: u64::MAX,
            rate: 0.0,
            pace: 0.0,
            used: 0.0,
            peak: 0.0,
            expected: 0.0,
            latency: Latency::new(now),
            left: Patience::default(),
            patience: u64::MAX,
            offset: None,
            failing: 0,
            failed_at: Time::ZERO,
            calm: true,
            breaker: None,
            share: u32::MAX,
            in_trouble: false,
            healed_at: None,
            sent_at: Time::ZERO,
        }
    }

    /// Whether enough is known of it to say what is usual.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.late != u64::MAX
    }

    /// Whether what is known of it rests on enough answers.
    pub(crate) fn is_grown(&self) -> bool {
        !self.young
    }

    /// How many are under way by what is known: answers per second times how long they take.
    pub(crate) fn little(&self) -> f64 {
        self.rate * self.learned / SECOND
    }

    /// Attempts under way.
    #[inline]
    pub(crate) fn live(&self) -> u32 {
        (self.sent - self.ended) as u32
    }

    /// Attempts that were sent since the last look.
    fn sent_since(&self) -> u64 {
        self.sent - self.looked
    }

    /// Whether nothing of its own speaks against a call.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.calm
    }

    /// How many times as long as usual this is; once, while that is not known.
    pub(crate) fn times(&self, nanos: u64) -> f64 {
        if self.mean > 0.0 { nanos as f64 / self.mean } else { 1.0 }
    }

    /// An attempt goes out.
    #[inline]
    pub(crate) fn sends(&mut self, now: Time) {
        self.sent += 1;
        self.starts = self.starts.wrapping_add(now.as_nanos());
    }

    /// An attempt that was sent then is not under way any more.
    #[inline]
    pub(crate) fn ends(&mut self, sent_at: Time) {
        self.ended += 1;
        self.starts = self.starts.wrapping_sub(sent_at.as_nanos());
        if sent_at < self.mark {
            self.ends_old(sent_at);
        }
    }

    #[cold]
    fn ends_old(&mut self, sent_at: Time) {
        self.old = self.old.saturating_sub(1);
        if sent_at < self.older_mark {
            self.overdue = self.overdue.saturating_sub(1);
        }
    }

    /// The service did its work on what was sent then, and did it well or not. Whether there were failures of late.
    #[inline]
    pub(crate) fn answers(&mut self, now: Time, sent_at: Time, good: bool) -> bool {
        let took = now.nanos_since(sent_at);
        self.answers += 1;
        self.took = self.took.wrapping_add(took);
        self.answered_at = now;
        self.sample_in -= 1;
        if self.sample_in == 0 {
            self.sample(now, sent_at, good);
        }
        self.failing > 0 && self.recovers()
    }

    /// An attempt did not fail. True.
    #[cold]
    fn recovers(&mut self) -> bool {
        self.failing = self.failing * 9 / 10;
        true
    }

    /// How an answer that is in the sample compares with others.
    #[inline(never)]
    fn sample(&mut self, now: Time, sent_at: Time, good: bool) {
        let took = now.nanos_since(sent_at);
        let log = u64::from(log2(took));
        self.sampled += 1;
        self.logs += log;
        self.squares += log * log;
        if took < self.late {
            self.newest = self.newest.max(sent_at);
        }
        if good {
            self.latency.record(now, Duration::from_nanos(took));
        }
        // Not always the same distance, or a pattern in the traffic could hide between samples.
        let (most, drawn) = (2 * self.stride - 1, (took as u32).wrapping_mul(0x9e37_79b9));
        self.sample_in = 1 + ((u64::from(drawn) * u64::from(most)) >> 32) as u32;
    }

    /// Whether a call that was sent after this one was answered in time: then not the service is late, but this call is a long one.
    pub(crate) fn is_overtaken(&self, sent_at: Time) -> bool {
        self.newest > sent_at
    }

    /// How many that are under way are long: they are overdue, and a call that was sent after them was answered in time.
    pub(crate) fn overtaken(&self) -> u32 {
        if self.is_overtaken(self.older_mark) { self.overdue.min(self.live()) } else { 0 }
    }

    /// The caller of a long call left, while others are answered in time: such calls are under way for so long, too.
    #[cold]
    pub(crate) fn lingers(&mut self, age: u64) {
        self.lingered += 1;
        self.waited = self.waited.saturating_add(age);
    }

    /// Somebody who was early left: what was expected of its call is not expected any more.
    #[cold]
    pub(crate) fn forget(&mut self, age: u64) {
        if self.mean > 0.0 {
            self.expected = (self.expected - exp(-(age as f64) / self.mean)).max(0.0);
        }
    }

    /// A caller left so late, or took so late an answer, that it says how long callers wait.
    #[cold]
    pub(crate) fn learn_patience(&mut self, age: Duration) {
        self.left.learn(age);
    }

    /// Whether it is worth a look.
    #[inline]
    fn is_awake(&self) -> bool {
        self.live() > 0 || self.sent_since() > 0 || self.answers > 0 || self.expected > 0.01
    }

    /// Whether nothing of it is under way, and has not been for long; one of which nothing is known need not wait so long.
    fn is_idle(&self, now: Time) -> bool {
        let long = if self.is_known() { IDLE } else { IDLE_UNKNOWN };
        self.live() == 0 && now.since(self.answered_at) > long
    }

    /// Looks whether it alone does not answer: at least four of its calls are overdue, and nothing came back for as long as
    /// eight answers take, while others were answered twenty times and still are, and one of those that were sent after its own.
    /// Where answers come in the order of the calls, all wait for the same queue.
    pub(crate) fn part(&mut self, now: Time, replied_at: Time, others: Others, queued: bool) {
        let Others { rate: others, newest } = others;
        let silent = now.nanos_since(self.answered_at) as f64 / SECOND;
        let alone = now.nanos_since(replied_at) as f64 / SECOND < (10.0 / others).clamp(0.02, 0.2);
        let hangs = self.overdue >= 4 && silent > (8.0 / self.rate).max(0.2);
        if hangs && alone && others * silent >= 20.0 && newest > self.older_mark {
            self.in_trouble = true;
        } else if self.in_trouble && self.answered_at > self.older_mark {
            // Those who waited for it are let in as it can serve them, not all at once.
            let healed = *self.healed_at.get_or_insert(now);
            self.in_trouble = queued && now.since(healed) < ASKED_EVERY;
        }
        if !self.in_trouble || hangs {
            self.healed_at = None;
        }
        self.settle();
    }

    /// Gives it a breaker of its own, or takes it away.
    pub(crate) fn set_breaker(&mut self, breaker: Option<Box<Breaker>>) {
        self.breaker = breaker;
        self.settle();
    }

    fn settle(&mut self) {
        self.calm = !self.in_trouble && self.breaker.is_none();
    }

    /// While it hangs: as many as in health, and a lone call every two seconds. Once it answers again: more and more.
    pub(crate) fn has_room(&self, now: Time, ghosts: usize) -> bool {
        let healed = self.healed_at.map_or(0.0, |healed| now.nanos_since(healed) as f64);
        let most = (1.1 * self.peak + 2.0).max(LEAST_APART) * exp(healed / GROWS_IN);
        let held = self.live() as usize + ghosts;
        !self.in_trouble || held as f64 + 1.0 <= most || now.since(self.sent_at) >= ASKED_EVERY
    }

    /// How long its callers wait, where they wait so long at most, or as long as those of other classes.
    pub(crate) fn set_patience(&mut self, most: Duration, others: Duration) {
        let waits = self.left.learned().unwrap_or(others).min(most);
        let least = (USUAL * self.mean).max(LEAST_PATIENCE) as u64;
        self.patience = nanos(waits).max(least);
    }

    /// An attempt failed.
    #[cold]
    pub(crate) fn fails(&mut self, now: Time) {
        self.failed_at = now;
        self.failing = (self.failing * 9 + ALL) / 10;
    }

    /// Whether anything came of its calls of late.
    fn is_tried(&self, now: Time) -> bool {
        let is_late = |at: Time| now.since(at) > RECENT;
        self.answered_at > self.born && !is_late(self.answered_at)
            || self.failed_at > Time::ZERO && !is_late(self.failed_at)
    }

    /// Whether most of its outcomes are failures of late.
    pub(crate) fn is_failing(&self) -> bool {
        2 * self.failing > ALL
    }

    /// Whether there were failures of late.
    pub(crate) fn has_failed(&self) -> bool {
        20 * self.failing > ALL
    }

    fn snapshot(&mut self, now: Time) -> Snapshot {
        let known = self.is_known();
        let time = |nanos: f64| known.then(|| Duration::from_nanos(nanos as u64));
        Snapshot {
            key: self.key,
            in_flight: self.live(),
            peak: self.peak,
            rate: self.rate,
            mean: time(self.mean),
            p50: self.latency.p50(),
            p90: self.latency.p90(),
            late: time(self.late as f64),
            patience: Duration::from_nanos(self.patience),
            breaker: self.breaker.as_mut().map_or(State::Closed, |breaker| breaker.state(now)),
            in_trouble: self.in_trouble,
        }
    }
}

//! Breaker: stop asking an upstream that only fails, and notice quickly when it is back.
//!
//! **Why.** Calls to a dead upstream cost callers their patience and the upstream its recovery. Once half of
//! the recent calls failed, refusing at once is kinder to both. The art is in coming back: open for short,
//! drawn times so that a fleet does not probe in step, a few probes, then a short ramp.
//!
//! **How.** Closed lets traffic through and counts outcomes in a sliding window of fixed buckets, of time or of calls;
//! failures in a row and slow calls may count as well (see [`Spec`]). Open refuses until a drawn instant. Half-open lets
//! a few probes out as *leases*: a hung probe's lease expires, a cancelled one hands it back without a verdict. Every
//! change of state starts a new generation, and outcomes of an older one are ignored. Transitions are lazy,
//! but whoever looks sees them applied. A [`Mode`] says what all that means for traffic.
//!
//! ```
//! use quell_core::{Rng, Time, breaker::{Breaker, Spec, State}};
//!
//! let (mut rng, now) = (Rng::new(1), Time::ZERO);
//! let mut breaker = Breaker::new(Spec::default(), now)?;
//! for _ in 0..20 {
//!     let pass = breaker.take(now);
//!     breaker.judge(now, &pass, Some(false), &mut rng);
//! }
//! assert_eq!(breaker.state(now), State::Open);
//! assert_eq!(breaker.state(now + Spec::default().open), State::HalfOpen);
//! # Ok::<_, quell_core::breaker::Invalid>(())
//! ```

use core::time::Duration;

use crate::{Reason, Refusal, Rng, Time, time::nanos};

pub mod keyed;
mod mode;
mod probes;
pub mod record;
mod reload;
mod slow;
mod spec;
mod tally;

pub use keyed::Keyed;
pub use spec::{Invalid, Mode, Over, Spec};

use self::{mode::Control, probes::Probes, slow::Slow, tally::Tally};

/// The slot of what was sent although the machine would not have: whatever becomes of it changes nothing.
const OUTSIDE: u32 = u32::MAX;
/// Share of traffic admitted right after closing.
const RAMP_FROM: f64 = 0.2;

/// What a breaker shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Traffic passes.
    Closed,
    /// Traffic is refused.
    Open,
    /// A few probes pass.
    HalfOpen,
}

/// The right to send one attempt, bound to the generation that gave it.
#[must_use = "a pass that is not judged must be freed, or a probe's slot stays taken until its lease ends"]
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Pass {
    generation: u32,
    /// A probe's ticket, or that of a call that is watched while it runs. As wide as the generation: a pass is moved
    /// with every permit, and padding is moved byte by byte.
    slot: u32,
    sent_at: Time,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum Inner {
    /// Closed, enforced, and with nothing to look at but failures over time: the usual path.
    Calm,
    Closed {
        ramp_from: Option<Time>,
    },
    Open {
        until: Time,
    },
    HalfOpen(Probes),
}

/// See the [module](self).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Breaker {
    spec: Spec,
    inner: Inner,
    generation: u32,
    failures: Tally,
    /// Failures since the last success.
    in_a_row: u32,
    slow: Option<Box<Slow>>,
    /// How long it is open at most, next time.
    open_for: Duration,
    /// Returns that failed since it was closed.
    failed_returns: u32,
    control: Control,
    /// Drawn ahead, for when it opens because time has passed and nobody brought a generator.
    drawn: Option<u64>,
    /// It opened because time has passed, and nobody was told yet.
    untold: Option<State>,
}

/// What is left of a second pass for the same attempt: when that was sent is known already.
#[derive(Debug)]
pub(crate) struct Stub {
    generation: u32,
    slot: u32,
}

impl Stub {
    /// Of no breaker.
    pub(crate) const NONE: Self = Self { generation: u32::MAX, slot: 0 };

    /// Whether a breaker gave it.
    #[inline]
    pub(crate) const fn is_some(&self) -> bool {
        self.generation != u32::MAX
    }

    /// The pass, for an attempt that was sent then.
    pub(crate) const fn pass(&self, sent_at: Time) -> Pass {
        Pass { generation: self.generation, slot: self.slot, sent_at }
    }
}

impl Pass {
    pub(crate) fn stub(self) -> Stub {
        Stub { generation: self.generation, slot: self.slot }
    }

    /// The work on its attempt begins only now.
    pub(crate) fn begins(&mut self, now: Time) {
        self.sent_at = now;
    }

    /// When its attempt was sent.
    #[inline]
    pub const fn sent_at(&self) -> Time {
        self.sent_at
    }
}

impl Breaker {
    /// A closed breaker.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        spec.check()?;
        Ok(Self::fresh(spec, now))
    }

    /// Of a spec that is known to be valid.
    fn fresh(spec: Spec, now: Time) -> Self {
        let mut breaker = Self {
            spec,
            inner: Inner::Closed { ramp_from: None },
            generation: 0,
            failures: Tally::new(&spec, now),
            in_a_row: 0,
            slow: Slow::new(&spec, now),
            open_for: spec.open,
            failed_returns: 0,
            control: Control::default(),
            drawn: None,
            untold: None,
        };
        breaker.apply(now, spec.mode, None);
        breaker
    }

    /// As it was written.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The state as it applies now; in report mode, as it would apply.
    pub fn state(&mut self, now: Time) -> State {
        self.settle(now);
        match self.inner {
            Inner::Calm | Inner::Closed { .. } => State::Closed,
            Inner::Open { .. } => State::Open,
            Inner::HalfOpen(_) => State::HalfOpen,
        }
    }

    /// Whether every attempt may pass, and nothing but failures over time is looked at: so it is almost always.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.inner, Inner::Calm)
    }

    /// Looks whether an attempt may pass, without taking anything. Probes are first attempts only.
    #[inline]
    pub fn check(&mut self, now: Time, first: bool, rng: &mut Rng) -> Result<State, Refusal> {
        if self.is_calm() {
            return Ok(State::Closed);
        }
        self.check_closely(now, first, rng)
    }

    /// Takes what [`Breaker::check`] has just allowed.
    #[inline]
    pub fn take(&mut self, now: Time) -> Pass {
        let slot = if self.is_calm() { 0 } else { self.take_closely(now) };
        Pass { slot, ..self.take_calmly(now) }
    }

    /// The same while it [is calm](Breaker::is_calm).
    #[inline]
    pub(crate) fn take_calmly(&self, now: Time) -> Pass {
        Pass { generation: self.generation, slot: 0, sent_at: now }
    }

    /// What became of an attempt: `Some(true)` good, `Some(false)` bad, `None` says nothing of the upstream.
    /// Answers with the new state if this changed it, or if it opened by itself since.
    #[inline]
    pub fn judge(
        &mut self,
        now: Time,
        pass: &Pass,
        good: Option<bool>,
        rng: &mut Rng,
    ) -> Option<State> {
        if !self.is_calm() {
            return self.judge_closely(now, pass, good, rng);
        }
        let good = good?;
        if pass.generation != self.generation {
            return None; // the verdict on an upstream of the past
        }
        let window = &mut self.failures.window;
        window.add(now, good);
        if window.bad() > 0 && self.failures.reaches(self.spec.min_calls, self.spec.failure_rate) {
            return Some(self.open(now, rng));
        }
        None
    }

    /// Hands a probe's slot back without a verdict. Harmless for any other pass, and the second time.
    #[inline]
    pub fn free(&mut self, now: Time, pass: &Pass) {
        if !self.is_calm() {
            self.free_closely(now, pass);
        }
    }

    /// When something may change by itself: the end of the open time, of the ramp or of a mode, or a running call becomes
    /// slow.
    pub fn next_change(&self) -> Option<Time> {
        let machine = match self.inner {
            Inner::Open { until } => (until != Time::MAX).then_some(until),
            Inner::Closed { ramp_from: Some(from) } => Some(from + self.spec.ramp),
            Inner::Calm | Inner::Closed { .. } | Inner::HalfOpen(_) => None,
        };
        let slow = self.slow.as_ref().and_then(|slow| slow.next());
        [machine, slow, self.control.until].into_iter().flatten().min()
    }

    /// That it opened because calls have been running for too long, told once.
    pub fn opened_by_itself(&mut self) -> Option<State> {
        self.untold.take()
    }

    /// Whether this is one of the probes that are out, or went out beside them.
    #[cfg(test)]
    pub(crate) fn is_probe_out(&self, now: Time, pass: &Pass) -> bool {
        let Inner::HalfOpen(probes) = &self.inner else { return false };
        pass.generation == self.generation
            && (pass.slot == OUTSIDE || probes.is_out(now, pass.slot))
    }

    /// Whether a fresh one in the same mode would be as good, provided that nothing is under way.
    fn is_as_new(&self, now: Time) -> bool {
        let is_closed = match self.inner {
            Inner::Calm | Inner::Closed { ramp_from: None } => true,
            Inner::Closed { ramp_from: Some(from) } => now >= from + self.spec.ramp,
            Inner::Open { .. } | Inner::HalfOpen(_) => false,
        };
        is_closed
            && self.failures.is_empty(now)
            && (self.spec.consecutive == 0 || self.in_a_row == 0)
            && self.slow.as_ref().is_none_or(|slow| slow.is_empty(now))
            && self.untold.is_none()
    }

    #[cold]
    fn check_closely(&mut self, now: Time, first: bool, rng: &mut Rng) -> Result<State, Refusal> {
        self.settle(now);
        self.draw_ahead(rng);
        let decided = self.decide(now, first, rng);
        self.control.applies(decided)
    }

    fn decide(&self, now: Time, first: bool, rng: &mut Rng) -> Result<State, Refusal> {
        match &self.inner {
            Inner::Calm | Inner::Closed { ramp_from: None } => Ok(State::Closed),
            Inner::Closed { ramp_from: Some(from) } => {
                let passed = now.nanos_since(*from) as f64 / nanos(self.spec.ramp) as f64;
                if rng.unit() < RAMP_FROM + (1.0 - RAMP_FROM) * passed {
                    Ok(State::Closed)
                } else {
                    Err(Refusal { reason: Reason::BreakerOpen, retry_at: *from + self.spec.ramp })
                }
            }
            Inner::Open { until: Time::MAX } => {
                Err(Refusal { reason: Reason::BreakerOpen, retry_at: now + self.spec.open })
            }
            Inner::Open { until } => Err(Refusal { reason: Reason::BreakerOpen, retry_at: *until }),
            Inner::HalfOpen(probes) => {
                let soonest = probes.soonest(self.spec.probes);
                if !first {
                    Err(Refusal { reason: Reason::BreakerOpen, retry_at: now + self.spec.open })
                } else if soonest > now {
                    Err(Refusal { reason: Reason::ProbeLimit, retry_at: soonest })
                } else {
                    Ok(State::HalfOpen)
                }
            }
        }
    }

    /// A slot and not a pass, so that the usual path makes its own in registers.
    #[cold]
    fn take_closely(&mut self, now: Time) -> u32 {
        if self.control.is_outside() {
            return OUTSIDE;
        }
        match &mut self.inner {
            Inner::HalfOpen(probes) => {
                probes.take(self.spec.probes, now, now + self.spec.open).unwrap_or(OUTSIDE)
            }
            Inner::Closed { .. } => self.slow.as_mut().map_or(0, |slow| slow.start(now)),
            Inner::Calm | Inner::Open { .. } => 0,
        }
    }

    #[cold]
    fn judge_closely(
        &mut self,
        now: Time,
        pass: &Pass,
        good: Option<bool>,
        rng: &mut Rng,
    ) -> Option<State> {
        self.settle(now);
        self.draw_ahead(rng);
        let changed = if pass.generation != self.generation || pass.slot == OUTSIDE {
            None // the verdict on an upstream of the past, or on what should not have been sent
        } else if matches!(self.inner, Inner::HalfOpen(_)) {
            self.judge_probe(now, pass, good, rng)
        } else {
            self.count(now, pass, good);
            // An outcome that says nothing is no occasion to judge what was said before.
            (good.is_some() && self.is_failing(now)).then(|| self.open(now, rng))
        };
        let untold = self.untold.take();
        changed.or(untold)
    }

    fn judge_probe(
        &mut self,
        now: Time,
        pass: &Pass,
        good: Option<bool>,
        rng: &mut Rng,
    ) -> Option<State> {
        let took = now.nanos_since(pass.sent_at);
        let is_slow = self.slow.as_ref().is_some_and(|slow| slow.is_slow(took));
        let Inner::HalfOpen(probes) = &mut self.inner else { return None };
        match good {
            Some(true) if !is_slow => probes.successes += 1,
            Some(_) => probes.failures += 1,
            None => {}
        }
        if probes.failures >= self.spec.failures {
            return Some(self.open(now, rng));
        }
        if probes.successes >= self.spec.successes {
            return Some(self.close(now));
        }
        self.free_slot(pass);
        None
    }

    /// Counts a call while closed.
    fn count(&mut self, now: Time, pass: &Pass, good: Option<bool>) {
        let (Some(good), Inner::Closed { .. }) = (good, &self.inner) else {
            return self.free_slot(pass);
        };
        if let Some(slow) = &mut self.slow {
            slow.ended(now, pass.slot, now.nanos_since(pass.sent_at));
        }
        self.failures.add(now, good);
        self.in_a_row = if good { 0 } else { self.in_a_row.saturating_add(1) };
    }

    #[cold]
    fn free_closely(&mut self, now: Time, pass: &Pass) {
        self.settle(now); // it may have become slow before it left
        if pass.generation == self.generation {
            self.free_slot(pass);
        }
    }

    fn free_slot(&mut self, pass: &Pass) {
        match (&mut self.inner, &mut self.slow) {
            (Inner::HalfOpen(probes), _) => probes.free(pass.slot),
            (Inner::Closed { .. }, Some(slow)) => slow.left(pass.slot),
            _ => {}
        }
    }

    /// Only what the windows still see counts, whatever came before: a forced mode may have ended, or a reload lowered a
    /// threshold, long after anything was counted.
    fn is_failing(&mut self, now: Time) -> bool {
        let spec = &self.spec;
        self.failures.forget(now);
        matches!(self.inner, Inner::Closed { .. })
            && self.control.may_open()
            && (self.failures.reaches(spec.min_calls, spec.failure_rate)
                || (spec.consecutive > 0 && self.in_a_row >= spec.consecutive)
                || self.slow.as_mut().is_some_and(|slow| slow.is_too_much(spec, now)))
    }

    /// Drawn from half the time to all of it, so that a fleet does not come back in step.
    #[cold]
    fn open(&mut self, now: Time, rng: &mut Rng) -> State {
        if matches!(self.inner, Inner::HalfOpen(_)) {
            self.failed_returns = self.failed_returns.saturating_add(1);
            if self.failed_returns >= self.spec.growth_after {
                self.open_for = self.spec.grown(self.open_for);
            }
        }
        let half = self.open_for / 2;
        self.enter(Inner::Open { until: now + half + rng.up_to(half) });
        State::Open
    }

    #[cold]
    fn close(&mut self, now: Time) -> State {
        self.restart(now, (!self.spec.ramp.is_zero()).then_some(now));
        State::Closed
    }

    /// Closed, with nothing against the upstream.
    fn restart(&mut self, now: Time, ramp_from: Option<Time>) {
        self.failures = Tally::new(&self.spec, now);
        self.slow = Slow::new(&self.spec, now);
        self.in_a_row = 0;
        self.failed_returns = 0;
        self.open_for = self.spec.open;
        self.enter(self.closed(ramp_from));
    }

    fn settle(&mut self, now: Time) {
        if self.control.until.is_some_and(|until| now >= until) {
            self.apply(now, self.spec.mode, None);
        }
        match self.inner {
            Inner::Open { until } if now >= until && self.control.mode != Mode::ForcedOpen => {
                self.enter(Inner::HalfOpen(Probes::none()));
            }
            // The same generation goes on: only the share that is admitted changes.
            Inner::Closed { ramp_from: Some(from) } if now >= from + self.spec.ramp => {
                self.inner = self.closed(None);
            }
            _ => {}
        }
        if matches!(self.inner, Inner::Closed { .. })
            && self.slow.as_mut().is_some_and(|slow| slow.catch_up(now))
            && self.is_failing(now)
        {
            let half = nanos(self.open_for / 2);
            let share = self.drawn.take().unwrap_or(u64::MAX);
            let spread = (u128::from(share) * (u128::from(half) + 1)) >> 64;
            self.enter(Inner::Open { until: now + Duration::from_nanos(half + spread as u64) });
            self.untold = Some(State::Open);
        }
    }

    fn draw_ahead(&mut self, rng: &mut Rng) {
        if self.slow.is_some() && self.drawn.is_none() {
            self.drawn = Some(rng.next_u64());
        }
    }

    /// Closed, in the form that tells the usual path whether there is something to look at.
    fn closed(&self, ramp_from: Option<Time>) -> Inner {
        let is_plain = self.spec.over == Over::Time
            && self.spec.consecutive == 0
            && self.spec.slow.is_none()
            && self.control.mode == Mode::Enforce;
        if is_plain && ramp_from.is_none() { Inner::Calm } else { Inner::Closed { ramp_from } }
    }

    fn enter(&mut self, inner: Inner) {
        self.generation = self.generation.wrapping_add(1);
        self.inner = inner;
    }
}

#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

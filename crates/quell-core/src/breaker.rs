//! Breaker: stop asking an upstream that only fails, and notice quickly when it is back.
//!
//! **Why.** Calls to a dead upstream cost callers their patience and the upstream its recovery. Once half of
//! the recent calls failed, refusing at once is kinder to both. The art is in coming back: open for short,
//! drawn times so that a fleet does not probe in step, a few probes, then a short ramp.
//!
//! **How.** Closed lets traffic through and counts outcomes in a sliding window of fixed buckets. Open
//! refuses until a drawn instant. Half-open lets a few probes out as *leases*: a hung probe's lease expires,
//! a cancelled one hands it back without a verdict. Every change of state starts a new generation, and
//! outcomes of an older one are ignored. Transitions are lazy, but whoever looks sees them applied.
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

use crate::{Reason, Refusal, Rng, Time, time::nanos, window::Window};

/// Most probes that can be out at once.
const MAX_PROBES: usize = 16;

/// A breaker as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// How far back outcomes count.
    pub window: Duration,
    /// Fewer calls than this in the window prove nothing.
    pub min_calls: u32,
    /// Share of failures at which it opens.
    pub failure_rate: f64,
    /// Longest time it stays open before it probes; drawn from half of it to all of it.
    pub open: Duration,
    /// Probes that may be out at once.
    pub probes: u8,
    /// Successful probes that close it.
    pub successes: u32,
    /// After closing, the admitted share rises to all of it over this long.
    pub ramp: Duration,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            min_calls: 20,
            failure_rate: 0.5,
            open: Duration::from_millis(500),
            probes: 3,
            successes: 2,
            ramp: Duration::from_millis(250),
        }
    }
}

/// Share of traffic admitted right after closing.
const RAMP_FROM: f64 = 0.2;

/// Why a [`Spec`] is not a breaker. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Too short to be cut into buckets.
    #[error("breaker.window is {0:?}: write at least \"1ms\", such as \"10s\"")]
    Window(Duration),
    /// One failure would open it.
    #[error("breaker.min_calls is 0: write at least 1, such as 20")]
    MinCalls,
    /// Never or always open, or not a number.
    #[error("breaker.failure_rate is {0}: write a share above 0 and up to 1, such as 0.5")]
    FailureRate(f64),
    /// It would never be open.
    #[error("breaker.open is 0s: write a duration such as \"500ms\"")]
    Open,
    /// It would never close again.
    #[error("breaker.probes is {0}: write a number from 1 to 16, such as 3")]
    Probes(u8),
    /// It would close without proof.
    #[error("breaker.successes is 0: write at least 1, such as 2")]
    Successes,
}

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
pub struct Pass {
    generation: u32,
    /// As wide as the generation: a pass is moved with every permit, and padding is moved byte by byte.
    slot: u32,
    /// The end of a probe's lease; zero for ordinary traffic.
    lease: Time,
}

#[derive(Debug)]
enum Inner {
    Closed { ramp_from: Option<Time> },
    Open { until: Time },
    HalfOpen { leases: [Time; MAX_PROBES], successes: u32 },
}

/// See the [module](self).
#[derive(Debug)]
pub struct Breaker {
    spec: Spec,
    inner: Inner,
    generation: u32,
    window: Window,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(spec: Spec, now: Time) -> Result<Self, Invalid> {
        if spec.window < Duration::from_millis(1) {
            return Err(Invalid::Window(spec.window));
        }
        if spec.min_calls == 0 {
            return Err(Invalid::MinCalls);
        }
        if !(spec.failure_rate > 0.0 && spec.failure_rate <= 1.0) {
            return Err(Invalid::FailureRate(spec.failure_rate));
        }
        if spec.open.is_zero() {
            return Err(Invalid::Open);
        }
        if !(1..=MAX_PROBES as u8).contains(&spec.probes) {
            return Err(Invalid::Probes(spec.probes));
        }
        if spec.successes == 0 {
            return Err(Invalid::Successes);
        }
        let window = Window::new(spec.window, now);
        Ok(Self { spec, inner: Inner::Closed { ramp_from: None }, generation: 0, window })
    }

    /// The state as it applies now.
    pub fn state(&mut self, now: Time) -> State {
        self.settle(now);
        match self.inner {
            Inner::Closed { .. } => State::Closed,
            Inner::Open { .. } => State::Open,
            Inner::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Looks whether an attempt may pass, without taking anything. Probes are first attempts only.
    #[inline]
    pub fn check(&mut self, now: Time, first: bool, rng: &mut Rng) -> Result<State, Refusal> {
        if let Inner::Closed { ramp_from: None } = self.inner {
            return Ok(State::Closed);
        }
        self.check_disturbed(now, first, rng)
    }

    #[cold]
    fn check_disturbed(&mut self, now: Time, first: bool, rng: &mut Rng) -> Result<State, Refusal> {
        self.settle(now);
        match self.inner {
            Inner::Closed { ramp_from: None } => Ok(State::Closed),
            Inner::Closed { ramp_from: Some(from) } => {
                let passed = now.nanos_since(from) as f64 / nanos(self.spec.ramp) as f64;
                if rng.unit() < RAMP_FROM + (1.0 - RAMP_FROM) * passed {
                    Ok(State::Closed)
                } else {
                    Err(Refusal { reason: Reason::BreakerOpen, retry_at: from + self.spec.ramp })
                }
            }
            Inner::Open { until } => Err(Refusal { reason: Reason::BreakerOpen, retry_at: until }),
            Inner::HalfOpen { leases, .. } => {
                let leases = &leases[..usize::from(self.spec.probes)];
                let soonest = leases.iter().copied().min().unwrap_or(now);
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

    /// Takes what [`Breaker::check`] has just allowed.
    #[inline]
    pub fn take(&mut self, now: Time) -> Pass {
        let (slot, lease) = match self.inner {
            Inner::HalfOpen { .. } => self.take_lease(now),
            _ => (0, Time::ZERO),
        };
        Pass { generation: self.generation, slot, lease }
    }

    #[cold]
    fn take_lease(&mut self, now: Time) -> (u32, Time) {
        let Inner::HalfOpen { leases, .. } = &mut self.inner else { return (0, Time::ZERO) };
        let Some(slot) = leases.iter().position(|&lease| lease <= now) else {
            return (0, Time::ZERO);
        };
        leases[slot] = now + self.spec.open;
        (slot as u32, leases[slot])
    }

    /// What became of an attempt: `Some(true)` good, `Some(false)` bad, `None` says nothing of the upstream.
    /// Answers with the new state if this changed it.
    #[inline]
    pub fn judge(
        &mut self,
        now: Time,
        pass: &Pass,
        good: Option<bool>,
        rng: &mut Rng,
    ) -> Option<State> {
        if pass.generation != self.generation {
            return None; // the verdict on an upstream of the past
        }
        match (&mut self.inner, good) {
            (Inner::Closed { .. }, Some(good)) => {
                self.window.add(now, good);
                if self.window.bad() > 0 && self.is_failing() {
                    return Some(self.open(now, rng));
                }
                None
            }
            (Inner::HalfOpen { .. }, Some(false)) => Some(self.open(now, rng)),
            (Inner::HalfOpen { successes, .. }, Some(true)) => {
                *successes += 1;
                if *successes >= self.spec.successes {
                    return Some(self.close(now));
                }
                self.free(pass);
                None
            }
            _ => {
                self.free(pass);
                None
            }
        }
    }

    /// Hands a probe's slot back without a verdict. Harmless for any other pass, and the second time.
    #[inline]
    pub fn free(&mut self, pass: &Pass) {
        if pass.lease != Time::ZERO
            && pass.generation == self.generation
            && let Inner::HalfOpen { leases, .. } = &mut self.inner
            && leases[pass.slot as usize] == pass.lease
        {
            leases[pass.slot as usize] = Time::ZERO;
        }
    }

    /// When something changes by itself: the end of the open time or of the ramp.
    pub fn next_change(&self) -> Option<Time> {
        match self.inner {
            Inner::Open { until } => Some(until),
            Inner::Closed { ramp_from } => ramp_from.map(|from| from + self.spec.ramp),
            Inner::HalfOpen { .. } => None,
        }
    }

    fn is_failing(&self) -> bool {
        let total = self.window.total();
        total >= u64::from(self.spec.min_calls)
            && self.window.bad() as f64 >= self.spec.failure_rate * total as f64
    }

    /// Drawn from half the time to all of it, so that a fleet does not come back in step.
    #[cold]
    fn open(&mut self, now: Time, rng: &mut Rng) -> State {
        let half = self.spec.open / 2;
        self.enter(Inner::Open { until: now + half + rng.up_to(half) });
        State::Open
    }

    #[cold]
    fn close(&mut self, now: Time) -> State {
        self.window = Window::new(self.spec.window, now);
        let ramp_from = (!self.spec.ramp.is_zero()).then_some(now);
        self.enter(Inner::Closed { ramp_from });
        State::Closed
    }

    fn settle(&mut self, now: Time) {
        match self.inner {
            Inner::Open { until } if now >= until => {
                self.enter(Inner::HalfOpen { leases: [Time::ZERO; MAX_PROBES], successes: 0 });
            }
            // The same generation goes on: only the share that is admitted changes.
            Inner::Closed { ramp_from: Some(from) } if now >= from + self.spec.ramp => {
                self.inner = Inner::Closed { ramp_from: None };
            }
            _ => {}
        }
    }

    fn enter(&mut self, inner: Inner) {
        self.generation = self.generation.wrapping_add(1);
        self.inner = inner;
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;

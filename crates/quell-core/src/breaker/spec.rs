//! Spec: a breaker as people write it, its presets, and what is wrong with it.
//!
//! **Why.** Which evidence opens a breaker is a matter of taste and of traffic: a rate needs many calls, a run of
//! failures needs few, and an upstream that only became slow fails neither. So the rules combine, each can be
//! left out, and the sets of numbers that people already know come as presets.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::breaker::Spec;
//!
//! let longest = Spec::classic().added_recovery(Duration::from_millis(100));
//! assert_eq!(longest, Duration::from_millis(30_100)); // `check` prints what a setting costs
//! ```

use core::time::Duration;

use super::record::{self, Record};
use crate::time::nanos;

/// Most probes that can be out at once.
pub(super) const MAX_PROBES: usize = 16;
/// Most calls that a count window looks back on.
pub(super) const MAX_CALLS: u32 = 4_096;

/// What the failure rate and the slow-call rate are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// The calls of the last `window`.
    Time,
    /// The last so many calls, however long ago.
    Calls(u32),
    /// Both, each by itself: whichever says so first opens it.
    Either(u32),
    /// Rates are not looked at; failures in a row are.
    Off,
}

impl Over {
    pub(super) const fn is_timed(self) -> bool {
        matches!(self, Self::Time | Self::Either(_))
    }

    pub(super) const fn calls(self) -> Option<u32> {
        match self {
            Self::Calls(calls) | Self::Either(calls) => Some(calls),
            Self::Time | Self::Off => None,
        }
    }
}

/// What a breaker's decisions mean for traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// They apply.
    #[default]
    Enforce,
    /// They are made and counted, and change nothing.
    Report,
    /// None are made.
    Disabled,
    /// Everything is refused; whatever comes after it starts with probes.
    ForcedOpen,
    /// Everything passes and is counted, so that the next outcome after it decides on what was seen meanwhile.
    ForcedClosed,
}

/// A breaker as written in a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Whether its decisions apply.
    pub mode: Mode,
    /// What the rates are taken over.
    pub over: Over,
    /// How far back outcomes count, where rates are taken over time.
    pub window: Duration,
    /// Fewer calls than this prove nothing.
    pub min_calls: u32,
    /// Share of failures at which it opens.
    pub failure_rate: f64,
    /// A call that takes this long is slow, and counts as soon as it has been running for so long.
    pub slow: Option<Duration>,
    /// Share of slow calls at which it opens.
    pub slow_rate: f64,
    /// Failures in a row at which it opens; 0 if that does not matter.
    pub consecutive: u32,
    /// Longest time it stays open before it probes; drawn from half of it to all of it.
    pub open: Duration,
    /// By how much the open time grows with every failed return; 1 if it does not.
    pub growth: f64,
    /// Failed returns from which on it grows.
    pub growth_after: u32,
    /// What the open time grows to at most.
    pub open_max: Duration,
    /// Probes that may be out at once.
    pub probes: u8,
    /// Successful probes that close it.
    pub successes: u32,
    /// Failed probes that open it again.
    pub failures: u32,
    /// After closing, the admitted share rises to all of it over this long; zero admits all at once.
    pub ramp: Duration,
    /// Which failures it counts, where that is not left to the outcome itself.
    pub record: Record,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            over: Over::Time,
            window: Duration::from_secs(10),
            min_calls: 20,
            failure_rate: 0.5,
            slow: None,
            slow_rate: 0.8,
            consecutive: 0,
            open: Duration::from_millis(500),
            growth: 1.0,
            growth_after: 5,
            open_max: Duration::from_secs(10),
            probes: 3,
            successes: 2,
            failures: 1,
            ramp: Duration::from_millis(250),
            record: Record::default(),
        }
    }
}

impl Spec {
    /// The numbers that many services carry: half of at least 10 calls in 30 s, or 80 % slower than 2 s; open for
    /// 30 s; of 5 probes the majority decides, which is the same rate.
    pub fn classic() -> Self {
        Self {
            window: Duration::from_secs(30),
            min_calls: 10,
            slow: Some(Duration::from_secs(2)),
            open: Duration::from_secs(30),
            probes: 5,
            successes: 3,
            failures: 3,
            ramp: Duration::ZERO,
            ..Self::default()
        }
    }

    /// [`Spec::classic`] for an upstream that hangs: 30 % failures or half slower than 3 s; open for 20 s; 2 bad probes
    /// of 5 are 40 % and open it again.
    pub fn hardened() -> Self {
        Self {
            failure_rate: 0.3,
            slow: Some(Duration::from_secs(3)),
            slow_rate: 0.5,
            open: Duration::from_secs(20),
            successes: 4,
            failures: 2,
            ..Self::classic()
        }
    }

    /// Five failures in a row open it for 30 s; three successes among three concurrent probes close it.
    pub fn consecutive() -> Self {
        Self {
            over: Over::Off,
            consecutive: 5,
            open: Duration::from_secs(30),
            successes: 3,
            ramp: Duration::ZERO,
            ..Self::default()
        }
    }

    /// The longest time these settings add to a recovery, for an upstream that answers within `reply` again: it comes back
    /// just after a probe has failed, so one whole open time passes, then the probes, then the ramp. Probes are
    /// callers: where nobody calls, nobody waits for it either.
    pub fn added_recovery(&self, reply: Duration) -> Duration {
        let rounds = self.successes.div_ceil(u32::from(self.probes).max(1));
        self.longest_open().saturating_add(reply.saturating_mul(rounds)).saturating_add(self.ramp)
    }

    /// The open time it can grow to.
    pub(super) fn longest_open(&self) -> Duration {
        if self.growth > 1.0 { self.open.max(self.open_max) } else { self.open }
    }

    /// The open time after one more failed return.
    pub(super) fn grown(&self, open: Duration) -> Duration {
        Duration::from_nanos((nanos(open) as f64 * self.growth) as u64).min(self.longest_open())
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), Invalid> {
        let is_share = |rate: f64| rate > 0.0 && rate <= 1.0; // NaN is none
        if self.over.is_timed() && self.window < Duration::from_millis(1) {
            return Err(Invalid::Window(self.window));
        }
        if self.min_calls == 0 {
            return Err(Invalid::MinCalls);
        }
        if let Some(calls) = self.over.calls()
            && !(self.min_calls..=MAX_CALLS).contains(&calls)
        {
            return Err(Invalid::Calls { calls, min_calls: self.min_calls });
        }
        if !is_share(self.failure_rate) {
            return Err(Invalid::FailureRate(self.failure_rate));
        }
        if self.slow == Some(Duration::ZERO) {
            return Err(Invalid::Slow);
        }
        if self.slow.is_some() && !is_share(self.slow_rate) {
            return Err(Invalid::SlowRate(self.slow_rate));
        }
        if self.over == Over::Off && (self.slow.is_some() || self.consecutive == 0) {
            return Err(Invalid::Over);
        }
        if self.open.is_zero() {
            return Err(Invalid::Open);
        }
        if !(1.0..=10.0).contains(&self.growth) {
            return Err(Invalid::Growth(self.growth));
        }
        if self.growth > 1.0 && self.open_max < self.open {
            return Err(Invalid::OpenMax { open_max: self.open_max, open: self.open });
        }
        if !(1..=MAX_PROBES as u8).contains(&self.probes) {
            return Err(Invalid::Probes(self.probes));
        }
        if self.successes == 0 {
            return Err(Invalid::Successes);
        }
        if self.failures == 0 {
            return Err(Invalid::Failures);
        }
        Ok(self.record.check()?)
    }
}

/// Why a [`Spec`] is not a breaker. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// Too short to be cut into buckets.
    #[error("breaker.window is {0:?}: write at least \"1ms\", such as \"10s\"")]
    Window(Duration),
    /// One failure would open it.
    #[error("breaker.min_calls is 0: write at least 1, such as 20")]
    MinCalls,
    /// Too few ever to prove anything, or more than are remembered.
    #[error(
        "breaker.calls is {calls}: write a number from min_calls, which is {min_calls}, to 4096, such as 100"
    )]
    Calls {
        /// As written.
        calls: u32,
        /// The least that proves anything.
        min_calls: u32,
    },
    /// Never or always open, or not a number.
    #[error("breaker.failure_rate is {0}: write a share above 0 and up to 1, such as 0.5")]
    FailureRate(f64),
    /// Every call would be slow.
    #[error("breaker.slow is 0s: leave it out, or write a duration such as \"2s\"")]
    Slow,
    /// Never or always open, or not a number.
    #[error("breaker.slow_rate is {0}: write a share above 0 and up to 1, such as 0.8")]
    SlowRate(f64),
    /// Nothing is left that could open it, or a rate is asked for over nothing.
    #[error(
        "breaker.over is \"off\": write consecutive = 5 and no slow, or \"time\" for rates, or mode = \"disabled\" for no breaker"
    )]
    Over,
    /// It would never be open.
    #[error("breaker.open is 0s: write a duration such as \"500ms\"")]
    Open,
    /// It would shrink, or leave all bounds at once.
    #[error("breaker.growth is {0}: write a factor from 1 (off) to 10, such as 2")]
    Growth(f64),
    /// It would shrink.
    #[error("breaker.open_max is {open_max:?}: write at least open, which is {open:?}")]
    OpenMax {
        /// As written.
        open_max: Duration,
        /// What it starts from.
        open: Duration,
    },
    /// It would never close again.
    #[error("breaker.probes is {0}: write a number from 1 to 16, such as 3")]
    Probes(u8),
    /// It would close without proof.
    #[error("breaker.successes is 0: write at least 1, such as 2")]
    Successes,
    /// It would open again without a reason.
    #[error("breaker.failures is 0: write at least 1, which is usual")]
    Failures,
    /// No key would have a breaker of its own, or more than can be kept.
    #[error("breaker.keys is {0}: write a number from 1 to 65536, such as 256")]
    Keys(usize),
    /// See [`record::Invalid`].
    #[error(transparent)]
    Record(#[from] record::Invalid),
}

//! Mode: whether what a control decides is obeyed.
//!
//! **Why.** A limit that nobody has tried yet is a risk of its own: set too low it refuses healthy traffic, and people find out
//! in production. In report mode a control decides and counts, and changes nothing. A day of that says what
//! it would have refused.
//!
//! **How.** Each control of an upstream has its [`Mode`]. In report mode it learns, estimates and tells as if it were obeyed, but
//! what it would refuse goes out all the same, at the expense of nobody: a retry is sent unpaid, an attempt goes beyond
//! the in-flight limit and waits in no queue, the rate limit takes no token that is not there, an endpoint that would be
//! ejected is asked like the others. The breaker has a few more [modes](crate::breaker::Mode).
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Admission, Ask, Time, Upstream, in_flight::Limit, mode::{Mode, Modes}, spec::UpstreamSpec};
//!
//! let modes = Modes { in_flight: Mode::Report, ..Modes::default() };
//! let spec = UpstreamSpec { in_flight: Limit::Fixed(1), modes, ..UpstreamSpec::library() };
//! let mut upstream = Upstream::new(spec, Duration::from_secs(5), 1, Time::ZERO)?;
//! for _ in 0..3 {
//!     assert!(matches!(upstream.admit(Time::ZERO, &Ask::first(Time::ZERO)), Admission::Go(_)));
//! }
//! assert_eq!(upstream.snapshot(Time::ZERO).would_refuse.in_flight, 2);
//! # Ok::<_, quell_core::spec::Invalid>(())
//! ```

use crate::breaker;

/// Whether what a control decides is obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// It is.
    #[default]
    Enforce,
    /// It is counted, and changes nothing.
    Report,
}

impl Mode {
    pub(crate) const fn is_report(self) -> bool {
        matches!(self, Self::Report)
    }
}

impl From<Mode> for breaker::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Self::Enforce,
            Mode::Report => Self::Report,
        }
    }
}

/// The mode of every control of an upstream but the breaker, which has its own in [`breaker::Spec::mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modes {
    /// Of the retry budget, and of those within it.
    pub budget: Mode,
    /// Of the in-flight limit and its queue.
    pub in_flight: Mode,
    /// Of the rate limit.
    pub rate_limit: Mode,
    /// Of the throttle.
    pub throttle: Mode,
    /// Of the ejection of endpoints.
    pub ejection: Mode,
}

impl Modes {
    /// All of them try themselves out.
    pub const REPORT: Self = Self {
        budget: Mode::Report,
        in_flight: Mode::Report,
        rate_limit: Mode::Report,
        throttle: Mode::Report,
        ejection: Mode::Report,
    };
}

/// What was done although a control in report mode spoke against it, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WouldRefuse {
    /// Retries and hedges that went out unpaid, or in spite of a budget below half.
    pub budget: u64,
    /// Attempts for which there was no slot: they would have been queued or refused.
    pub in_flight: u64,
    /// Attempts beyond the rate limit.
    pub rate_limit: u64,
    /// Attempts that the throttle would have spared the upstream.
    pub throttle: u64,
    /// Times that an endpoint would have been ejected.
    pub ejection: u64,
}

//! Control: who decides the limit.

use core::{fmt, time::Duration};

use quell_core::{Rng, Time, pace::Known};

use super::peers::{self, Netflix};
use crate::scenario::Scenario;

/// One answer, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) now: Time,
    pub(crate) sent_at: Time,
    pub(crate) took: Duration,
    /// Whether it was what was asked for.
    pub(crate) good: bool,
    /// Slots in use when it was sent, its own included.
    pub(crate) in_flight: u32,
    /// How long callers are believed to wait.
    pub(crate) patience: Duration,
    /// The upstream at its best of late.
    pub(crate) known: Option<Known>,
}

/// A rule for the in-flight limit, with what it knows.
pub(crate) trait Control: fmt::Debug {
    /// The upstream answered.
    fn answered(&mut self, seen: &Answered);
    /// A caller left at this age, or an attempt timed out.
    fn left(&mut self, now: Time, age: Duration, sent: bool);
    /// Somebody found no slot.
    fn pressed(&mut self, _now: Time) {}
    /// How many may be under way now.
    fn limit(&self) -> u32;
}

/// Rules that can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Knows the number of workers.
    Oracle,
    /// 256.
    Fixed,
    /// Netflix's AIMD.
    Aimd,
    /// Netflix's Vegas.
    Vegas,
    /// Netflix's Gradient2.
    Gradient2,
    /// The same, told of the mean of each second.
    Windowed,
    /// A gradient with probes for the least latency, as Envoy has it.
    Envoy,
    /// Peak rate × least latency.
    Bbr,
    /// Quell's former one: rate × half the patience, at most eight times rate × base.
    Former,
    /// Quell's own, as it ships.
    Ours,
}

impl Rule {
    /// All, the one that is told everything first.
    pub const ALL: [Self; 10] = [
        Self::Oracle,
        Self::Fixed,
        Self::Aimd,
        Self::Vegas,
        Self::Gradient2,
        Self::Windowed,
        Self::Envoy,
        Self::Bbr,
        Self::Former,
        Self::Ours,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Fixed => "fixed-256",
            Self::Aimd => "aimd",
            Self::Vegas => "vegas",
            Self::Gradient2 => "gradient2",
            Self::Windowed => "gradient2-windowed",
            Self::Envoy => "envoy",
            Self::Bbr => "bbr",
            Self::Former => "former",
            Self::Ours => "ours",
        }
    }

    /// Who decides in its place; Quell's own needs nobody.
    pub(crate) fn control(self, scenario: &Scenario, seed: u64) -> Option<Box<dyn Control>> {
        let rng = || Rng::stream(seed, 0, crate::PURPOSE_RULE);
        Some(match self {
            Self::Oracle => Box::new(peers::Fixed(scenario.service.workers)),
            Self::Fixed => Box::new(peers::Fixed(256)),
            Self::Aimd => Box::new(Netflix::new(peers::Aimd::default())),
            Self::Vegas => Box::new(Netflix::new(peers::Vegas::new(rng()))),
            Self::Gradient2 => Box::new(Netflix::new(peers::Gradient2::default())),
            Self::Windowed => {
                Box::new(Netflix::new(peers::Windowed::new(peers::Gradient2::default())))
            }
            Self::Envoy => Box::new(peers::Envoy::new(rng())),
            Self::Bbr => Box::new(peers::Bbr::default()),
            Self::Former => Box::new(peers::Former::default()),
            Self::Ours => return None,
        })
    }
}

//! Control: who decides the limit.

use core::{fmt, time::Duration};

use quell_core::{Rng, Time, breaker, in_flight::Limit, pace::Known};

use super::peers::{self, Netflix};
use crate::scenario::{Arrivals, Gateway, Kind, Scenario};

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

/// How busy the upstream is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// How many are under way, the one that it is about included.
    pub(crate) under_way: u32,
    /// Whether somebody waits for a slot.
    pub(crate) queued: bool,
}

/// What happened, as closely as Quell's own rule is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    /// The upstream did its work on what was sent then, for a caller who came `since` then.
    Served { since: Time, sent_at: Time, load: Load },
    /// Nobody waits any more for what was sent then.
    Left { sent_at: Time, load: Load },
    /// A caller who came then left without an answer.
    GaveUp { since: Time },
    /// Somebody found no slot, whatever became of it.
    Pressed,
    /// The breaker has opened or closed.
    Tripped,
}

/// A rule for the in-flight limit, with what it knows.
pub(crate) trait Control: fmt::Debug {
    /// The upstream answered.
    fn answered(&mut self, seen: &Answered);
    /// A caller left at this age, or an attempt timed out.
    fn left(&mut self, now: Time, age: Duration, sent: bool);
    /// Somebody found no slot.
    fn pressed(&mut self, _now: Time) {}
    /// Something happened: for rules that look closely. They are told all of it here.
    fn saw(&mut self, _now: Time, _seen: Seen) {}
    /// How many may be under way for one who is about to ask, where that is not what it was after the last step.
    fn before(&mut self, _now: Time, _under_way: u32) -> Option<u32> {
        None
    }
    /// How many may be under way after a step.
    fn after(&mut self, _now: Time) -> u32 {
        self.limit()
    }
    /// How many may be under way now.
    fn limit(&self) -> u32;
}

/// How many are always inside without a worker: whoever knows the workers knows them too.
fn waiting(scenario: &Scenario) -> u32 {
    let polls = scenario.kinds.iter().filter(|kind| kind.waits);
    let users = |kind: &Kind| match kind.arrivals {
        Arrivals::Closed { users, .. } => users,
        _ => (kind.load * kind.mean().as_secs_f64()).ceil() as u32,
    };
    polls.map(users).sum()
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
    /// Quell's own before it knew kinds of calls.
    Shipped,
    /// Quell's own, as it ships.
    Ours,
    /// None: Quell lets everything through at once.
    Off,
}

impl Rule {
    /// All, the one that is told everything first.
    pub const ALL: [Self; 12] = [
        Self::Oracle,
        Self::Fixed,
        Self::Aimd,
        Self::Vegas,
        Self::Gradient2,
        Self::Windowed,
        Self::Envoy,
        Self::Bbr,
        Self::Former,
        Self::Shipped,
        Self::Ours,
        Self::Off,
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
            Self::Shipped => "shipped-1",
            Self::Ours => "ours",
            Self::Off => "off",
        }
    }

    /// The gateway with this rule: all of it, but without a limit neither limit nor breaker.
    pub(crate) fn gateway(self, gateway: Gateway) -> Gateway {
        let mut gateway = gateway;
        if self == Self::Off {
            gateway.upstream.in_flight = Limit::Off;
            gateway.upstream.breaker.mode = breaker::Mode::Report;
        }
        gateway
    }

    /// Who decides in its place; Quell's own needs nobody.
    pub(crate) fn control(self, scenario: &Scenario, seed: u64) -> Option<Box<dyn Control>> {
        let rng = || Rng::stream(seed, 0, crate::PURPOSE_RULE);
        Some(match self {
            Self::Oracle => Box::new(peers::Fixed(scenario.service.workers + waiting(scenario))),
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
            Self::Shipped => {
                let policy = scenario.gateway.map(|gateway| gateway.policy);
                let per_try = policy.and_then(|policy| policy.per_try_timeout);
                Box::new(peers::Shipped::new(per_try.unwrap_or(Duration::from_secs(5))))
            }
            Self::Ours | Self::Off => return None,
        })
    }
}

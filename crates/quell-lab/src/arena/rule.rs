//! Rule: the rules that can be tried, by name.

use core::time::Duration;

use quell_core::{Rng, breaker, in_flight::Limit};
use quell_sim::{
    PURPOSE_RULE,
    control::Control,
    scenario::{Arrivals, Gateway, Kind, Scenario},
};

use super::peers::{self, Netflix};

/// Makes a rule that knows nothing yet.
pub(super) type Make = Box<dyn Fn() -> Box<dyn Control>>;

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
    pub(super) fn gateway(self, gateway: Gateway) -> Gateway {
        let mut gateway = gateway;
        if self == Self::Off {
            gateway.upstream.in_flight = Limit::Off;
            gateway.upstream.breaker.mode = breaker::Mode::Report;
        }
        gateway
    }

    /// Makes the rule that decides in place of Quell's; `None` where Quell decides itself.
    pub(super) fn maker(self, scenario: &Scenario, seed: u64) -> Option<Make> {
        let rng = move || Rng::stream(seed, 0, PURPOSE_RULE);
        Some(match self {
            Self::Oracle => {
                let known = scenario.service.workers + waiting(scenario);
                Box::new(move || Box::new(peers::Fixed(known)))
            }
            Self::Fixed => Box::new(|| Box::new(peers::Fixed(256))),
            Self::Aimd => Box::new(|| Box::new(Netflix::new(peers::Aimd::default()))),
            Self::Vegas => Box::new(move || Box::new(Netflix::new(peers::Vegas::new(rng())))),
            Self::Gradient2 => Box::new(|| Box::new(Netflix::new(peers::Gradient2::default()))),
            Self::Windowed => Box::new(|| {
                Box::new(Netflix::new(peers::Windowed::new(peers::Gradient2::default())))
            }),
            Self::Envoy => Box::new(move || Box::new(peers::Envoy::new(rng()))),
            Self::Bbr => Box::new(|| Box::new(peers::Bbr::default())),
            Self::Former => Box::new(|| Box::new(peers::Former::default())),
            Self::Shipped => {
                let policy = scenario.gateway.map(|gateway| gateway.policy);
                let per_try = policy.and_then(|policy| policy.per_try_timeout);
                let per_try = per_try.unwrap_or(Duration::from_secs(5));
                Box::new(move || Box::new(peers::Shipped::new(per_try)))
            }
            Self::Ours | Self::Off => return None,
        })
    }
}

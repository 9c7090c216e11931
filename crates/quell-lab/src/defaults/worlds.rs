//! The worlds that every candidate lives through.

use core::time::Duration;

use quell_core::spec::{PolicySpec, UpstreamSpec};

use quell_sim::{
    Scenario,
    dist::Dist,
    scenario::{Callers, Cold, Gateway, Outage, OutageKind, Service},
};

/// Requests per second, and what the service can do: five sixths of it are in use.
const LOAD: f64 = 600.0;
const WORKERS: u32 = 72;
const TIME: Duration = Duration::from_millis(100);
const INSTANCES: u32 = 4;
/// Calls per second of all instances, where there is little traffic.
const TRICKLE: f64 = 8.0;
/// The same, where there is next to none.
const DRIP: f64 = 4.0;

/// Where Quell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In each of the callers.
    Library,
    /// In front of the service. Its callers are naive in an outage, and try once in everything less.
    Gateway,
}

/// A policy and what its callers share.
pub type Specs = (PolicySpec, UpstreamSpec);

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Library, Self::Gateway];

    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Gateway => "gateway",
        }
    }

    /// What ships.
    pub fn specs(self) -> Specs {
        match self {
            Self::Library => (PolicySpec::library(), UpstreamSpec::library()),
            Self::Gateway => (PolicySpec::gateway(), UpstreamSpec::gateway()),
        }
    }
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Ten seconds in which everything fails at once.
    Fail,
    /// Ten seconds in which everything vanishes.
    Hole,
    /// Ten seconds in which nothing is worked on.
    Stall,
    /// A minute in which 30 % fail.
    Third,
    /// A minute in which 45 % fail.
    Half,
    /// A minute in which everything takes three times as long, which is more than the service can do.
    Slow,
    /// Ten seconds in which everything fails; then the service is twice as slow, and warms up over five seconds.
    Cold,
    /// Twenty seconds in which 5 % fail.
    Flaky,
    /// Twenty seconds in which everything fails for 150 ms of every two seconds.
    Blips,
    /// Forty seconds of health: times that vary, and one failure in a hundred.
    Healthy,
    /// Ten minutes of next to no traffic, of which 10 % fail.
    Drip,
    /// An outage of a minute with little traffic.
    Trickle,
}

impl World {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Fail,
        Self::Hole,
        Self::Stall,
        Self::Third,
        Self::Half,
        Self::Slow,
        Self::Cold,
        Self::Flaky,
        Self::Blips,
        Self::Healthy,
        Self::Drip,
        Self::Trickle,
    ];

    /// Whether everything is down.
    pub(super) const fn is_outage(self) -> bool {
        matches!(self, Self::Fail | Self::Hole | Self::Stall)
    }

    /// Whether a part still works.
    pub(super) const fn is_partial(self) -> bool {
        matches!(self, Self::Third | Self::Half | Self::Slow)
    }

    /// Whether nothing is wrong but noise.
    pub(super) const fn is_noise(self) -> bool {
        matches!(self, Self::Healthy | Self::Drip)
    }

    /// The world with these specs.
    pub fn scenario(self, side: Side, (policy, upstream): Specs) -> Scenario {
        let brownout = |share| OutageKind::Brownout { share };
        let (kind, length, watch) = match self {
            Self::Fail | Self::Cold => (OutageKind::Fail, 10, 40),
            Self::Hole => (OutageKind::Hole, 10, 40),
            Self::Stall => (OutageKind::Stall, 10, 40),
            Self::Third => (brownout(0.3), 60, 5),
            Self::Half => (brownout(0.45), 60, 5),
            Self::Slow => (OutageKind::Latency { factor: 3.0 }, 60, 5),
            Self::Flaky => (brownout(0.05), 20, 5),
            Self::Blips => (brownout(0.0), 20, 5),
            Self::Healthy => (brownout(0.01), 40, 5),
            Self::Drip => (brownout(0.1), 600, 5),
            Self::Trickle => (OutageKind::Fail, 60, 5),
        };
        let outage =
            Outage { kind, at: Duration::from_secs(15), length: Duration::from_secs(length) };
        let mut scenario = Scenario {
            load: LOAD,
            instances: INSTANCES,
            service: Service::constant(WORKERS, TIME),
            outage,
            watch: Duration::from_secs(watch),
            ..Scenario::storm(kind)
        };
        match self {
            Self::Blips => {
                let (down, up) = (Duration::from_millis(150), Duration::from_millis(1_850));
                scenario.faults = Outage { kind: OutageKind::Fail, ..outage }.flapping(down, up);
            }
            Self::Healthy => {
                let (p50, p99) = (Duration::from_millis(80), Duration::from_millis(400));
                scenario.service.time = Dist::Lognormal { p50, p99 };
            }
            Self::Cold => {
                let over = Duration::from_secs(5);
                scenario.service.cold = Some(Cold { factor: 2.0, over });
            }
            Self::Drip => scenario.load = DRIP,
            Self::Trickle => scenario.load = TRICKLE,
            _ => {}
        }
        match side {
            Side::Library => {
                let policy = PolicySpec { per_try_timeout: Some(scenario.patience), ..policy };
                scenario.with_callers(Callers::Quell { policy, upstream })
            }
            Side::Gateway => {
                let callers = if self.is_outage() || self == Self::Cold {
                    Callers::NAIVE
                } else {
                    Callers::NO_RETRIES
                };
                let gateway = Gateway { policy, upstream, ..Gateway::default() };
                Scenario { gateway: Some(gateway), ..scenario.with_callers(callers) }
            }
        }
    }
}

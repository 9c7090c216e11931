//! Scenario: an outage, written down.
//!
//! **Why.** A claim about recovery means nothing without the load, the service, the callers' patience and the
//! outage it was made for. A scenario holds them all, so that it can be run again by anyone.
//!
//! ```
//! use quell_sim::scenario::{Outage, OutageKind, Scenario};
//!
//! let scenario = Scenario::storm(OutageKind::Stall);
//! assert_eq!((scenario.load, scenario.service.capacity()), (10_000.0, 12_000.0));
//! ```

mod arrivals;
mod down;
mod graph;
mod kind;
mod outage;
mod service;
mod shards;
mod sharing;
mod store;
mod topic;

use core::time::Duration;

use quell_core::{
    backoff, ladder, lease,
    spec::{self, PolicySpec, UpstreamSpec},
};

pub use arrivals::{Arrivals, Restart, Resubmit};
pub use down::{Down, Spread};
pub use graph::{Edge, Node};
pub use kind::{HangUps, Kind, Side, Together};
pub use outage::{Outage, OutageKind};
pub use service::{Abandonment, Cold, Curve, Order, Queue, Service};
pub use shards::Shards;
pub use sharing::Sharing;
pub use store::{Away, Store};
pub use topic::Topic;

use crate::dist;

/// Everything a run needs but its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Users' requests per second.
    pub load: f64,
    /// When they begin.
    pub arrivals: Arrivals,
    /// Users who ask again after their client gave up, if there are any.
    pub resubmit: Option<Resubmit>,
    /// The share of requests that are not safe to repeat, from 0 to 1: Quell does not retry those that may have
    /// been carried out.
    pub writes: f64,
    /// Client processes that share the load, each with a state of its own.
    pub instances: u32,
    /// How long a caller waits for one answer before it leaves, telling nobody.
    pub patience: Duration,
    /// When instances, or Quell in front, are restarted.
    pub restarts: Vec<Restart>,
    /// What callers do when an attempt fails.
    pub callers: Callers,
    /// Records of a topic instead of users who wait; `None`, by default.
    pub topic: Option<Topic>,
    /// A store through which the processes that run Quell share a budget; `None`, by default.
    pub store: Option<Store>,
    /// Quell between the callers and the service, if it is there.
    pub gateway: Option<Gateway>,
    /// The service.
    pub service: Service,
    /// Whom it calls, one after the other, once its own work is done.
    pub calls: Vec<Edge>,
    /// The services behind it, from the top down.
    pub below: Vec<Node>,
    /// Whether the callers, if they use Quell, or Quell in front, begin a chain's credit of retries.
    pub credit: bool,
    /// What happens to it, and what the run is judged by.
    pub outage: Outage,
    /// What else happens to it, at any time.
    pub faults: Vec<Outage>,
    /// How long to watch after the outage.
    pub watch: Duration,
    /// The kinds of requests there are, each with a crowd of its own; empty, by default: one kind, as said above.
    pub kinds: Vec<Kind>,
}

/// What callers do when an attempt fails or their patience ends.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a run has one of them")]
pub enum Callers {
    /// Try again so many times, each a fixed pause after the failure.
    Fixed {
        /// How often, after the first try.
        retries: u32,
        /// How much later.
        pause: Duration,
    },
    /// Try again so many times, with exponential backoff and full jitter.
    Backoff {
        /// How often, after the first try.
        retries: u32,
        /// How much later.
        backoff: backoff::Spec,
    },
    /// Each instance uses Quell's library with this policy.
    Quell {
        /// How one call behaves.
        policy: PolicySpec,
        /// What the calls of one instance share.
        upstream: UpstreamSpec,
    },
}

impl Callers {
    /// Three retries, a second apart: what everybody writes first.
    pub const NAIVE: Self = Self::Fixed { retries: 3, pause: Duration::from_secs(1) };
    /// One try.
    pub const NO_RETRIES: Self = Self::Fixed { retries: 0, pause: Duration::from_secs(1) };

    /// Three retries with exponential backoff and full jitter.
    pub fn backoff() -> Self {
        Self::Backoff { retries: 3, backoff: backoff::Spec::default() }
    }

    /// Quell's library with its defaults, and attempts that last as long as the callers' patience.
    pub fn quell(patience: Duration) -> Self {
        let policy = PolicySpec { per_try_timeout: Some(patience), ..PolicySpec::library() };
        Self::Quell { policy, upstream: UpstreamSpec::library() }
    }
}

/// Quell in front of the service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gateway {
    /// How one call behaves.
    pub policy: PolicySpec,
    /// What all calls share.
    pub upstream: UpstreamSpec,
    /// When it starts; until then callers cannot connect.
    pub starts: Duration,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            policy: PolicySpec::gateway(),
            upstream: UpstreamSpec::gateway(),
            starts: Duration::ZERO,
        }
    }
}

/// Why a scenario cannot be run. The message names the field and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// A policy of Quell.
    #[error(transparent)]
    Policy(#[from] spec::Invalid),
    /// A spread of times.
    #[error(transparent)]
    Dist(#[from] dist::Invalid),
    /// The tiers of a topic.
    #[error(transparent)]
    Tiers(#[from] ladder::Invalid),
    /// The budget that a fleet shares.
    #[error("{}", .0.to_string().replace("rate_limit.", "store.budget."))]
    Store(#[from] lease::Invalid),
    /// Another field.
    #[error("{field} {fix}")]
    Field {
        /// Which one.
        field: &'static str,
        /// What is wrong, and what to write.
        fix: &'static str,
    },
}

fn wrong(field: &'static str, fix: &'static str) -> Result<(), Invalid> {
    Err(Invalid::Field { field, fix })
}

impl Scenario {
    /// Whether it can be run.
    pub fn check(&self) -> Result<(), Invalid> {
        if !(self.load > 0.0 && self.load <= 1e9) {
            return wrong(
                "load",
                "is out of range: write requests per second, from above 0 to 1e9",
            );
        }
        if self.instances == 0 {
            return wrong("instances", "is 0, so nobody would call: write at least 1");
        }
        if !(0.0..=1.0).contains(&self.writes) {
            return wrong("writes", "is out of range: write a share from 0 to 1");
        }
        self.arrivals.check()?;
        self.resubmit.as_ref().map_or(Ok(()), Resubmit::check)?;
        self.topic.as_ref().map_or(Ok(()), |topic| topic.check(self))?;
        self.store.as_ref().map_or(Ok(()), Store::check)?;
        self.service.check()?;
        graph::check(&self.calls, &self.below)?;
        self.check_kinds()?;
        self.all_faults().try_for_each(|fault| fault.kind.check())
    }

    /// The outage, and all else that happens.
    pub(crate) fn all_faults(&self) -> impl Iterator<Item = Outage> {
        core::iter::once(self.outage).chain(self.faults.iter().copied())
    }

    /// What happens to one of the services; the first is number 0.
    pub(crate) fn faults_of(&self, shop: usize) -> Vec<Outage> {
        match shop.checked_sub(1) {
            None => self.all_faults().collect(),
            Some(below) => self.below[below].faults.clone(),
        }
    }

    /// Whether it matters what a request is about.
    pub(crate) fn has_keys(&self) -> bool {
        let below = self.below.iter().map(|node| &node.service);
        let fatal = |fault: Outage| matches!(fault.kind, OutageKind::Fatal { .. });
        core::iter::once(&self.service).chain(below).any(|service| service.shards.is_some())
            || self.all_faults().any(fatal)
            || self.below.iter().any(|node| node.faults.iter().copied().any(fatal))
    }

    /// When the last thing that is written down has happened: from then on it is left to itself.
    pub fn settles(&self) -> Duration {
        let arrivals = match &self.arrivals {
            Arrivals::Shaped(Curve(points)) => points.last().map_or(0.0, |last| last.0.max(0.0)),
            Arrivals::Recorded(counts) if counts.windows(2).any(|two| two[0] != two[1]) => f64::MAX,
            _ => 0.0,
        };
        let of_kinds = self.kinds.iter().flat_map(|kind| kind.faults.iter().copied());
        let hosts = |restart: &Restart, hosts: u32| {
            restart.at.saturating_add(restart.step.saturating_mul(hosts))
        };
        let edges = self.calls.iter().chain(self.below.iter().flat_map(|node| &node.calls));
        let faults =
            self.all_faults().chain(self.below.iter().flat_map(|node| node.faults.clone()));
        let faults = faults.chain(of_kinds);
        let gateways = self.gateway.iter().chain(self.below.iter().flat_map(|node| &node.gateway));
        let away = self.store.iter().flat_map(|store| &store.away);
        core::iter::once(Duration::try_from_secs_f64(arrivals).unwrap_or(Duration::MAX))
            .chain(faults.map(|fault| fault.end()))
            .chain(self.restarts.iter().map(|restart| hosts(restart, self.instances)))
            .chain(edges.filter_map(|edge| Some(hosts(&edge.restart?, edge.instances))))
            .chain(gateways.map(|gateway| gateway.starts))
            .chain(away.map(|away| away.at.saturating_add(away.length)))
            .max()
            .unwrap_or_default()
    }

    /// When the run ends.
    pub fn end(&self) -> Duration {
        self.outage.end().saturating_add(self.watch)
    }

    /// The storm: 50 instances, 10,000 requests per second, capacity 12,000, callers who wait a second,
    /// 30 seconds of outage, and nothing to protect anybody.
    pub fn storm(kind: OutageKind) -> Self {
        Self {
            load: 10_000.0,
            arrivals: Arrivals::Random,
            resubmit: None,
            writes: 0.0,
            restarts: vec![],
            instances: 50,
            patience: Duration::from_secs(1),
            callers: Callers::NAIVE,
            topic: None,
            store: None,
            gateway: None,
            service: Service::constant(1_200, Duration::from_millis(100)),
            outage: Outage { kind, at: Duration::from_secs(30), length: Duration::from_secs(30) },
            calls: vec![],
            below: vec![],
            credit: false,
            faults: vec![],
            watch: Duration::from_secs(60),
            kinds: vec![],
        }
    }

    /// The same with other callers.
    pub fn with_callers(self, callers: Callers) -> Self {
        Self { callers, ..self }
    }

    /// The same with Quell in front of the service.
    pub fn with_gateway(self) -> Self {
        Self { gateway: Some(Gateway::default()), ..self }
    }
}

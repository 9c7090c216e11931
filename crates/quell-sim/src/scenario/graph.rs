//! Services behind the service: who calls whom, and by which policy.

use quell_core::spec::{PolicySpec, UpstreamSpec};

use super::{Gateway, Invalid, Outage, Restart, Service, wrong};

/// A service behind the first one.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// How it works.
    pub service: Service,
    /// Whom it calls, one after the other, once its own work is done; a worker stays with the request all the while.
    pub calls: Vec<Edge>,
    /// What happens to it.
    pub faults: Vec<Outage>,
    /// One Quell in front of it that all who call it share; `None`, by default, if they reach it directly.
    pub gateway: Option<Gateway>,
}

impl Node {
    /// One that calls nobody.
    pub fn leaf(service: Service) -> Self {
        Self { service, calls: vec![], faults: vec![], gateway: None }
    }
}

/// Calls from one service to another, through Quell's library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Which of [`Scenario::below`](super::Scenario::below): services are listed from the top down, so this is always a
    /// later one than the one that calls.
    pub to: usize,
    /// How one call behaves.
    pub policy: PolicySpec,
    /// What all calls of one instance on this edge share.
    pub upstream: UpstreamSpec,
    /// Whether retries draw on a credit that the whole chain shares (`quell-retry-credit`).
    pub credit: bool,
    /// Whether a call that was given up here is answered with a mark that it is not to be repeated (`quell-retry: no`).
    pub marks: bool,
    /// Processes that make these calls, each with a state of its own: from 1, the default, to 65535. Every call is made by one
    /// at random.
    pub instances: u32,
    /// Whether the time that is left of the call above bounds the calls on this edge (`quell-deadline-ms`). `false`, by
    /// default: they take as long as their own policy allows, whether or not somebody waits.
    pub deadline: bool,
    /// When these instances are restarted, if they are: what they knew is lost, and their open calls fail.
    pub restart: Option<Restart>,
}

impl Edge {
    /// Quell's library with its defaults.
    pub fn new(to: usize) -> Self {
        let (policy, upstream) = (PolicySpec::library(), UpstreamSpec::library());
        Self {
            to,
            policy,
            upstream,
            credit: false,
            marks: false,
            instances: 1,
            deadline: false,
            restart: None,
        }
    }
}

/// Whether all that is called is there, and further down.
pub(super) fn check(calls: &[Edge], below: &[Node]) -> Result<(), Invalid> {
    if below.len() > usize::from(u16::MAX) {
        return wrong("below", "has too many services: write at most 65535");
    }
    let top_down = |calls: &[Edge], first: usize| {
        calls.iter().all(|edge| (first..below.len()).contains(&edge.to)) && calls.len() < 256
    };
    let fine = below.iter().zip(1..).all(|(node, first)| top_down(&node.calls, first));
    if !fine || !top_down(calls, 0) {
        return wrong("calls.to", "names no service further down: write the place of one in below");
    }
    let mut edges = calls.iter().chain(below.iter().flat_map(|node| &node.calls));
    if edges.any(|edge| !(1..=65_535).contains(&edge.instances)) {
        return wrong("calls.instances", "is out of range: write from 1 to 65535");
    }
    for node in below {
        node.service.check()?;
        node.faults.iter().try_for_each(|fault| fault.kind.check())?;
    }
    Ok(())
}

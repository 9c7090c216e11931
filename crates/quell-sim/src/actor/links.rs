//! Links: who calls whom through Quell, by which hosts, and the gateways in between.
//!
//! Hosts are numbered in this order: client instances, the gateway in front of everything, the instances of every
//! edge from the top down, and the gateways in front of services inside.

use std::collections::BTreeMap;

use quell_core::{Policy, Rng, Time, spec::UpstreamSpec};

use super::quell::{Handed, Hosts, Whose};
use crate::{
    control::Maker,
    scenario::{Callers, Edge, Gateway, Invalid, Scenario},
    slab::Slab,
    world::{Event, Origin, Reply, World},
};

/// How one service, or all callers, call another.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) policy: Policy,
    pub(super) attempts: u32,
    pub(super) spec: UpstreamSpec,
    pub(super) to: u16,
    pub(super) credit: bool,
    pub(super) marks: bool,
    /// Whether attempts are told until when somebody waits.
    pub(super) deadline: bool,
    /// The gateway that attempts go through.
    pub(super) via: Option<u32>,
    /// From when on it is there.
    starts: Time,
}

/// All edges of a scenario, service by service from the top down.
fn edges(scenario: &Scenario) -> impl Iterator<Item = &Vec<Edge>> {
    core::iter::once(&scenario.calls).chain(scenario.below.iter().map(|node| &node.calls))
}

/// An edge by which a gateway calls the service behind it.
fn from_gateway(gateway: Gateway, credit: bool) -> Edge {
    let Gateway { policy, upstream, .. } = gateway;
    Edge { policy, upstream, credit, ..Edge::new(0) }
}

/// The client instances that use Quell, and how they call.
fn clients(scenario: &Scenario) -> Option<(Edge, u32)> {
    let (policy, upstream) = match (&scenario.topic, scenario.callers) {
        (Some(topic), _) => (topic.policy, topic.upstream),
        (None, Callers::Quell { policy, upstream }) => (policy, upstream),
        _ => return None,
    };
    let edge = Edge { policy, upstream, credit: scenario.credit, ..Edge::new(0) };
    Some((edge, scenario.instances))
}

/// How many hosts are outside of all services.
fn outer(scenario: &Scenario) -> u32 {
    clients(scenario).map_or(0, |(_, count)| count) + u32::from(scenario.gateway.is_some())
}

impl Hosts {
    pub(crate) fn new(
        scenario: &Scenario,
        seed: u64,
        control: Option<Maker>,
    ) -> Result<Self, Invalid> {
        let outer = outer(scenario);
        let mut hosts = Self {
            links: vec![],
            seed,
            control,
            writes: Rng::stream(seed, 0, crate::PURPOSE_WRITE),
            instance: Rng::stream(seed, 1, crate::PURPOSE_INSTANCE),
            all: vec![],
            outer,
            seen: if scenario.gateway.is_some() { outer - 1 } else { 0 },
            calls: Slab::new(),
            fronted: BTreeMap::new(),
            started: scenario.gateway.is_none(),
        };
        let mut via = vec![None; scenario.below.len() + 1];
        if let Some((edge, count)) = clients(scenario) {
            hosts.links(edge, 0, count)?;
        }
        if let Some(gateway) = scenario.gateway {
            via[0] = Some(hosts.all.len() as u32);
            hosts.links(from_gateway(gateway, scenario.credit), 0, 1)?;
            if let (Some(maker), Some(host)) = (&hosts.control, hosts.all.last_mut()) {
                host.control = Some(maker.make());
            }
        }
        for &edge in edges(scenario).flatten() {
            hosts.links(edge, edge.to as u16 + 1, edge.instances)?;
        }
        for (node, to) in scenario.below.iter().zip(1..) {
            let Some(gateway) = node.gateway else { continue };
            via[usize::from(to)] = Some(hosts.all.len() as u32);
            let credit =
                edges(scenario).flatten().any(|edge| edge.to as u16 + 1 == to && edge.credit);
            hosts.links(from_gateway(gateway, credit), to, 1)?;
            if let Some(link) = hosts.links.last_mut() {
                link.starts = Time::ZERO + gateway.starts;
            }
        }
        let gateways: Vec<_> =
            via.iter().flatten().map(|&host| hosts.all[host as usize].link).collect();
        for (link, i) in hosts.links.iter_mut().zip(0..) {
            link.via = via[usize::from(link.to)].filter(|_| !gateways.contains(&i));
        }
        Ok(hosts)
    }

    /// The hosts by which each service calls others: the first, and how many there are.
    pub(super) fn inner(scenario: &Scenario) -> Vec<Vec<(u32, u32)>> {
        let mut next = outer(scenario);
        let mut range = |edge: &Edge| {
            next += edge.instances;
            (next - edge.instances, edge.instances)
        };
        edges(scenario).map(|edges| edges.iter().map(&mut range).collect()).collect()
    }

    /// When hosts inside are restarted.
    pub(crate) fn restarts_inside(scenario: &Scenario) -> Vec<(Time, u32)> {
        let hosts = Self::inner(scenario).into_iter().flatten();
        let restarts = edges(scenario)
            .flatten()
            .zip(hosts)
            .filter_map(|(edge, hosts)| Some((edge.restart?, hosts)));
        restarts
            .flat_map(|(restart, (first, count))| {
                let at = move |i| restart.at.saturating_add(restart.step.saturating_mul(i));
                (0..count).map(move |i| (Time::ZERO + at(i), first + i))
            })
            .collect()
    }

    fn links(&mut self, edge: Edge, to: u16, count: u32) -> Result<(), Invalid> {
        let Edge { policy, upstream: spec, credit, marks, deadline, .. } = edge;
        let attempts = policy.attempts;
        let policy = Policy::new(policy)?;
        let (via, starts) = (None, Time::ZERO);
        self.links.push(Link { policy, attempts, spec, to, credit, marks, deadline, via, starts });
        let link = self.links.len() as u16 - 1;
        for _ in 0..count {
            let host = self.host(self.all.len() as u32, link, 0, Time::ZERO)?;
            self.all.push(host);
        }
        Ok(())
    }

    /// One of these makes the next call.
    pub(super) fn one_of(&mut self, (first, count): (u32, u32)) -> u32 {
        if count == 1 { first } else { first + self.instance.below(u64::from(count)) as u32 }
    }

    /// Whether a gateway inside, or in front, is there yet.
    fn is_there(&self, gateway: u32, now: Time) -> bool {
        if gateway < self.outer { self.started } else { now >= self.link(gateway).starts }
    }
}

impl World {
    /// An attempt reaches a gateway on its way.
    pub(super) fn reaches_gateway(
        &mut self,
        gateway: u32,
        from: Origin,
        key: u32,
        until: Option<Time>,
    ) {
        if !self.hosts.is_there(gateway, self.now) {
            return self.agenda.at(self.now, Event::Answers { to: from, reply: Reply::Error });
        }
        let lent = match from {
            Origin::Call { call, slot, .. } => self.hosts.handed_on(call, slot),
            Origin::User(_) => None,
        };
        let handed = Handed { key, lent, until };
        if let Some(call) = self.begin_call(gateway, Whose::Attempt(from), handed)
            && self.hosts.calls.get(call).is_some()
        {
            self.hosts.fronted.insert(from, call);
        }
    }

    /// What became of it there.
    pub(super) fn gateway_answers(&mut self, to: Origin, reply: Reply) {
        self.hosts.fronted.remove(&to);
        self.agenda.at(self.now, Event::Answers { to, reply });
    }

    /// Nobody waits for this attempt any more; tells the gateway on its way, if there is one.
    pub(super) fn gateway_left(&mut self, from: Origin) -> bool {
        if self.hosts.fronted.is_empty() {
            return false;
        }
        let Some(call) = self.hosts.fronted.remove(&from) else { return false };
        self.abandons(call);
        true
    }
}

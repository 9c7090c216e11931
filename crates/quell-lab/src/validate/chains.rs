//! Chains of services that each retry, the last of which always fails.

use core::time::Duration;

use quell_core::{
    backoff, breaker, budget,
    spec::{PolicySpec, UpstreamSpec},
};

use super::{Row, run};
use quell_sim::{
    Scenario,
    scenario::{Arrivals, Callers, Edge, Invalid, Node, Outage, OutageKind, Service},
};

const PRODUCT: &str = "arithmetic";
const USERS: u32 = 1_000;

/// So many attempts, close together, and nothing but the budget to hold them back.
fn edge(to: usize, attempts: u32, budget: budget::Spec) -> Edge {
    let base = Duration::from_millis(1);
    let backoff = backoff::Spec { base, ..backoff::Spec::default() };
    let breaker = breaker::Spec { mode: breaker::Mode::Disabled, ..breaker::Spec::default() };
    Edge {
        policy: PolicySpec { attempts, backoff, ..PolicySpec::library() },
        upstream: UpstreamSpec { budget, breaker, ..UpstreamSpec::library() },
        ..Edge::new(to)
    }
}

/// Calls that reach the last of `hops` services per user's request, with so many attempts at each hop.
fn per_user(
    hops: usize,
    attempts: u32,
    budget: budget::Spec,
    change: fn(&mut Edge),
) -> Result<f64, Invalid> {
    let service = Service::constant(10_000, Duration::from_millis(1));
    let second = Duration::from_secs(1);
    let edge = |to| {
        let mut edge = edge(to, attempts, budget);
        change(&mut edge);
        edge
    };
    let outside = edge(0);
    let mut below: Vec<_> = (1..hops)
        .map(|hop| {
            let calls = if hop + 1 < hops { vec![edge(hop)] } else { vec![] };
            Node { calls, ..Node::leaf(service.clone()) }
        })
        .collect();
    if let Some(last) = below.last_mut() {
        last.faults =
            vec![Outage { kind: OutageKind::Fail, at: Duration::ZERO, length: second * 60 }];
    }
    let mut counts = vec![0; 60];
    counts[1] = USERS;
    let done = run(&Scenario {
        arrivals: Arrivals::Recorded(counts),
        instances: 1,
        callers: Callers::Quell { policy: outside.policy, upstream: outside.upstream },
        credit: outside.credit,
        service,
        calls: vec![outside],
        below,
        outage: Outage { kind: OutageKind::Brownout { share: 0.0 }, at: second, length: second },
        watch: second * 50,
        ..Scenario::storm(OutageKind::Fail)
    })?;
    Ok(done.below.last().map_or(0, |last| last.sent) as f64 / f64::from(USERS))
}

pub(super) fn rows() -> Result<Vec<Row>, Invalid> {
    // As in a failure that has been going on for a while: start credits are spent.
    let spent = budget::tokens::Spec { start: Some(0), ..budget::tokens::Spec::default() };
    let unlimited = budget::Spec::Unlimited;
    let mut rows = Vec::new();
    for (hops, attempts) in [(3, 3), (4, 3), (3, 4), (5, 3)] {
        let right = f64::from((0..hops).fold(1, |product, _| product * attempts));
        let got = per_user(hops, attempts, unlimited, |_| {})?;
        let name =
            format!("chain of {hops}, {attempts} attempts at each, the last fails: calls per user");
        rows.push(Row::near(name, PRODUCT, right, got, 0.0));
    }
    let marks = per_user(4, 3, unlimited, |edge| edge.marks = true)?;
    let credit = per_user(4, 3, unlimited, |edge| edge.credit = true)?;
    let both = per_user(4, 3, spent.into(), |edge| edge.credit = true)?;
    rows.push(Row::near(
        "chain of 4, 3 attempts, marks: the lowest alone retries",
        PRODUCT,
        3.0,
        marks,
        0.0,
    ));
    rows.push(Row::within("chain of 4, 3 attempts, one credit: a sum", PRODUCT, 1.0..=3.0, credit));
    rows.push(Row::within(
        "chain of 4, 3 attempts, one credit, spent budgets: calls per user",
        PRODUCT,
        1.0..=1.1,
        both,
    ));
    Ok(rows)
}

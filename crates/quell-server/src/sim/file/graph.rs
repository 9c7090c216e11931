//! Services behind the service: who calls whom, by name.

use quell::core::spec::UpstreamSpec;
use quell_sim::scenario::{Edge, Node};

use super::{faults, policies, scenario, service, way};
use crate::config::{Config, fields::Fields};

/// Reads `calls` and `behind`. Names become places, from the top down, whatever the order they are written in.
pub(super) fn read(config: &Config, fields: &Fields<'_>) -> (Vec<Edge>, Vec<Node>, Vec<String>) {
    let tables = fields.named("behind");
    let names: Vec<_> = tables.iter().map(|(name, _)| name.clone()).collect();
    let top = calls(config, fields, fields.path(), &names);
    let mut nodes: Vec<_> = tables
        .iter()
        .map(|(_, inside)| {
            let calls = calls(config, inside, fields.path(), &names);
            let faults = faults::all(inside);
            let gateway = inside.table("gateway").map(|table| way::gateway(config, &table).1);
            service::read(inside, false).map(|service| Node { service, calls, faults, gateway })
        })
        .collect();
    let mut order = Vec::new();
    while order.len() < nodes.len() {
        let waits = |place: usize| {
            let calls = |node: &Node| node.calls.iter().any(|edge| edge.to == place);
            (0..nodes.len()).any(|i| !order.contains(&i) && nodes[i].as_ref().is_some_and(calls))
        };
        let Some(next) = (0..nodes.len()).find(|place| !order.contains(place) && !waits(*place))
        else {
            fields.wrong(
                "behind",
                "calls in a circle: write services that never lead back to the one that called",
            );
            return (vec![], vec![], vec![]);
        };
        order.push(next);
    }
    let place = |to: usize| order.iter().position(|&i| i == to).unwrap_or_default();
    let placed =
        |edges: Vec<Edge>| edges.into_iter().map(|edge| Edge { to: place(edge.to), ..edge });
    let below = order.iter().filter_map(|&i| nodes[i].take());
    let below = below.map(|node| Node { calls: placed(node.calls).collect(), ..node }).collect();
    (placed(top).collect(), below, order.iter().map(|&i| names[i].clone()).collect())
}

/// Reads `calls`, one after the other.
fn calls(config: &Config, fields: &Fields<'_>, path: &str, names: &[String]) -> Vec<Edge> {
    let known = format!("{path}.behind");
    let call = |row: Fields<'_>| {
        let to = row.reference("to", &known, names.iter());
        if !row.has("to") {
            row.wrong("to", "is missing: write the name of a service in behind");
        }
        let mut edge = Edge::new(0);
        if let Some(named) = policies::read(config, &row, UpstreamSpec::library()) {
            (edge.policy, edge.upstream) = (named.policy, named.upstream);
        }
        row.set("credit", &mut edge.credit);
        row.set("marks", &mut edge.marks);
        row.set("instances", &mut edge.instances);
        row.set("deadline", &mut edge.deadline);
        edge.restart = row.table("restart").and_then(|table| scenario::restart(&table));
        let to = names.iter().position(|name| Some(name) == to.as_ref())?;
        Some(Edge { to, ..edge })
    };
    fields.tables("calls").into_iter().filter_map(call).collect()
}

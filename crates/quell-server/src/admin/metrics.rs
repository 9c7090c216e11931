//! The metrics, read from the counters and the upstream's state when somebody asks for them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use quell::core::Reason;
use quell::observe::labels::{self, Metric, STATES};

use crate::gateway::counters::{CAME, Came, CoreCounters, Count, Counters, Verdict};
use crate::gateway::per_core::Gateway;
use crate::gateway::plan::Plan;

/// What stands for the route and the upstream of a request that has none.
const NONE: &str = "none";

/// What only a gateway has; all other names are the library's.
const STALE: Metric = Metric {
    name: "quell_stale_connections_total",
    help: "Requests that came back unsent from a closed connection and went out on a fresh one",
};
const UPSTREAM_CONNECTS: Metric =
    Metric { name: "quell_upstream_connects_total", help: "Connections begun to the upstream" };
const CONNECTIONS: Metric =
    Metric { name: "quell_connections_total", help: "Connections accepted from callers" };

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Metrics(pub(super) Arc<Gateway>);

impl Metrics {
    fn of_cores(&self, count: impl Fn(&CoreCounters) -> &Count) -> u64 {
        self.0.cores.iter().map(|core| count(core).get()).sum()
    }

    /// A count per route, and one for what has none: the route's name, the upstream's, and the sum over the cores.
    fn by_route<'a>(
        &'a self,
        plan: &'a Plan,
        count: impl Fn(&Counters) -> &Count + 'a,
    ) -> Vec<(&'a str, &'a str, u64)> {
        let unrouted = self.of_cores(|core| count(&core.unrouted));
        let mut all = vec![(NONE, NONE, unrouted)];
        all.extend(plan.routes.iter().map(|route| {
            let sum = route.counters.iter().map(|core| count(core).get()).sum();
            (&*route.name, route.backend.upstream.name(), sum)
        }));
        all
    }
}

/// Counters and gauges by name; names of counters get their `_total` from the format.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counters<L: EncodeLabelSet>(
        &mut self,
        metric: Metric,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let (name, help) = (metric.stem(), metric.help);
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn counter(&mut self, metric: Metric, value: u64) -> fmt::Result {
        let (name, help) = (metric.stem(), metric.help);
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        self.encode_counts(&mut out)?;
        self.encode_state(&mut out)?;
        let mut build = out.0.encode_descriptor("quell_build", "Build.", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

impl Metrics {
    fn encode_counts(&self, out: &mut Writer<'_>) -> fmt::Result {
        let plan = &**self.0.plan.load();
        let requests = Verdict::WORDS.iter().enumerate().flat_map(|(i, word)| {
            let counts = self.by_route(plan, move |counters| &counters.requests[i]);
            counts.into_iter().map(|(route, upstream, count)| {
                ([("route", route), ("upstream", upstream), ("outcome", *word)], count)
            })
        });
        out.counters(labels::REQUESTS, requests)?;
        type Kind = fn(&Counters) -> &[Count; CAME];
        let kinds: [(&str, Kind); 3] =
            [("first", |c| &c.first), ("retry", |c| &c.retries), ("hedge", |c| &c.hedges)];
        let attempts = kinds.iter().flat_map(|(kind, of)| {
            Came::WORDS.iter().enumerate().flat_map(move |(i, word)| {
                let counts = self.by_route(plan, move |counters| &of(counters)[i]);
                counts.into_iter().map(|(route, upstream, count)| {
                    let names = [("route", route), ("upstream", upstream)];
                    ([names[0], names[1], ("kind", *kind), ("result", *word)], count)
                })
            })
        });
        out.counters(labels::ATTEMPTS, attempts)?;
        let by_reason = |count: fn(&Counters, usize) -> &Count| {
            Reason::ALL.iter().enumerate().map(move |(i, reason)| {
                ([("reason", reason.as_str())], self.0.sum(|counters| count(counters, i)))
            })
        };
        out.counters(labels::RETRIES_DENIED, by_reason(|core, i| &core.denied[i]))?;
        out.counters(labels::REFUSALS, by_reason(|core, i| &core.refusals[i]))?;
        out.counter(STALE, self.of_cores(|core| &core.stale))?;
        out.counter(UPSTREAM_CONNECTS, self.of_cores(|core| &core.connects))?;
        out.counter(CONNECTIONS, self.of_cores(|core| &core.connections))
    }

    fn encode_state(&self, out: &mut Writer<'_>) -> fmt::Result {
        let plan = self.0.plan.load();
        let states: Vec<_> = plan
            .backends
            .values()
            .map(|backend| {
                let upstream = &backend.upstream;
                let state = upstream.snapshot();
                let levels = labels::levels(&state, upstream.clock().now());
                (("upstream", upstream.name()), state, levels)
            })
            .collect();
        let Some((_, _, levels)) = states.first() else { return Ok(()) };
        for (i, (Metric { name, help }, _)) in levels.iter().enumerate() {
            let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (upstream, _, levels) in &states {
                metric.encode_family(&[*upstream])?.encode_gauge(&levels[i].1)?;
            }
        }
        // All three, always: a state that was left must not go on showing.
        let Metric { name, help } = labels::BREAKER_STATE;
        let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (upstream, state, _) in &states {
            for (each, word) in STATES {
                let value = u64::from(state.breaker == each);
                metric.encode_family(&[*upstream, ("state", word)])?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

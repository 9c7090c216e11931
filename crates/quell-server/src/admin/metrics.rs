//! The metrics, read from the counters and the upstream's state when somebody asks for them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use quell::core::Reason;
use quell::observe::labels::{self, Metric, STATES};

use crate::gateway::counters::{Came, Count, Counters, Verdict};
use crate::gateway::per_core::Gateway;

/// Configured names are the only labels: there is one route and one upstream yet.
const ROUTE: (&str, &str) = ("route", "default");
const UPSTREAM: (&str, &str) = ("upstream", "default");

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
    fn sum(&self, count: impl Fn(&Counters) -> &Count) -> u64 {
        self.0.counters.iter().map(|core| count(core).get()).sum()
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
        self.counters(metric, [([UPSTREAM], value)])
    }

    fn gauge(&mut self, Metric { name, help }: Metric, value: f64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_family(&[UPSTREAM])?.encode_gauge(&value)
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
        let requests = Verdict::WORDS.iter().enumerate().map(|(i, word)| {
            ([ROUTE, UPSTREAM, ("outcome", *word)], self.sum(|core| &core.requests[i]))
        });
        out.counters(labels::REQUESTS, requests)?;
        let attempts = Came::WORDS.iter().enumerate().flat_map(|(i, word)| {
            let labels = |kind| [ROUTE, UPSTREAM, ("kind", kind), ("result", *word)];
            [
                (labels("first"), self.sum(|core| &core.first[i])),
                (labels("retry"), self.sum(|core| &core.retries[i])),
            ]
        });
        out.counters(labels::ATTEMPTS, attempts)?;
        let by_reason = |count: fn(&Counters, usize) -> &Count| {
            Reason::ALL.iter().enumerate().map(move |(i, reason)| {
                ([("reason", reason.as_str())], self.sum(|core| count(core, i)))
            })
        };
        out.counters(labels::RETRIES_DENIED, by_reason(|core, i| &core.denied[i]))?;
        out.counters(labels::REFUSALS, by_reason(|core, i| &core.refusals[i]))?;
        out.counter(STALE, self.sum(|core| &core.stale))?;
        out.counter(UPSTREAM_CONNECTS, self.sum(|core| &core.connects))?;
        out.counter(CONNECTIONS, self.sum(|core| &core.connections))
    }

    fn encode_state(&self, out: &mut Writer<'_>) -> fmt::Result {
        let state = self.0.upstream.snapshot();
        for (metric, level) in labels::levels(&state, self.0.upstream.clock().now()) {
            out.gauge(metric, level)?;
        }
        // All three, always: a state that was left must not go on showing.
        let Metric { name, help } = labels::BREAKER_STATE;
        let mut metric = out.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (each, word) in STATES {
            let value = u64::from(state.breaker == each);
            metric.encode_family(&[UPSTREAM, ("state", word)])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

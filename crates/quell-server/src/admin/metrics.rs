//! The metrics, read from the counters and the upstream's state when somebody asks for them.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use quell::core::Reason;
use quell::core::breaker::State;

use crate::gateway::counters::{Came, Count, Counters, Verdict};
use crate::gateway::per_core::Gateway;

/// Configured names are the only labels: there is one route and one upstream yet.
const ROUTE: (&str, &str) = ("route", "default");
const UPSTREAM: (&str, &str) = ("upstream", "default");

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
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, [([UPSTREAM], value)])
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
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
        out.counters("quell_requests", "Requests by what came of them", requests)?;
        let attempts = Came::WORDS.iter().enumerate().flat_map(|(i, word)| {
            let labels = |kind| [ROUTE, UPSTREAM, ("kind", kind), ("result", *word)];
            [
                (labels("first"), self.sum(|core| &core.first[i])),
                (labels("retry"), self.sum(|core| &core.retries[i])),
            ]
        });
        out.counters("quell_attempts", "Attempts sent to the upstream", attempts)?;
        let by_reason = |count: fn(&Counters, usize) -> &Count| {
            Reason::ALL.iter().enumerate().map(move |(i, reason)| {
                ([("reason", reason.as_str())], self.sum(|core| count(core, i)))
            })
        };
        out.counters(
            "quell_retries_denied",
            "Failures after which there was no further attempt",
            by_reason(|core, i| &core.denied[i]),
        )?;
        out.counters(
            "quell_refusals",
            "Requests refused without an attempt",
            by_reason(|core, i| &core.refusals[i]),
        )?;
        out.counter(
            "quell_stale_connections",
            "Requests that came back unsent from a closed connection and went out on a fresh one",
            self.sum(|core| &core.stale),
        )?;
        let connects = self.sum(|core| &core.connects);
        out.counter("quell_upstream_connects", "Connections begun to the upstream", connects)?;
        let connections = self.sum(|core| &core.connections);
        out.counter("quell_connections", "Connections accepted from callers", connections)
    }

    fn encode_state(&self, out: &mut Writer<'_>) -> fmt::Result {
        let state = self.0.upstream.snapshot();
        let retries = state.retries;
        let now = self.0.upstream.clock().now();
        out.gauge("quell_retry_budget_tokens", "Retries that are paid for", retries.level)?;
        out.gauge("quell_retry_budget_max_tokens", "Tokens the budget can hold", retries.max)?;
        out.gauge("quell_in_flight", "Attempts under way", f64::from(state.in_flight))?;
        out.gauge("quell_in_flight_limit", "Attempts that may be", f64::from(state.limit))?;
        let ghosts = state.ghosts as f64;
        out.gauge("quell_ghosts", "Slots held for attempts that nobody waits for", ghosts)?;
        out.gauge("quell_queued", "Calls waiting for a slot", state.queued as f64)?;
        let not_before = state.not_before.since(now).as_secs_f64();
        out.gauge("quell_not_before_seconds", "How long retries are held back", not_before)?;
        // All three, always: a state that was left must not go on showing.
        let help = "The breaker's state: 1 for the one it is in";
        let mut metric =
            out.0.encode_descriptor("quell_breaker_state", help, None, MetricType::Gauge)?;
        let states =
            [(State::Closed, "closed"), (State::Open, "open"), (State::HalfOpen, "half_open")];
        for (each, word) in states {
            let value = u64::from(state.breaker == each);
            metric.encode_family(&[UPSTREAM, ("state", word)])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

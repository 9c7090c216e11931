//! Catalogue: every metric that each host shows, once: for the page that is scraped and for the one that is read.

use quell::observe::labels::{self, Metric};

use super::exposition::Kind::{self, Counter, Gauge, Histogram, Info};
use super::exposition::Row;

macro_rules! host_metrics {
    ($($const:ident = $name:literal, $help:literal;)+) => {
        $(pub(super) const $const: Metric = Metric { name: $name, help: $help };)+
    };
}

// What the library does not show; all other names are the library's.
host_metrics! {
    RETRIES_IN_FLIGHT = "quell_retries_in_flight", "Retries and hedges that were paid for and have not ended: asleep, queued or sent";
    PATIENCE = "quell_patience_seconds", "How long callers are believed to wait for an answer";
    MARGIN = "quell_margin", "1 - load multiplier when all fails x utilisation: below 0 an outage would keep itself alive";
    TROUBLE = "quell_trouble", "1 while there is evidence of trouble and the in-flight limit is tight, 0 in health";
    EJECTED = "quell_endpoints_ejected", "Endpoints that are left alone for now";
    EJECTIONS = "quell_endpoint_ejections_total", "Times that an endpoint was left alone";
    LEVERS = "quell_levers", "Levers that are pulled by hand";
    ACCESS_LOG_DROPPED = "quell_access_log_dropped_total", "Lines of the access log that were not written because too many were waiting";
    CONFIG_RELOADS = "quell_config_reloads_total", "Times that the config was read again";
    BUILD = "quell_build_info", "What runs";
}

const fn row(metric: Metric, kind: Kind, labels: &'static [&'static str]) -> Row {
    Row::new(metric, kind, labels)
}

/// Of calls and upstreams, in the order in which they are shown.
const CALLS: &[Row] = &[
    row(labels::REQUESTS, Counter, &["route", "upstream", "outcome"]),
    row(labels::ATTEMPTS, Counter, &["route", "upstream", "kind", "result"]),
    row(labels::RETRIES_DENIED, Counter, &["route", "upstream", "reason"]),
    row(labels::REFUSALS, Counter, &["route", "upstream", "reason"]),
    row(labels::RETRY_DELAY, Histogram, &["upstream", "source"]),
    row(labels::QUEUE_WAIT, Histogram, &["upstream"]),
    row(RETRIES_IN_FLIGHT, Gauge, &["upstream"]),
    row(labels::BUDGET_TOKENS, Gauge, &["upstream"]),
    row(labels::BUDGET_MAX_TOKENS, Gauge, &["upstream"]),
    row(labels::IN_FLIGHT, Gauge, &["upstream"]),
    row(labels::IN_FLIGHT_LIMIT, Gauge, &["upstream"]),
    row(labels::GHOSTS, Gauge, &["upstream"]),
    row(labels::QUEUED, Gauge, &["upstream"]),
    row(labels::NOT_BEFORE, Gauge, &["upstream"]),
    row(PATIENCE, Gauge, &["upstream"]),
    row(MARGIN, Gauge, &["upstream"]),
    row(labels::BREAKER_STATE, Gauge, &["upstream", "state"]),
    row(labels::BREAKER_TRANSITIONS, Counter, &["upstream", "state"]),
    row(TROUBLE, Gauge, &["upstream"]),
    row(EJECTED, Gauge, &["upstream"]),
    row(EJECTIONS, Counter, &["upstream"]),
    row(LEVERS, Gauge, &["upstream"]),
];

/// Of the process, in the order in which they are shown.
const PROCESS: &[Row] = &[
    row(ACCESS_LOG_DROPPED, Counter, &[]),
    row(CONFIG_RELOADS, Counter, &["result"]),
    row(BUILD, Info, &["version"]),
];

/// All metrics of a host that has these of its own, in the order in which they are shown.
pub(crate) fn all(own: &'static [Row]) -> impl Iterator<Item = Row> {
    CALLS.iter().chain(own).chain(PROCESS).copied()
}

/// The row of a metric that each host has. One that is in no row would be shown without a kind; the tests see that there is none.
pub(super) fn row_of(metric: Metric) -> Row {
    let found = all(&[]).find(|row| row.metric == metric);
    debug_assert!(found.is_some(), "{} is in no row", metric.name);
    found.unwrap_or(row(metric, Gauge, &[]))
}

/// D6: base units, `_total` for counters and for nothing else.
#[cfg(test)]
pub(crate) fn assert_that_promtool_takes(rows: &[Row]) {
    for (i, Row { metric: Metric { name, help }, kind, labels }) in rows.iter().enumerate() {
        assert_eq!(name.ends_with("_total"), *kind == Counter, "{name}");
        assert_eq!(name.ends_with("_info"), *kind == Info, "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert!(
            !["_ms", "_millis", "_minutes", "_count", "_sum", "_bucket"]
                .iter()
                .any(|end| name.ends_with(end))
        );
        assert!(!help.is_empty() && !help.ends_with('.') && !labels.contains(&"le"), "{name}");
        assert!(rows[i + 1..].iter().all(|other| other.metric.name != *name), "{name}");
    }
}

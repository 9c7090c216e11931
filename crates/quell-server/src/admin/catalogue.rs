//! Catalogue: every metric that the gateway shows, once: for the page that is scraped and for the one that is read.

use quell::observe::labels::{self, Metric};

use super::exposition::Kind::{self, Counter, Gauge, Histogram, Info};
use super::exposition::Row;

macro_rules! gateway_metrics {
    ($($const:ident = $name:literal, $help:literal;)+) => {
        $(pub(super) const $const: Metric = Metric { name: $name, help: $help };)+
    };
}

// What only a gateway has; all other names are the library's.
gateway_metrics! {
    RETRIES_IN_FLIGHT = "quell_retries_in_flight", "Retries and hedges that were paid for and have not ended: asleep, queued or sent";
    PATIENCE = "quell_patience_seconds", "How long callers are believed to wait for an answer";
    MARGIN = "quell_margin", "1 - load multiplier when all fails x utilisation: below 0 an outage would keep itself alive";
    TROUBLE = "quell_trouble", "1 while there is evidence of trouble and the in-flight limit is tight, 0 in health";
    EJECTED = "quell_endpoints_ejected", "Endpoints that are left alone for now";
    EJECTIONS = "quell_endpoint_ejections_total", "Times that an endpoint was left alone";
    LEVERS = "quell_levers", "Levers that are pulled by hand";
    TENANT_TOKENS = "quell_tenant_tokens", "Requests that a tenant may make now";
    RATE_LIMIT_DECISIONS = "quell_rate_limit_decisions_total", "Requests that a rate limit of a tenant or route was asked about; would_refuse passed in report mode";
    STALE = "quell_stale_connections_total", "Requests that came back unsent from a closed connection and went out on a fresh one";
    UPSTREAM_CONNECTS = "quell_upstream_connects_total", "Connections begun to upstreams";
    CONNECTIONS = "quell_connections_total", "Connections accepted from callers";
    HANDSHAKE_FAILURES = "quell_tls_handshake_failures_total", "Connections of callers that ended before TLS was agreed on";
    ACCESS_LOG_DROPPED = "quell_access_log_dropped_total", "Lines of the access log that were not written because too many were waiting";
    CONFIG_RELOADS = "quell_config_reloads_total", "Times that the config was read again";
    BUILD = "quell_build_info", "What runs";
}

const fn row(metric: Metric, kind: Kind, labels: &'static [&'static str]) -> Row {
    Row { metric, kind, labels }
}

/// In the order in which they are shown.
pub(super) const ROWS: &[Row] = &[
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
    row(TENANT_TOKENS, Gauge, &["tenant"]),
    row(RATE_LIMIT_DECISIONS, Counter, &["decision"]),
    row(labels::IDEMPOTENCY, Counter, &["result"]),
    row(STALE, Counter, &[]),
    row(UPSTREAM_CONNECTS, Counter, &[]),
    row(CONNECTIONS, Counter, &[]),
    row(HANDSHAKE_FAILURES, Counter, &[]),
    row(ACCESS_LOG_DROPPED, Counter, &[]),
    row(CONFIG_RELOADS, Counter, &["result"]),
    row(BUILD, Info, &["version"]),
];

/// The row of a metric. One that is in no row would be shown without a kind; the tests see that there is none.
pub(super) fn row_of(metric: Metric) -> Row {
    let found = ROWS.iter().find(|row| row.metric == metric).copied();
    debug_assert!(found.is_some(), "{} is in no row", metric.name);
    found.unwrap_or(row(metric, Gauge, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page for people.
    fn page() -> String {
        let mut page = String::from(
            "# Metrics\n\n\
             What `/metrics` of a gateway shows, in OpenMetrics, or in the classic text form if a scraper accepts no other or asks for \
             `?format=text`. Every label is a configured name or a word from a closed set; routes beyond the first 200 together are `other`, and upstreams and tenants beyond them are not shown. \
             Requests that no route took are `none`. A series by route appears when it first counts; those by reason of route `none` are \
             always there, so `sum by (reason)` of what has not happened yet is nought, not missing. \
             The words are in the [library's documentation](library.md).\n\n\
             | metric | kind | labels | |\n|---|---|---|---|\n",
        );
        for Row { metric, kind, labels } in ROWS {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, labels) = (metric.name, kind.word(), labels.join(", "));
            page += &format!("| {name} | {kind} | {labels} | {} |\n", metric.help);
        }
        page
    }

    /// Run with `QUELL_WRITE_DOCS=1` to write the page anew.
    #[test]
    fn the_documented_metrics_are_those_that_are_shown() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("QUELL_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page());
    }

    /// D6: base units, `_total` for counters and for nothing else.
    #[test]
    fn names_pass_the_rules_that_promtool_checks() {
        for (i, Row { metric: Metric { name, help }, kind, labels }) in ROWS.iter().enumerate() {
            assert_eq!(name.ends_with("_total"), *kind == Counter, "{name}");
            assert_eq!(name.ends_with("_info"), *kind == Info, "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(
                !["_ms", "_millis", "_minutes", "_count", "_sum", "_bucket"]
                    .iter()
                    .any(|end| name.ends_with(end))
            );
            assert!(!help.is_empty() && !help.ends_with('.') && !labels.contains(&"le"), "{name}");
            assert!(ROWS[i + 1..].iter().all(|other| other.metric.name != *name), "{name}");
        }
    }
}

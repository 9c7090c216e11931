//! Metrics that only a gateway has.
//!
//! **Why.** What every host shows is read in one place, `admin`. Tenants, idempotency keys and callers' connections are a gateway's.

use quell::observe::labels::{self, Metric};

use super::counters::{CoreCounters, Count, Keyed};
use super::per_core::Gateway;
use super::plan::Plan;
use crate::admin::exposition::Kind::{Counter, Gauge};
use crate::admin::exposition::{Kind, Page, Row};
use crate::host::tally::MOST_NAMES;

const TENANT_TOKENS: Row =
    row("quell_tenant_tokens", "Requests that a tenant may make now", Gauge, &["tenant"]);
const RATE_LIMIT_DECISIONS: Row = row(
    "quell_rate_limit_decisions_total",
    "Requests that a rate limit of a tenant or route was asked about; would_refuse passed in report mode",
    Counter,
    &["decision"],
);
const IDEMPOTENCY: Row = Row::new(labels::IDEMPOTENCY, Counter, &["result"]);
const STALE: Row = row(
    "quell_stale_connections_total",
    "Requests that came back unsent from a closed connection and went out on a fresh one",
    Counter,
    &[],
);
const UPSTREAM_CONNECTS: Row =
    row("quell_upstream_connects_total", "Connections begun to upstreams", Counter, &[]);
const CONNECTIONS: Row =
    row("quell_connections_total", "Connections accepted from callers", Counter, &[]);
const HANDSHAKE_FAILURES: Row = row(
    "quell_tls_handshake_failures_total",
    "Connections of callers that ended before TLS was agreed on",
    Counter,
    &[],
);

const fn row(
    name: &'static str,
    help: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
) -> Row {
    Row::new(Metric { name, help }, kind, labels)
}

/// In the order in which they are shown.
pub(super) const ROWS: &[Row] = &[
    TENANT_TOKENS,
    RATE_LIMIT_DECISIONS,
    IDEMPOTENCY,
    STALE,
    UPSTREAM_CONNECTS,
    CONNECTIONS,
    HANDSHAKE_FAILURES,
];

/// Shows all of [`ROWS`].
pub(super) fn show(gateway: &Gateway, page: &mut Page) {
    limits(page, &gateway.plan.load());
    let mut keyed = page.family(IDEMPOTENCY);
    for (i, word) in Keyed::WORDS.iter().enumerate() {
        keyed.sample(&[("result", word)], gateway.sum(|counters| &counters.keyed[i]) as f64);
    }
    let sum = |count: fn(&CoreCounters) -> &Count| {
        gateway.cores.iter().map(|core| count(core).get()).sum::<u64>() as f64
    };
    page.family(STALE).sample(&[], sum(|core| &core.stale));
    page.family(UPSTREAM_CONNECTS).sample(&[], sum(|core| &core.connects));
    page.family(CONNECTIONS).sample(&[], sum(|core| &core.connections));
    page.family(HANDSHAKE_FAILURES).sample(&[], sum(|core| &core.handshakes));
}

/// What the limits of tenants and routes let pass.
fn limits(page: &mut Page, plan: &Plan) {
    let mut tokens = page.family(TENANT_TOKENS);
    for tenant in plan.tenants.iter().take(MOST_NAMES) {
        if let Some(status) = tenant.status() {
            tokens.sample(&[("tenant", &*tenant.name)], f64::from(status.tokens));
        }
    }
    let routes = plan.routes.iter().filter_map(|route| Some(route.limit.as_ref()?.decisions()));
    let all = plan.tenants.iter().filter_map(|tenant| tenant.decisions()).chain(routes);
    let [passed, limited, would_limit] = all.fold([0, 0, 0], |[passed, limited, would], own| {
        [passed + own.passed, limited + own.limited, would + own.would_limit]
    });
    let mut decisions = page.family(RATE_LIMIT_DECISIONS);
    for (word, count) in [("allowed", passed), ("refused", limited), ("would_refuse", would_limit)]
    {
        decisions.sample(&[("decision", word)], count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::catalogue;

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
        for Row { metric, kind, labels } in catalogue::all(ROWS) {
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

    #[test]
    fn names_pass_the_rules_that_promtool_checks() {
        let all: Vec<_> = catalogue::all(ROWS).collect();
        catalogue::assert_that_promtool_takes(&all);
    }
}

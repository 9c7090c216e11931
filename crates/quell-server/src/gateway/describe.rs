//! Describe: what is in force, in a few lines, for people to read when a gateway starts.

use std::fmt::Write as _;
use std::net::SocketAddr;

use quell::core::in_flight::Limit;

use super::per_core::Gateway;
use super::route::Route;
use crate::config::Listen;

/// Routes and upstreams that are shown; a page shows all.
const MOST_SHOWN: usize = 10;

/// What is in force, in a few lines.
pub(super) fn describe(listen: &Listen, admin: SocketAddr, gateway: &Gateway) -> String {
    let plan = gateway.plan.load();
    let (cores, scheme) =
        (gateway.cores.len(), if gateway.tls.is_some() { "https" } else { "http" });
    let at = match listen {
        Listen::Tcp(addr) => format!("{scheme}://{addr}"),
        Listen::Unix(_) => listen.to_string(),
    };
    let mut text = format!("quell: gateway on {at} with {cores} cores; admin on http://{admin}");
    for route in plan.routes.iter().take(MOST_SHOWN) {
        let Route { name, policy, backend, .. } = &**route;
        let (attempts, timeout, per_try) = (policy.attempts(), policy.timeout(), policy.per_try());
        let upstream = backend.upstream.name();
        let _ = write!(
            text,
            "\nquell: route {name} to {upstream}: attempts {attempts}, timeout {timeout:?}, per try {per_try:?}"
        );
    }
    if plan.routes.len() > MOST_SHOWN {
        let more = plan.routes.len() - MOST_SHOWN;
        let _ = write!(text, "\nquell: and {more} routes more; `quell ctl routes` shows them all");
    }
    for (name, written) in plan.file.upstreams.iter().take(MOST_SHOWN) {
        let targets: Vec<_> = written.endpoints.iter().map(ToString::to_string).collect();
        let (budget, breaker) = (written.spec.budget, written.spec.breaker);
        let limit = match written.spec.in_flight {
            Limit::Off => "without limit".to_owned(),
            Limit::Fixed(most) => format!("up to {most}"),
            Limit::Adaptive { ceiling } => format!("adaptive, up to {ceiling}"),
        };
        let _ = write!(
            text,
            "\nquell: upstream {name} at {at}: budget {budget}; breaker {rate} % of {calls} calls in {window:?}; \
             in flight {limit}, queue {queue}",
            at = targets.join(", "),
            rate = breaker.failure_rate * 100.0,
            calls = breaker.min_calls,
            window = breaker.window,
            queue = written.spec.queue,
        );
    }
    text
}

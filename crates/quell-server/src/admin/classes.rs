//! Classes for people and programs: what a host has learned of each kind of call.
//!
//! **Why.** When a path is slow, refused or held apart, the operator wants to see what the host takes for usual there, and
//! not what all paths together look like.

use std::time::Duration;

use quell::Upstream;
use quell::classes::Class;
use serde::Serialize;

use super::operations::InForce;
use super::view::state_word;

/// `GET /classes`.
#[derive(Debug, Serialize)]
pub(super) struct Everywhere<'a> {
    upstreams: Vec<Of<'a>>,
}

#[derive(Debug, Serialize)]
struct Of<'a> {
    name: &'a str,
    classes: Vec<Shown>,
}

/// Callers who are believed to wait this long have not been looked at yet.
const UNKNOWN: Duration = Duration::from_secs(86_400);

/// One kind of call; what is not known yet is left empty.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    name: String,
    in_flight: u32,
    peak: f64,
    rate: f64,
    mean_ms: Option<f64>,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    late_ms: Option<f64>,
    patience_ms: Option<f64>,
    breaker: &'static str,
    in_trouble: bool,
}

pub(super) fn everywhere(in_force: &dyn InForce) -> Everywhere<'_> {
    let all = in_force.upstreams().into_iter().map(|each| each.upstream);
    let shown = all.map(|upstream| Of { name: upstream.name(), classes: of(upstream) });
    Everywhere { upstreams: shown.collect() }
}

/// Those of one upstream, the busiest first.
pub(super) fn of(upstream: &Upstream) -> Vec<Shown> {
    upstream.classes().into_iter().map(shown).collect()
}

fn shown(Class { name, state }: Class) -> Shown {
    Shown {
        name,
        in_flight: state.in_flight,
        peak: state.peak,
        rate: state.rate,
        mean_ms: state.mean.map(ms),
        p50_ms: state.p50.map(ms),
        p90_ms: state.p90.map(ms),
        late_ms: state.late.map(ms),
        patience_ms: (state.patience < UNKNOWN).then(|| ms(state.patience)),
        breaker: state_word(state.breaker),
        in_trouble: state.in_trouble,
    }
}

fn ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1e3
}

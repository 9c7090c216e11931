//! The metrics, read from counters and upstreams when somebody asks for them.

use std::collections::BTreeMap;

use quell::core::Reason;
use quell::observe::labels::{self, Came, Metric, STATES, Verdict};

use super::catalogue::{self, row_of};
use super::exposition::{Family, Format, Page};
use super::operations::{InForce, OfRoute, Operations};
use super::view::margin;
use crate::host::access::Access;
use crate::host::counters::{CAME, Count, Counters, REASONS};
use crate::host::tally::{BOUNDS, MOST_NAMES};

const OTHER: &str = "other";
/// Of requests that no route took.
const NONE: &str = "none";

/// All of them, as text.
pub(super) fn page(host: &dyn Operations, format: Format) -> String {
    let in_force = host.in_force();
    let all = in_force.routes();
    let mut page = Page::new(format);
    let sums = sums(host, &all);
    routes(&mut page, &sums);
    reasons(&mut page, &sums);
    upstreams(&mut page, host, &*in_force, &all);
    let shared = page.begun().len();
    host.count(&mut page);
    let own = host.rows().iter().map(|row| &row.metric);
    debug_assert!(page.begun()[shared..].iter().eq(own), "a host shows all of its rows, in order");
    process(&mut page, host);
    page.finish()
}

fn family(page: &mut Page, metric: Metric) -> Family<'_> {
    page.family(row_of(metric))
}

/// What one core or all of them counted of one label, added up.
#[derive(Default)]
struct Sums {
    requests: [u64; Verdict::WORDS.len()],
    attempts: [[u64; CAME]; 3],
    denied: [u64; REASONS],
    refusals: [u64; REASONS],
}

/// The sums of each route and its upstream; those beyond the first so many together.
type Routes<'a> = BTreeMap<(&'a str, &'a str), Sums>;

impl Sums {
    fn add(&mut self, counters: &Counters) {
        let add = |sums: &mut [u64], counts: &[Count]| {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.get());
        };
        add(&mut self.requests, &counters.requests);
        add(&mut self.denied, &counters.denied);
        add(&mut self.refusals, &counters.refusals);
        let kinds = [&counters.first, &counters.retries, &counters.hedges];
        self.attempts.iter_mut().zip(kinds).for_each(|(sums, counts)| add(sums, counts));
    }
}

fn sums<'a>(host: &dyn Operations, routes: &[OfRoute<'a>]) -> Routes<'a> {
    let mut sums = Routes::new();
    for (place, route) in routes.iter().enumerate() {
        let labels = match place {
            0..MOST_NAMES => (route.name, route.upstream.name()),
            _ => (OTHER, OTHER),
        };
        let sums = sums.entry(labels).or_default();
        route.counters.iter().for_each(|core| sums.add(core));
    }
    let unrouted = sums.entry((NONE, NONE)).or_default();
    host.unrouted().into_iter().for_each(|counters| unrouted.add(counters));
    sums
}

/// A series appears when it first counts.
fn routes(page: &mut Page, sums: &Routes<'_>) {
    let mut requests = family(page, labels::REQUESTS);
    for ((route, upstream), sums) in sums {
        for (outcome, &count) in Verdict::WORDS.iter().zip(&sums.requests) {
            if count > 0 {
                let labels = [("route", *route), ("upstream", *upstream), ("outcome", *outcome)];
                requests.sample(&labels, count as f64);
            }
        }
    }
    let mut attempts = family(page, labels::ATTEMPTS);
    for ((route, upstream), sums) in sums {
        for (kind, counts) in ["first", "retry", "hedge"].into_iter().zip(&sums.attempts) {
            for (result, &count) in Came::WORDS.iter().zip(counts) {
                if count > 0 {
                    let labels = [
                        ("route", *route),
                        ("upstream", *upstream),
                        ("kind", kind),
                        ("result", *result),
                    ];
                    attempts.sample(&labels, count as f64);
                }
            }
        }
    }
}

/// A series appears when it first counts, but for those of no route, which are always there: a sum over routes of what
/// has not happened yet is nought, not missing.
fn reasons(page: &mut Page, sums: &Routes<'_>) {
    let mut show = |metric, counts: fn(&Sums) -> &[u64; REASONS]| {
        let mut family = family(page, metric);
        for (names @ (route, upstream), sums) in sums {
            for (reason, &count) in Reason::ALL.iter().zip(counts(sums)) {
                if count > 0 || *names == (NONE, NONE) {
                    let labels =
                        [("route", *route), ("upstream", *upstream), ("reason", reason.as_str())];
                    family.sample(&labels, count as f64);
                }
            }
        }
    };
    show(labels::RETRIES_DENIED, |sums| &sums.denied);
    show(labels::REFUSALS, |sums| &sums.refusals);
}

/// The levels that upstreams are at, and what observers were told of them.
fn upstreams(
    page: &mut Page,
    host: &dyn Operations,
    in_force: &dyn InForce,
    routes: &[OfRoute<'_>],
) {
    let all: Vec<_> = in_force.upstreams().into_iter().take(MOST_NAMES).collect();
    let tally = &host.log().tally;
    let seen: Vec<_> = all.iter().map(|each| tally.of(each.upstream.name())).collect();
    let named = || all.iter().map(|each| each.upstream.name()).zip(&seen);

    let mut delays = family(page, labels::RETRY_DELAY);
    for (name, seen) in named() {
        for (source, waits) in ["backoff", "hint"].into_iter().zip(&seen.delays) {
            let labels = [("upstream", name), ("source", source)];
            delays.histogram(&labels, &BOUNDS, &waits.counts(), waits.sum());
        }
    }
    let mut waits = family(page, labels::QUEUE_WAIT);
    for (name, seen) in named() {
        let wait = &seen.queue_wait;
        waits.histogram(&[("upstream", name)], &BOUNDS, &wait.counts(), wait.sum());
    }

    let mut levels: Vec<(Metric, Vec<(&str, f64)>)> = Vec::new();
    let mut states = Vec::new();
    for each in &all {
        let upstream = each.upstream;
        let (name, state, now) = (upstream.name(), upstream.snapshot(), upstream.clock().now());
        let ejected =
            upstream.endpoints().iter().filter(|each| each.ejected_until.is_some()).count();
        let known = margin(each, routes).map(|margin| (catalogue::MARGIN, margin));
        let more = [
            (catalogue::RETRIES_IN_FLIGHT, f64::from(state.retrying)),
            (catalogue::PATIENCE, state.patience.as_secs_f64()),
            (catalogue::TROUBLE, f64::from(u8::from(state.trouble.is_some()))),
            (catalogue::EJECTED, ejected as f64),
            (catalogue::LEVERS, upstream.levers().len() as f64),
        ];
        for (metric, level) in labels::levels(&state, now).into_iter().chain(more).chain(known) {
            match levels.iter_mut().find(|(known, _)| *known == metric) {
                Some((_, samples)) => samples.push((name, level)),
                None => levels.push((metric, vec![(name, level)])),
            }
        }
        states.push((name, state.breaker));
    }
    for (metric, samples) in levels {
        let mut family = family(page, metric);
        samples.iter().for_each(|&(name, level)| family.sample(&[("upstream", name)], level));
    }
    // All three, always: a state that was left must not go on showing.
    let mut breakers = family(page, labels::BREAKER_STATE);
    for (name, now) in states {
        for (state, word) in STATES {
            breakers
                .sample(&[("upstream", name), ("state", word)], f64::from(u8::from(state == now)));
        }
    }
    let mut transitions = family(page, labels::BREAKER_TRANSITIONS);
    for (name, seen) in named() {
        for (place, (_, word)) in STATES.iter().enumerate().take(2) {
            transitions
                .sample(&[("upstream", name), ("state", word)], seen.transitions(place) as f64);
        }
    }
    let mut ejections = family(page, catalogue::EJECTIONS);
    named()
        .for_each(|(name, seen)| ejections.sample(&[("upstream", name)], seen.ejections() as f64));
}

/// What is of the process as a whole.
fn process(page: &mut Page, host: &dyn Operations) {
    let dropped = host.access().map_or(0, Access::dropped);
    family(page, catalogue::ACCESS_LOG_DROPPED).sample(&[], dropped as f64);
    let [failed, succeeded] = host.log().tally.reloads();
    let mut reloads = family(page, catalogue::CONFIG_RELOADS);
    reloads.sample(&[("result", "success")], succeeded as f64);
    reloads.sample(&[("result", "failure")], failed as f64);
    family(page, catalogue::BUILD).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
}

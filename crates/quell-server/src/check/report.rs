//! Report: what there is to say about a file, for people and machines.

use std::time::Duration;

use crate::config::{Config, Error, Place, Policy, Upstream, value::Written};
use quell::core::{
    self, backoff, breaker, idempotency, in_flight::Limit, lint, queue::Order, worst,
};
use serde::Serialize;

use crate::gateway::preflight::Findings;

/// What is known beside the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) load: Option<f64>,
    pub(super) capacity: Option<f64>,
    pub(super) failure_rate: f64,
    pub(super) instances: Option<u32>,
    pub(super) layers: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) routes: Vec<Route>,
    /// Settings that are understood and that nothing acts on.
    pub(super) not_used: Vec<NotUsed>,
    pub(super) found: Found,
}

/// What there is to say of the secrets and certificates that the file names.
#[derive(Debug, Default, Serialize)]
pub(super) struct Found {
    /// They are not on this machine, so nobody could look at them.
    pub(super) missing: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl From<Findings> for Found {
    fn from(Findings { missing, warnings, .. }: Findings) -> Self {
        Self { missing, warnings }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Route {
    pub(super) route: String,
    pub(super) upstream: String,
    pub(super) policy: String,
    /// What is in force, as label and words.
    pub(super) effective: Vec<(&'static str, String)>,
    pub(super) worst: Worst,
    pub(super) lints: Vec<Lint>,
}

/// What it can do on its worst day.
#[derive(Debug, Serialize)]
pub(super) struct Worst {
    pub(super) attempts: u32,
    pub(super) latency_s: f64,
    pub(super) failure_rate: f64,
    /// Sends per call at that rate of failures, once what was saved up is spent.
    pub(super) sends_per_call: f64,
    pub(super) load: Option<f64>,
    pub(super) capacity: Option<f64>,
    pub(super) w_rho: Option<f64>,
    pub(super) heals: Option<bool>,
    pub(super) instances: u32,
    /// Retries that all processes allow together in a minute without a success; none if that is not bounded.
    pub(super) fleet_retries: Option<u64>,
    pub(super) added_recovery_s: f64,
    pub(super) chain: Chain,
}

/// The same at every layer.
#[derive(Debug, Serialize)]
pub(super) struct Chain {
    pub(super) layers: usize,
    /// Most sends that reach the last one for one request.
    pub(super) sends: u64,
    /// The same if retries were counted along the chain.
    pub(super) sends_with_credit: u64,
    /// Sends per request at the given rate of failures.
    pub(super) sends_per_request: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Lint {
    pub(super) code: &'static str,
    pub(super) setting: String,
    pub(super) value: String,
    pub(super) why: &'static str,
    pub(super) fix: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct NotUsed {
    pub(super) setting: String,
    pub(super) place: String,
    pub(super) instead: &'static str,
}

/// A file that is wrong.
#[derive(Debug, Serialize)]
pub(super) struct Wrong {
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    place: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
}

/// Of what is no setting's place in the file.
impl<'a> FromIterator<&'a String> for Wrong {
    fn from_iter<I: IntoIterator<Item = &'a String>>(lines: I) -> Self {
        let problem = |line: &String| Problem {
            message: line.clone(),
            place: None,
            line: None,
            column: None,
        };
        Self { problems: lines.into_iter().map(problem).collect() }
    }
}

impl From<&Error> for Wrong {
    fn from(error: &Error) -> Self {
        let Error::Wrong(problems) = error else {
            return std::iter::once(&error.to_string()).collect();
        };
        let problem = |problem: &crate::config::Problem| {
            let (line, column) = match problem.place {
                Place::File { line, column, .. } => (Some(line), Some(column)),
                Place::Setting(_) => (None, None),
            };
            let place = Some(problem.place.to_string());
            Problem { message: problem.message.clone(), place, line, column }
        };
        Self { problems: problems.iter().map(problem).collect() }
    }
}

impl Report {
    pub(super) fn new(
        file: &str,
        config: &Config,
        given: &Given,
    ) -> Result<Self, core::spec::Invalid> {
        let not_used = config.idle.iter().map(|idle| NotUsed {
            setting: idle.path.clone(),
            place: idle.place.to_string(),
            instead: idle.instead,
        });
        let mut routes = Vec::new();
        for route in &config.routes {
            let Some(upstream) = config.upstreams.get(&route.upstream) else { continue };
            let policy = config.policy_of(route);
            let named = route.policy.as_ref().unwrap_or(&route.upstream);
            let called = called(config, named, upstream);
            let name = (route.name.clone(), route.upstream.as_str());
            let mut found = Route::new(name, (called, &policy), upstream, given)?;
            let forgets = route.idempotency.and_then(|keys| forgets(&policy.spec, keys.spec));
            found.lints.extend(forgets);
            routes.push(found);
        }
        // What no route leads to is still there for the library and the simulator.
        let routed = |name: &String| config.routes.iter().any(|route| route.upstream == *name);
        for (name, upstream) in config.upstreams.iter().filter(|(name, _)| !routed(name)) {
            let names = ("every call".to_owned(), name.as_str());
            let policy = (called(config, name, upstream), &config.policy_for(name));
            routes.push(Route::new(names, policy, upstream, given)?);
        }
        Ok(Self {
            file: file.to_owned(),
            routes,
            not_used: not_used.collect(),
            found: Found::default(),
        })
    }

    /// Whether something will hurt.
    pub(super) fn hurts(&self) -> bool {
        self.routes.iter().any(|route| !route.lints.is_empty() || route.worst.heals == Some(false))
    }
}

/// Whether keys are forgotten too soon.
fn forgets(policy: &core::spec::PolicySpec, spec: idempotency::Spec) -> Option<Lint> {
    let rules = idempotency::Rules::new(spec).ok()?;
    let horizon = lint::horizon(policy, None, Duration::ZERO);
    lint::keys(&rules, horizon).map(Lint::from)
}

impl From<lint::Lint> for Lint {
    fn from(lint: lint::Lint) -> Self {
        let lint::Lint { code, field, value, why, fix } = lint;
        Self { code: code.as_str(), setting: field.to_owned(), value, why, fix }
    }
}

impl Route {
    fn new(
        (route, name): (String, &str),
        (called, policy): (String, &Policy),
        upstream: &Upstream,
        given: &Given,
    ) -> Result<Self, core::spec::Invalid> {
        let valid = core::Policy::new(policy.spec)?;
        let instances = given.instances.or(upstream.budget.instances).unwrap_or(1);
        // People are told about the numbers that they wrote, which are the whole fleet's where it shares them.
        let whole = core::spec::UpstreamSpec { budget: upstream.budget.whole, ..upstream.spec };
        let lints = lint::lint(&policy.spec, &whole, policy.kind());
        let fleet = lint::fleet(&upstream.spec.budget, instances);
        Ok(Self {
            route,
            upstream: name.to_owned(),
            policy: called,
            effective: effective(policy, &valid, upstream),
            worst: worst(&valid, upstream, given, instances),
            lints: lints.into_iter().chain(fleet).map(Lint::from).collect(),
        })
    }
}

/// What a policy is called, whether or not there is one.
pub(crate) fn called(config: &Config, name: &str, upstream: &Upstream) -> String {
    match config.policies.contains_key(name) {
        true => name.to_owned(),
        false => format!("defaults of {}", upstream.preset.word()),
    }
}

fn worst(policy: &core::Policy, upstream: &Upstream, given: &Given, instances: u32) -> Worst {
    let Given { load, capacity, failure_rate, layers, .. } = *given;
    let known = worst::Given { instances, load, capacity, failure_rate, ..worst::Given::default() };
    let day = worst::worst(policy, &upstream.spec, &known);
    let each = vec![worst::Load::of(policy, upstream.spec.budget, &known); layers];
    Worst {
        attempts: day.attempts,
        latency_s: day.latency.as_secs_f64(),
        failure_rate,
        sends_per_call: day.load,
        load,
        capacity,
        w_rho: day.w_rho,
        heals: day.w_rho.map(|w_rho| w_rho < 1.0),
        instances,
        fleet_retries: day.fleet,
        added_recovery_s: day.added_recovery.as_secs_f64(),
        chain: Chain {
            layers,
            sends: worst::chain(&vec![day.attempts; layers]),
            sends_with_credit: worst::chain_with_credit(day.attempts, 1),
            sends_per_request: worst::chain_load(&each, failure_rate),
        },
    }
}

/// What is in force, in words.
fn effective(
    policy: &Policy,
    valid: &core::Policy,
    upstream: &Upstream,
) -> Vec<(&'static str, String)> {
    let (spec, calls) = (&upstream.spec, &policy.spec);
    let budget = match upstream.budget.instances {
        Some(instances) => {
            format!("{}, divided by {instances}: {} each", upstream.budget.whole, spec.budget)
        }
        None => spec.budget.to_string(),
    };
    let mut words = vec![
        (
            "attempts",
            format!(
                "{} within {}, {} each",
                calls.attempts,
                Written(calls.timeout),
                Written(valid.per_try())
            ),
        ),
        ("backoff", backoff(&calls.backoff)),
        ("budget", mode(budget, spec.modes.budget)),
        ("breaker", breaker(&spec.breaker)),
        ("in flight", mode(in_flight(upstream), spec.modes.in_flight)),
    ];
    if let Some(limit) = spec.rate_limit {
        let limit = format!("{} per second, burst {}", limit.per_second, limit.burst);
        words.push(("rate limit", mode(limit, spec.modes.rate_limit)));
    }
    if let Some(throttle) = spec.throttle {
        let throttle = format!(
            "{} requests per accepted one, at most {} % refused",
            throttle.k,
            throttle.most * 100.0
        );
        words.push(("throttle", mode(throttle, spec.modes.throttle)));
    }
    if let Some(hedge) = policy.hedge {
        let share = hedge.after * 100.0;
        words.push(("hedge", format!("beside what is slower than {share} %")));
    }
    words
}

/// Says so where a control only reports.
fn mode(words: String, mode: core::mode::Mode) -> String {
    match mode {
        core::mode::Mode::Enforce => words,
        core::mode::Mode::Report => format!("{words} (only reported)"),
    }
}

fn backoff(spec: &backoff::Spec) -> String {
    use backoff::Shape;
    let (base, cap) = (Written(spec.base), Written(spec.cap));
    let waits = match spec.shape {
        Shape::None => return "none".to_owned(),
        Shape::Fixed => format!("{base} each time"),
        Shape::Linear => format!("{base} more each time, up to {cap}"),
        Shape::Exponential { factor } => format!("{base}, times {factor} each time, up to {cap}"),
        Shape::List(waits) => {
            waits.iter().map(|wait| Written(wait).to_string()).collect::<Vec<_>>().join(", ")
        }
    };
    format!("{waits}, jitter {}", spec.jitter.as_str())
}

fn breaker(spec: &breaker::Spec) -> String {
    use breaker::{Mode, Over};
    let over = match spec.over {
        Over::Time => Some(format!("in {}", Written(spec.window))),
        Over::Calls(calls) => Some(format!("of the last {calls}")),
        Over::Either(calls) => Some(format!("in {} or of the last {calls}", Written(spec.window))),
        Over::Off => None,
    };
    let mut rules: Vec<_> = over
        .map(|over| {
            format!(
                "{} % failed of at least {} calls {over}",
                spec.failure_rate * 100.0,
                spec.min_calls
            )
        })
        .into_iter()
        .collect();
    if let Some(slow) = spec.slow {
        rules.push(format!("{} % slower than {}", spec.slow_rate * 100.0, Written(slow)));
    }
    if spec.consecutive > 0 {
        rules.push(format!("{} failures in a row", spec.consecutive));
    }
    let rules = format!("opens at {}, for up to {}", rules.join(", or "), Written(spec.open));
    match spec.mode {
        Mode::Enforce => rules,
        Mode::Report => format!("{rules} (only reported)"),
        Mode::Disabled => "disabled".to_owned(),
        Mode::ForcedOpen => "forced open: everything is refused".to_owned(),
        Mode::ForcedClosed => "forced closed: nothing is refused".to_owned(),
    }
}

fn in_flight(upstream: &Upstream) -> String {
    let limit = match upstream.spec.in_flight {
        Limit::Off => return "no limit".to_owned(),
        Limit::Fixed(slots) => slots.to_string(),
        Limit::Adaptive { ceiling } => format!("a limit that finds itself, up to {ceiling}"),
    };
    let order = match upstream.spec.order {
        Order::Fifo => "the oldest first",
        Order::Lifo => "the newest first",
        Order::AdaptiveLifo => "under pressure the newest first",
    };
    format!("{limit}; {} may wait, {order}", upstream.spec.queue)
}

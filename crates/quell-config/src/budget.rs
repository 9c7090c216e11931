//! `budget = { … }`: what retries may cost.

use std::time::Duration;

use quell_core::budget::{
    self, Bucket, Division, Invalid, Spec, adaptive, failed_retry, grpc, probabilistic, ratio,
    sampled, tokens, window,
};

use super::{setting::Value, table::Table};

/// Millionths, in which the core counts what a retry costs.
const MILLION: f64 = 1_000_000.0;

/// A budget as written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// For all processes together, if it is divided, else for each.
    pub whole: Spec,
    /// How many processes share it.
    pub instances: Option<u32>,
    /// Whether they live for a call or so, as functions do.
    pub ephemeral: bool,
}

impl Budget {
    /// The same for everybody.
    pub fn of(whole: Spec) -> Self {
        Self { whole, instances: None, ephemeral: false }
    }

    /// What one process has of it.
    pub fn part(&self) -> Result<Spec, Invalid> {
        match (self.instances, self.ephemeral) {
            (None, false) => Ok(self.whole),
            (instances, ephemeral) => {
                Division { instances: instances.unwrap_or(1), ephemeral }.of(self.whole)
            }
        }
    }

    pub(super) fn settings(&mut self, table: &Table<'_>) {
        table.written_last(&["instances", "ephemeral", "mode"]);
        let means =
            "how many processes share it; floors, start and caps are divided, ratios are not";
        table.set("instances", &mut self.instances, means);
        // Not written where it is not so.
        let mut ephemeral = self.ephemeral.then_some(true);
        let means = "processes that live for a call or so start with nothing";
        table.set("ephemeral", &mut ephemeral, means);
        self.ephemeral = ephemeral.unwrap_or_default();
        spec(table, &mut self.whole);
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Known(Spec),
    Inner,
    Divided,
    Shared,
}

/// Every kind with its own numbers; what a kind has no use for is not known there.
fn spec(table: &Table<'_>, spec: &mut Spec) {
    let known = Kind::Known;
    let kinds = [
        ("tokens", known(tokens::Spec::default().into())),
        ("grpc", known(grpc::Spec::default().into())),
        ("failed-retry", known(failed_retry::Spec::default().into())),
        ("ratio", known(ratio::Spec::default().into())),
        ("window", known(window::Spec::default().into())),
        ("adaptive", known(adaptive::Spec::default().into())),
        ("probabilistic", known(probabilistic::Spec::default().into())),
        ("sampled", Kind::Inner),
        ("unlimited", known(Spec::Unlimited)),
        ("none", known(Spec::None)),
        ("divided", Kind::Divided),
        ("shared", Kind::Shared),
    ];
    let presets = [
        ("llm", tokens::Spec::llm().into()),
        ("time-only", tokens::Spec::time_only().into()),
        ("finagle", ratio::Spec::finagle().into()),
    ];
    if let Some(preset) = table.preset("preset", &presets, "what the defaults are") {
        *spec = preset;
    }
    let kind = table.setting(
        "kind",
        "by which rule retries are paid for",
        |fields| fields.word("kind", &kinds),
        || Some(Value::text(spec.kind())),
    );
    match kind.flatten() {
        None => {}
        Some(Kind::Known(usual)) if usual.kind() == spec.kind() => {}
        Some(Kind::Known(usual)) => *spec = usual,
        Some(Kind::Inner) => *spec = sampled::Spec::default().into(),
        Some(Kind::Divided) => {
            table.wrong("kind", "is \"divided\", which every kind can be: write instances, the number of processes, beside the fleet's own kind and numbers");
        }
        Some(Kind::Shared) => {
            table.wrong("kind", "is \"shared\", which no host has yet: write kind = \"tokens\" and instances, the number of processes");
        }
    }
    numbers(table, spec);
}

fn numbers(table: &Table<'_>, spec: &mut Spec) {
    match spec {
        Spec::Tokens(spec) => tokens_and_cost(table, spec),
        Spec::Grpc(spec) => bucket(table, &mut spec.bucket),
        Spec::FailedRetry(spec) => bucket(table, &mut spec.bucket),
        Spec::Adaptive(spec) => {
            bucket(table, &mut spec.bucket);
            let means = "the weight of the newest attempt in the share of successes";
            table.set("alpha", &mut spec.alpha, means);
            let means = "below this share of successes, retries need half a bucket";
            table.set("success_floor", &mut spec.success_floor, means);
        }
        Spec::Ratio(spec) => {
            share(table, &mut spec.ratio, &mut spec.window);
            let means = "retries per second whatever succeeds, in every process";
            table.set("floor", &mut spec.floor, means);
        }
        Spec::Window(spec) => {
            share(table, &mut spec.ratio, &mut spec.window);
            let means = "retries in a window without successes, in every process";
            table.set("bootstrap", &mut spec.bootstrap, means);
        }
        Spec::Probabilistic(spec) => {
            table.set("target", &mut spec.target, "retries as a share of all attempts");
            let means = "the chance of a retry until ten attempts are known";
            table.set("unknown", &mut spec.unknown, means);
            table.set("half_life", &mut spec.half_life, "what happened so long ago counts half");
        }
        Spec::Sampled(spec) => sample(table, spec),
        Spec::Unlimited | Spec::None => {}
    }
}

fn tokens_and_cost(table: &Table<'_>, spec: &mut tokens::Spec) {
    let mut bucket = spec.bucket();
    self::bucket(table, &mut bucket);
    (spec.max, spec.ratio, spec.start) = (bucket.max, bucket.ratio, bucket.start);
    table.set("refill", &mut spec.refill, "one token per this long, whatever succeeds");
    let means = "the share of max below which retries pause";
    table.set("pause_below", &mut spec.pause_below, means);
    table.inside("cost", "tokens that a retry costs, by what failed", |inside| {
        cost(inside, &mut spec.cost);
    });
}

fn sample(table: &Table<'_>, sampled: &mut sampled::Spec) {
    let means = "the share of failures that may ask the inner budget";
    table.set("fraction", &mut sampled.fraction, means);
    table.inside("inner", "the budget that those who are drawn ask", |inside| {
        let mut inner = sampled.inner.into();
        spec(inside, &mut inner);
        match sampled::Inner::of(inner) {
            Some(inner) => sampled.inner = inner,
            None => table.wrong(
                "inner",
                format_args!(
                    "is of kind \"{}\": write a kind that can be asked, such as \"tokens\"",
                    inner.kind()
                ),
            ),
        }
    });
}

const RATIO: &str = "what a success earns: 0.1 for one retry per ten";

fn bucket(table: &Table<'_>, bucket: &mut Bucket) {
    table.set("max", &mut bucket.max, "tokens it can hold");
    table.set("ratio", &mut bucket.ratio, RATIO);
    table.set("start", &mut bucket.start, "tokens it starts with; max if not written");
}

fn share(table: &Table<'_>, ratio: &mut f64, window: &mut Duration) {
    table.set("ratio", ratio, RATIO);
    table.set("window", window, "how far back successes and retries count");
}

fn cost(table: &Table<'_>, cost: &mut tokens::Cost) {
    let set = |name, into: &mut u32, means| {
        let mut tokens = f64::from(*into) / MILLION;
        if table.set(name, &mut tokens, means) {
            // What is no cost ends up as 0 or the most there is, and the core refuses both.
            *into = (tokens * MILLION).round() as u32;
        }
    };
    set("connect", &mut cost.connect, "after no connection");
    set("timeout", &mut cost.timeout, "after no answer in time");
    set("overload", &mut cost.overload, "after a word that it is too much");
    set("server", &mut cost.server, "after any other failure of the upstream");
}

/// Whether a budget is one, in the core's words.
pub(super) fn check(spec: Spec) -> Result<(), Invalid> {
    budget::Budget::new(spec, quell_core::Time::ZERO).map(|_| ())
}

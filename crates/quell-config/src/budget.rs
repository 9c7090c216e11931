//! `budget = { … }`: what retries may cost.

use std::time::Duration;

use quell_core::budget::{
    self, Bucket, Division, Invalid, Spec, adaptive, failed_retry, grpc, probabilistic, ratio,
    sampled, tokens, window,
};

use super::fields::Fields;

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

    pub(super) fn read(fields: &Fields<'_>, usual: Self) -> Self {
        let mut budget = usual;
        fields.set("instances", &mut budget.instances);
        fields.set("ephemeral", &mut budget.ephemeral);
        budget.whole = spec(fields, usual.whole);
        budget
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
fn spec(fields: &Fields<'_>, usual: Spec) -> Spec {
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
    let usual = fields.word("preset", &presets).unwrap_or(usual);
    let start = match fields.word("kind", &kinds) {
        None => usual,
        Some(Kind::Known(spec)) if spec.kind() == usual.kind() => usual,
        Some(Kind::Known(spec)) => spec,
        Some(Kind::Inner) => sampled::Spec::default().into(),
        Some(Kind::Divided) => {
            fields.wrong("kind", "is \"divided\", which every kind can be: write instances, the number of processes, beside the fleet's own kind and numbers");
            usual
        }
        Some(Kind::Shared) => {
            fields.wrong("kind", "is \"shared\", which no host has yet: write kind = \"tokens\" and instances, the number of processes");
            usual
        }
    };
    numbers(fields, start)
}

fn numbers(fields: &Fields<'_>, start: Spec) -> Spec {
    match start {
        Spec::Tokens(mut spec) => {
            let mut bucket = spec.bucket();
            tokens_of(fields, &mut bucket);
            (spec.max, spec.ratio, spec.start) = (bucket.max, bucket.ratio, bucket.start);
            fields.set("refill", &mut spec.refill);
            fields.set("pause_below", &mut spec.pause_below);
            cost(fields, &mut spec.cost);
            spec.into()
        }
        Spec::Grpc(mut spec) => {
            tokens_of(fields, &mut spec.bucket);
            spec.into()
        }
        Spec::FailedRetry(mut spec) => {
            tokens_of(fields, &mut spec.bucket);
            spec.into()
        }
        Spec::Adaptive(mut spec) => {
            tokens_of(fields, &mut spec.bucket);
            fields.set("alpha", &mut spec.alpha);
            fields.set("success_floor", &mut spec.success_floor);
            spec.into()
        }
        Spec::Ratio(mut spec) => {
            share_of(fields, &mut spec.ratio, &mut spec.window);
            fields.set("floor", &mut spec.floor);
            spec.into()
        }
        Spec::Window(mut spec) => {
            share_of(fields, &mut spec.ratio, &mut spec.window);
            fields.set("bootstrap", &mut spec.bootstrap);
            spec.into()
        }
        Spec::Probabilistic(mut spec) => {
            fields.set("target", &mut spec.target);
            fields.set("unknown", &mut spec.unknown);
            fields.set("half_life", &mut spec.half_life);
            spec.into()
        }
        Spec::Sampled(spec) => sample(fields, spec).into(),
        Spec::Unlimited | Spec::None => start,
    }
}

fn sample(fields: &Fields<'_>, mut sampled: sampled::Spec) -> sampled::Spec {
    fields.set("fraction", &mut sampled.fraction);
    if let Some(inside) = fields.table("inner") {
        let inner = spec(&inside, sampled.inner.into());
        match sampled::Inner::of(inner) {
            Some(inner) => sampled.inner = inner,
            None => fields.wrong(
                "inner",
                format_args!(
                    "is of kind \"{}\": write a kind that can be asked, such as \"tokens\"",
                    inner.kind()
                ),
            ),
        }
    }
    sampled
}

fn tokens_of(fields: &Fields<'_>, bucket: &mut Bucket) {
    fields.set("max", &mut bucket.max);
    fields.set("ratio", &mut bucket.ratio);
    fields.set("start", &mut bucket.start);
}

fn share_of(fields: &Fields<'_>, ratio: &mut f64, window: &mut Duration) {
    fields.set("ratio", ratio);
    fields.set("window", window);
}

fn cost(fields: &Fields<'_>, cost: &mut tokens::Cost) {
    let Some(inside) = fields.table("cost") else { return };
    let set = |name, into: &mut u32| {
        if let Some(tokens) = inside.get::<f64>(name) {
            // Whatever is no cost ends up as 0 or the most there is, and the core refuses both.
            *into = (tokens * MILLION).round() as u32;
        }
    };
    set("connect", &mut cost.connect);
    set("timeout", &mut cost.timeout);
    set("overload", &mut cost.overload);
    set("server", &mut cost.server);
}

/// What a retry costs, in tokens.
pub(super) fn in_tokens(cost: u32) -> f64 {
    f64::from(cost) / MILLION
}

/// Whether a budget is one, in the core's words.
pub(super) fn check(spec: Spec) -> Result<(), Invalid> {
    budget::Budget::new(spec, quell_core::Time::ZERO).map(|_| ())
}

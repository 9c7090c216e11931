//! `backoff = { … }`: how long to wait before another attempt.

use std::time::Duration;

use quell_core::backoff::{Jitter, Shape, Spec, Waits};

use super::{fields::Fields, table::Table};

/// How waits grow.
#[derive(Clone, Copy, PartialEq)]
enum Grows {
    Not,
    Fixed,
    Linear,
    Exponential,
    List,
}

const KINDS: [(&str, Grows); 5] = [
    ("exponential", Grows::Exponential),
    ("fixed", Grows::Fixed),
    ("linear", Grows::Linear),
    ("list", Grows::List),
    ("none", Grows::Not),
];
const JITTERS: [(&str, Jitter); 5] = [
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
    ("none", Jitter::None),
    ("proportional", PROPORTIONAL),
];
/// With the share that is usual.
const PROPORTIONAL: Jitter = Jitter::Proportional(0.2);
/// What an exponential wait is times the one before, unless written.
const FACTOR: f64 = 2.0;

/// Reads waits between attempts, as in `backoff = { base = "100ms", cap = "2s" }`, over what there is.
pub fn backoff(fields: &Fields<'_>, spec: &mut Spec) {
    waits(&Table::reading(fields), spec);
}

pub(super) fn waits(table: &Table<'_>, spec: &mut Spec) {
    table.written_last(&["factor", "cap", "jitter", "share"]);
    let mut grows = match spec.shape {
        _ if table.has("waits") => Grows::List,
        _ if table.reads() => Grows::Exponential,
        Shape::None => Grows::Not,
        Shape::Fixed => Grows::Fixed,
        Shape::Linear => Grows::Linear,
        Shape::Exponential { .. } => Grows::Exponential,
        Shape::List(_) => Grows::List,
    };
    table.word("kind", &mut grows, &KINDS, "how the waits grow");
    match grows {
        Grows::Not => spec.shape = Shape::None,
        Grows::List => list(table, spec),
        Grows::Fixed => spec.shape = Shape::Fixed,
        Grows::Linear => spec.shape = Shape::Linear,
        Grows::Exponential => {
            let mut factor = match spec.shape {
                Shape::Exponential { factor } if !table.reads() => factor,
                _ => FACTOR,
            };
            let means = "what each wait is times the one before; for exponential";
            table.set("factor", &mut factor, means);
            spec.shape = Shape::Exponential { factor };
        }
    }
    if !matches!(grows, Grows::Not | Grows::List) {
        table.set("base", &mut spec.base, "the first wait");
    }
    table.set("cap", &mut spec.cap, "the longest wait, jitter included");
    jitter(table, &mut spec.jitter);
    if grows != Grows::List && table.has("waits") {
        table.wrong("waits", "is a list of waits: write kind = \"list\", or leave it out");
    }
}

fn list(table: &Table<'_>, spec: &mut Spec) {
    let mut waits: Vec<Duration> = match spec.shape {
        Shape::List(waits) if !table.reads() => waits.iter().collect(),
        _ => Vec::new(),
    };
    table.list("waits", &mut waits, "for list: 1 to 16 waits, of which the last repeats");
    if !table.reads() {
        return;
    }
    match Waits::new(&waits) {
        Ok(waits) => {
            spec.shape = Shape::List(waits);
            spec.cap = spec.cap.max(waits.longest());
        }
        Err(error) => table.invalid(&strip("backoff.", &error)),
    }
}

fn jitter(table: &Table<'_>, jitter: &mut Jitter) {
    let mut kind = match *jitter {
        Jitter::Proportional(_) => PROPORTIONAL,
        other => other,
    };
    let means = "how waits are spread, so that callers do not return in step";
    if table.word("jitter", &mut kind, &JITTERS, means) {
        *jitter = kind;
    }
    if let Jitter::Proportional(share) = jitter {
        let means = "for proportional: how far a wait may be off, as a share of it";
        table.set("share", share, means);
    }
}

/// A message of the core about a part of this table, seen from this table.
pub(super) fn strip(prefix: &str, error: &impl std::fmt::Display) -> String {
    let message = error.to_string();
    message.strip_prefix(prefix).map_or_else(|| message.clone(), str::to_owned)
}

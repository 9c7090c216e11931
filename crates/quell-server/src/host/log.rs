//! Log: what changed and what was refused, a line at a time on standard error, at most one per cause and second.

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quell::core::{Event as Change, Reason};
use quell::observe::{Event, Observe};

use super::counters::REASONS;
use super::tally::Tally;

/// Writes one line. A standard error that nobody reads is no reason to fail.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "quell: {text}");
}

/// Kinds of changes that are told apart when lines are held back.
const KINDS: usize = 14;

/// Writes changes of the upstream's state as they come, and once a second the sum of the rest.
#[derive(Debug)]
pub(crate) struct Log {
    on: bool,
    /// Everything it hears is counted, too.
    pub(crate) tally: Tally,
    /// Per kind: whether a line was written this second.
    told: [AtomicU64; KINDS],
    /// Refusals as of the last sum.
    refused: [AtomicU64; REASONS],
    /// Attempts that got no reply this second, and what the first of them met with.
    failed: AtomicU64,
    why: Mutex<String>,
}

impl Log {
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            tally: Tally::default(),
            told: std::array::from_fn(|_| AtomicU64::new(0)),
            refused: std::array::from_fn(|_| AtomicU64::new(0)),
            failed: AtomicU64::new(0),
            why: Mutex::default(),
        }
    }

    /// Writes one line, if lines are written at all.
    pub(crate) fn say(&self, text: fmt::Arguments<'_>) {
        if self.on {
            line(text);
        }
    }

    /// An attempt got no reply.
    pub(crate) fn failed(&self, why: &dyn fmt::Display) {
        if self.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.why.lock() = why.to_string();
        }
    }

    /// A second has passed: says how many were refused in it, and which changes were held back. `refused` knows how many were refused
    /// for a reason since the start.
    pub(crate) fn second(&self, refused: impl Fn(Reason) -> u64) {
        if !self.on {
            return;
        }
        for (index, reason) in Reason::ALL.iter().enumerate() {
            let total = refused(*reason);
            let new = total.saturating_sub(self.refused[index].swap(total, Ordering::Relaxed));
            if new > 0 {
                line(format_args!("refused {new} in the last second: {reason}"));
            }
        }
        let failed = self.failed.swap(0, Ordering::Relaxed);
        if failed > 0 {
            line(format_args!(
                "{failed} attempts without a reply in the last second: {}",
                self.why.lock()
            ));
        }
        for (kind, told) in self.told.iter().enumerate() {
            let held_back = told.swap(0, Ordering::Relaxed).saturating_sub(1);
            if held_back > 0 {
                line(format_args!("{}, {held_back} times more in the last second", NAMES[kind]));
            }
        }
    }
}

const NAMES: [&str; KINDS] = [
    "breaker opened",
    "breaker closed",
    "retry budget exhausted",
    "retry budget recovered",
    "in-flight limit moved",
    "ghost probe to an endpoint",
    "upstream asked to hold back",
    "an endpoint ejected",
    "a route's or tenant's retry budget exhausted",
    "a route's or tenant's retry budget recovered",
    "the breaker of a class opened (`quell ctl classes` names it)",
    "the breaker of a class closed",
    "trouble, the in-flight limit is tight",
    "calm, the in-flight limit is loose",
];

fn kind(change: &Change) -> usize {
    match change {
        Change::BreakerOpened { .. } | Change::KeyOpened { .. } => 0,
        Change::BreakerClosed | Change::KeyClosed { .. } => 1,
        Change::BudgetExhausted => 2,
        Change::BudgetRecovered => 3,
        Change::LimitMoved { .. } => 4,
        Change::GhostProbe { .. } => 5,
        Change::HeldBack { .. } => 6,
        Change::Ejected { .. } => 7,
        Change::ChildBudgetExhausted { .. } => 8,
        Change::ChildBudgetRecovered { .. } => 9,
        Change::ClassOpened { .. } => 10,
        Change::ClassClosed { .. } => 11,
        Change::Trouble { .. } => 12,
        Change::Calm => 13,
    }
}

impl Observe for Log {
    fn observe(&self, upstream: &str, event: &Event<'_>) {
        self.tally.observe(upstream, event);
        let Event::Changed(change) = event else { return };
        let kind = kind(change);
        if !self.on || self.told[kind].fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        match change {
            Change::LimitMoved { from, to } => {
                line(format_args!("{upstream}: {} from {from} to {to}", NAMES[kind]));
            }
            Change::GhostProbe { endpoint } | Change::Ejected { endpoint } => {
                line(format_args!("{upstream}: {}, number {endpoint}", NAMES[kind]));
            }
            Change::Trouble { evidence } => {
                line(format_args!("{upstream}: {}: {}", NAMES[kind], evidence.as_str()));
            }
            _ => line(format_args!("{upstream}: {}", NAMES[kind])),
        }
    }
}

//! Kinds: what real traffic is made of.
//!
//! **Why.** A service with one kind of request does not exist. Quick calls stand beside slow ones, long polls wait for hours and cost
//! nothing, uploads trickle in, users go on to the next page before this one is there, and one path always fails. All of that
//! is health, and whoever takes it for trouble shuts people out.
//!
//! **How.** A scenario with kinds has as many crowds as kinds: each comes by its own clock, takes its own time at the service and
//! leaves by its own patience. They share the service's workers and Quell in front of it. What a request is like (its work, its
//! upload, how long its caller waits) is drawn when it is first asked for, so the same seed brings the same requests whatever
//! serves them. Without kinds all is as `load`, `patience` and `service.time` say.
//!
//! ```
//! use core::time::Duration;
//! use quell_sim::{Scenario, run, scenario::Kind};
//!
//! let ms = Duration::from_millis;
//! let kinds = vec![Kind::new("quick", 180.0, ms(3)), Kind::new("slow", 20.0, ms(400))];
//! let run = run(&Scenario::of_kinds(100, kinds), 1)?;
//! assert_eq!(run.kinds[0].name, "quick");
//! assert!(run.kinds[1].quantile(0.5) == Some(ms(400)));
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

use core::time::Duration;

use quell_core::Priority;

use super::{Arrivals, Callers, Curve, Invalid, Outage, OutageKind, Scenario, Service, wrong};
use crate::dist::{Dist, Draw};

/// Who sends requests of a kind, as far as they are judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Whoever is to be served, whatever the others do.
    #[default]
    Good,
    /// Harmless, and not to be judged by: their calls fail by themselves, or they do not wait.
    Other,
    /// Takes all it can get.
    Hostile,
}

/// One kind of request among several. [`Kind::new`] is a plain one.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// What it is called.
    pub name: String,
    /// Requests per second; what `arrivals` that count for themselves make of it is only told.
    pub load: f64,
    /// When they begin.
    pub arrivals: Arrivals,
    /// How long the service works on each.
    pub time: Dist,
    /// How many times longer that takes, by the second of the run; none, by default.
    pub drift: Curve,
    /// Whether it only waits: a long poll holds no worker.
    pub waits: bool,
    /// How long it takes until the service has all of it and begins; `None`, by default: no time.
    pub upload: Option<Dist>,
    /// The share of requests that always fail, once their work is done.
    pub fails: f64,
    /// All of them are answered at once with a 429 that says to come back after so long; `None`, by default.
    pub throttled: Option<Duration>,
    /// What happens to this kind alone.
    pub faults: Vec<Outage>,
    /// How long a caller waits for one answer before it leaves.
    pub patience: Dist,
    /// Callers who hang up sooner, and do not come back.
    pub hang_ups: Option<HangUps>,
    /// Callers who leave all at once, and do not come back.
    pub together: Option<Together>,
    /// Whether callers try again as the scenario's do; otherwise they try once.
    pub retries: bool,
    /// Whose requests they are.
    pub side: Side,
    /// How many different callers send them. Kinds of one side share their callers.
    pub callers: u32,
    /// Which credential the service sees; 0, by default: none.
    pub credential: u64,
    /// How important they are.
    pub priority: Priority,
    /// What Quell takes for one kind: kinds with the same number look alike to it. `None`, by default: one of its own.
    pub class: Option<u64>,
}

/// Callers who hang up before an answer was due.
#[derive(Debug, Clone, PartialEq)]
pub struct HangUps {
    /// How many of them do, from 0 to 1.
    pub share: f64,
    /// How long after they asked.
    pub after: Dist,
}

/// Callers who leave all at once: a connection with many requests on it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Together {
    /// How often.
    pub every: Duration,
    /// How many at most, those who came first.
    pub most: u32,
}

impl Kind {
    /// Requests at random, so many per second, that take their time, of a hundred good callers who wait 30 s and try once.
    pub fn new(name: &str, load: f64, time: impl Into<Dist>) -> Self {
        Self {
            name: name.to_owned(),
            load,
            arrivals: Arrivals::Random,
            time: time.into(),
            drift: Curve::NONE,
            waits: false,
            upload: None,
            fails: 0.0,
            throttled: None,
            faults: vec![],
            patience: Dist::Constant(Duration::from_secs(30)),
            hang_ups: None,
            together: None,
            retries: false,
            side: Side::Good,
            callers: 100,
            credential: 0,
            priority: Priority::Default,
            class: None,
        }
    }

    /// The mean time that it takes at the service; zero if that cannot be said.
    pub fn mean(&self) -> Duration {
        Draw::new(&self.time).map_or(Duration::ZERO, |time| time.mean())
    }

    /// Whether it can be run.
    pub fn check(&self) -> Result<(), Invalid> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        if !(self.load > 0.0 && self.load <= 1e9) {
            let fix = "is out of range: write requests per second, from above 0 to 1e9";
            return wrong("kind.load", fix);
        }
        self.arrivals.check()?;
        if Draw::new(&self.time)?.mean().is_zero() {
            return wrong("kind.time", "is 0s: write how long a request takes, such as \"100ms\"");
        }
        if Draw::new(&self.patience)?.mean().is_zero() {
            return wrong("kind.patience", "is 0s, so nobody would wait: write such as \"1s\"");
        }
        if let Some(upload) = &self.upload {
            Draw::new(upload)?;
        }
        if !self.drift.is_fine(|y| (0.0..=1e6).contains(&y)) {
            let fix = "is no curve of factors: write rising seconds with factors from 0";
            return wrong("kind.drift", fix);
        }
        if !share(self.fails) {
            return wrong("kind.fails", "is out of range: write a share from 0 to 1");
        }
        if let Some(hang_ups) = &self.hang_ups {
            Draw::new(&hang_ups.after)?;
            if !share(hang_ups.share) {
                return wrong("kind.hang_ups.share", "is out of range: write a share from 0 to 1");
            }
        }
        if self.together.is_some_and(|together| together.every.is_zero()) {
            return wrong("kind.together.every", "is 0s: write how often, such as \"10s\"");
        }
        if self.callers == 0 {
            return wrong("kind.callers", "is 0, so nobody would call: write at least 1");
        }
        let whole = |fault: &Outage| match fault.kind {
            OutageKind::Fatal { .. }
            | OutageKind::Hang { .. }
            | OutageKind::Grown { .. }
            | OutageKind::Partial { .. } => wrong(
                "kind.faults",
                "has what only befalls a whole service: write fail, hole, stall, brownout or latency",
            ),
            _ => Ok(()),
        };
        self.faults.iter().try_for_each(whole)?;
        self.faults.iter().try_for_each(|fault| fault.kind.check())
    }
}

impl Scenario {
    /// Kinds of requests at one service with so many workers and nothing in front, healthy throughout, for a minute.
    pub fn of_kinds(workers: u32, kinds: Vec<Kind>) -> Self {
        let none = Outage {
            kind: OutageKind::Latency { factor: 1.0 },
            at: Duration::ZERO,
            length: Duration::ZERO,
        };
        let mut scenario = Self {
            instances: 1,
            patience: Duration::from_secs(30),
            callers: Callers::NO_RETRIES,
            service: Service::new(workers, Duration::from_millis(1)),
            outage: none,
            watch: Duration::from_secs(60),
            ..Self::storm(OutageKind::Stall)
        };
        scenario.set_kinds(kinds);
        scenario
    }

    /// The same with these kinds of requests: the load is theirs together, and the service's time their mean.
    pub fn set_kinds(&mut self, kinds: Vec<Kind>) {
        let works = || kinds.iter().filter(|kind| !kind.waits);
        let load: f64 = works().map(|kind| kind.load).sum();
        let work: f64 = works().map(|kind| kind.load * kind.mean().as_secs_f64()).sum();
        if load > 0.0 && work > 0.0 {
            self.service.time = Dist::Constant(Duration::from_secs_f64(work / load));
        }
        let all: f64 = kinds.iter().map(|kind| kind.load).sum();
        self.load = if all > 0.0 { all } else { self.load };
        self.kinds = kinds;
    }

    /// Whether its kinds can be run.
    pub(super) fn check_kinds(&self) -> Result<(), Invalid> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        if self.kinds.len() > usize::from(u16::MAX) {
            return wrong("kinds", "are too many: write at most 65535");
        }
        if self.topic.is_some() || matches!(self.callers, Callers::Quell { .. }) {
            let fix =
                "need callers who wait for an answer: write callers without Quell, and no topic";
            return wrong("kinds", fix);
        }
        if self.has_keys() || !self.calls.is_empty() || self.resubmit.is_some() {
            let fix = "go with one service: write no shards, calls, fatal faults or resubmit";
            return wrong("kinds", fix);
        }
        self.kinds.iter().try_for_each(Kind::check)
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;

//! Control: a rule for the in-flight limit that is not Quell's, in place of Quell's own.
//!
//! **Why.** Whether Quell's rule for the limit is a good one can only be said beside other rules. The comparison is fair if nothing else
//! differs: callers, queue, retries, budget and breaker stay Quell's, and the rule alone is exchanged.
//!
//! **How.** A rule implements [`Control`]: it is told what the gateway in front of the service sees, and says how many attempts may be under
//! way. [`run_under`] runs a scenario with it. A scenario that has no gateway in front has no limit to decide, and runs as it is.
//!
//! ```
//! use core::time::Duration;
//!
//! use quell_core::Time;
//! use quell_sim::{Scenario, control::{Answered, Control, run_under}, scenario::OutageKind};
//!
//! /// As many as the service has workers, whatever happens.
//! #[derive(Debug)]
//! struct Workers(u32);
//!
//! impl Control for Workers {
//!     fn answered(&mut self, _: &Answered) {}
//!     fn left(&mut self, _: Time, _: Duration, _: bool) {}
//!     fn limit(&self) -> u32 {
//!         self.0
//!     }
//! }
//!
//! let mut scenario = Scenario::storm(OutageKind::Stall).with_gateway();
//! scenario.load = 300.0;
//! scenario.service.workers = 36;
//! let run = run_under(&scenario, 1, || Box::new(Workers(36)))?;
//! assert_eq!(run.observed.timeline.moments()[80].limit, Some(36));
//! # Ok::<_, quell_sim::scenario::Invalid>(())
//! ```

use core::{fmt, time::Duration};

use quell_core::{Time, pace::Known};

use crate::{
    run::Run,
    scenario::{Invalid, Scenario},
    verdict::Early,
    world::run_as,
};

/// One answer, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// When it came.
    pub now: Time,
    /// When the attempt was sent that it answers.
    pub sent_at: Time,
    /// How long it took.
    pub took: Duration,
    /// Whether it was what was asked for.
    pub good: bool,
    /// Slots in use when it was sent, its own included.
    pub in_flight: u32,
    /// How long callers are believed to wait.
    pub patience: Duration,
    /// The upstream at its best of late.
    pub known: Option<Known>,
}

/// How busy the upstream is.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How many are under way, the one that it is about included.
    pub under_way: u32,
    /// Whether somebody waits for a slot.
    pub queued: bool,
}

/// What happened, as closely as Quell's own rule is told.
#[derive(Debug, Clone, Copy)]
pub enum Seen {
    /// The upstream did its work on what was sent then, for a caller who came `since` then.
    Served {
        /// When the caller came.
        since: Time,
        /// When the attempt was sent.
        sent_at: Time,
        /// How busy the upstream is.
        load: Load,
    },
    /// Nobody waits any more for what was sent then.
    Left {
        /// When the attempt was sent.
        sent_at: Time,
        /// How busy the upstream is.
        load: Load,
    },
    /// A caller who came then left without an answer.
    GaveUp {
        /// When the caller came.
        since: Time,
    },
    /// Somebody found no slot, whatever became of it.
    Pressed,
    /// The breaker has opened or closed.
    Tripped,
}

/// A rule for the in-flight limit, with what it knows.
pub trait Control: fmt::Debug {
    /// The upstream answered.
    fn answered(&mut self, seen: &Answered);
    /// A caller left at this age, or an attempt timed out.
    fn left(&mut self, now: Time, age: Duration, sent: bool);
    /// Somebody found no slot.
    fn pressed(&mut self, _now: Time) {}
    /// Something happened: for rules that look closely. They are told all of it here.
    fn saw(&mut self, _now: Time, _seen: Seen) {}
    /// How many may be under way for one who is about to ask, where that is not what it was after the last step.
    fn before(&mut self, _now: Time, _under_way: u32) -> Option<u32> {
        None
    }
    /// How many may be under way after a step.
    fn after(&mut self, _now: Time) -> u32 {
        self.limit()
    }
    /// How many may be under way now.
    fn limit(&self) -> u32;
}

/// Runs a scenario to its end with a rule in place of that of the gateway in front. `make` makes the rule as it is when it knows nothing:
/// for the start, and after every restart of the gateway.
pub fn run_under(
    scenario: &Scenario,
    seed: u64,
    make: impl Fn() -> Box<dyn Control> + 'static,
) -> Result<Run, Invalid> {
    run_as(scenario, seed, Some(Maker(Box::new(make))), Early::Never, &mut |_| {})
}

/// Makes a rule that knows nothing yet.
pub(crate) struct Maker(Box<dyn Fn() -> Box<dyn Control>>);

impl Maker {
    pub(crate) fn make(&self) -> Box<dyn Control> {
        (self.0)()
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Maker").field(&self.make()).finish()
    }
}

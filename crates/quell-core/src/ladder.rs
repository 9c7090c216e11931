//! Ladder: the steps on which a failed event waits before it is tried again.
//!
//! **Why.** A consumer that sleeps between attempts holds up everything behind it, and one that retries at once burns
//! all attempts within the outage. So a failed event moves to a topic of its own delay, waits there without being in
//! anybody's way, and goes one tier up with each failure; after the last it becomes a dead letter.
//!
//! **How.** [`Ladder`] holds the delays, as a list or by a formula, and [`Ladder::step`] says where an event goes
//! next. What a record's headers say of its past can be written by anybody: it counts only on our own tiers, and
//! only within what can be true there ([`CallState::believed`]). Coming back when asked to burns no attempt, nor does waiting.
//!
//! ```
//! use core::time::Duration;
//! use quell_core::{Failure, Fault, Outcome, Stamp, ladder::{CallState, Ladder, Names, Next, Spec}};
//!
//! let ladder = Ladder::new(&Spec::default())?;
//! let names = Names::new("payments", None)?;
//! assert_eq!(names.retry(ladder.tiers()[1]), "payments-retry-5m");
//!
//! let (now, mut state) = (Stamp::ZERO, CallState::default());
//! let failed = Outcome::Failed(Failure::of(Fault::Server));
//! let due = now + Duration::from_secs(30);
//! assert_eq!(ladder.step(&mut state, now, &failed), Next::Retry { tier: 0, due });
//! # Ok::<_, quell_core::ladder::Invalid>(())
//! ```

mod state;

use core::{fmt, time::Duration};

use crate::{Outcome, Reason, Stamp};

pub use state::{CallState, Found, Told};

/// More tiers than this are a mistake.
const MOST_TIERS: usize = 32;
/// Nobody waits longer than this, whatever was asked for.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Later is not now: the shortest wait of an event that is deferred.
const SHORTEST_DEFER: Duration = Duration::from_secs(1);
/// What Kafka allows.
const LONGEST_NAME: usize = 249;

/// The tiers as written.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// The delays, one by one.
    Tiers(Vec<Duration>),
    /// So many attempts, the first included; waits grow from `base` by `factor` up to `cap`.
    Formula {
        /// The first included.
        attempts: u32,
        /// The first delay.
        base: Duration,
        /// How much longer each further delay is.
        factor: f64,
        /// The longest delay.
        cap: Duration,
    },
}

impl Default for Spec {
    fn default() -> Self {
        Self::Tiers([30, 300, 1_800].map(Duration::from_secs).to_vec())
    }
}

/// Why a [`Spec`] is no ladder, or a name no topic. The message names the field, the value and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Invalid {
    /// No event could be tried twice, or endlessly often.
    #[error("tiers has {0} delays: write 1 to 32, such as [\"30s\", \"5m\", \"30m\"]")]
    Count(usize),
    /// Too short to be a wait, or too long to be useful.
    #[error("tiers holds {0:?}: write whole milliseconds from \"1ms\" to \"7d\", such as \"30s\"")]
    Delay(Duration),
    /// The waits would shrink, or have no meaning.
    #[error("tiers.factor is {0}: write a number from 1 to 100, such as 6.0")]
    Factor(f64),
    /// The cap would cut off the first wait already.
    #[error(
        "tiers.cap is {cap:?}, less than tiers.base {base:?}: write a cap of at least the base"
    )]
    Cap {
        /// As written.
        cap: Duration,
        /// As written.
        base: Duration,
    },
    /// Not a name that a broker takes.
    #[error(
        "source.{field} is {name:?}: write 1 to 100 of the characters a-z, A-Z, 0-9, dot, underscore and dash"
    )]
    Name {
        /// Topic or group.
        field: &'static str,
        /// As written.
        name: String,
    },
    /// Names built from it could be those of another topic's group.
    #[error(
        "source.topic is {0:?}, which reads like a retry topic or dead letters: write the topic that the events first came from"
    )]
    Derived(String),
}

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    tiers: Vec<Duration>,
    hint_cap: Duration,
}

/// Where an event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// It is done.
    Ack,
    /// Once more from where it is, not before then; no attempt is burned.
    Defer {
        /// When.
        due: Stamp,
    },
    /// To a tier, to be tried again when due.
    Retry {
        /// Which, counted from 0.
        tier: usize,
        /// When.
        due: Stamp,
    },
    /// To the dead letters.
    Dead {
        /// Why.
        reason: Reason,
    },
}

impl Ladder {
    /// Checks what was written and works out the delays.
    pub fn new(spec: &Spec) -> Result<Self, Invalid> {
        let tiers = match *spec {
            Spec::Tiers(ref tiers) => tiers.clone(),
            Spec::Formula { attempts, base, factor, cap } => formula(attempts, base, factor, cap)?,
        };
        if !(1..=MOST_TIERS).contains(&tiers.len()) {
            return Err(Invalid::Count(tiers.len()));
        }
        let fits = |delay: &&Duration| {
            (1..=LONGEST.as_nanos()).contains(&delay.as_nanos())
                && delay.subsec_nanos().is_multiple_of(1_000_000)
        };
        if let Some(delay) = tiers.iter().find(|delay| !fits(delay)) {
            return Err(Invalid::Delay(*delay));
        }
        Ok(Self { tiers, hint_cap: Duration::from_secs(120) })
    }

    /// The delays in order. Two that are equal share a topic.
    pub fn tiers(&self) -> &[Duration] {
        &self.tiers
    }

    /// The longest that an event can wait in all before it is a dead letter, deferrals apart: on each tier its delay, or
    /// what a handler may ask for if that is longer.
    pub fn horizon(&self) -> Duration {
        let longest = |&delay: &Duration| delay.max(self.hint_cap);
        self.tiers.iter().map(longest).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Where an event goes after this outcome. Failures and deferrals are counted in its state, which also learns when
    /// the event is due.
    pub fn step(&self, state: &mut CallState, now: Stamp, outcome: &Outcome) -> Next {
        let next = self.next(state, now, outcome);
        if let Next::Defer { due } | Next::Retry { due, .. } = next {
            state.due = due;
        }
        next
    }

    fn next(&self, state: &mut CallState, now: Stamp, outcome: &Outcome) -> Next {
        let failure = match *outcome {
            Outcome::Success => return Next::Ack,
            // Nobody looked at it: as if it had never been taken.
            Outcome::Abandoned => return Next::Defer { due: now },
            Outcome::Defer { after } => {
                state.deferrals = state.deferrals.saturating_add(1);
                return Next::Defer { due: now + after.clamp(SHORTEST_DEFER, LONGEST) };
            }
            Outcome::Failed(failure) => failure,
        };
        let tier = state.failures as usize;
        state.failures = state.failures.saturating_add(1);
        state.first_failure.get_or_insert(now);
        state.last_failure = Some(now);
        state.error = Some(failure.fault);
        if let Err(reason) = failure.allows_another() {
            return Next::Dead { reason };
        }
        let Some(&delay) = self.tiers.get(tier) else {
            return Next::Dead { reason: Reason::AttemptsSpent };
        };
        match failure.hint {
            Some(hint) if hint > delay.max(self.hint_cap) => {
                Next::Dead { reason: Reason::HintTooLong }
            }
            hint => Next::Retry { tier, due: now + hint.map_or(delay, |hint| hint.max(delay)) },
        }
    }
}

/// The names of an event source's topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    topic: String,
    group: Option<String>,
}

impl Names {
    /// For a topic, and for one of the groups if several share it.
    pub fn new(topic: &str, group: Option<&str>) -> Result<Self, Invalid> {
        for (field, name) in [("topic", Some(topic)), ("group", group)] {
            if let Some(name) = name.filter(|name| !is_name(name)) {
                return Err(Invalid::Name {
                    field,
                    name: name.chars().take(LONGEST_NAME).collect(),
                });
            }
        }
        // With a dash at the end, so that a topic cannot end where another one's suffix begins.
        let dashed = format!("{topic}-");
        if dashed.contains("-retry-") || dashed.contains("-dlq-") {
            return Err(Invalid::Derived(topic.to_owned()));
        }
        Ok(Self { topic: topic.to_owned(), group: group.map(str::to_owned) })
    }

    /// Where events wait that long.
    pub fn retry(&self, delay: Duration) -> String {
        let delay = Human(delay);
        match &self.group {
            None => format!("{}-retry-{delay}", self.topic),
            Some(group) => format!("{}-retry-{group}-{delay}", self.topic),
        }
    }

    /// Where dead letters go.
    pub fn dead(&self) -> String {
        match &self.group {
            None => format!("{}-dlq", self.topic),
            Some(group) => format!("{}-dlq-{group}", self.topic),
        }
    }
}

/// A delay as people write it: `30s`, `5m`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis();
        if rest == 0 {
            return f.write_str("0s");
        }
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
        for (millis, unit) in units {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
            }
            rest %= millis;
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=100).contains(&name.len()) && name.bytes().all(legal) && !matches!(name, "." | "..")
}

fn formula(
    attempts: u32,
    base: Duration,
    factor: f64,
    cap: Duration,
) -> Result<Vec<Duration>, Invalid> {
    let tiers = attempts.saturating_sub(1) as usize;
    if tiers > MOST_TIERS {
        return Err(Invalid::Count(tiers));
    }
    if !(1.0..=100.0).contains(&factor) {
        return Err(Invalid::Factor(factor)); // NaN ends up here too
    }
    if cap < base {
        return Err(Invalid::Cap { cap, base });
    }
    if cap > LONGEST {
        return Err(Invalid::Delay(cap));
    }
    let cap = cap.as_millis() as f64;
    let mut millis = base.as_millis() as f64;
    Ok((0..tiers)
        .map(|_| {
            let delay = Duration::from_millis(millis.round() as u64);
            millis = (millis * factor).min(cap);
            delay
        })
        .collect())
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;

//! Lint: settings that are valid and will hurt all the same.
//!
//! **Why.** A policy can pass every check and still be a storm in waiting: no jitter, ten attempts, a budget that a
//! minute's traffic cannot fill. People find out at night. A lint says so by day, with the reason and the fix.
//!
//! **How.** [`lint`] looks at a policy for *online* calls, which somebody waits for, and at what its callers share;
//! [`fleet`] at what a budget gives away once more in every process; [`keys`] at how long repeated requests are
//! recognised. All answer with data: what is printed, counted or ignored is for others to say, and the [`Code`] of a
//! lint is the name to do it by. Every preset passes.
//!
//! ```
//! use quell_core::{lint::{self, Code, Kind}, spec::{PolicySpec, UpstreamSpec}};
//!
//! assert!(lint::lint(&PolicySpec::gateway(), &UpstreamSpec::gateway(), Kind::Online).is_empty());
//! let eager = PolicySpec { attempts: 10, ..PolicySpec::gateway() };
//! let lints = lint::lint(&eager, &UpstreamSpec::gateway(), Kind::Online);
//! assert_eq!((lints[0].code, lints[0].field), (Code::AttemptsMany, "attempts"));
//! ```

use core::{fmt, time::Duration};

use crate::{
    backoff::{self, Backoff, Jitter, Shape},
    budget, idempotency,
    ladder::Ladder,
    spec::{PolicySpec, UpstreamSpec},
};

/// Retries that a fleet may be given at once before that is a burst of its own.
const MOST_AT_ONCE: u64 = 1_000;
/// Retries per second that a fleet may be given whatever succeeds.
const MOST_PER_SECOND: u64 = 100;
/// Long enough for every budget to show what it gives per second.
const LONG: u64 = 3_600;

/// Who waits for the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody does.
    Online,
    /// Nobody does: more attempts and longer waits are fine.
    Background,
}

macro_rules! codes {
    ($($name:ident = $text:literal, $why:literal, $fix:literal;)+) => {
        /// What a lint is called. The words stay as they are, so that one can be silenced by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $why] $name,)+ }

        impl Code {
            /// Every lint there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What such a setting will do.
            pub const fn why(self) -> &'static str {
                match self { $(Self::$name => $why,)+ }
            }

            /// What to write instead.
            pub const fn fix(self) -> &'static str {
                match self { $(Self::$name => $fix,)+ }
            }
        }
    };
}

codes! {
    AttemptsMany = "attempts_many", "each further attempt helps less and loads the same",
        "write at most 5; 2 or 3 is usual";
    AttemptsOne = "attempts_one", "nothing is ever retried, not even what was never sent",
        "write 2 or 3, or leave it if that is meant";
    BaseShort = "base_short", "a retry comes back before anything can have changed",
        "write at least 50ms";
    BaseLong = "base_long", "the caller will have left before the first retry",
        "write at most 5s";
    CapLong = "cap_long", "after an outage callers come back up to that much later",
        "write at most 60s";
    CapShort = "cap_short", "waits stop growing when an outage has only begun",
        "write at least 1s";
    FactorLarge = "factor_large", "the second or third wait is already the cap",
        "write at most 4.0; 2.0 is usual";
    FactorSmall = "factor_small", "waits hardly grow",
        "write at least 1.5; 2.0 is usual";
    JitterNone = "jitter_none", "callers who failed together retry together",
        "write \"full\"";
    WaitLong = "wait_long", "a wait can take the time that the attempts need",
        "write a cap of at most timeout ÷ attempts";
    PerTryLong = "per_try_long", "the first attempt can take all the time, and nothing is left for a retry",
        "write less than timeout, such as timeout ÷ attempts";
    BudgetUnlimited = "budget_unlimited", "nothing bounds the load that retries add",
        "write kind = \"tokens\", max = 100, ratio = 0.1";
    BudgetSmall = "budget_small", "a handful of failures empties it",
        "write at least 10; 100 is usual";
    BudgetLarge = "budget_large", "that many retries can go out at once when an outage begins",
        "write at most 1000; 100 is usual";
    RatioLarge = "ratio_large", "retries may outnumber successes",
        "write at most 1; 0.1 is usual";
    RatioSmall = "ratio_small", "once empty it takes more than a hundred successes to pay for one retry",
        "write at least 0.01; 0.1 is usual";
    FleetStart = "fleet_start", "every process starts with its own, and together they are a burst",
        "write instances, the number of processes, in the budget: what each is given is then divided";
    FleetFloor = "fleet_floor", "every process is given its own, and together they are a storm that no success has paid for",
        "write instances, the number of processes, in the budget: what each is given is then divided";
    TtlShort = "ttl_short", "a request may be repeated after its key is forgotten, and has its effect twice",
        "write more than the time in which requests are retried and replayed, such as 24h";
}

/// The name.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One setting that will hurt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// What this lint is called.
    pub code: Code,
    /// Which setting.
    pub field: &'static str,
    /// As it is.
    pub value: String,
    /// What it will do.
    pub why: &'static str,
    /// What to write instead.
    pub fix: &'static str,
}

impl Lint {
    fn new(code: Code, field: &'static str, value: impl fmt::Display) -> Self {
        Self { code, field, value: value.to_string(), why: code.why(), fix: code.fix() }
    }
}

/// In one line, for people.
impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, field, value, why, fix } = self;
        write!(f, "{field} is {value}: {why}; {fix} ({code})")
    }
}

/// Looks at a policy and at what everybody who calls the upstream shares.
pub fn lint(policy: &PolicySpec, upstream: &UpstreamSpec, kind: Kind) -> Vec<Lint> {
    let mut lints = Vec::new();
    calls(policy, kind, &mut lints);
    waits(&policy.backoff, kind, &mut lints);
    budget(&upstream.budget, &mut lints);
    lints
}

/// Looks at what so many processes are given together, each with this budget of its own. One that is
/// [divided](budget::Division) passes.
pub fn fleet(budget: &budget::Spec, instances: u32) -> Vec<Lint> {
    let given = |seconds| budget::fleet_allows(*budget, instances, seconds, 0).unwrap_or(0);
    let (at_once, per_second) = (given(0), (given(LONG) - given(0)) / LONG);
    let (start, floor) = match budget.deciding() {
        budget::Spec::Ratio(_) => ("budget.floor", "budget.floor"),
        budget::Spec::Window(_) => ("budget.bootstrap", "budget.bootstrap"),
        _ => ("budget.start", "budget.refill"),
    };
    let mut lints = Vec::new();
    if at_once > MOST_AT_ONCE {
        let value = format!("{at_once} retries at once in {instances} processes");
        lints.push(Lint::new(Code::FleetStart, start, value));
    }
    if per_second > MOST_PER_SECOND {
        let value = format!("{per_second} retries per second in {instances} processes");
        lints.push(Lint::new(Code::FleetFloor, floor, value));
    }
    lints
}

/// For how long a request can come again: while its call lasts; where events wait on a ladder, on every tier of it, with
/// a call on each and one before; and for as long after that as dead letters are replayed.
pub fn horizon(policy: &PolicySpec, ladder: Option<&Ladder>, replay: Duration) -> Duration {
    let tiers = ladder.map_or(0, |ladder| ladder.tiers().len() as u32);
    let waits = ladder.map_or(Duration::ZERO, Ladder::horizon);
    policy.timeout.saturating_mul(tiers + 1).saturating_add(waits).saturating_add(replay)
}

/// Looks at how long a key is remembered, where its request can come again within the [`horizon`].
pub fn keys(rules: &idempotency::Rules, horizon: Duration) -> Option<Lint> {
    let value = format!("{:?}, with requests that come again for {horizon:?}", rules.ttl());
    (!rules.outlives(horizon)).then(|| Lint::new(Code::TtlShort, "idempotency.ttl", value))
}

fn calls(policy: &PolicySpec, kind: Kind, lints: &mut Vec<Lint>) {
    let attempts = policy.attempts;
    if attempts > 5 && kind == Kind::Online {
        lints.push(Lint::new(Code::AttemptsMany, "attempts", attempts));
    }
    if attempts == 1 {
        lints.push(Lint::new(Code::AttemptsOne, "attempts", attempts));
    }
    let share = policy.timeout / attempts.max(1);
    let longest = Backoff::new(policy.backoff).map_or(Duration::ZERO, |backoff| {
        (1..attempts.min(64)).map(|n| backoff.longest(n)).max().unwrap_or_default()
    });
    if longest > share {
        lints.push(Lint::new(Code::WaitLong, "backoff", format!("{longest:?}")));
    }
    // With two attempts, or a minute, it may be meant: what fails quickly is tried again, and what is slow is waited for.
    if let Some(per_try) = policy.per_try_timeout
        && attempts > 2
        && policy.timeout < Duration::from_secs(60)
        && per_try >= policy.timeout
    {
        lints.push(Lint::new(Code::PerTryLong, "per_try_timeout", format!("{per_try:?}")));
    }
}

fn waits(backoff: &backoff::Spec, kind: Kind, lints: &mut Vec<Lint>) {
    let cap = backoff.cap;
    let base = match backoff.shape {
        Shape::None => Duration::ZERO,
        Shape::List(waits) => waits.iter().next().unwrap_or_default(),
        Shape::Fixed | Shape::Linear | Shape::Exponential { .. } => backoff.base,
    };
    let mut say = |code, field, value| lints.push(Lint::new(code, field, value));
    if base < Duration::from_millis(50) {
        say(Code::BaseShort, "backoff.base", format!("{base:?}"));
    }
    if base > Duration::from_secs(5) && kind == Kind::Online {
        say(Code::BaseLong, "backoff.base", format!("{base:?}"));
    }
    if cap > Duration::from_secs(60) {
        say(Code::CapLong, "backoff.cap", format!("{cap:?}"));
    }
    if cap < Duration::from_secs(1) {
        say(Code::CapShort, "backoff.cap", format!("{cap:?}"));
    }
    if let Shape::Exponential { factor } = backoff.shape {
        if factor > 4.0 {
            say(Code::FactorLarge, "backoff.factor", factor.to_string());
        }
        if factor < 1.5 {
            say(Code::FactorSmall, "backoff.factor", factor.to_string());
        }
    }
    if backoff.jitter == Jitter::None {
        say(Code::JitterNone, "backoff.jitter", "none".to_owned());
    }
}

/// What every kind says of itself that has such a field.
fn budget(budget: &budget::Spec, lints: &mut Vec<Lint>) {
    if let Some(max) = budget.bucket().map(|bucket| bucket.max) {
        if max < 10 {
            lints.push(Lint::new(Code::BudgetSmall, "budget.max", max));
        }
        if max > 1_000 {
            lints.push(Lint::new(Code::BudgetLarge, "budget.max", max));
        }
    }
    if let Some(ratio) = budget.ratio() {
        if ratio > 1.0 {
            lints.push(Lint::new(Code::RatioLarge, "budget.ratio", ratio));
        }
        let fills_with_time = match budget.deciding() {
            budget::Spec::Tokens(spec) => spec.refill.is_some(),
            budget::Spec::Ratio(spec) => spec.floor > 0.0,
            _ => false,
        };
        if ratio < 0.01 && !fills_with_time {
            lints.push(Lint::new(Code::RatioSmall, "budget.ratio", ratio));
        }
    }
    if budget.deciding() == budget::Spec::Unlimited {
        lints.push(Lint::new(Code::BudgetUnlimited, "budget.kind", budget));
    }
}

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;

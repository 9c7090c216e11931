//! Lint: settings that are valid and will hurt all the same.
//!
//! **Why.** A policy can pass every check and still be a storm in waiting: no jitter, ten attempts, a budget that a
//! minute's traffic cannot fill. People find out at night. A lint says so by day, with the reason and the fix.
//!
//! **How.** [`lint`] looks at a policy for *online* calls, which somebody waits for, and answers with data: what is
//! printed, counted or ignored is for others to say. Every preset passes.
//!
//! ```
//! use quell_core::{lint::{self, Kind}, spec::{PolicySpec, UpstreamSpec}};
//!
//! assert!(lint::lint(&PolicySpec::gateway(), &UpstreamSpec::gateway(), Kind::Online).is_empty());
//! let eager = PolicySpec { attempts: 10, ..PolicySpec::gateway() };
//! let lints = lint::lint(&eager, &UpstreamSpec::gateway(), Kind::Online);
//! assert_eq!(lints[0].field, "attempts");
//! ```

use core::time::Duration;

use crate::{
    backoff::{Backoff, Jitter, Shape},
    budget,
    spec::{PolicySpec, UpstreamSpec},
};

/// Who waits for the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Somebody does.
    Online,
    /// Nobody does: more attempts and longer waits are fine.
    Background,
}

/// One setting that will hurt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lint {
    /// Which.
    pub field: &'static str,
    /// As it is.
    pub value: String,
    /// What it will do.
    pub why: &'static str,
    /// What to write instead.
    pub fix: &'static str,
}

/// Looks at a policy.
pub fn lint(policy: &PolicySpec, upstream: &UpstreamSpec, kind: Kind) -> Vec<Lint> {
    let mut lints = Vec::new();
    let mut say = |bad: bool, field, value: String, why, fix| {
        if bad {
            lints.push(Lint { field, value, why, fix });
        }
    };
    let attempts = policy.attempts;
    let online = kind == Kind::Online;
    say(
        online && attempts > 5,
        "attempts",
        attempts.to_string(),
        "each further attempt helps less and loads the same",
        "write at most 5; 2 or 3 is usual",
    );
    say(
        attempts == 1,
        "attempts",
        attempts.to_string(),
        "nothing is ever retried, not even what was never sent",
        "write 2 or 3, or leave it if that is meant",
    );
    let backoff = policy.backoff;
    let (base, cap) = (backoff.base, backoff.cap);
    say(
        base < Duration::from_millis(50),
        "backoff.base",
        format!("{base:?}"),
        "a retry comes back before anything can have changed",
        "write at least 50ms",
    );
    say(
        online && base > Duration::from_secs(5),
        "backoff.base",
        format!("{base:?}"),
        "the caller will have left before the first retry",
        "write at most 5s",
    );
    say(
        cap > Duration::from_secs(60),
        "backoff.cap",
        format!("{cap:?}"),
        "after an outage callers come back up to that much later",
        "write at most 60s",
    );
    say(
        cap < Duration::from_secs(1),
        "backoff.cap",
        format!("{cap:?}"),
        "waits stop growing when an outage has only begun",
        "write at least 1s",
    );
    if let Shape::Exponential { factor } = backoff.shape {
        say(
            factor > 4.0,
            "backoff.factor",
            factor.to_string(),
            "the second or third wait is already the cap",
            "write at most 4.0; 2.0 is usual",
        );
        say(
            factor < 1.5,
            "backoff.factor",
            factor.to_string(),
            "waits hardly grow",
            "write at least 1.5; 2.0 is usual",
        );
    }
    say(
        backoff.jitter == Jitter::None,
        "backoff.jitter",
        "none".to_owned(),
        "callers who failed together retry together",
        "write \"full\"",
    );
    let share = policy.timeout / attempts.max(1);
    let longest = Backoff::new(backoff).map_or(Duration::ZERO, |backoff| {
        (1..attempts.min(64)).map(|n| backoff.longest(n)).max().unwrap_or_default()
    });
    say(
        longest > share,
        "backoff",
        format!("{longest:?}"),
        "a wait can take the time that the attempts need",
        "write a cap of at most timeout ÷ attempts",
    );
    say(
        attempts > 1 && policy.per_try_timeout.is_some_and(|per_try| per_try >= policy.timeout),
        "per_try_timeout",
        format!("{:?}", policy.per_try_timeout.unwrap_or_default()),
        "the first attempt can take all the time, and nothing is left for a retry",
        "write less than timeout, such as timeout ÷ attempts",
    );
    lints.extend(budget_lints(upstream));
    lints
}

fn budget_lints(upstream: &UpstreamSpec) -> Vec<Lint> {
    let tokens = match upstream.budget {
        budget::Spec::Tokens(tokens) => tokens,
        budget::Spec::Unlimited => {
            return vec![Lint {
                field: "budget",
                value: "unlimited".to_owned(),
                why: "nothing bounds the load that retries add",
                fix: "write kind = \"tokens\", max = 100, ratio = 0.1",
            }];
        }
        _ => return Vec::new(), // chosen with care, or a preset
    };
    let (max, ratio) = (tokens.max, tokens.ratio);
    let lint = |field, value, why, fix| Lint { field, value, why, fix };
    let mut lints = Vec::new();
    if max < 10 {
        let why = "a handful of failures empties it";
        lints.push(lint("budget.max", max.to_string(), why, "write at least 10; 100 is usual"));
    }
    if max > 1_000 {
        let why = "that many retries can go out at once when an outage begins";
        lints.push(lint("budget.max", max.to_string(), why, "write at most 1000; 100 is usual"));
    }
    if ratio > 1.0 {
        let why = "retries may outnumber successes";
        lints.push(lint("budget.ratio", ratio.to_string(), why, "write at most 1; 0.1 is usual"));
    }
    if ratio < 0.01 && tokens.refill.is_none() {
        let why = "once empty it takes more than a hundred successes to pay for one retry";
        lints.push(lint(
            "budget.ratio",
            ratio.to_string(),
            why,
            "write at least 0.01; 0.1 is usual",
        ));
    }
    lints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backoff, budget::tokens};

    fn fields(policy: &PolicySpec, upstream: &UpstreamSpec) -> Vec<&'static str> {
        lint(policy, upstream, Kind::Online).into_iter().map(|lint| lint.field).collect()
    }

    #[test]
    fn every_preset_passes() {
        for (policy, upstream, kind) in [
            (PolicySpec::library(), UpstreamSpec::library(), Kind::Online),
            (PolicySpec::gateway(), UpstreamSpec::gateway(), Kind::Online),
            (PolicySpec::llm(), UpstreamSpec::gateway(), Kind::Online),
            (PolicySpec::background(), UpstreamSpec::library(), Kind::Background),
        ] {
            assert_eq!(lint(&policy, &upstream, kind), []);
        }
    }

    #[test]
    fn each_hurtful_setting_is_named_once() {
        let (policy, upstream) = (PolicySpec::library(), UpstreamSpec::library());
        let backoff = |change: fn(&mut backoff::Spec)| {
            let mut policy = policy;
            change(&mut policy.backoff);
            fields(&policy, &upstream)
        };
        let tokens = |max, ratio| {
            let budget = tokens::Spec { max, ratio, ..tokens::Spec::default() }.into();
            fields(&policy, &UpstreamSpec { budget, ..upstream })
        };
        assert_eq!(fields(&PolicySpec { attempts: 6, ..policy }, &upstream), ["attempts"]);
        assert_eq!(fields(&PolicySpec { attempts: 1, ..policy }, &upstream), ["attempts"]);
        assert_eq!(backoff(|b| b.base = Duration::from_millis(49)), ["backoff.base"]);
        assert_eq!(backoff(|b| b.base = Duration::from_millis(5_001)), ["backoff.base", "backoff"]);
        assert_eq!(backoff(|b| b.cap = Duration::from_secs(61)), ["backoff.cap"]);
        assert_eq!(backoff(|b| b.cap = Duration::from_millis(999)), ["backoff.cap"]);
        assert_eq!(backoff(|b| b.shape = Shape::Exponential { factor: 4.1 }), ["backoff.factor"]);
        assert_eq!(backoff(|b| b.shape = Shape::Exponential { factor: 1.4 }), ["backoff.factor"]);
        assert_eq!(backoff(|b| b.jitter = Jitter::None), ["backoff.jitter"]);
        assert_eq!(tokens(9, 0.1), ["budget.max"]);
        assert_eq!(tokens(1_001, 0.1), ["budget.max"]);
        assert_eq!(tokens(100, 1.01), ["budget.ratio"]);
        assert_eq!(tokens(100, 0.009), ["budget.ratio"]);
        let unlimited = UpstreamSpec { budget: budget::Spec::Unlimited, ..upstream };
        assert_eq!(fields(&policy, &unlimited), ["budget"]);
        let hasty = PolicySpec { per_try_timeout: Some(policy.timeout), ..policy };
        assert_eq!(fields(&hasty, &upstream), ["per_try_timeout"]);
        let long = PolicySpec { timeout: Duration::from_millis(500), ..policy };
        assert_eq!(fields(&long, &upstream), ["backoff"]);
    }
}

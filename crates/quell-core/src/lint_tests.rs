use super::*;
use crate::{
    budget::{
        Bucket, Division, adaptive, failed_retry, grpc, ratio, sampled, tests::kinds, tokens,
        window,
    },
    ladder,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn codes(policy: &PolicySpec, upstream: &UpstreamSpec) -> Vec<Code> {
    lint(policy, upstream, Kind::Online).into_iter().map(|lint| lint.code).collect()
}

fn policies(change: impl Fn(&mut PolicySpec)) -> Vec<Code> {
    let mut policy = PolicySpec::library();
    change(&mut policy);
    codes(&policy, &UpstreamSpec::library())
}

fn budgets(budget: impl Into<budget::Spec>) -> Vec<Code> {
    let upstream = UpstreamSpec { budget: budget.into(), ..UpstreamSpec::library() };
    codes(&PolicySpec::library(), &upstream)
}

fn fleets(budget: impl Into<budget::Spec>, instances: u32) -> Vec<(Code, &'static str)> {
    fleet(&budget.into(), instances).into_iter().map(|lint| (lint.code, lint.field)).collect()
}

/// Every preset there is, and who waits for it.
fn presets() -> [(PolicySpec, UpstreamSpec, Kind); 4] {
    [
        (PolicySpec::library(), UpstreamSpec::library(), Kind::Online),
        (PolicySpec::gateway(), UpstreamSpec::gateway(), Kind::Online),
        (PolicySpec::llm(), UpstreamSpec::llm(), Kind::Online),
        (PolicySpec::background(), UpstreamSpec::background(), Kind::Background),
    ]
}

#[test]
fn every_preset_passes() {
    let ladder = Ladder::new(&ladder::Spec::default()).unwrap();
    let rules = idempotency::Rules::new(idempotency::Spec::default()).unwrap();
    for (policy, upstream, kind) in presets() {
        assert_eq!(lint(&policy, &upstream, kind), []);
        assert_eq!(fleet(&upstream.budget, 1), []);
        assert_eq!(keys(&rules, horizon(&policy, Some(&ladder), Duration::ZERO)), None);
    }
    for budget in kinds().into_iter().filter(|&kind| kind != budget::Spec::Unlimited) {
        let upstream = UpstreamSpec { budget, ..UpstreamSpec::library() };
        assert_eq!(lint(&PolicySpec::library(), &upstream, Kind::Online), [], "{budget}");
        assert_eq!(fleet(&budget, 1), [], "{budget}");
    }
}

#[test]
fn more_than_five_attempts_or_a_single_one() {
    assert_eq!(policies(|p| p.attempts = 6), [Code::AttemptsMany]);
    assert_eq!(policies(|p| p.attempts = 5), []);
    assert_eq!(policies(|p| p.attempts = 1), [Code::AttemptsOne]);
    let many = PolicySpec { attempts: 6, ..PolicySpec::library() };
    assert_eq!(lint(&many, &UpstreamSpec::library(), Kind::Background), []);
}

#[test]
fn a_base_too_short_or_too_long() {
    let base = |ms| policies(|p| p.backoff.base = Duration::from_millis(ms));
    assert_eq!(base(49), [Code::BaseShort]);
    assert_eq!(base(50), []);
    assert_eq!(base(5_000), []);
    assert_eq!(base(5_001), [Code::WaitLong, Code::BaseLong]);
    let mut slow = PolicySpec::background();
    slow.backoff.base = Duration::from_secs(6);
    assert_eq!(lint(&slow, &UpstreamSpec::library(), Kind::Background), []);
    let first = |ms| {
        let waits = backoff::Waits::new(&[ms, 1_000].map(Duration::from_millis)).unwrap();
        policies(|p| p.backoff.shape = Shape::List(waits))
    };
    assert_eq!((first(49), first(50)), (vec![Code::BaseShort], vec![]), "of a list the first");
    assert_eq!(policies(|p| p.backoff.shape = Shape::None), [Code::BaseShort]);
}

#[test]
fn a_cap_too_long_or_too_short() {
    let cap = |ms| policies(|p| p.backoff.cap = Duration::from_millis(ms));
    assert_eq!((cap(60_000), cap(60_001)), (vec![], vec![Code::CapLong]));
    assert_eq!((cap(1_000), cap(999)), (vec![], vec![Code::CapShort]));
}

#[test]
fn a_factor_too_large_or_too_small() {
    let factor = |factor| policies(|p| p.backoff.shape = Shape::Exponential { factor });
    assert_eq!((factor(4.0), factor(4.1)), (vec![], vec![Code::FactorLarge]));
    assert_eq!((factor(1.5), factor(1.4)), (vec![], vec![Code::FactorSmall]));
}

#[test]
fn no_jitter() {
    assert_eq!(policies(|p| p.backoff.jitter = Jitter::None), [Code::JitterNone]);
}

#[test]
fn a_wait_that_takes_the_time_of_the_attempts() {
    // Of three attempts the longest wait is the second retry's, of up to 200 ms.
    assert_eq!(policies(|p| p.timeout = Duration::from_millis(599)), [Code::WaitLong]);
    assert_eq!(policies(|p| p.timeout = Duration::from_millis(600)), []);
}

#[test]
fn an_attempt_that_takes_all_the_time() {
    let per_try = |ms| policies(|p| p.per_try_timeout = Some(Duration::from_millis(ms)));
    assert_eq!((per_try(29_999), per_try(30_000)), (vec![], vec![Code::PerTryLong]));
    let once = |p: &mut PolicySpec| (p.attempts, p.per_try_timeout) = (1, Some(p.timeout));
    assert_eq!(policies(once), [Code::AttemptsOne], "nothing is left for a retry on purpose");
}

#[test]
fn a_bucket_too_small_or_too_large_whichever_kind_has_it() {
    for (max, expected) in [
        (9, vec![Code::BudgetSmall]),
        (10, vec![]),
        (1_000, vec![]),
        (1_001, vec![Code::BudgetLarge]),
    ] {
        let bucket = Bucket::full(max, 0.1);
        let inner = sampled::Inner::Tokens(bucket.into());
        assert_eq!(budgets(tokens::Spec::from(bucket)), expected);
        assert_eq!(budgets(grpc::Spec { bucket }), expected);
        assert_eq!(budgets(failed_retry::Spec { bucket }), expected);
        assert_eq!(budgets(adaptive::Spec { bucket, ..Default::default() }), expected);
        assert_eq!(budgets(sampled::Spec { inner, ..Default::default() }), expected);
    }
}

#[test]
fn a_ratio_too_large_or_too_small_whichever_kind_has_it() {
    for (ratio, expected) in [
        (1.01, vec![Code::RatioLarge]),
        (1.0, vec![]),
        (0.01, vec![]),
        (0.009, vec![Code::RatioSmall]),
    ] {
        let bucket = Bucket::full(100, ratio);
        let inner = sampled::Inner::Ratio(ratio::Spec { ratio, ..Default::default() });
        assert_eq!(budgets(tokens::Spec::from(bucket)), expected);
        assert_eq!(budgets(grpc::Spec { bucket }), expected);
        assert_eq!(budgets(failed_retry::Spec { bucket }), expected);
        assert_eq!(budgets(adaptive::Spec { bucket, ..Default::default() }), expected);
        assert_eq!(budgets(ratio::Spec { ratio, ..Default::default() }), expected);
        assert_eq!(budgets(window::Spec { ratio, ..Default::default() }), expected);
        assert_eq!(budgets(sampled::Spec { inner, ..Default::default() }), expected);
    }
    assert_eq!(budgets(ratio::Spec { ratio: 0.0, floor: 1.0, ..Default::default() }), []);
}

#[test]
fn a_budget_without_bound() {
    assert_eq!(budgets(budget::Spec::Unlimited), [Code::BudgetUnlimited]);
    let inner = sampled::Inner::Unlimited;
    assert_eq!(budgets(sampled::Spec { inner, ..Default::default() }), [Code::BudgetUnlimited]);
    assert_eq!(budgets(budget::Spec::None), []);
}

/// G4, G11.
#[test]
fn what_each_process_starts_with_times_a_fleet() {
    let start = (Code::FleetStart, "budget.start");
    assert_eq!(fleets(tokens::Spec::default(), 10), []);
    assert_eq!(fleets(tokens::Spec::default(), 11), [start]);
    assert_eq!(fleets(tokens::Spec { start: Some(0), ..Default::default() }, 10_000), []);
    assert_eq!(fleets(failed_retry::Spec::default(), 101), [start]);
    assert_eq!(fleets(adaptive::Spec::default(), 11), [start]);
    assert_eq!(fleets(grpc::Spec::default(), 201), [start], "half of ten each");
    assert_eq!(fleets(sampled::Spec::default(), 11), [start]);
    assert_eq!(fleets(window::Spec::default(), 200), []);
    assert_eq!(fleets(window::Spec::default(), 201), [(Code::FleetStart, "budget.bootstrap")]);
    let lint = &fleet(&tokens::Spec::default().into(), 50)[0];
    assert_eq!(lint.value, "5000 retries at once in 50 processes");
}

/// G4, G11.
#[test]
fn what_each_process_is_given_with_time_times_a_fleet() {
    let floor = (Code::FleetFloor, "budget.floor");
    assert_eq!(fleets(ratio::Spec::finagle(), 10), []);
    assert_eq!(fleets(ratio::Spec::finagle(), 11), [floor]);
    let trickle = tokens::Spec { start: Some(0), ..tokens::Spec::time_only() };
    assert_eq!(fleets(trickle, 100), []);
    assert_eq!(fleets(trickle, 101), [(Code::FleetFloor, "budget.refill")]);
    assert_eq!(fleets(budget::Spec::Unlimited, u32::MAX), [], "has a lint of its own");
}

/// G4.
#[test]
fn a_budget_that_is_divided_is_the_same_for_every_fleet() {
    for (_, upstream, _) in presets() {
        for instances in [1, 10, 1_000, 100_000] {
            let part = Division { instances, ephemeral: false }.of(upstream.budget).unwrap();
            assert_eq!(fleet(&part, instances), []);
        }
    }
}

#[test]
fn a_key_that_is_forgotten_before_its_request_comes_again() {
    let rules = |ttl| {
        idempotency::Rules::new(idempotency::Spec { ttl, ..idempotency::Spec::default() }).unwrap()
    };
    let policy = PolicySpec::library();
    assert_eq!(horizon(&policy, None, Duration::ZERO), policy.timeout);
    let ladder = Ladder::new(&ladder::Spec::Tiers(vec![DAY / 2, DAY / 4])).unwrap();
    let on_tiers = horizon(&policy, Some(&ladder), Duration::ZERO);
    assert_eq!(on_tiers, DAY * 3 / 4 + 3 * policy.timeout, "a call on each tier and one before");
    assert_eq!(keys(&rules(DAY), on_tiers), None);
    let replayed = horizon(&policy, Some(&ladder), DAY);
    assert_eq!(replayed, on_tiers + DAY);
    let lint = keys(&rules(DAY), replayed).unwrap();
    assert_eq!((lint.code, lint.field), (Code::TtlShort, "idempotency.ttl"));
    assert!(lint.value.starts_with("86400s, with requests that come again for 1"), "{lint}");
    assert!(keys(&rules(replayed), replayed).is_some(), "as long is not longer");
    assert_eq!(horizon(&PolicySpec { timeout: Duration::MAX, ..policy }, None, DAY), Duration::MAX);
}

#[test]
fn every_lint_has_a_name_of_its_own_a_reason_and_a_fix() {
    let names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    for (index, code) in Code::ALL.iter().enumerate() {
        assert!(!names[..index].contains(&names[index]), "{code} is there twice");
        assert!(code.as_str().chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        assert!(code.fix().starts_with("write"), "{code}");
        assert!(!code.why().is_empty() && !code.why().ends_with('.'), "{code}");
    }
    let lint = Lint::new(Code::JitterNone, "backoff.jitter", "none");
    let line = "backoff.jitter is none: callers who failed together retry together; write \"full\" (jitter_none)";
    assert_eq!(lint.to_string(), line);
}

/// The names are part of what people write: they may be added to, not changed.
#[test]
fn names_of_lints_stay() {
    let names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "attempts_many attempts_one base_short base_long cap_long cap_short factor_large \
         factor_small jitter_none wait_long per_try_long budget_unlimited budget_small \
         budget_large ratio_large ratio_small fleet_start fleet_floor ttl_short"
    );
}

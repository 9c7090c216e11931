use super::*;
use crate::{Admission, Ask, Failure, Outcome, Release, Upstream, spec::UpstreamSpec};

/// G2: yesterday's health does not pay for today's outage.
#[test]
fn after_a_healthy_day_an_outage_is_refused_within_one_window() {
    const DAY: u64 = 86_400;
    for spec in kinds().into_iter().filter(|spec| *spec != Spec::Unlimited) {
        let mut asker = Asker::healthy(spec, 10, DAY);
        let outage = |asker: &mut Asker, from: u64, seconds: u64| {
            let start = DAY * 1_000 + from * 1_000;
            (0..seconds).map(|s| asker.burst(at(start + s * 1_000), 100)).sum::<usize>()
        };
        let (first, later) = (outage(&mut asker, 0, 61), outage(&mut asker, 61, 60));
        let (most, rest) = match spec {
            Spec::Probabilistic(_) => (900, 750), // a tenth of 6,000, by chance
            Spec::Ratio(spec) => (60 * spec.floor as usize + 60, 60 * spec.floor as usize),
            Spec::Tokens(spec) if spec.refill.is_some() => (161, 61),
            _ => (100, 5),
        };
        assert!(first <= most, "{spec}: {first}");
        assert!(later <= rest, "{spec}: {later}");
    }
}

/// G3.
#[test]
fn a_success_is_worth_its_ratio_and_not_a_whole_retry() {
    let bucket = Bucket { max: 10, ratio: 0.1, start: Some(0) };
    let empty: [Spec; 5] = [
        tokens::Spec { start: Some(0), ..Default::default() }.into(),
        failed_retry::Spec { bucket }.into(),
        adaptive::Spec { bucket, ..Default::default() }.into(),
        ratio::Spec::default().into(),
        window::Spec { bootstrap: 0, ..Default::default() }.into(),
    ];
    for spec in empty {
        let mut asker = Asker::new(spec);
        for _ in 0..9 {
            asker.budget.earn(at(0));
            assert_eq!(asker.burst(at(0), 1), 0, "{spec}");
        }
        asker.budget.earn(at(0));
        assert_eq!(asker.burst(at(0), 5), 1, "{spec}");
    }
}

/// G4, G11.
#[test]
fn a_floor_in_every_process_is_a_storm_unless_it_is_divided() {
    let fleet = |spec: Spec| {
        let mut askers: Vec<_> = (0..50).map(|_| Asker::new(spec)).collect();
        let minute = (1..=600).map(|tenth| at(tenth * 100));
        minute.map(|now| askers.iter_mut().map(|one| one.burst(now, 20)).sum::<usize>()).sum()
    };
    for spec in [Spec::from(ratio::Spec::finagle()), tokens::Spec::time_only().into()] {
        let whole: usize = fleet(spec);
        let one = Division { instances: 50, ephemeral: false }.of(spec).unwrap();
        let divided: usize = fleet(one);
        assert!(divided * 40 < whole, "{spec}: {divided} of {whole}");
        for (spec, retries) in [(spec, whole), (one, divided)] {
            let most = fleet_allows(spec, 50, 60, 0).unwrap() as usize;
            assert!(retries <= most && retries * 10 > most * 8, "{spec}: {retries}, {most}");
        }
        let function = Division { instances: 50, ephemeral: true }.of(spec).unwrap();
        assert_eq!(fleet(function), 0, "{spec}");
    }
}

/// G4, second half.
#[test]
fn a_second_without_successes_wipes_no_budget() {
    for spec in strict_kinds() {
        let mut asker = Asker::healthy(spec, 100, 20);
        assert!(asker.burst(at(21_000), 1_000) > 0, "{spec}");
    }
}

/// G6, for every kind that charges anything.
#[test]
fn what_was_never_sent_comes_back_whole_and_what_was_sent_does_not() {
    for spec in strict_kinds().filter(|spec| !matches!(spec, Spec::Grpc(_))) {
        let mut asker = Asker::healthy(spec, 100, 20);
        let before = asker.budget.level(at(20_000));
        let unsent: Vec<_> = core::iter::from_fn(|| asker.fail(at(20_000))).collect();
        assert!(!unsent.is_empty(), "{spec}");
        assert!(!asker.budget.peek(at(20_000)), "{spec}");
        let count = unsent.len();
        unsent.into_iter().for_each(|paid| asker.budget.refund(at(20_000), paid));
        assert_eq!(asker.budget.level(at(20_000)), before, "{spec}");
        let sent = asker.burst(at(20_000), 1_000);
        assert_eq!(sent, count, "{spec}");
        assert_eq!(asker.budget.snapshot(at(20_000)).refunded, count as u64);
    }
}

/// G7.
#[test]
fn one_token_buys_one_attempt() {
    for spec in strict_kinds() {
        let mut asker = Asker::healthy(spec, 100, 20);
        let before = asker.budget.level(at(20_000));
        assert!(asker.fail(at(20_000)).is_some(), "{spec}");
        assert_eq!(asker.budget.level(at(20_000)), before - 1.0, "{spec}");
    }
}

#[test]
fn a_retry_costs_what_its_fault_costs_and_gets_just_that_back() {
    let cost = tokens::Cost { overload: 5 * PRICE, connect: PRICE / 4, ..Default::default() };
    let mut asker = Asker::new(tokens::Spec { max: 10, ratio: 0.0, cost, ..Default::default() });
    let Asker { budget, rng } = &mut asker;
    let dear = budget.take(at(0), Fault::Overload, rng).unwrap();
    let cheap = budget.take(at(0), Fault::Connect, rng).unwrap();
    assert_eq!(budget.level(at(0)), 4.75);
    assert!(budget.take(at(0), Fault::Overload, rng).is_err());
    assert!(budget.peek(at(0)), "a cheaper one would do");
    budget.refund(at(0), dear);
    assert_eq!(budget.level(at(0)), 9.75);
    budget.refund(at(0), cheap);
    assert_eq!(budget.level(at(0)), 10.0);
}

/// G8.
#[test]
fn failures_and_refusals_raise_no_level() {
    for spec in kinds() {
        let mut asker = Asker::healthy(spec, 100, 20);
        let mut level = asker.budget.level(at(20_000));
        for _ in 0..1_000 {
            asker.burst(at(20_000), 1);
            let now = asker.budget.level(at(20_000));
            assert!(now <= level, "{spec}");
            level = now;
        }
    }
}

/// G8: a 404 proves that the upstream works, and earns nothing.
#[test]
fn nothing_but_a_success_earns() {
    let wait = Duration::from_secs(1);
    let budget = tokens::Spec { start: Some(0), ..Default::default() }.into();
    let spec = UpstreamSpec { budget, ..UpstreamSpec::library() };
    let mut upstream = Upstream::new(spec, wait, 1, at(0)).unwrap();
    let faults =
        [Fault::Fatal, Fault::Overload, Fault::Timeout, Fault::Connect, Fault::Server].into_iter();
    let failures = faults.map(|fault| Outcome::Failed(Failure::of(fault).with_code(404)));
    for outcome in failures.chain([Outcome::Abandoned, Outcome::Defer { after: wait }]) {
        let Admission::Go(permit) = upstream.admit(at(0), &Ask::first(at(0))) else { panic!() };
        upstream.judge(at(0), &permit, &outcome);
        upstream.release(at(0), permit, Release::Done, &mut Vec::new());
        let retries = upstream.snapshot(at(0)).retries;
        assert_eq!((retries.level, retries.successes), (0.0, 0), "{outcome:?}");
    }
    assert_eq!(upstream.snapshot(at(0)).retries.failures, 4);
}

/// G9, T5: sleeping laptops and forgotten processes find no month of savings.
#[test]
fn thirty_idle_days_are_one_step_and_bring_no_burst() {
    for spec in kinds().into_iter().filter(|spec| *spec != Spec::Unlimited) {
        for later in [at(30 * 86_400_000), Time::MAX] {
            let mut asker = Asker::healthy(spec, 100, 20);
            asker.burst(at(20_000), 1_000);
            let retried = asker.burst(later, 1_000);
            let most = match spec {
                Spec::Tokens(spec) if spec.refill.is_some() => 100,
                Spec::Ratio(spec) => 5 * spec.floor as usize,
                Spec::Window(spec) => spec.bootstrap as usize,
                Spec::Probabilistic(_) => 200,
                Spec::Sampled(_) | Spec::Adaptive(_) => 100,
                _ => 0,
            };
            assert!(retried <= most, "{spec}: {retried}");
        }
    }
}

/// G10.
#[test]
fn no_edge_of_a_window_pays_twice() {
    for spec in [Spec::from(ratio::Spec::default()), window::Spec::default().into()] {
        let length = if matches!(spec, Spec::Ratio(_)) { 10_000 } else { 60_000 };
        for edge in (0..length).step_by(500) {
            // A window's successes, then bursts just before and after every edge.
            let mut asker = Asker::healthy(spec, 100, length / 1_000);
            let from = length - 1_000 + edge % 1_000;
            let bursts = (0..length).step_by(499).map(|ms| at(from + ms));
            let retried: usize = bursts.map(|now| asker.burst(now, 500)).sum();
            let earned = length as usize / 100;
            assert!(retried <= earned + 5, "{spec} at {edge} ms: {retried} of {earned}");
        }
    }
}

/// G11.
#[test]
fn what_a_fleet_allows_together_is_what_was_stated() {
    for spec in kinds() {
        for division in [None, Some(false), Some(true)] {
            let spec = division
                .map_or(spec, |ephemeral| Division { instances: 20, ephemeral }.of(spec).unwrap());
            let Some(most) = fleet_allows(spec, 20, 120, 20 * 1_200) else {
                assert!(matches!(spec, Spec::Probabilistic(_) | Spec::Unlimited));
                continue;
            };
            let mut retried = 0;
            for _ in 0..20 {
                let mut asker = Asker::new(spec);
                for tenth in 0..1_200 {
                    asker.budget.earn(at(tenth * 100));
                    retried += asker.burst(at(tenth * 100), 30);
                }
            }
            assert!(retried as u64 <= most, "{spec}: {retried} of {most}");
        }
    }
}

/// G11: a divided budget gives a fleet no more than one process had.
#[test]
fn a_fleet_on_divided_shares_has_one_budget() {
    for spec in strict_kinds() {
        for (instances, seconds) in [(1, 600), (2, 600), (5, 600), (10, 60)] {
            let one = Division { instances, ephemeral: false }.of(spec).unwrap();
            let (whole, shares) =
                (fleet_allows(spec, 1, seconds, 0), fleet_allows(one, instances, seconds, 0));
            assert!(shares <= whole, "{spec} by {instances}: {shares:?} of {whole:?}");
        }
        let nobody = Division { instances: 0, ephemeral: false }.of(spec).unwrap_err();
        assert!(nobody.to_string().contains("write"));
    }
}

/// G12: those who wait for their turn hold what they paid and nothing else.
#[test]
fn retries_that_wait_hold_only_their_own_token() {
    for spec in strict_kinds() {
        let healthy = || Asker::healthy(spec, 100, 20);
        let (mut waiting, mut sending) = (healthy(), healthy());
        let held: Vec<_> = (0..3).filter_map(|_| waiting.fail(at(20_000))).collect();
        assert_eq!(held.len(), 3, "{spec}");
        let sent = (0..3).filter(|_| sending.fail(at(20_000)).is_some()).count();
        assert_eq!(sent, 3);
        let (a, b) = (waiting.burst(at(20_500), 1_000), sending.burst(at(20_500), 1_000));
        assert_eq!(a, b, "{spec}");
        drop(held);
    }
}

/// B3.
#[test]
fn every_ratio_is_kept_within_a_hundredth() {
    for percent in 1..=200 {
        let (ratio, start) = (f64::from(percent) / 100.0, Some(0));
        let max = 30_000;
        let specs: [Spec; 6] = [
            tokens::Spec { max, ratio, start, ..Default::default() }.into(),
            grpc::Spec { bucket: Bucket { max: 20, ratio, start: Some(10) } }.into(),
            failed_retry::Spec { bucket: Bucket { max, ratio, start } }.into(),
            adaptive::Spec { bucket: Bucket { max, ratio, start }, ..Default::default() }.into(),
            ratio::Spec { ratio, ..Default::default() }.into(),
            window::Spec { ratio, bootstrap: 0, ..Default::default() }.into(),
        ];
        for spec in specs {
            let mut asker = Asker::new(spec);
            let mut retried = 0;
            for ms in 0..10_000 {
                asker.budget.earn(at(10 * ms));
                // gRPC charges failures, so those that would be refused are not made.
                let least = if matches!(spec, Spec::Grpc(_)) { 11.000_001 } else { 1.0 };
                while asker.budget.level(at(10 * ms)) >= least {
                    retried += u32::from(asker.fail(at(10 * ms)).is_some());
                }
            }
            let expected = percent * 100;
            assert!(retried.abs_diff(expected) <= expected / 100 + 1, "{spec}: {retried}");
        }
    }
}

#[test]
fn a_budget_by_chance_retries_its_share_of_a_total_outage() {
    for percent in [1, 5, 10, 25, 50, 100] {
        let target = f64::from(percent) / 100.0;
        let spec = probabilistic::Spec { target, unknown: target, ..Default::default() };
        let mut asker = Asker::new(spec);
        let retried = (0..100_000).filter(|&ms| asker.fail(at(ms)).is_some()).count() as f64;
        let (mean, spread) = (100_000.0 * target, (100_000.0 * target * (1.0 - target)).sqrt());
        assert!((retried - mean).abs() <= 5.0 * spread, "{percent} %: {retried}");
    }
}

#[test]
fn a_retry_that_succeeds_is_given_back_only_where_that_is_the_rule() {
    for spec in strict_kinds().filter(|spec| !matches!(spec, Spec::Grpc(_))) {
        let mut asker = Asker::healthy(spec, 100, 20);
        let before = asker.budget.level(at(20_000));
        let paid = asker.fail(at(20_000)).unwrap();
        asker.budget.retried_well(at(20_000), paid);
        let back = matches!(spec, Spec::FailedRetry(_));
        let level = asker.budget.level(at(20_000));
        assert_eq!(level, if back { before } else { before - 1.0 }, "{spec}");
    }
}

#[test]
fn a_reset_starts_afresh_and_forgets_no_totals() {
    for spec in kinds() {
        let mut asker = Asker::healthy(spec, 100, 20);
        asker.burst(at(20_000), 1_000);
        let before = asker.budget.snapshot(at(20_000));
        asker.budget.reset(at(20_000));
        let (reset, fresh) = (asker.budget.snapshot(at(20_000)), Asker::new(spec));
        let fresh = fresh.budget.snapshot(at(0));
        assert_eq!((reset.level, reset.max), (fresh.level, fresh.max), "{spec}");
        assert_eq!((reset.asked, reset.denied), (before.asked, before.denied));
    }
}

#[test]
fn a_snapshot_adds_up() {
    let mut asker = Asker::new(tokens::Spec { max: 4, ..Default::default() });
    let paid = asker.fail(at(0)).unwrap();
    asker.burst(at(0), 5);
    asker.budget.refund(at(0), paid);
    asker.budget.earn(at(0));
    let expected = Snapshot {
        successes: 1,
        failures: 6,
        asked: 6,
        allowed: 4,
        denied: 2,
        refunded: 1,
        level: 1.1,
        max: 4.0,
        utilisation: 1.0 - 1.1 / 4.0,
    };
    assert_eq!(asker.budget.snapshot(at(0)), expected);
}

#[test]
fn the_llm_preset_pauses_below_half_and_comes_back_with_time() {
    let mut asker = Asker::new(tokens::Spec::llm());
    assert_eq!(asker.burst(at(0), 100), 51);
    assert_eq!(asker.burst(at(999), 100), 0);
    assert_eq!(asker.burst(at(1_000), 100), 1);
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let nothing = Duration::ZERO;
    let nonsense: [Spec; 16] = [
        tokens::Spec { max: 0, ..Default::default() }.into(),
        tokens::Spec { ratio: f64::NAN, ..Default::default() }.into(),
        tokens::Spec { start: Some(101), ..Default::default() }.into(),
        tokens::Spec { refill: Some(nothing), ..Default::default() }.into(),
        tokens::Spec { pause_below: 1.1, ..Default::default() }.into(),
        tokens::Spec { cost: tokens::Cost::all(0), ..Default::default() }.into(),
        tokens::Spec { cost: tokens::Cost::all(2 * PRICE), max: 1, ..Default::default() }.into(),
        grpc::Spec { bucket: Bucket::full(0, 0.1) }.into(),
        ratio::Spec { window: nothing, ..Default::default() }.into(),
        ratio::Spec { floor: f64::INFINITY, ..Default::default() }.into(),
        window::Spec { ratio: -0.1, ..Default::default() }.into(),
        adaptive::Spec { alpha: 0.0, ..Default::default() }.into(),
        adaptive::Spec { success_floor: f64::NAN, ..Default::default() }.into(),
        probabilistic::Spec { target: 0.0, ..Default::default() }.into(),
        probabilistic::Spec { half_life: nothing, ..Default::default() }.into(),
        sampled::Spec { fraction: 0.0, ..Default::default() }.into(),
    ];
    for spec in nonsense {
        let message = Budget::new(spec, at(0)).unwrap_err().to_string();
        assert!(message.starts_with("budget."), "{message}");
        assert!(message.contains("write"), "{message}");
    }
    kinds().into_iter().for_each(|spec| assert!(Budget::new(spec, at(0)).is_ok()));
}

/// What stands in a policy and on a page.
#[test]
fn every_kind_has_its_word_and_says_what_is_in_force() {
    let said: Vec<_> = kinds().iter().map(|spec| format!("{}: {spec}", spec.kind())).collect();
    let expected = [
        "tokens: 100 tokens, 0.1 per success",
        "tokens: 100 tokens, 0.1 per success, one per 1s, pauses below 50 %",
        "tokens: 10 tokens, 0 per success, one per 1s",
        "grpc: grpc, 10 tokens, 0.1 per success",
        "failed-retry: 10 failed retries, 0.1 per success",
        "ratio: 10 % of successes in 10s, and 0 per second",
        "ratio: 20 % of successes in 10s, and 10 per second",
        "window: 10 % of successes in 60s, 5 without any",
        "adaptive: adaptive, 100 tokens, 0.2 per success",
        "probabilistic: by chance, 10 % of calls",
        "sampled: 25 % of failures, of 100 tokens, 0.1 per success",
        "unlimited: unlimited",
        "none: none",
    ];
    assert_eq!(said, expected);
}

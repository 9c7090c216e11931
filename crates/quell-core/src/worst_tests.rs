use super::*;
use crate::{
    breaker,
    budget::{Division, failed_retry, probabilistic, ratio, sampled, tokens, window},
    mode::Modes,
    spec::PolicySpec,
};

fn library() -> Policy {
    Policy::new(PolicySpec::library()).unwrap()
}

/// The multiplier on the worst day.
fn w(budget: impl Into<budget::Spec>, given: &Given) -> f64 {
    Load::of(&library(), budget.into(), given).multiplier(1.0)
}

#[test]
fn independent_failures_add_up_as_a_geometric_sum() {
    let load = Load { attempts: 4, budget: None };
    for (f, expected) in [(0.0, 1.0), (0.01, 1.010_101), (0.1, 1.111), (0.5, 1.875), (1.0, 4.0)] {
        let got = load.multiplier(f);
        assert!((got - expected).abs() < 1e-9, "f = {f}: {got}, expected {expected}");
    }
}

#[test]
fn a_budget_bounds_the_multiplier_however_many_attempts() {
    let load = Load { attempts: u32::MAX, budget: Some(0.1) };
    assert_eq!(load.multiplier(1.0), 1.1);
    assert!(load.multiplier(0.999_999_999) <= 1.1);
    assert_eq!(Load { attempts: u32::MAX, budget: None }.multiplier(1.0), f64::from(u32::MAX));
}

#[test]
fn the_healing_rule_is_the_published_one() {
    let naive = Load { attempts: 4, budget: None };
    assert!(naive.heals(0.249) && !naive.heals(0.25));
    let budgeted = Load { attempts: 4, budget: Some(0.1) };
    assert!(budgeted.heals(0.909) && !budgeted.heals(0.91));
}

#[test]
fn chains_multiply_and_credit_makes_them_a_sum() {
    for (chain_of, expected) in
        [(&[3, 3, 3][..], 27), (&[3; 4], 81), (&[4, 4, 4], 64), (&[3; 5], 243), (&[], 1)]
    {
        assert_eq!(chain(chain_of), expected);
    }
    assert_eq!(chain_with_credit(3, 1), 3);
    assert_eq!(chain_with_credit(3, 4), 9);
    assert_eq!(chain(&[u32::MAX; 9]), u64::MAX);
}

#[test]
fn latency_is_all_attempts_and_waits_but_never_beyond_the_timeout() {
    let spec = PolicySpec {
        attempts: 3,
        timeout: Duration::from_secs(30),
        per_try_timeout: Some(Duration::from_secs(2)),
        ..PolicySpec::library()
    };
    // 3 × 2 s, and waits of up to 100 and 200 ms.
    assert_eq!(latency(&Policy::new(spec).unwrap()), Duration::from_millis(6_300));
    let endless = PolicySpec { attempts: u32::MAX, timeout: Duration::MAX, ..spec };
    assert!(latency(&Policy::new(endless).unwrap()) > Duration::from_secs(86_400 * 365));
    let short = PolicySpec { timeout: Duration::from_secs(5), ..spec };
    assert_eq!(latency(&Policy::new(short).unwrap()), Duration::from_secs(5));
}

#[test]
fn a_routes_worst_day_is_said_in_full() {
    let given =
        Given { instances: 50, load: Some(10_000.0), capacity: Some(12_000.0), ..Given::default() };
    let day = worst(&library(), &UpstreamSpec::library(), &given);
    assert_eq!(day.attempts, 3);
    assert_eq!(day.latency, Duration::from_secs(30));
    assert!((day.load - 1.1).abs() < 1e-9);
    assert!((day.w_rho.unwrap() - 1.1 * 10.0 / 12.0).abs() < 1e-9);
    assert_eq!(day.fleet, Some(5_000), "a hundred each");
    assert_eq!(day.added_recovery, Duration::from_millis(500 + 100 + 250));
    assert_eq!(worst(&library(), &UpstreamSpec::library(), &Given::default()).w_rho, None);
    let nothing = Given { capacity: Some(0.0), ..given };
    assert_eq!(nothing.utilisation(), None, "of nothing there is no share");
}

#[test]
fn what_a_long_open_time_adds_to_a_recovery_is_said() {
    let added = |breaker| {
        let upstream = UpstreamSpec { breaker, ..UpstreamSpec::library() };
        worst(&library(), &upstream, &Given::default()).added_recovery
    };
    let long = breaker::Spec::classic();
    assert_eq!(added(long), Duration::from_millis(30_100));
    assert_eq!(added(breaker::Spec { mode: Mode::Report, ..long }), Duration::ZERO);
    assert_eq!(added(breaker::Spec { mode: Mode::Disabled, ..long }), Duration::ZERO);
}

#[test]
fn every_kind_of_budget_bounds_the_multiplier_by_what_it_pays_per_success() {
    let given = Given::default();
    let near = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-6, "{got}");
    near(w(tokens::Spec::default(), &given), 1.1);
    near(w(ratio::Spec { ratio: 0.2, ..Default::default() }, &given), 1.2);
    near(w(window::Spec::default(), &given), 1.1);
    near(w(sampled::Spec::default(), &given), 1.1);
    near(w(failed_retry::Spec::default(), &given), 2.1);
    near(w(probabilistic::Spec { target: 0.2, ..Default::default() }, &given), 1.25);
    near(w(probabilistic::Spec { target: 1.0, ..Default::default() }, &given), 3.0);
    near(w(budget::Spec::Unlimited, &given), 3.0);
    near(w(budget::Spec::None, &given), 1.0);
}

/// G4, G11.
#[test]
fn a_floor_counts_once_per_process_against_the_load() {
    let given = Given { instances: 1_000, load: Some(10_000.0), ..Given::default() };
    let near = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-3, "{got}");
    near(w(ratio::Spec::finagle(), &given), 1.2 + 1.0);
    near(w(ratio::Spec::finagle(), &Given { load: None, ..given }), 1.2);
    let part = Division { instances: 1_000, ephemeral: false }.of(ratio::Spec::finagle()).unwrap();
    near(w(part, &given), 1.2 + 0.001);
    near(w(tokens::Spec::time_only(), &given), 1.0 + 0.1);
}

#[test]
fn budgets_at_every_layer_compound_and_one_layer_does_not() {
    let layer = Load { attempts: 3, budget: Some(0.1) };
    let all = chain_load(&[layer; 4], 1.0);
    assert!((all - 1.1f64 * 1.1 * 1.1 * 1.1).abs() < 1e-9, "{all}");
    let once = Load { attempts: 1, budget: None };
    assert!((chain_load(&[layer, once, once, once], 1.0) - 1.1).abs() < 1e-9);
    assert_eq!(chain_load(&[], 1.0), 1.0);
}

#[test]
fn a_budget_that_nobody_obeys_holds_nothing() {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    let modes = Modes { budget: crate::mode::Mode::Report, ..Modes::default() };
    let obeyed = UpstreamSpec::library();
    let reported = UpstreamSpec { modes, ..obeyed };
    let given = Given { load: Some(800.0), capacity: Some(1_000.0), ..Given::default() };
    let [obeyed, reported] = [obeyed, reported].map(|spec| worst(&policy, &spec, &given));
    assert_eq!((obeyed.load, reported.load), (1.1, 3.0));
    assert!(obeyed.w_rho.unwrap() < 1.0 && reported.w_rho.unwrap() > 2.0);
    assert_eq!(reported.fleet, None);
}

#[test]
fn a_chain_multiplies_unless_its_credit_is_handed_down() {
    let spec = UpstreamSpec { budget: budget::Spec::Unlimited, ..UpstreamSpec::library() };
    let given = Given { load: Some(100.0), capacity: Some(400.0), ..Given::default() };
    let edge = Policy::new(PolicySpec { attempts: 3, ..PolicySpec::library() }).unwrap();
    let route = worst(&edge, &spec, &given);
    let alone = of_chain(&[route; 4], false).unwrap();
    assert_eq!((alone.attempts, alone.load, alone.w_rho), (81, 81.0, Some(20.25)));
    let together = of_chain(&[route; 4], true).unwrap();
    assert_eq!((together.attempts, together.load, together.w_rho), (3, 3.0, Some(0.75)));
    assert_eq!((together.latency, alone.latency), (route.latency, route.latency));
    assert_eq!(of_chain(&[], true), None);
}

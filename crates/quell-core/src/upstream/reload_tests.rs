use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::super::{
    property_tests::{Act, Host, act},
    tests::{PER_TRY, at, end, go, open_the_breaker, queued, refused, server_fault},
};
use super::*;
use crate::{
    Event, Failure, Fault, Outcome, Reason, Snapshot,
    breaker::{self, State},
    budget::{self, purse::Child, tokens},
    endpoints::Ejection,
    in_flight::Limit,
    limiter, pools,
    queue::Order,
    throttle,
    upstream::{Admission, Ask, Release},
};

fn upstream(spec: UpstreamSpec) -> Upstream {
    Upstream::new(spec, PER_TRY, 1, Time::ZERO).unwrap()
}

fn reload(upstream: &mut Upstream, now: Time, spec: UpstreamSpec) -> Vec<Wake> {
    let mut wake = Vec::new();
    upstream.reload(now, spec, PER_TRY, &mut wake).unwrap();
    wake
}

/// All that is kept, in one place: served, failing, left and paid for until `now`.
fn experienced(spec: UpstreamSpec) -> (Upstream, Time) {
    let mut upstream = upstream(spec);
    for i in 0..2_000 {
        let permit = go(&mut upstream, at(i * 2));
        end(&mut upstream, at(i * 2 + 1), permit, Outcome::Success);
    }
    let now = at(4_000);
    (0..30).for_each(|_| upstream.gave_up(now, at(3_000), 0));
    (0..30).for_each(|_| assert!(upstream.pay(now, Fault::Server, Child::NONE).is_ok()));
    let hint = Failure::of(Fault::Overload).with_code(503).with_hint(Duration::from_secs(9));
    let permit = go(&mut upstream, now);
    end(&mut upstream, now, permit, Outcome::Failed(hint));
    (upstream, now)
}

/// X9.
#[test]
fn a_reload_keeps_budget_breaker_estimates_patience_ghosts_and_the_gate() {
    let breaker = breaker::Spec { consecutive: 20, ..Default::default() };
    let (mut upstream, now) = experienced(UpstreamSpec { breaker, ..UpstreamSpec::gateway() });
    let left = go(&mut upstream, now);
    open_the_breaker(&mut upstream, now);
    upstream.release(now, left, Release::Ghost, &mut Vec::new());
    let (was, p50) = (upstream.snapshot(now), upstream.p50());
    assert_eq!((was.budget, was.ghosts, was.breaker), (0.7, 1, State::Open));
    assert_eq!(was.patience, Duration::from_secs(1));
    let spec = UpstreamSpec {
        budget: tokens::Spec { max: 1_000, ..Default::default() }.into(),
        breaker: breaker::Spec::classic(),
        in_flight: Limit::Fixed(9),
        endpoints: 3,
        queue: 1,
        ..UpstreamSpec::gateway()
    };
    reload(&mut upstream, now, spec);
    let is = upstream.snapshot(now);
    assert_eq!((is.retries.level, is.retries.max, is.limit), (70.0, 1_000.0, 9));
    assert_eq!((is.ghosts, is.breaker, is.not_before), (1, State::Open, was.not_before));
    assert_eq!((is.patience, is.known, upstream.p50()), (was.patience, was.known, p50));
    assert_eq!(is.retries.asked, 30);
}

/// X9.
#[test]
fn an_invalid_spec_changes_nothing_at_all() {
    let (mut upstream, now) = experienced(UpstreamSpec::gateway());
    let before = format!("{upstream:?}");
    let spec = UpstreamSpec {
        endpoints: 5,
        in_flight: Limit::Fixed(1),
        budget: budget::Spec::None,
        ..UpstreamSpec::library()
    };
    let no_burst = limiter::Spec { per_second: 1.0, burst: 0 };
    let no_share = throttle::Spec { most: 0.0, ..Default::default() };
    for invalid in [
        UpstreamSpec { in_flight: Limit::Fixed(0), ..spec },
        UpstreamSpec { breaker: breaker::Spec { probes: 0, ..Default::default() }, ..spec },
        UpstreamSpec {
            children: Some(tokens::Spec { max: 0, ..Default::default() }.into()),
            ..spec
        },
        UpstreamSpec { endpoints: 0, ..spec },
        UpstreamSpec { rate_limit: Some(no_burst), ..spec },
        UpstreamSpec { throttle: Some(no_share), ..spec },
    ] {
        let error = upstream.reload(now, invalid, PER_TRY, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("write"), "{error}");
        assert_eq!(before, format!("{upstream:?}"), "{error}");
    }
}

/// X9.
#[test]
fn a_higher_limit_lets_those_who_wait_go_and_a_lower_one_drains() {
    let fixed = |n| UpstreamSpec { in_flight: Limit::Fixed(n), ..UpstreamSpec::gateway() };
    let mut upstream = upstream(fixed(1));
    let mut out = vec![go(&mut upstream, at(0))];
    let waiting: Vec<_> =
        (0..3).map(|_| queued(&mut upstream, at(0), &Ask::first(at(0))).0).collect();
    let granted = reload(&mut upstream, at(1), UpstreamSpec { queue: 0, ..fixed(3) });
    assert_eq!(granted.iter().map(|wake| wake.ticket).collect::<Vec<_>>(), waiting[..2]);
    out.extend(granted.into_iter().map(|wake| wake.result.unwrap()));
    assert_eq!(upstream.snapshot(at(1)).queued, 1, "a smaller queue sheds nobody");
    assert!(reload(&mut upstream, at(2), UpstreamSpec { queue: 0, ..fixed(2) }).is_empty());
    assert_eq!(upstream.snapshot(at(2)).in_flight, 3);
    let last = out.pop().unwrap();
    assert!(end(&mut upstream, at(3), last, Outcome::Success).is_empty(), "two are the most");
    let next = out.pop().unwrap();
    assert_eq!(end(&mut upstream, at(3), next, Outcome::Success)[0].ticket, waiting[2]);
}

/// X9: and what was admitted before there was a limit gives no token back.
#[test]
fn a_reload_brings_the_rate_limit_no_new_burst() {
    let limited = |burst| {
        let rate_limit = Some(limiter::Spec { per_second: 1.0, burst });
        UpstreamSpec { rate_limit, ..UpstreamSpec::library() }
    };
    let mut upstream = upstream(UpstreamSpec::library());
    let before = go(&mut upstream, at(0));
    reload(&mut upstream, at(0), limited(3));
    let taken: Vec<_> = (0..3).map(|_| go(&mut upstream, at(0))).collect();
    upstream.release(at(0), before, Release::Unsent, &mut Vec::new());
    for burst in [3, 100, 2, 50] {
        reload(&mut upstream, at(0), limited(burst));
        assert_eq!(refused(&mut upstream, at(0), &Ask::first(at(0))), Reason::RateLimited);
    }
    for permit in taken {
        upstream.release(at(0), permit, Release::Unsent, &mut Vec::new());
    }
    let again: Vec<_> = (0..3).map(|_| go(&mut upstream, at(0))).collect();
    assert_eq!(refused(&mut upstream, at(0), &Ask::first(at(0))), Reason::RateLimited);
    again.into_iter().for_each(|permit| drop(end(&mut upstream, at(0), permit, server_fault())));
}

/// X9.
#[test]
fn a_throttle_stays_wary() {
    let throttle = Some(throttle::Spec::default());
    let mut upstream = upstream(UpstreamSpec { throttle, ..UpstreamSpec::library() });
    let spared = |upstream: &mut Upstream| {
        let mut spared = 0;
        for _ in 0..200 {
            match upstream.admit(at(0), &Ask::first(at(0))) {
                Admission::Go(permit) => {
                    let overload = Failure::of(Fault::Overload).with_code(429);
                    end(upstream, at(0), permit, Outcome::Failed(overload));
                }
                _ => spared += 1,
            }
        }
        spared
    };
    spared(&mut upstream);
    let window = Duration::from_secs(60);
    let throttle = Some(throttle::Spec { window, ..Default::default() });
    reload(&mut upstream, at(0), UpstreamSpec { throttle, ..UpstreamSpec::gateway() });
    assert!(spared(&mut upstream) > 160);
}

/// X9.
#[test]
fn what_is_under_way_at_an_endpoint_that_was_taken_away_comes_back_once() {
    let three = UpstreamSpec { endpoints: 3, ..UpstreamSpec::library() };
    let mut upstream = upstream(three);
    let out: Vec<_> = (0..30).map(|_| go(&mut upstream, at(0))).collect();
    assert!(out.iter().any(|permit| permit.endpoint() == 2));
    reload(&mut upstream, at(1), UpstreamSpec::library());
    for (i, permit) in out.into_iter().enumerate() {
        let outcome = if i % 3 == 0 { server_fault() } else { Outcome::Success };
        upstream.judge(at(2), &permit, &outcome);
        let how = [Release::Done, Release::Unsent, Release::Ghost][i % 3];
        upstream.release(at(2), permit, how, &mut Vec::new());
    }
    let last = go(&mut upstream, at(3));
    assert_eq!(last.endpoint(), 0);
    end(&mut upstream, at(3), last, Outcome::Success);
    let Snapshot { in_flight, ghosts, .. } = upstream.snapshot(at(3));
    assert_eq!((in_flight, ghosts), (0, 0));
}

/// X9.
#[test]
fn what_a_reload_changed_is_told_once() {
    let mut upstream = upstream(UpstreamSpec::gateway());
    let forced = breaker::Spec { mode: breaker::Mode::ForcedOpen, ..Default::default() };
    let fixed = Limit::Fixed(100);
    let spec = UpstreamSpec { breaker: forced, in_flight: fixed, ..UpstreamSpec::gateway() };
    for _ in 0..2 {
        reload(&mut upstream, at(0), spec);
    }
    let told: Vec<_> = core::iter::from_fn(|| upstream.next_event()).collect();
    assert!(
        matches!(
            told[..],
            [Event::BreakerOpened { .. }, Event::LimitMoved { from: 1024, to: 100 }]
        ),
        "{told:?}"
    );
}

fn specs() -> impl Strategy<Value = UpstreamSpec> {
    let in_flight = prop_oneof![
        1 => Just(Limit::Off),
        4 => (1..6u32).prop_map(Limit::Fixed),
        2 => (8..20u32).prop_map(|ceiling| Limit::Adaptive { ceiling }),
    ];
    let breaker = prop_oneof![
        Just(breaker::Spec::default()),
        Just(breaker::Spec::classic()),
        Just(breaker::Spec::hardened()),
        Just(breaker::Spec::consecutive()),
        (1..5u32, 1..4u8).prop_map(|(min_calls, probes)| {
            breaker::Spec { min_calls, probes, ..Default::default() }
        }),
    ];
    let budget = prop_oneof![
        (1..200u32).prop_map(|max| tokens::Spec { max, ..Default::default() }.into()),
        Just(budget::ratio::Spec::finagle().into()),
        Just(budget::window::Spec::default().into()),
    ];
    let order = prop_oneof![Just(Order::Fifo), Just(Order::Lifo), Just(Order::AdaptiveLifo)];
    let limiter = (1..20u32).prop_map(|burst| limiter::Spec { per_second: 50.0, burst });
    let ejection = (1..4u32).prop_map(|after| Ejection { after, ..Default::default() });
    let curbs = (prop::option::of(limiter), prop::option::of(Just(throttle::Spec::default())));
    let rest = (order, 0..6usize, 1..5u16, prop::option::of(ejection));
    (in_flight, breaker, budget, curbs, rest).prop_map(
        |(in_flight, breaker, budget, curbs, rest)| {
            let ((rate_limit, throttle), (order, queue, endpoints, ejection)) = (curbs, rest);
            UpstreamSpec {
                budget,
                breaker,
                in_flight,
                queue,
                order,
                endpoints,
                rate_limit,
                throttle,
                ejection,
                breaker_keys: (queue % 2 == 1).then_some(2),
                pools: pools::Spec::of(&[1, 1, 1][..queue / 2]).unwrap(),
                ..UpstreamSpec::library()
            }
        },
    )
}

type Acts = (UpstreamSpec, Vec<(Result<Act, UpstreamSpec>, u64)>);

fn acts() -> impl Strategy<Value = Acts> {
    let act = prop_oneof![6 => act().prop_map(Ok), 1 => specs().prop_map(Err)];
    (specs(), prop::collection::vec((act, 0..400u64), 1..200))
}

/// Traffic with reloads in between, unless a permit, a ticket or a token of the budget goes astray.
fn survives(
    (first, acts): Acts,
    reload: impl Fn(&mut Upstream, Time, UpstreamSpec, &mut Vec<Wake>),
) -> Result<Host, &'static str> {
    let mut host = Host::new(first, 1);
    for (act, step) in acts {
        host.clock += step;
        match act {
            Ok(act) => host.act(act),
            Err(spec) => {
                let now = at(host.clock);
                let paid = host.upstream.pay(now, Fault::Server, Child::NONE);
                let before = host.upstream.snapshot(now).retries.level;
                reload(&mut host.upstream, now, spec, &mut host.wake);
                if host.upstream.snapshot(now).retries.level > before {
                    return Err("the budget rose");
                }
                if let Ok(receipt) = paid {
                    host.upstream.refund(now, receipt);
                }
                if host.upstream.snapshot(now).retries.level > before + 1.000_001 {
                    return Err("the receipt gave back more than was paid");
                }
            }
        }
        if !host.is_whole() {
            return Err("a permit or a ticket was lost");
        }
    }
    Ok(host)
}

fn in_place(upstream: &mut Upstream, now: Time, spec: UpstreamSpec, wake: &mut Vec<Wake>) {
    upstream.reload(now, spec, PER_TRY, wake).unwrap();
}

fn afresh(upstream: &mut Upstream, now: Time, spec: UpstreamSpec, _: &mut Vec<Wake>) {
    *upstream = Upstream::new(spec, PER_TRY, 1, now).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// X9, P1: whatever is reloaded whenever, nothing is lost or doubled, the budget never rises by it, and at rest
    /// nothing is held.
    #[test]
    fn reloads_in_traffic_lose_nothing(acts in acts()) {
        let mut host = survives(acts, in_place).map_err(TestCaseError::fail)?;
        let snapshot = host.come_to_rest();
        prop_assert_eq!((snapshot.in_flight, snapshot.ghosts, snapshot.queued), (0, 0, 0));
        let mut tree = TestRunner::deterministic();
        let spec = specs().new_tree(&mut tree).unwrap().current();
        in_place(&mut host.upstream, at(host.clock), spec, &mut host.wake);
        let once = format!("{:?}", host.upstream);
        in_place(&mut host.upstream, at(host.clock), spec, &mut host.wake);
        prop_assert_eq!(once, format!("{:?}", host.upstream));
    }
}

/// X9.
#[test]
fn an_upstream_that_starts_afresh_is_caught() {
    let mut runner = TestRunner::deterministic();
    let runs: Vec<_> = (0..50).map(|_| acts().new_tree(&mut runner).unwrap().current()).collect();
    assert!(runs.iter().cloned().any(|acts| survives(acts, afresh).is_err()));
    assert!(runs.into_iter().all(|acts| survives(acts, in_place).is_ok()), "and ours is not");
}

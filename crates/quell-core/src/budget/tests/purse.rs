use proptest::prelude::*;

use super::{
    super::purse::{Change, Changes, Child, MOST},
    *,
};
use crate::{
    Arrival, Call, Event, Failure, Input, Outcome, Policy, Rng, Step, Upstream,
    spec::{PolicySpec, UpstreamSpec},
};

fn bucket(max: u32, ratio: f64) -> Spec {
    tokens::Spec { max, ratio, ..Default::default() }.into()
}

fn purse(parent: Spec, child: Spec) -> Purse {
    Purse::new(parent, Some(child), Time::ZERO).unwrap()
}

/// The level of a child's budget.
fn level(purse: &Purse, key: u64) -> f64 {
    let mut children = purse.children(Time::ZERO);
    children.find(|(name, _)| *name == Some(key)).unwrap().1.level
}

/// A success of a child.
fn earn(purse: &mut Purse, child: Child, now: Time) -> Changes {
    let Changes { parent, .. } = purse.earn(now);
    Changes { parent, ..purse.earn_child(now, child) }
}

fn drain(purse: &mut Purse, child: Child) -> usize {
    let mut rng = Rng::new(1);
    let may = |_: &u32| purse.take(Time::ZERO, child, Fault::Server, &mut rng).0.is_ok();
    (0..).take_while(may).count()
}

#[test]
fn one_that_only_fails_spends_its_own_and_leaves_the_others_theirs() {
    let mut purse = purse(bucket(100, 0.1), bucket(10, 0.1));
    let (failing, other) = (purse.child(at(0), 1), purse.child(at(0), 2));
    assert_eq!(drain(&mut purse, failing), 10);
    assert_eq!(drain(&mut purse, other), 10);
    assert_eq!(purse.parent().level(at(0)), 80.0);
    assert_eq!(drain(&mut purse, Child::NONE), 80);
}

#[test]
fn a_child_earns_by_its_own_successes_and_the_parent_by_all() {
    let mut purse = purse(bucket(100, 0.1), bucket(10, 0.1));
    let (one, other) = (purse.child(at(0), 1), purse.child(at(0), 2));
    drain(&mut purse, one);
    drain(&mut purse, other);
    for _ in 0..20 {
        earn(&mut purse, one, at(0));
    }
    assert_eq!((level(&purse, 1), level(&purse, 2)), (2.0, 0.0));
    assert_eq!(purse.parent().level(at(0)), 82.0);
}

#[test]
fn what_the_parent_refuses_the_child_has_not_paid() {
    let mut purse = purse(bucket(1, 0.1), bucket(10, 0.1));
    let child = purse.child(at(0), 1);
    assert_eq!(drain(&mut purse, child), 1);
    assert_eq!(level(&purse, 1), 9.0);
}

#[test]
fn children_are_bounded_and_late_ones_share() {
    let mut purse = purse(bucket(1_000_000, 0.1), bucket(10, 0.1));
    let names = 0..2 * MOST as u64;
    let children: Vec<_> = names.map(|key| purse.child(at(0), key)).collect();
    assert_eq!(purse.child(at(0), 0), children[0]);
    assert_eq!(drain(&mut purse, children[0]), 10);
    assert_eq!(drain(&mut purse, children[MOST - 1]), 10);
    assert_eq!(drain(&mut purse, children[MOST]), 10);
    assert_eq!(drain(&mut purse, children[2 * MOST - 1]), 0, "shared with the one before");
    assert_eq!(purse.children(at(0)).count(), MOST + 1);
    assert_eq!(purse.children(at(0)).filter(|(name, _)| name.is_none()).count(), 1);
}

#[test]
fn exhaustion_and_recovery_are_told_once_and_of_whom() {
    let mut purse = purse(bucket(3, 0.5), bucket(2, 1.0));
    let (one, other) = (purse.child(at(0), 1), purse.child(at(0), 2));
    let mut rng = Rng::new(1);
    let mut ask = |purse: &mut Purse, child| {
        let (result, changes) = purse.take(at(0), child, Fault::Server, &mut rng);
        (result.is_ok(), changes)
    };
    let (quiet, exhausted) = (Changes::default(), Some(Change::Exhausted));
    assert_eq!(ask(&mut purse, one), (true, quiet));
    assert_eq!(ask(&mut purse, one), (true, quiet));
    assert_eq!(ask(&mut purse, one), (false, Changes { child: exhausted, parent: None }));
    assert_eq!(ask(&mut purse, one), (false, quiet));
    assert_eq!(ask(&mut purse, other), (true, quiet));
    assert_eq!(ask(&mut purse, other), (false, Changes { child: None, parent: exhausted }));
    assert_eq!(ask(&mut purse, other), (false, quiet));
    let recovered = Some(Change::Recovered);
    assert_eq!(earn(&mut purse, one, at(0)), Changes { child: recovered, parent: None });
    assert_eq!(earn(&mut purse, one, at(0)), Changes { child: None, parent: recovered });
    assert_eq!(earn(&mut purse, one, at(0)), quiet);
}

#[test]
fn chance_is_no_exhaustion() {
    let half = sampled::Spec { fraction: 0.5, ..Default::default() };
    let mut purse = Purse::new(half, None, at(0)).unwrap();
    let mut rng = Rng::new(1);
    let asked = (0..50).map(|_| purse.take(at(0), Child::NONE, Fault::Server, &mut rng));
    let (paid, changes): (Vec<_>, Vec<_>) = asked.unzip();
    assert!(paid.iter().any(Result::is_err) && paid.iter().any(Result::is_ok));
    assert!(changes.into_iter().all(|change| change == Changes::default()));
}

fn step(call: &mut Call, now: Time, input: Input, upstream: &mut Upstream) -> Step {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    call.step(now, input, &policy, upstream, &mut Vec::new())
}

#[test]
fn a_peek_needs_both_to_be_able_to_pay() {
    for (parent, child, can) in [(9, 9, true), (9, 1, false), (1, 9, false), (1, 1, false)] {
        let mut purse = purse(bucket(parent, 0.1), bucket(child, 0.1));
        let own = purse.child(at(0), 7);
        assert!(purse.peek(at(0), own));
        let _ = purse.take(at(0), own, Fault::Server, &mut Rng::new(1));
        assert_eq!(purse.peek(at(0), own), can, "{parent} and {child}");
    }
}

/// One failed call, up to what its retry came to.
fn failing(upstream: &mut Upstream, child: Option<u64>, now: Time) -> (Call, Step) {
    let child = child.map(|key| upstream.child(now, key)).unwrap_or_default();
    let mut call = Call::of(Arrival { child, ..Arrival::new() });
    call.set_repeatable(true);
    let Step::Send(send) = step(&mut call, now, Input::Start, upstream) else {
        panic!("a first attempt never asks");
    };
    call.sent(send.slot);
    let outcome = Outcome::Failed(Failure::of(Fault::Server));
    let input = Input::Ended { slot: send.slot, outcome };
    let step = step(&mut call, now, input, upstream);
    (call, step)
}

/// One call that succeeds at once.
fn succeeding(upstream: &mut Upstream, child: u64, now: Time) {
    let child = upstream.child(now, child);
    let mut call = Call::of(Arrival { child, ..Arrival::new() });
    let Step::Send(send) = step(&mut call, now, Input::Start, upstream) else { panic!() };
    let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
    let _ = step(&mut call, now, input, upstream);
}

fn upstream(budget: impl Into<Spec>, children: Option<Spec>) -> Upstream {
    let breaker = crate::breaker::Spec { min_calls: u32::MAX, ..Default::default() };
    let spec = UpstreamSpec { budget: budget.into(), children, breaker, ..UpstreamSpec::library() };
    Upstream::new(spec, Duration::from_secs(1), 1, at(0)).unwrap()
}

#[test]
fn calls_of_one_tenant_retry_on_that_tenants_budget() {
    let mut upstream = upstream(bucket(100, 0.1), Some(bucket(2, 0.1)));
    let mut retried = |child| {
        let calls = (0..5).map(|_| failing(&mut upstream, child, at(0)).1);
        calls.filter(|step| matches!(step, Step::Sleep { .. })).count()
    };
    assert_eq!((retried(Some(1)), retried(Some(2)), retried(None)), (2, 2, 5));
    assert_eq!(upstream.snapshot(at(0)).retries.level, 91.0);
    assert_eq!(upstream.child_budgets(at(0)).map(|(_, child)| child.denied).sum::<u64>(), 6);
    let [one, two] = [1, 2].map(|key| Some(Event::ChildBudgetExhausted { key: Some(key) }));
    assert_eq!((upstream.next_event(), upstream.next_event()), (one, two));
    assert_eq!(upstream.next_event(), None, "the upstream's own is not exhausted");
}

#[test]
fn a_tenants_budget_is_told_of_once_when_it_is_empty_and_once_when_it_can_pay_again() {
    let mut upstream = upstream(bucket(100, 0.1), Some(bucket(1, 0.5)));
    let exhausted = Some(Event::ChildBudgetExhausted { key: Some(7) });
    let recovered = Some(Event::ChildBudgetRecovered { key: Some(7) });
    // A retry that was paid for and comes back, and two successes, each bring the token back.
    let (mut sleeping, _) = failing(&mut upstream, Some(7), at(0));
    for refunded in [true, false] {
        for _ in 0..3 {
            let _ = failing(&mut upstream, Some(7), at(0));
        }
        assert_eq!((upstream.next_event(), upstream.next_event()), (exhausted, None));
        if refunded {
            sleeping.abandon(at(0), &mut upstream, &mut Vec::new());
        } else {
            (0..2).for_each(|_| succeeding(&mut upstream, 7, at(0)));
        }
        assert_eq!((upstream.next_event(), upstream.next_event()), (recovered, None));
        let _ = failing(&mut upstream, Some(7), at(0)); // pays the one token
    }
}

#[test]
fn those_who_share_a_budget_are_told_of_it_without_a_name() {
    let mut upstream = upstream(bucket(5_000, 0.1), Some(bucket(1, 0.1)));
    for key in 0..MOST as u64 {
        upstream.child(at(0), key);
    }
    for key in [5_000, 6_000] {
        let _ = failing(&mut upstream, Some(key), at(0));
    }
    assert_eq!(upstream.next_event(), Some(Event::ChildBudgetExhausted { key: None }));
    let last = MOST as u64 - 1;
    for _ in 0..2 {
        let _ = failing(&mut upstream, Some(last), at(0));
    }
    assert_eq!(upstream.next_event(), Some(Event::ChildBudgetExhausted { key: Some(last) }));
}

/// The kind that gives tokens of successful retries back is told of them by the loop.
#[test]
fn a_call_whose_retry_succeeds_gives_its_token_back_where_that_is_the_rule() {
    for (spec, left) in [(Spec::from(failed_retry::Spec::default()), 10.0), (bucket(10, 0.1), 9.1)]
    {
        let mut upstream = upstream(spec, None);
        let (mut call, step) = failing(&mut upstream, None, at(0));
        let Step::Sleep { until } = step else { panic!("{step:?}") };
        let step = self::step(&mut call, until, Input::Woke, &mut upstream);
        let Step::Send(send) = step else { panic!("{step:?}") };
        call.sent(send.slot);
        let input = Input::Ended { slot: send.slot, outcome: Outcome::Success };
        let _ = self::step(&mut call, until, input, &mut upstream);
        assert_eq!(upstream.snapshot(until).retries.level, left, "{spec}");
    }
}

/// gRPC's kind is charged by the loop for failures that nobody retries.
#[test]
fn failures_are_charged_by_the_upstream_though_nobody_may_retry() {
    let mut upstream = upstream(grpc::Spec::default(), None);
    let calls: Vec<_> = (0..8).map(|_| failing(&mut upstream, None, at(0)).1).collect();
    let retried = calls.iter().filter(|step| matches!(step, Step::Sleep { .. })).count();
    assert_eq!(retried, 4);
    assert_eq!(upstream.snapshot(at(0)).retries.level, 2.0);
    assert_eq!(upstream.next_event(), Some(Event::BudgetExhausted));
    upstream.reset_budget(at(0));
    assert_eq!(upstream.next_event(), Some(Event::BudgetRecovered));
    assert_eq!(upstream.snapshot(at(0)).budget, 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// A retry is paid by both or by neither, and comes back to both or to neither.
    #[test]
    fn child_and_parent_pay_both_or_neither(
        acts in prop::collection::vec((0..6u8, 0..3u64, 0..800u64), 1..150),
        parent in super::properties::specs(),
        child in super::properties::specs(),
    ) {
        let mut purse = purse(parent, child);
        let (mut rng, mut clock, mut open) = (Rng::new(3), 0, Vec::new());
        let mut said = false;
        for (act, key, wait) in acts {
            let key = (key > 0).then_some(key);
            let now = at(clock);
            let own = key.map_or(Child::NONE, |key| purse.child(now, key));
            let look = |purse: &Purse| {
                let own = purse.children(now).find(|(name, _)| key.is_some() && *name == key);
                let own = own.map(|(_, own)| own);
                (purse.parent().snapshot(now), own)
            };
            let (before, own_before) = look(&purse);
            let changes = match act {
                0 => earn(&mut purse, own, now),
                1 => { clock += wait; Changes::default() }
                2 => match open.pop() {
                    Some(receipt) => purse.refund(now, receipt),
                    None => Changes::default(),
                },
                _ => {
                    purse.failed(now);
                    purse.failed_child(now, own);
                    let (mid, own_mid) = look(&purse);
                    let (result, changes) = purse.take(now, own, Fault::Server, &mut rng);
                    let (after, own_after) = look(&purse);
                    match result {
                        Ok(receipt) => {
                            prop_assert_eq!(after.allowed, before.allowed + 1);
                            if let (Some(after), Some(before)) = (own_after, own_before) {
                                prop_assert_eq!(after.allowed - after.refunded, before.allowed - before.refunded + 1);
                            }
                            open.push(receipt);
                        }
                        Err(_) => {
                            prop_assert_eq!(after.level, mid.level);
                            prop_assert_eq!(after.allowed, before.allowed);
                            if let (Some(after), Some(mid)) = (own_after, own_mid) {
                                prop_assert_eq!(after.level, mid.level);
                                prop_assert_eq!(after.allowed - after.refunded, mid.allowed - mid.refunded);
                            }
                        }
                    }
                    changes
                }
            };
            // Of the parent it is told in turns: exhausted, recovered, exhausted.
            match changes.parent {
                Some(Change::Exhausted) => prop_assert!(!core::mem::replace(&mut said, true)),
                Some(Change::Recovered) => prop_assert!(core::mem::replace(&mut said, false)),
                None => {}
            }
        }
    }
}

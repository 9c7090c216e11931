//! What a reload keeps, and that it mints nothing.

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::{Rng, properties::specs, *};

fn reload(budget: &mut Budget, spec: Spec, now: Time) {
    budget.adopt(Budget::new(spec, now).unwrap(), now);
}

fn spend(asker: &mut Asker, now: Time, tokens: usize) -> Vec<Paid> {
    (0..tokens).map(|_| asker.fail(now).unwrap()).collect()
}

/// X9.
#[test]
fn the_level_is_kept_in_tokens_and_the_totals_with_it() {
    let mut asker = Asker::new(tokens::Spec::default());
    spend(&mut asker, at(0), 40);
    for (max, expected) in [(100, 60.0), (500, 60.0), (20, 20.0), (100, 20.0)] {
        reload(&mut asker.budget, tokens::Spec { max, ..Default::default() }.into(), at(1));
        let Snapshot { level, max: shown, asked, allowed, failures, .. } =
            asker.budget.snapshot(at(1));
        assert_eq!((level, shown), (expected, f64::from(max)));
        assert_eq!((asked, allowed, failures), (40, 40, 40));
    }
}

/// X9.
#[test]
fn another_kind_starts_with_what_was_there_and_never_with_more_than_its_start() {
    let grpc = grpc::Spec { bucket: Bucket { start: Some(30), ..Bucket::full(50, 0.1) } };
    let window = window::Spec { bootstrap: 7, ..Default::default() };
    for (spec, full, two) in [
        (grpc.into(), 30.0, 2.0),
        (failed_retry::Spec::default().into(), 10.0, 2.0),
        (adaptive::Spec::default().into(), 100.0, 2.0),
        (window.into(), 7.0, 2.0),
        (ratio::Spec::default().into(), 0.0, 0.0),
        (sampled::Spec::default().into(), 100.0, 2.0),
        (Spec::None, 0.0, 0.0),
        (Spec::Unlimited, f64::INFINITY, f64::INFINITY),
    ] {
        for (spent, expected) in [(0, full), (98, two)] {
            let mut asker = Asker::new(tokens::Spec::default());
            spend(&mut asker, at(0), spent);
            reload(&mut asker.budget, spec, at(1));
            assert_eq!(asker.budget.level(at(1)), expected, "{spec} after {spent}");
        }
    }
}

/// X9.
#[test]
fn after_chance_or_none_it_starts_empty_and_after_no_limit_as_if_new() {
    for (was, expected) in
        [(probabilistic::Spec::default().into(), 0.0), (Spec::None, 0.0), (Spec::Unlimited, 100.0)]
    {
        let mut asker = Asker::new(was);
        reload(&mut asker.budget, Spec::default(), at(1));
        assert_eq!(asker.budget.level(at(1)), expected, "{was}");
    }
}

/// X9: a trickle that is reloaded every second still trickles, and no faster.
#[test]
fn a_reload_neither_stops_nor_hastens_what_time_brings() {
    for (every, spec) in [
        (900, tokens::Spec { start: Some(0), ..tokens::Spec::time_only() }.into()),
        (1, tokens::Spec { start: Some(0), ..tokens::Spec::time_only() }.into()),
        (7, ratio::Spec { floor: 1.0, ..Default::default() }.into()),
    ] {
        let mut asker = Asker::new(spec);
        let mut paid = 0;
        for now in (0..=9_000).step_by(every) {
            reload(&mut asker.budget, spec, at(now));
            paid += asker.burst(at(now), 10);
        }
        assert!((8..=9).contains(&paid), "{spec}, every {every} ms: {paid}");
    }
    // Fifty of sixty seconds do not become fifty tokens when the next comes every second.
    let slow = tokens::Spec { refill: Some(Duration::from_secs(60)), ..tokens::Spec::time_only() };
    let mut asker = Asker::new(tokens::Spec { start: Some(0), ..slow });
    reload(&mut asker.budget, tokens::Spec::time_only().into(), at(50_000));
    assert_eq!(asker.burst(at(50_000), 10), 0);
}

/// X9: what was seen in a window of another length is neither forgotten nor to be had twice.
#[test]
fn windows_of_another_length_keep_successes_and_the_retries_they_paid_for() {
    let short = window::Spec { window: Duration::from_secs(10), ..Default::default() };
    let mut asker = Asker::healthy(window::Spec::default(), 10, 10);
    assert_eq!(asker.burst(at(10_000), 100), 10);
    for (i, spec) in [short, window::Spec::default(), short].into_iter().enumerate() {
        let now = at(10_000 + i as u64);
        reload(&mut asker.budget, spec.into(), now);
        assert_eq!(asker.burst(now, 100), 0);
    }
    (0..10).for_each(|_| asker.budget.earn(at(10_100)));
    assert_eq!(asker.burst(at(10_100), 100), 1);
}

/// X9, G6.
#[test]
fn a_receipt_from_before_gives_back_what_was_paid_and_no_more() {
    let cheap = tokens::Spec { cost: tokens::Cost::all(1_000), ..Default::default() };
    let window = window::Spec::default();
    let usual = Spec::default();
    for (was, is, back) in [
        (usual, tokens::Spec { max: 200, ..Default::default() }.into(), 1.0),
        (usual, failed_retry::Spec { bucket: Bucket::full(200, 0.1) }.into(), 1.0),
        (cheap.into(), usual, 0.001),
        (cheap.into(), window.into(), 0.0),
        (Spec::Unlimited, usual, 0.0),
        (Spec::Unlimited, window.into(), 0.0),
        (window.into(), usual, 1.0),
        (grpc::Spec::default().into(), usual, 0.0),
    ] {
        let mut asker = Asker::new(was);
        let paid = spend(&mut asker, at(0), 2);
        reload(&mut asker.budget, is, at(1));
        let drained = asker.budget.level(at(1)) as usize;
        spend(&mut asker, at(1), drained.min(90));
        let before = asker.budget.level(at(1));
        for paid in paid {
            asker.budget.refund(at(1), paid);
        }
        let given = asker.budget.level(at(1)) - before;
        assert!((given - 2.0 * back).abs() < 1e-9, "{was} to {is}: {given}");
    }
}

/// X9.
#[test]
fn children_keep_their_levels_and_names_even_where_they_pause() {
    let small = |max| Some(Spec::from(tokens::Spec { max, ..Default::default() }));
    let mut purse = Purse::new(Spec::default(), small(3), at(0)).unwrap();
    let (child, mut rng) = (purse.child(at(0), 7), Rng::new(1));
    let mut pays = |purse: &mut Purse| {
        (0..20).take_while(|_| purse.take(at(1), child, Fault::Server, &mut rng).0.is_ok()).count()
    };
    assert_eq!(pays(&mut purse), 3);
    purse.adopt(Purse::new(Spec::default(), small(10), at(1)).unwrap(), at(1));
    assert_eq!((pays(&mut purse), purse.child(at(1), 7)), (0, child));
    purse.adopt(Purse::new(Spec::default(), None, at(1)).unwrap(), at(1));
    assert!(purse.peek(at(1), child) && purse.children(at(1)).next().is_none());
    assert_eq!(pays(&mut purse), 20, "of the parent's alone");
    purse.adopt(Purse::new(Spec::default(), small(10), at(1)).unwrap(), at(1));
    assert_eq!((pays(&mut purse), purse.child(at(1), 7)), (0, child));
    assert_eq!(purse.parent().level(at(1)), 77.0);
}

#[derive(Debug, Clone)]
enum Act {
    Earn(u8),
    Ask,
    Refund(usize),
    Well(usize),
    Reload(Spec),
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let chance = sampled::Inner::Probabilistic(probabilistic::Spec::default());
    prop_oneof![
        8 => specs(),
        1 => (1..3_000_000u32, 3..20u32).prop_map(|(cost, max)| {
            tokens::Spec { max, cost: tokens::Cost::all(cost), ..Default::default() }.into()
        }),
        1 => Just(probabilistic::Spec::default().into()),
        1 => Just(sampled::Spec { fraction: 0.5, inner: chance }.into()),
        1 => Just(Spec::Unlimited),
        1 => Just(Spec::None),
    ]
}

fn acts() -> impl Strategy<Value = (Spec, Vec<Act>)> {
    let act = prop_oneof![
        2 => (1..20u8).prop_map(Act::Earn),
        6 => Just(Act::Ask),
        1 => any::<usize>().prop_map(Act::Refund),
        1 => any::<usize>().prop_map(Act::Well),
        4 => any_spec().prop_map(Act::Reload),
    ];
    (any_spec(), prop::collection::vec(act, 1..120))
}

/// What a success earns and a retry costs, in millionths; `None` where retries are not counted in tokens.
fn prices(spec: Spec) -> Option<(u64, u64)> {
    let (ratio, cost) = match spec {
        Spec::Tokens(spec) => (spec.ratio, spec.cost.dearest()),
        Spec::Grpc(grpc::Spec { bucket })
        | Spec::FailedRetry(failed_retry::Spec { bucket })
        | Spec::Adaptive(adaptive::Spec { bucket, .. }) => (bucket.ratio, PRICE),
        Spec::Ratio(ratio::Spec { ratio, .. }) | Spec::Window(window::Spec { ratio, .. }) => {
            (ratio, PRICE)
        }
        Spec::Sampled(spec) => return prices(spec.inner.into()),
        Spec::Probabilistic(_) | Spec::Unlimited | Spec::None => return None,
    };
    Some(((ratio * TOKEN as f64).round() as u64, u64::from(cost)))
}

/// In one instant, in which time brings nothing, a budget pays no more than it had at the start and earned, whatever is
/// reloaded in between. Answers what was paid beyond that.
fn minted(
    (first, acts): (Spec, Vec<Act>),
    reload: impl Fn(&mut Budget, Spec, Time),
) -> Option<(u64, u64)> {
    let now = at(100_000);
    let mut asker = Asker { budget: Budget::new(first, now).unwrap(), rng: Rng::new(1) };
    let (mut spec, mut open) = (first, Vec::<(Paid, u64)>::new());
    let (mut had, mut paid) = (asker.budget.held(now), 0u64);
    had = if had == u64::MAX { 0 } else { had };
    for act in acts {
        match act {
            Act::Earn(n) => {
                (0..n).for_each(|_| asker.budget.earn(now));
                had += u64::from(n) * prices(spec).map_or(0, |(earned, _)| earned);
            }
            Act::Ask => {
                if let Some(receipt) = asker.fail(now) {
                    let price = prices(spec).map_or(0, |(_, cost)| cost);
                    paid += price;
                    open.push((receipt, price));
                }
            }
            Act::Refund(i) | Act::Well(i) if !open.is_empty() => {
                let (receipt, price) = open.swap_remove(i % open.len());
                paid -= price;
                match act {
                    Act::Refund(_) => asker.budget.refund(now, receipt),
                    _ => asker.budget.retried_well(now, receipt),
                }
            }
            Act::Refund(_) | Act::Well(_) => {}
            Act::Reload(next) => {
                let endless = asker.budget.held(now) == u64::MAX;
                reload(&mut asker.budget, next, now);
                if endless && asker.budget.held(now) < u64::MAX {
                    had += asker.budget.held(now);
                }
                spec = next;
            }
        }
        if paid > had {
            return Some((paid, had));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// X9.
    #[test]
    fn reloads_mint_no_retries(acts in acts()) {
        prop_assert_eq!(minted(acts, reload), None);
    }

    /// X9: nor do they raise the level at any other time; and to reload what is in force changes nothing.
    #[test]
    fn a_reload_never_raises_the_level(
        first in any_spec(),
        steps in prop::collection::vec((any_spec(), 0..3_000u64, 0..30u8, 0..10usize), 1..20),
    ) {
        let mut asker = Asker::new(first);
        let mut clock = 0;
        for (spec, wait, earned, asked) in steps {
            clock += wait;
            let now = at(clock);
            (0..earned).for_each(|_| asker.budget.earn(now));
            asker.burst(now, asked);
            let before = asker.budget.held(now);
            reload(&mut asker.budget, spec, now);
            let after = asker.budget.held(now);
            prop_assert!(after <= before || after == u64::MAX, "{}: {} to {}", spec, before, after);
            let once = format!("{:?}", asker.budget);
            reload(&mut asker.budget, spec, now);
            prop_assert_eq!(once, format!("{:?}", asker.budget), "{}", spec);
        }
    }
}

/// In how many of so many runs it is caught.
fn caught(reload: impl Fn(&mut Budget, Spec, Time)) -> usize {
    let mut runner = TestRunner::deterministic();
    let runs = (0..500).map(|_| acts().new_tree(&mut runner).unwrap().current());
    runs.filter(|acts| minted(acts.clone(), &reload).is_some()).count()
}

/// X9.
#[test]
fn a_reload_that_starts_afresh_is_caught() {
    assert!(caught(|budget, spec, now| *budget = Budget::new(spec, now).unwrap()) > 0);
    assert_eq!(caught(reload), 0, "and ours is not");
}

/// X9: 10 of 100 tokens become 10 of 10, and then all of the next kind.
#[test]
fn a_reload_that_keeps_the_share_of_fullness_is_caught() {
    let by_share = |budget: &mut Budget, spec: Spec, now: Time| {
        let mut fresh = Budget::new(spec, now).unwrap();
        if core::mem::discriminant(&fresh.kind) == core::mem::discriminant(&budget.kind) {
            return budget.adopt(fresh, now);
        }
        let full = fresh.gauge(now).level;
        fresh.lower((full as f64 * budget.fill(now)) as u64, now);
        *budget = fresh;
    };
    assert!(caught(by_share) > 0);
}

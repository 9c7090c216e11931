use proptest::prelude::*;

use super::{
    Rng,
    ledger::{Act, Subject, breach},
    *,
};

impl Subject for Asker {
    fn earn(&mut self, now: Time) {
        self.budget.earn(now);
    }

    fn ask(&mut self, now: Time) -> Option<Paid> {
        self.fail(now)
    }

    fn refund(&mut self, now: Time, paid: Paid) {
        self.budget.refund(now, paid);
    }

    fn well(&mut self, now: Time, paid: Paid) {
        self.budget.retried_well(now, paid);
    }

    fn level(&self, now: Time) -> f64 {
        self.budget.level(now)
    }
}

pub(super) fn act(back: bool) -> impl Strategy<Value = Act> {
    let earliest = if back { -3_000 } else { 0 };
    prop_oneof![
        3 => (1..40u8).prop_map(Act::Earn),
        5 => Just(Act::Ask),
        1 => Just(Act::AskBoth),
        1 => any::<usize>().prop_map(Act::Refund),
        1 => any::<usize>().prop_map(Act::Send),
        1 => any::<usize>().prop_map(Act::Well),
        2 => (earliest..3_000i64).prop_map(Act::Wait),
        1 => (0..20i64).prop_map(|part| Act::Wait(part * 500)),
    ]
}

pub(super) fn acts(back: bool) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(back), 1..120)
}

fn ratios() -> impl Strategy<Value = f64> {
    (0..=200u32).prop_map(|percent| f64::from(percent) / 100.0)
}

fn buckets() -> impl Strategy<Value = Bucket> {
    (1..30u32)
        .prop_flat_map(|max| (Just(max), ratios(), prop::option::of(0..=max)))
        .prop_map(|(max, ratio, start)| Bucket { max, ratio, start })
}

fn refill() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((1..5_000u64).prop_map(Duration::from_millis))
}

/// All kinds whose rule is in whole tokens.
pub(super) fn specs() -> impl Strategy<Value = Spec> {
    let lengths = || (1..200u64).prop_map(|tenths| Duration::from_millis(tenths * 100));
    let strict = prop_oneof![
        2 => (buckets(), refill(), 0..=4u8).prop_map(|(bucket, refill, quarters)| {
            let pause_below = f64::from(quarters) / 4.0;
            tokens::Spec { refill, pause_below, ..bucket.into() }.into()
        }),
        1 => buckets().prop_map(|bucket| grpc::Spec { bucket }.into()),
        1 => buckets().prop_map(|bucket| failed_retry::Spec { bucket }.into()),
        1 => buckets().prop_map(|bucket| adaptive::Spec { bucket, ..Default::default() }.into()),
        2 => (ratios(), lengths(), 0..50u32)
            .prop_map(|(ratio, window, floor)| ratio::Spec { ratio, window, floor: f64::from(floor) / 10.0 }.into()),
        2 => (ratios(), lengths(), 0..10u32)
            .prop_map(|(ratio, window, bootstrap)| window::Spec { ratio, window, bootstrap }.into()),
    ];
    let sampled = |(spec, sampled): (Spec, bool)| match sampled::Inner::of(spec) {
        Some(inner) if sampled => sampled::Spec { fraction: 0.5, inner }.into(),
        _ => spec,
    };
    (strict, prop::bool::weighted(0.1)).prop_map(sampled)
}

fn asker(spec: Spec) -> Asker {
    Asker { budget: Budget::new(spec, at(100_000)).unwrap(), rng: Rng::new(1) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// G1, G2, G10, T1, T2: whatever is done in whatever order, on a clock that steps back now and then.
    #[test]
    fn no_budget_allows_more_than_its_rule(spec in specs(), acts in acts(true)) {
        prop_assert_eq!(breach(&mut asker(spec), spec, &acts), None, "{}", spec);
    }

    /// What is shown stays within what can be, and what is foretold happens.
    #[test]
    fn levels_stay_in_bounds_and_a_peek_tells_the_truth(spec in specs(), acts in acts(true)) {
        let mut asker = asker(spec);
        let (mut clock, mut open) = (100_000i64, Vec::new());
        for act in acts {
            let now = at(clock as u64);
            match act {
                Act::Earn(n) => (0..n).for_each(|_| asker.budget.earn(now)),
                Act::Wait(ms) => clock = (clock + ms).max(0),
                Act::Refund(_) => if let Some(paid) = open.pop() { asker.budget.refund(now, paid) },
                Act::Well(_) => if let Some(paid) = open.pop() { asker.budget.retried_well(now, paid) },
                Act::Ask | Act::AskBoth | Act::Send(_) => {
                    asker.budget.failed(now);
                    let foretold = asker.budget.peek(now);
                    let paid = asker.budget.take(now, Fault::Server, &mut asker.rng);
                    let by_chance = matches!(spec, Spec::Sampled(_));
                    prop_assert!(paid.is_ok() == foretold || by_chance && foretold, "{spec}");
                    open.extend(paid);
                }
            }
            let now = at(clock as u64);
            let Snapshot { level, max, utilisation, .. } = asker.budget.snapshot(now);
            prop_assert!((0.0..=max).contains(&level), "{spec}: {level} of {max}");
            prop_assert!((0.0..=1.0).contains(&utilisation));
            prop_assert!((0.0..=1.0).contains(&asker.budget.fill(now)));
        }
    }

    /// G6: as if it had never been asked.
    #[test]
    fn a_refund_undoes_a_take(spec in specs(), acts in acts(true)) {
        let mut asker = asker(spec);
        let mut clock = 100_000i64;
        for act in acts {
            let now = at(clock as u64);
            match act {
                Act::Earn(n) => (0..n).for_each(|_| asker.budget.earn(now)),
                Act::Wait(ms) => clock = (clock + ms).max(0),
                _ => {
                    let before = asker.budget.gauge(now);
                    if let Ok(paid) = asker.budget.take(now, Fault::Server, &mut asker.rng) {
                        asker.budget.refund(now, paid);
                        prop_assert_eq!(asker.budget.gauge(now), before, "{}", spec);
                        prop_assert!(asker.budget.peek(now));
                        asker.burst(now, 1);
                    }
                }
            }
        }
    }

    /// B3: below the brim nothing is lost either.
    #[test]
    fn nothing_that_was_earned_is_lost(
        acts in acts(false), ratio in ratios(), refill in refill(),
    ) {
        let lossless = |spec: tokens::Spec| lost(&mut asker(spec.into()), spec, &acts);
        let spec = tokens::Spec { max: 1_000_000, start: Some(0), ratio, refill, ..Default::default() };
        prop_assert_eq!(lossless(spec), None);
    }
}

/// Where a budget that is never full and charges one token each has another level than what it earned and spent.
pub(super) fn lost(
    subject: &mut impl Subject,
    spec: tokens::Spec,
    acts: &[Act],
) -> Option<(f64, f64)> {
    let (mut clock, mut earned, mut spent) = (100_000, 0u64, 0u64);
    for act in acts {
        let now = at(clock);
        match act {
            Act::Earn(n) => (0..*n).for_each(|_| {
                subject.earn(now);
                earned += 1;
            }),
            Act::Wait(ms) => clock += ms.unsigned_abs(),
            _ => spent += u64::from(subject.ask(now).is_some()),
        }
        let now = at(clock);
        let dripped =
            spec.refill.map_or(0, |every| now.since(at(100_000)).as_nanos() / every.as_nanos());
        let per_success = (spec.ratio * 100.0).round() as u128; // hundredths are exact
        let expected =
            (u128::from(earned) * per_success + 100 * dripped) as f64 / 100.0 - spent as f64;
        let level = subject.level(now);
        if (level - expected).abs() > 1e-6 {
            return Some((level, expected));
        }
    }
    None
}

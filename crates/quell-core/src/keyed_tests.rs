use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A state that is idle until it is used, and then not before this instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Busy {
    until: Time,
    uses: u32,
}

const FRESH: Busy = Busy { until: Time::ZERO, uses: 0 };

fn is_idle(state: &Busy, now: Time) -> bool {
    now >= state.until
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn map(capacity: usize) -> Keyed<Busy> {
    Keyed::new(capacity, FRESH).unwrap()
}

/// Uses a key and keeps it busy for so long; says whether it has a state of its own.
fn touch(map: &mut Keyed<Busy>, key: u64, now: u64, busy: u64) -> bool {
    let Entered { state, own, .. } = map.enter(key, at(now), is_idle, || FRESH);
    *state = Busy { until: at(now + busy), uses: state.uses + 1 };
    own
}

fn keys(map: &Keyed<Busy>) -> Vec<u64> {
    map.iter().map(|(key, _)| key).collect()
}

#[test]
fn of_the_idle_the_least_recently_used_makes_room() {
    let mut map = map(3);
    for key in [1, 2, 3, 1] {
        assert!(touch(&mut map, key, 0, 0));
    }
    assert_eq!(keys(&map), [1, 3, 2]);
    assert!(touch(&mut map, 4, 1, 0));
    assert_eq!((keys(&map), map.evicted()), (vec![4, 1, 3], 1));
    assert_eq!(map.get(2), None);
}

#[test]
fn an_older_entry_in_use_is_passed_over() {
    let mut map = map(3);
    for (key, busy) in [(1, 100), (2, 0), (3, 0)] {
        touch(&mut map, key, 0, busy);
    }
    assert!(touch(&mut map, 4, 1, 0));
    assert!(map.get(1).is_some() && map.get(2).is_none());
}

#[test]
fn with_all_in_use_late_comers_share_the_overflow_until_one_is_idle() {
    let mut map = map(2);
    for key in [1, 2] {
        touch(&mut map, key, 0, 10);
    }
    for key in 3..100 {
        assert!(!touch(&mut map, key, 5, 10));
    }
    assert_eq!((map.overflow().uses, map.overflowed(), map.evicted()), (97, 97, 0));
    assert_eq!((map.get(1).unwrap().uses, map.get(2).unwrap().uses), (1, 1));
    assert!(touch(&mut map, 3, 10, 10));
    assert_eq!(map.get(3).unwrap().uses, 1, "a fresh state");
}

/// However many in use are older, a few more asks find the one that is not.
#[test]
fn an_idle_entry_behind_many_in_use_is_found_after_a_few_asks() {
    let mut map = map(1_000);
    for key in 0..1_000 {
        touch(&mut map, key, 0, if key == 999 { 0 } else { 1_000_000 });
    }
    let asks = (1_000..).take_while(|key| !touch(&mut map, *key, 1, 1_000_000)).count();
    assert!(asks <= 1_000 / LOOKS, "{asks} asks");
    assert_eq!(map.get(999), None);
}

#[test]
fn a_million_made_up_keys_wash_nobody_away() {
    let mut map = map(100);
    for key in 0..100 {
        touch(&mut map, key, 0, u64::MAX / 2);
    }
    for key in 100..1_000_000 {
        touch(&mut map, key, 1, 0);
    }
    assert_eq!((map.len(), map.evicted()), (100, 0));
    assert!((0..100).all(|key| map.get(key).is_some_and(|state| state.uses == 1)));
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    for capacity in [0, MOST + 1, usize::MAX] {
        let message = Keyed::new(capacity, ()).unwrap_err().to_string();
        assert!(message.starts_with("keys is") && message.contains("write"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// Against a plain map that remembers everybody.
    #[test]
    fn it_never_outgrows_its_bound_nor_evicts_what_is_in_use(
        capacity in 1..12_usize,
        uses in prop::collection::vec((0..24_u64, 0..5_u64, 0..40_u64), 1..200),
    ) {
        let (mut map, mut all, mut now) = (map(capacity), BTreeMap::new(), 0);
        for (key, step, busy) in uses {
            now += step;
            let looked = match map.look(key, at(now), is_idle) {
                Look::Own(state) => Some(*state),
                Look::Fresh => Some(FRESH),
                Look::Overflow(_) => None,
            };
            let room = map.len() < capacity;
            let Entered { state, own, .. } = map.enter(key, at(now), is_idle, || FRESH);
            prop_assert_eq!(own.then_some(*state), looked, "a look is what entering finds");
            *state = Busy { until: at(now + busy), uses: state.uses + 1 };
            let state = *state;
            if own {
                all.insert(key, state);
            } else if capacity <= LOOKS {
                prop_assert!(!room && map.iter().all(|(_, state)| !is_idle(state, at(now))));
            }
            prop_assert!(map.len() <= capacity);
            prop_assert_eq!(map.iter().count(), map.len());
            for (key, state) in &all {
                if !is_idle(state, at(now)) {
                    prop_assert_eq!(map.get(*key), Some(state), "key {} at {}", key, now);
                }
            }
        }
    }
}

use core::time::Duration;

use super::*;
use crate::Rng;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Against a plain list, in which everything is looked for from end to end.
#[test]
fn the_list_agrees_with_a_naive_one() {
    for seed in 0..50 {
        let (mut running, mut naive, mut gone) = (Running::default(), Vec::new(), Vec::new());
        let mut rng = Rng::new(seed);
        for step in 0..2_000 {
            match rng.below(5) {
                0 | 1 => naive.push((running.push(at(step)), at(step))),
                2 if !naive.is_empty() => {
                    let (ticket, _) = naive.remove(rng.below(naive.len() as u64) as usize);
                    assert!(running.remove(ticket));
                    gone.push(ticket);
                }
                3 if !gone.is_empty() => {
                    assert!(!running.remove(gone[rng.below(gone.len() as u64) as usize]));
                }
                _ => assert_eq!(running.first(), naive.first().copied()),
            }
        }
        assert_eq!(running.entries.len() - 1 - running.free.len(), naive.len());
    }
}

/// C2: what is kept is bounded by itself and not by the rate, and nothing is counted twice or lost at the bound.
#[test]
fn beyond_the_bound_a_call_counts_when_it_ends() {
    let spec = Spec { slow: Some(Duration::from_millis(10)), ..Spec::default() };
    let mut slow = Slow::new(&spec, at(0)).unwrap();
    let tickets: Vec<_> = (0..2 * MOST).map(|_| slow.start(at(0))).collect();
    assert_eq!(slow.running.entries.len(), MOST + 1);
    assert!(tickets[..MOST].iter().all(|&ticket| ticket != UNWATCHED && ticket != u32::MAX));
    assert!(tickets[MOST..].iter().all(|&ticket| ticket == UNWATCHED));
    assert!(slow.catch_up(at(10)) && !slow.catch_up(at(10)));
    assert_eq!(slow.speed.window.bad(), MOST as u64);
    for ticket in tickets {
        slow.ended(at(20), ticket, 20_000_000);
    }
    assert_eq!((slow.speed.window.bad(), slow.speed.window.total()), (2_044, 2_044));
}

/// C2: the cost per call of a long run is the same at any rate: every call enters and leaves the list once.
#[test]
fn one_stuck_call_does_not_keep_those_behind_it() {
    let spec = Spec { slow: Some(Duration::from_secs(60)), ..Spec::default() };
    let mut slow = Slow::new(&spec, at(0)).unwrap();
    let _stuck = slow.start(at(0));
    for i in 0..100_000 {
        let ticket = slow.start(at(i / 100));
        slow.ended(at(i / 100), ticket, 0);
    }
    assert_eq!(slow.running.entries.len(), 3);
}

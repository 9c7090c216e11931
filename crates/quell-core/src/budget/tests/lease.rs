//! A budget whose fleet pays where its own is empty.

use super::*;
use crate::{
    Stamp,
    lease::{Planner, Pool, Rules, Spec as Lease},
};

/// 100 retries at once for ten instances, and ten per second.
fn rules() -> Rules {
    Rules::new(Lease { per_second: 10, burst: 100, instances: 10, ..Lease::default() }).unwrap()
}

fn empty() -> Asker {
    let mut asker = Asker::new(tokens::Spec { max: 10, start: Some(2), ..tokens::Spec::default() });
    asker.budget.lease_from(Planner::new(rules()));
    asker
}

fn stamp(ms: u64) -> Stamp {
    Stamp::from_millis(ms)
}

/// Asks the store once; answers how many tokens came.
fn lease(asker: &mut Asker, store: &mut Pool, ms: u64) -> u64 {
    let planner = asker.budget.lease().unwrap();
    let Some(request) = planner.want(at(ms), &mut asker.rng) else { return 0 };
    let grant = store.lease(&rules(), stamp(ms), &request);
    planner.granted(at(ms), request.id, grant);
    grant.tokens / TOKEN
}

fn takes(asker: &mut Asker, ms: u64) -> usize {
    let takes = |_: &usize| asker.budget.take(at(ms), Fault::Server, &mut asker.rng).is_ok();
    (0..1_000).take_while(takes).count()
}

#[test]
fn its_own_tokens_pay_first_and_then_what_is_leased() {
    let (mut asker, mut store) = (empty(), Pool::new(&rules(), stamp(0)));
    assert_eq!(takes(&mut asker, 0), 2);
    assert!(!asker.budget.peek(at(0)));
    let leased = lease(&mut asker, &mut store, 0);
    assert!(leased >= 1 && asker.budget.peek(at(0)));
    assert_eq!(takes(&mut asker, 0) as u64, leased);
    let snapshot = asker.budget.snapshot(at(0));
    assert_eq!((snapshot.allowed, snapshot.denied), (2 + leased, 2));
}

#[test]
fn a_leased_token_is_lost_when_its_retry_is_not_sent_and_its_own_comes_back() {
    let (mut asker, mut store) = (empty(), Pool::new(&rules(), stamp(0)));
    let take = |asker: &mut Asker| asker.budget.take(at(0), Fault::Server, &mut asker.rng);
    let own = take(&mut asker).unwrap();
    asker.budget.refund(at(0), own);
    assert_eq!(takes(&mut asker, 0), 2);
    lease(&mut asker, &mut store, 0);
    let leased = take(&mut asker).unwrap();
    takes(&mut asker, 0);
    asker.budget.refund(at(0), leased);
    assert_eq!(asker.budget.level(at(0)), 0.0);
    assert!(!asker.budget.peek(at(0)));
}

#[test]
fn leases_run_out_and_without_a_store_there_is_the_share_and_no_more() {
    let (mut asker, mut store) = (empty(), Pool::new(&rules(), stamp(0)));
    takes(&mut asker, 0);
    assert!(lease(&mut asker, &mut store, 0) >= 1);
    assert_eq!(takes(&mut asker, 2_000), 0, "two seconds later they are void");
    // The store does not answer; a tenth of ten per second is one.
    let planner = asker.budget.lease().unwrap();
    let request = planner.want(at(2_000), &mut asker.rng).unwrap();
    planner.failed(at(2_000), request.id, &mut asker.rng);
    let got: usize = (3..23).map(|second| takes(&mut asker, second * 1_000)).sum();
    assert_eq!(got, 20);
}

#[test]
fn a_look_finds_what_could_be_taken_and_takes_nothing() {
    let (mut asker, mut store) = (empty(), Pool::new(&rules(), stamp(0)));
    takes(&mut asker, 0);
    for ms in (0..10_000).step_by(70) {
        if ms % 3 == 0 {
            lease(&mut asker, &mut store, ms);
        }
        let planner = asker.budget.lease().unwrap();
        let (first, second) = (planner.holds(at(ms)), planner.holds(at(ms)));
        assert_eq!(first, second);
        assert_eq!(takes(&mut asker, ms) as u64, first / TOKEN, "after {ms} ms");
    }
}

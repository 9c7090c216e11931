//! The success path of a call that need not queue allocates nothing between its first step and its last.
#![allow(clippy::unwrap_used)]

use quell::{
    Clock, Upstream,
    core::{
        Input, Outcome, Policy, Step,
        spec::{PolicySpec, UpstreamSpec},
    },
    upstream::Host,
};

#[test]
fn a_call_that_succeeds_at_once_allocates_nothing() {
    let policy = Policy::new(PolicySpec::gateway()).unwrap();
    let host = Host { clock: Clock::manual(), observer: None, seed: 1 };
    let upstream = Upstream::new("u", UpstreamSpec::gateway(), policy.per_try(), host).unwrap();
    let call = || {
        let mut guard = upstream.begin(&policy);
        let Step::Send(send) = guard.step(Input::Start) else { panic!() };
        guard.call().sent(send.slot);
        let _ = guard.step(Input::Ended { slot: send.slot, outcome: Outcome::Success });
    };
    call();
    let control = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(control.count_total, 1, "the harness counts");
    let allocated = allocation_counter::measure(|| (0..1_000).for_each(|_| call()));
    assert_eq!(allocated.count_total, 0);
}

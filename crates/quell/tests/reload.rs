//! A reload under callers: they keep what they hold, give it back once, and the queue moves on.
#![allow(clippy::unwrap_used)]

use std::{pin::pin, time::Duration};

use quell::{
    Clock, Limit, Quell, Rules, Upstream,
    core::{
        Failure, Fault, Input, Outcome, Policy, Step,
        budget::tokens,
        spec::{PolicySpec, UpstreamSpec},
    },
    upstream::Host,
};

fn spec(limit: u32) -> UpstreamSpec {
    UpstreamSpec {
        in_flight: Limit::Fixed(limit),
        queue: 8,
        budget: tokens::Spec { max: 2, ratio: 0.0, ..tokens::Spec::default() }.into(),
        ..UpstreamSpec::library()
    }
}

fn upstream(policy: &Policy, clock: Clock) -> Upstream {
    let host = Host { clock, observer: None, seed: 1 };
    Upstream::new("narrow", spec(1), policy.per_try(), host).unwrap()
}

/// X9: one asleep with a paid retry, one under way and two in the queue when it happens.
#[test]
fn callers_under_way_across_a_reload_leak_nothing() {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    let upstream = upstream(&policy, Clock::manual());
    let begin = || {
        let mut guard = upstream.begin(&policy);
        guard.call().set_repeatable(true);
        let step = guard.step(Input::Start);
        (guard, step)
    };
    let (mut asleep, _) = begin();
    let failed = Outcome::Failed(Failure::of(Fault::Server).with_code(500));
    let Step::Sleep { .. } = asleep.step(Input::Ended { slot: 0, outcome: failed }) else {
        panic!()
    };
    let (mut under_way, Step::Send(send)) = begin() else { panic!() };
    under_way.call().sent(send.slot);
    let (mut first, Step::Enqueue { .. }) = begin() else { panic!() };
    let (second, Step::Enqueue { .. }) = begin() else { panic!() };

    let before = upstream.snapshot();
    let invalid = UpstreamSpec { endpoints: 0, ..spec(2) };
    assert!(upstream.reload(invalid, policy.per_try()).is_err());
    assert_eq!(upstream.snapshot(), before);
    upstream.reload(UpstreamSpec { endpoints: 2, ..spec(2) }, policy.per_try()).unwrap();
    let now = upstream.snapshot();
    assert_eq!((now.in_flight, now.queued, now.retries.level), (2, 1, 1.0), "one goes at once");
    let Step::Send(_) = first.queue_blocking() else { panic!() };

    upstream.reload(spec(1), policy.per_try()).unwrap();
    drop((asleep, under_way, first));
    let now = upstream.snapshot();
    assert_eq!((now.ghosts, now.retries.level), (1, 2.0), "sent stays, unsent and unspent go back");
    drop(second);
    let now = upstream.snapshot();
    assert_eq!((now.in_flight, now.queued), (0, 0));
}

/// X9, P1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_under_constant_reloads_leaks_nothing() {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    let quell = Quell::new(
        upstream(&policy, Clock::tokio()),
        Rules { idempotent: true, ..Rules::new(policy) },
    );
    let mut callers = tokio::task::JoinSet::new();
    for i in 0..2_000u64 {
        let quell = quell.clone();
        callers.spawn(async move {
            let work = async |_| {
                tokio::time::sleep(Duration::from_micros(i % 7 * 100)).await;
                if i % 5 == 0 { Err("no") } else { Ok(()) }
            };
            let call = pin!(quell.call(work).into_future());
            let _ = tokio::time::timeout(Duration::from_millis(i % 11), call).await;
        });
    }
    let mut reloads = 0;
    while !callers.is_empty() {
        let spec = UpstreamSpec { endpoints: 1 + reloads % 3, ..spec(1 + u32::from(reloads % 4)) };
        quell.shared().reload(spec, policy.per_try()).unwrap();
        reloads = (reloads + 1) % 12;
        let _ = tokio::time::timeout(Duration::from_micros(200), callers.join_next()).await;
    }
    let now = quell.snapshot();
    assert_eq!((now.in_flight, now.queued), (0, 0), "{now:?}");
    assert!(now.retries.level <= 2.0);
}

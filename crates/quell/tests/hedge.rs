//! A second attempt beside one that takes unusually long, through the function API and the layer.
#![allow(clippy::unwrap_used)]

mod strict;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use quell::{
    Builder, Cause, Clock, Limit, Quell, Reason,
    core::{
        breaker::{self, State},
        budget::tokens,
        hedge::Hedge,
    },
    tower::{QuellLayer, QuellService},
};
use strict::{Act, Script, Strict, call, held, look};
use tower::Layer as _;

const MS: Duration = Duration::from_millis(1);
const USUAL: Duration = Duration::from_millis(100);
/// Longer than any call of the warm-up, so that those are not hedged.
const HEDGED_AFTER: Duration = Duration::from_millis(200);

/// Eight slots and ten tokens.
fn hedging() -> Builder {
    let budget = tokens::Spec { max: 10, ratio: 0.0, ..tokens::Spec::default() };
    let hedge = Hedge::new(0.9, HEDGED_AFTER).unwrap();
    let hedging = Quell::upstream("stock").clock(Clock::tokio()).seed(1).idempotent();
    hedging.in_flight(Limit::Fixed(8)).queue(0).budget(budget).hedge(hedge)
}

/// A handle to which calls are known to take 100 ms.
async fn warm(builder: Builder) -> Quell {
    let quell = builder.build().unwrap();
    for _ in 0..32 {
        quell.call(async |_| after(USUAL).await).await.unwrap();
    }
    assert_eq!(held(&quell), (0, 0, 0, 10.0), "nothing was hedged yet");
    quell
}

/// A reply that takes so long.
async fn after(takes: Duration) -> Result<u32, &'static str> {
    tokio::time::sleep(takes).await;
    Ok(0)
}

async fn service(builder: Builder) -> (Quell, QuellService<Strict>, Arc<Script>) {
    let quell = warm(builder).await;
    let (strict, script) = Strict::new();
    let service = QuellLayer::new(quell.clone()).layer(strict);
    (quell, service, script)
}

/// X4, X5: paid as a retry is; the one that lost was sent, so the upstream may still be at work.
#[tokio::test(start_paused = true)]
async fn the_first_success_wins_the_loser_leaves_a_ghost_and_the_hedge_was_paid_for() {
    let quell = warm(hedging()).await;
    let began = tokio::time::Instant::now();
    let answer = quell
        .call(async |attempt| match attempt.number() {
            1 => pending().await,
            n => after(USUAL).await.map(|_| n),
        })
        .counted()
        .await
        .unwrap();
    assert_eq!((answer.value, answer.attempts), (2, 2));
    assert_eq!(began.elapsed().as_millis(), 300, "200 ms until it was hedged, and 100 ms");
    assert_eq!(held(&quell), (0, 1, 0, 9.0));
    quell.call(async |_| after(Duration::ZERO).await).await.unwrap();
    assert_eq!(held(&quell), (0, 0, 0, 9.0), "a later answer ends the ghost");
}

/// X4, X5 through the layer, whichever of the two is faster.
#[tokio::test(start_paused = true)]
async fn through_the_layer_the_faster_of_two_wins_and_the_other_is_dropped() {
    for first_wins in [false, true] {
        let (quell, mut service, script) = service(hedging()).await;
        let (slow, fast) = (Act::Hangs, Act::WorksAfter(if first_wins { 250 * MS } else { MS }));
        script.play(if first_wins { [fast, slow] } else { [slow, fast] });
        assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
        assert_eq!((script.calls(), script.under_way()), (2, 0));
        assert_eq!(held(&quell), (0, 1, 0, 9.0), "first wins: {first_wins}");
    }
}

/// P3.
#[tokio::test(start_paused = true)]
async fn a_quick_error_of_the_hedge_does_not_beat_the_attempt_that_still_runs() {
    let (quell, mut service, script) = service(hedging()).await;
    script.play([Act::WorksAfter(500 * MS), Act::Fails]);
    let began = tokio::time::Instant::now();
    assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
    assert_eq!(began.elapsed().as_millis(), 500);
    assert_eq!((script.calls(), held(&quell)), (2, (0, 0, 0, 9.0)));

    let answer = quell
        .call(async |attempt| match attempt.number() {
            1 => after(500 * MS).await,
            _ => Err("reset"),
        })
        .counted()
        .await
        .unwrap();
    assert_eq!((answer.attempts, answer.elapsed.as_millis()), (2, 500));
}

/// P3 the other way round: nor does that of the first attempt, once there is a hedge.
#[tokio::test(start_paused = true)]
async fn a_late_error_of_the_first_attempt_does_not_beat_its_hedge() {
    let (quell, mut service, script) = service(hedging()).await;
    script.play([Act::FailsAfter(250 * MS), Act::WorksAfter(USUAL)]);
    let began = tokio::time::Instant::now();
    assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
    assert_eq!(began.elapsed().as_millis(), 300);
    assert_eq!((script.calls(), held(&quell)), (2, (0, 0, 0, 9.0)));
}

#[tokio::test(start_paused = true)]
async fn when_both_fail_the_last_error_is_told_and_both_count_as_attempts() {
    let (_, mut service, script) = service(hedging().attempts(2)).await;
    script.play([Act::FailsAfter(300 * MS), Act::Fails]);
    let error = call(&mut service, 7).await.await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
    assert!(matches!(error.cause(), Cause::Error("failed")));
}

/// X4: under a rule by which a single failure would open it.
#[tokio::test(start_paused = true)]
async fn losing_a_hedge_never_trips_the_breaker() {
    let breaker = breaker::Spec { consecutive: 1, ..breaker::Spec::default() };
    let budget = tokens::Spec { max: 10, ratio: 1.0, ..tokens::Spec::default() };
    let (quell, mut service, script) = service(hedging().breaker(breaker).budget(budget)).await;
    for round in 0..30 {
        script.play([Act::Hangs, Act::WorksAfter(MS)]);
        assert_eq!(call(&mut service, round).await.await.unwrap(), round);
        let now = quell.snapshot();
        assert_eq!((now.breaker, now.in_flight), (State::Closed, 0), "round {round}");
        assert!(now.ghosts <= 1, "the answer of a round ends the ghost of the one before: {now:?}");
    }
    assert_eq!(script.calls(), 60);
}

/// X5: the same budget, and so below half of it there are retries still, and no hedges.
#[tokio::test(start_paused = true)]
async fn nothing_is_hedged_while_less_than_half_the_budget_is_left() {
    let (quell, mut service, script) = service(hedging()).await;
    for left in [8.0, 6.0, 4.0] {
        script.play([Act::Fails, Act::Fails]);
        call(&mut service, 7).await.await.unwrap();
        assert_eq!(held(&quell).3, left);
    }
    let calls = script.calls();
    script.play([Act::WorksAfter(800 * MS)]);
    assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
    assert_eq!((script.calls() - calls, held(&quell)), (1, (0, 0, 0, 4.0)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_hedged_while_the_breaker_is_not_closed() {
    let budget = tokens::Spec { max: 10, start: Some(10), ..tokens::Spec::default() };
    let (quell, mut service, script) = service(hedging().attempts(2).budget(budget)).await;
    script.play([Act::WorksAfter(800 * MS)]);
    let mut slow = call(&mut service, 7).await;
    assert!(look(&mut slow).is_pending());
    let broken = |result: &Result<u32, &'static str>| match result {
        Ok(_) => quell::Outcome::Success,
        Err(_) => quell::Outcome::Failed(quell::Failure {
            retryable: false,
            ..quell::Failure::of(quell::Fault::Server)
        }),
    };
    while quell.snapshot().breaker == State::Closed {
        let _ = quell.call(async |_| Err::<u32, _>("broken")).classify(broken).await;
    }
    assert_eq!(slow.await.unwrap(), 7);
    assert_eq!((script.calls(), held(&quell).3), (1, 10.0));
}

/// A hedge waits in no queue, and takes no token if there is no slot for it.
#[tokio::test(start_paused = true)]
async fn without_a_free_slot_there_is_no_hedge_and_nothing_is_paid() {
    let (quell, mut service, script) = service(hedging().in_flight(Limit::Fixed(1)).queue(8)).await;
    script.play([Act::WorksAfter(800 * MS)]);
    assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
    assert_eq!((script.calls(), held(&quell)), (1, (0, 0, 0, 10.0)));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_repeated_is_not_hedged() {
    let quell = warm(hedging()).await;
    let careful =
        Quell::new(quell.shared().clone(), quell::Rules { idempotent: false, ..*quell.rules() });
    let calls = AtomicU32::new(0);
    let call = careful.call(async |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        after(800 * MS).await
    });
    call.await.unwrap();
    assert_eq!((calls.into_inner(), held(&quell).3), (1, 10.0));
}

/// A thread can do one thing at a time.
#[test]
fn blocking_calls_are_never_hedged() {
    let clock = Clock::manual();
    let quell = hedging().clock(clock.clone()).build().unwrap();
    for takes in [USUAL; 32].into_iter().chain([9 * HEDGED_AFTER]) {
        let answer = quell
            .call_blocking(|_| {
                clock.advance(takes);
                Ok::<_, &str>(0)
            })
            .wait_counted();
        assert_eq!(answer.unwrap().attempts, 1);
    }
    assert_eq!(held(&quell), (0, 0, 0, 10.0));
}

//! The budget as it holds between callers.
#![allow(clippy::unwrap_used)]

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use quell::{
    Builder, Clock, Quell, Reason,
    core::{breaker, budget::tokens},
};

fn budgeted(max: u32, ratio: f64) -> Builder {
    Quell::upstream("u")
        .attempts(2)
        .idempotent()
        .budget(tokens::Spec { max, ratio, ..tokens::Spec::default() })
        .breaker(breaker::Spec { min_calls: u32::MAX, ..breaker::Spec::default() })
        .seed(1)
}

/// G5: asked before the sleep, not after it.
#[tokio::test(start_paused = true)]
async fn a_thousand_simultaneous_failures_at_a_fifth_see_two_hundred_retries() {
    let quell = budgeted(200, 0.2).clock(Clock::tokio()).build().unwrap();
    let (sent, retries) = (&AtomicU32::new(0), &AtomicU32::new(0));
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            quell.call(move |attempt| async move {
                sent.fetch_add(1, Ordering::Relaxed);
                retries.fetch_add(attempt.number() - 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Err::<(), _>("down")
            })
        })
        .map(|call| Box::pin(call.into_future()))
        .collect();
    let mut reasons = Vec::new();
    for result in join_all(calls).await {
        reasons.push(result.unwrap_err().reason());
    }
    assert_eq!((sent.load(Ordering::Relaxed), retries.load(Ordering::Relaxed)), (1_200, 200));
    let denied = reasons.iter().filter(|&&reason| reason == Reason::BudgetEmpty).count();
    assert_eq!(denied, 800);
}

/// G1.
#[test]
fn many_threads_never_spend_more_than_the_budget_holds() {
    let quell = budgeted(100, 0.0).clock(Clock::manual()).build().unwrap();
    let retries = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let call = quell.call_blocking(|attempt| {
                        retries.fetch_add(attempt.number() - 1, Ordering::Relaxed);
                        Err::<(), _>("down")
                    });
                    call.wait().unwrap_err();
                }
            });
        }
    });
    assert_eq!(retries.load(Ordering::Relaxed), 100);
}

/// G8: a reply that counts as a failure earns nothing, though the closure said `Ok`.
#[test]
fn only_what_is_classified_as_success_earns() {
    use quell::{Failure, Fault, Outcome};
    let quell = budgeted(1, 1.0).clock(Clock::manual()).build().unwrap();
    let failing = || {
        let call = quell.call_blocking(|_| Ok::<_, &str>(500));
        let fails = |_: &Result<_, _>| Outcome::Failed(Failure::of(Fault::Server).with_code(500));
        call.classify(fails).wait().unwrap_err()
    };
    assert_eq!(failing().reason(), Reason::AttemptsSpent);
    assert_eq!(failing().reason(), Reason::BudgetEmpty);
    quell.call_blocking(|_| Ok::<_, &str>(200)).wait().unwrap();
    assert_eq!(failing().reason(), Reason::AttemptsSpent);
}

/// All at once on one task, which is as simultaneous as it gets.
async fn join_all<F: Future + Unpin>(futures: Vec<F>) -> Vec<F::Output> {
    let (mut futures, mut done): (Vec<_>, _) =
        (futures.into_iter().map(Some).collect(), Vec::new());
    std::future::poll_fn(|cx| {
        for slot in &mut futures {
            if let Some(future) = slot
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(cx)
            {
                done.push(output);
                *slot = None;
            }
        }
        match futures.iter().any(Option::is_some) {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(std::mem::take(&mut done)),
        }
    })
    .await
}

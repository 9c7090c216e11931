//! Levers, pulled while calls wait.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use quell::{Clock, Limit, Quell, Reason, core::Lever};
use tokio::task::{JoinSet, yield_now};

const TEN: Duration = Duration::from_secs(10);

fn crowded() -> Quell {
    let build = Quell::upstream("u").in_flight(Limit::Fixed(1)).queue(8).idempotent();
    build.timeout(Duration::from_secs(60)).clock(Clock::tokio()).seed(1).build().unwrap()
}

/// Starts calls that take five seconds each, and lets them come as far as they can.
async fn start(quell: &Quell, many: usize) -> JoinSet<Result<(), Reason>> {
    let mut calls = JoinSet::new();
    for _ in 0..many {
        let quell = quell.clone();
        calls.spawn(async move {
            let call = quell.call(|_| async {
                tokio::time::sleep(TEN / 2).await;
                Ok::<_, &str>(())
            });
            call.await.map_err(|error| error.reason())
        });
    }
    for _ in 0..many {
        yield_now().await;
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn a_limit_pulled_up_lets_in_who_waits_and_its_end_is_kept_to() {
    let quell = crowded();
    let mut calls = start(&quell, 3).await;
    assert_eq!((quell.snapshot().in_flight, quell.snapshot().queued), (1, 2));
    quell.shared().pull(Lever::Limit(3), None, Some(TEN)).unwrap();
    assert_eq!((quell.snapshot().in_flight, quell.snapshot().queued), (3, 0));
    assert_eq!(quell.shared().levers()[0].left, Some(TEN));
    while let Some(ended) = calls.join_next().await {
        assert_eq!(ended.unwrap(), Ok(()));
    }
    assert_eq!(quell.snapshot().limit, 3);
    tokio::time::sleep(TEN / 2).await;
    assert_eq!(quell.snapshot().limit, 1);
    assert!(quell.shared().levers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn callers_who_wait_are_woken_when_they_are_dropped() {
    let quell = crowded();
    let mut calls = start(&quell, 3).await;
    assert_eq!(quell.shared().drop_waiting(None), 2);
    for _ in 0..2 {
        assert_eq!(calls.join_next().await.unwrap().unwrap(), Err(Reason::Shed));
    }
    assert_eq!(calls.join_next().await.unwrap().unwrap(), Ok(()));
    assert_eq!(quell.snapshot().in_flight, 0);
}

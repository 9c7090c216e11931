//! Waiting in the queue: who is woken, when, and by whom.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use quell::{Clock, Limit, Quell, Reason, core::Outcome};

const MS: Duration = Duration::from_millis(1);

fn narrow(clock: Clock) -> Quell {
    let narrow = Quell::upstream("narrow").in_flight(Limit::Fixed(1)).queue(2).clock(clock);
    narrow.per_try_timeout(Duration::from_secs(1)).seed(1).build().unwrap()
}

async fn takes(time: Duration) -> Result<(), &'static str> {
    tokio::time::sleep(time).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_short_burst_waits_its_turn() {
    let quell = narrow(Clock::tokio());
    let call = || quell.call(|_| takes(100 * MS));
    let (a, b, c) = tokio::join!(call(), call(), call());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_with_its_reason_and_an_instant_to_come_back() {
    let quell = narrow(Clock::tokio());
    let call = || quell.call(|_| takes(100 * MS));
    let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    let refused = d.unwrap_err();
    assert_eq!((refused.reason(), refused.attempts()), (Reason::QueueFull, 0));
    assert!(refused.retry_in().unwrap() >= Duration::from_secs(1));
    assert!(refused.to_string().starts_with("narrow was refused after"), "{refused}");
}

/// Nobody else acts in all that time: the waiting caller is its own timer.
#[tokio::test(start_paused = true)]
async fn whoever_waited_too_long_is_refused_without_a_background_task() {
    let clock = Clock::tokio();
    let quell = narrow(clock.clone());
    let holder = quell.call(|_| takes(900 * MS));
    let waiter = async {
        tokio::task::yield_now().await;
        let start = clock.now();
        let refused = quell.call(async |_| Ok::<_, &str>(())).await.unwrap_err();
        (refused.reason(), clock.now().since(start))
    };
    let (held, (reason, waited)) = tokio::join!(holder, waiter);
    assert!(held.is_ok());
    assert_eq!(reason, Reason::QueueWait);
    assert!((500 * MS..510 * MS).contains(&waited), "half of the patience of 1 s: {waited:?}");
}

/// A ghost's probe falls due while callers wait who were told of a later instant: they are told of the new one.
#[tokio::test(start_paused = true)]
async fn a_probe_that_falls_due_earlier_than_expected_wakes_a_waiting_caller() {
    let clock = Clock::tokio();
    let quell = Quell::upstream("u").in_flight(Limit::Fixed(1)).clock(clock.clone());
    let quell = quell.timeout(60_000 * MS).per_try_timeout(20_000 * MS).build().unwrap();
    let start = clock.now();
    let forever = async |_| std::future::pending::<Result<(), &str>>().await;
    let gone = tokio::time::timeout(50 * MS, quell.call(forever).into_future());
    // On a task of its own, which nothing but its waker wakes.
    let waiter = tokio::spawn({
        let quell = quell.clone();
        async move {
            quell.call(async |_| Ok::<_, &str>(())).await.unwrap();
            clock.now().since(start)
        }
    });
    let (gone, served_at) = tokio::join!(gone, waiter);
    let served_at = served_at.unwrap();
    assert!(gone.is_err());
    assert!((500 * MS..520 * MS).contains(&served_at), "{served_at:?}");
    assert_eq!(quell.snapshot().ghosts, 0);
}

#[test]
fn blocked_threads_wait_their_turn_too() {
    let quell = narrow(Clock::system());
    let work = || {
        let call = quell.call_blocking(|_| {
            let clock = quell.shared().clock();
            clock.sleep_until_blocking(clock.now() + 5 * MS);
            Ok::<_, &str>(())
        });
        call.classify(|_| Outcome::Success).wait().map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work), scope.spawn(work)];
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    let end = quell.snapshot();
    assert_eq!((end.in_flight, end.ghosts, end.queued), (0, 0, 0));
}

#[test]
fn a_blocked_thread_is_refused_when_it_waited_too_long() {
    let clock = Clock::manual();
    let quell = narrow(clock.clone());
    let refused = quell.call_blocking(|_| {
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| quell.call_blocking(|_| Ok::<_, &str>(())).wait());
            while quell.snapshot().queued == 0 {
                std::thread::yield_now();
            }
            clock.advance(500 * MS);
            Ok::<_, &str>(waiter.join().unwrap().unwrap_err().reason())
        })
    });
    assert_eq!(refused.wait().unwrap(), Reason::QueueWait);
}

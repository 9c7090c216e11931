//! What a call holds goes back exactly once, wherever the call is dropped.
#![allow(clippy::unwrap_used)]

mod strict;

use std::{
    future::{Future, Ready, ready},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell::core::Arrival;
use quell::{
    Clock, Limit, Quell, Reason, Upstream,
    core::{
        Failure, Fault, Input, Outcome, Policy, Rng, Step, Time, breaker,
        budget::tokens,
        spec::{PolicySpec, UpstreamSpec},
    },
    observe::{Event, Observe},
    run::{self, Done, Sender, Try},
    upstream::{Borrowed, Guard, Host},
};
use strict::DropAfter;

/// One slot, one token, a queue of eight, and time that stands still.
struct Narrow {
    upstream: Upstream,
    policy: Policy,
}

impl Narrow {
    fn new() -> Self {
        let policy = Policy::new(PolicySpec::library()).unwrap();
        let spec = UpstreamSpec {
            in_flight: Limit::Fixed(1),
            queue: 8,
            budget: tokens::Spec { max: 1, ratio: 0.0, ..tokens::Spec::default() }.into(),
            ..UpstreamSpec::library()
        };
        let host = Host { clock: Clock::manual(), observer: None, seed: 1 };
        let upstream = Upstream::new("narrow", spec, policy.per_try(), host).unwrap();
        Self { upstream, policy }
    }

    fn begin(&self) -> (Guard<Borrowed<'_>>, Step) {
        let mut guard = self.upstream.begin(&self.policy);
        guard.call().set_repeatable(true);
        let step = guard.step(Input::Start);
        (guard, step)
    }

    /// Attempts under way, ghosts, and calls in the queue.
    fn held(&self) -> (u32, usize, usize) {
        let now = self.upstream.snapshot();
        (now.in_flight, now.ghosts, now.queued)
    }
}

fn ended(outcome: Outcome) -> Input {
    Input::Ended { slot: 0, outcome }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// P1.
#[test]
fn dropped_in_the_queue_it_gives_up_its_place() {
    let narrow = Narrow::new();
    let (mut first, _) = narrow.begin();
    let (mut queued, step) = narrow.begin();
    assert!(matches!(step, Step::Enqueue { .. }));
    assert!(poll(pin!(queued.queue())).is_pending());
    assert_eq!(narrow.held(), (1, 0, 1));
    drop(queued);
    assert_eq!(narrow.held(), (1, 0, 0));
    assert!(matches!(first.step(ended(Outcome::Success)), Step::Finish(_)));
    drop(first);
    assert_eq!(narrow.held(), (0, 0, 0));
}

/// P1: the grant is already in the seat and its caller has not seen it.
#[test]
fn dropped_with_an_unread_grant_it_hands_the_slot_to_the_next_in_line() {
    let narrow = Narrow::new();
    let (mut first, _) = narrow.begin();
    let (mut second, _) = narrow.begin();
    let (mut third, _) = narrow.begin();
    assert!(poll(pin!(second.queue())).is_pending());
    let _ = first.step(ended(Outcome::Success));
    assert_eq!(narrow.held(), (1, 0, 1), "the slot is the second's");
    drop(second);
    assert_eq!(narrow.held(), (1, 0, 0), "the slot is the third's");
    assert!(matches!(poll(pin!(third.queue())), Poll::Ready(Step::Send(_))));
    drop(third);
    assert_eq!(narrow.held(), (0, 0, 0), "it was never sent, so there is no ghost");
}

/// P1, G6, X2.
#[test]
fn dropped_in_backoff_it_holds_no_slot_and_gets_its_token_back() {
    let narrow = Narrow::new();
    let (mut guard, _) = narrow.begin();
    let step = guard.step(ended(Outcome::Failed(Failure::of(Fault::Server))));
    assert!(matches!(step, Step::Sleep { .. }));
    assert_eq!(narrow.held(), (0, 0, 0));
    assert_eq!(narrow.upstream.snapshot().budget, 0.0);
    drop(guard);
    assert_eq!(narrow.upstream.snapshot().budget, 1.0);
}

/// P1, P2.
#[test]
fn dropped_in_an_attempt_it_leaves_a_ghost_if_it_was_sent_and_nothing_if_not() {
    for (sent, held) in [(false, (0, 0, 0)), (true, (0, 1, 0))] {
        let narrow = Narrow::new();
        let (mut guard, step) = narrow.begin();
        let Step::Send(send) = step else { panic!() };
        if sent {
            guard.call().sent(send.slot);
        }
        assert_eq!(narrow.held(), (1, 0, 0));
        drop(guard);
        assert_eq!(narrow.held(), held, "sent: {sent}");
    }
}

#[test]
fn a_token_paid_for_a_retry_returns_if_the_retry_was_not_sent_and_only_then() {
    for (sent, budget) in [(false, 1.0), (true, 0.0)] {
        let narrow = Narrow::new();
        let (mut guard, _) = narrow.begin();
        let failed = ended(Outcome::Failed(Failure::of(Fault::Server)));
        let Step::Sleep { until } = guard.step(failed) else { panic!() };
        narrow.upstream.clock().sleep_until_blocking(until);
        let Step::Send(send) = guard.step(Input::Woke) else { panic!() };
        if sent {
            guard.call().sent(send.slot);
        }
        drop(guard);
        assert_eq!(narrow.upstream.snapshot().budget, budget, "sent: {sent}");
    }
}

fn wide(seed: u64) -> (Upstream, Policy) {
    let policy = Policy::new(PolicySpec::library()).unwrap();
    let spec = UpstreamSpec {
        in_flight: Limit::Fixed(64),
        queue: 1_000,
        breaker: breaker::Spec { min_calls: u32::MAX, ..breaker::Spec::default() },
        ..UpstreamSpec::library()
    };
    let host = Host { clock: Clock::system(), observer: None, seed };
    (Upstream::new("wide", spec, policy.per_try(), host).unwrap(), policy)
}

/// Takes up to 4 ms, and fails once in eight times.
struct Work {
    rng: Rng,
    sent: Arc<AtomicBool>,
}

impl Work {
    fn new(rng: Rng) -> Self {
        Self { rng, sent: Arc::default() }
    }
}

impl Sender for Work {
    type Reply = bool;
    type Kept = bool;
    type Attempt = Pin<Box<dyn Future<Output = bool> + Send>>;
    type Keeping = Ready<Result<bool, bool>>;

    fn send(&mut self, _: &Try) -> Self::Attempt {
        let (takes, works) = (self.rng.up_to(Duration::from_millis(4)), self.rng.below(8) != 0);
        self.sent.store(false, Ordering::Relaxed);
        let sent = Arc::clone(&self.sent);
        Box::pin(async move {
            tokio::task::yield_now().await; // as if it connected
            sent.store(true, Ordering::Relaxed);
            tokio::time::sleep(takes).await;
            works
        })
    }

    fn is_sent(&self, _: &Self::Attempt) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    fn classify(&mut self, worked: &bool) -> Outcome {
        if *worked { Outcome::Success } else { Outcome::Failed(Failure::of(Fault::Server)) }
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn keep(&mut self, worked: bool, _: &Outcome, _: Time) -> Self::Keeping {
        ready(Ok(worked))
    }
}

/// What became of the callers.
#[derive(Default, Debug)]
struct Tally {
    left: AtomicU32,
    served: AtomicU32,
    failed: AtomicU32,
}

/// P1 at large.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_thousand_callers_who_leave_at_random_leak_nothing() {
    const CALLERS: u64 = 20_000;
    let seed = Rng::new(CALLERS).next_u64() ^ u64::from(std::process::id());
    println!("seed {seed}");
    let ((upstream, policy), tally) = (wide(seed), Arc::new(Tally::default()));
    let crowd = Arc::new(tokio::sync::Semaphore::new(256));
    let mut callers = tokio::task::JoinSet::new();
    for i in 0..CALLERS {
        let (upstream, tally, mut rng) = (upstream.clone(), tally.clone(), Rng::stream(seed, i, 0));
        let place = crowd.clone().acquire_owned().await.unwrap();
        callers.spawn(async move {
            let (polls, early) = (rng.below(40), rng.below(4) == 0);
            let patience = rng.up_to(Duration::from_millis(30));
            // Told how long they stay, or so few would be let into the queue that little is proved.
            let deadline = upstream.clock().now() + Duration::from_secs(1);
            let guard = upstream.begin_for(&policy, Arrival { deadline, ..Arrival::new() });
            let call = Box::pin(run::drive(guard, Work::new(rng)));
            let answer = match early {
                true => DropAfter(polls, call).await,
                false => tokio::time::timeout(patience, call).await.ok(),
            };
            let count = match answer {
                None => &tally.left,
                Some(Done { reason: None, .. }) => &tally.served,
                Some(_) => &tally.failed,
            };
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
            drop(place);
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
    println!("{tally:?}");
    for count in [&tally.left, &tally.served] {
        assert!(count.load(Ordering::Relaxed) > 1_000, "the harness proved too little: {tally:?}");
    }
    let now = upstream.snapshot();
    assert_eq!((now.in_flight, now.queued), (0, 0), "seed {seed}: {now:?}");
    // Ghosts stand until the upstream answers a later call; where they fill the limit, that is a probe's.
    for _ in 0..100 {
        let deadline = upstream.clock().now() + Duration::from_secs(5);
        let guard = upstream.begin_for(&policy, Arrival { deadline, ..Arrival::new() });
        let served = run::drive(guard, Work::new(Rng::new(seed))).await.reason.is_none();
        let now = upstream.snapshot();
        if served {
            assert_eq!((now.in_flight, now.ghosts, now.queued), (0, 0, 0), "seed {seed}");
            return;
        }
    }
    panic!("seed {seed}: nobody got through: {:?}", upstream.snapshot());
}

/// P4.
#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_releases_what_its_call_held() {
    let quell = Quell::upstream("u").clock(Clock::tokio()).build().unwrap();
    let call = tokio::spawn({
        let quell = quell.clone();
        async move {
            let call = quell.call(async |attempt| {
                tokio::task::yield_now().await;
                assert!(attempt.number() > 1, "on purpose");
                Ok::<_, &str>(())
            });
            call.await.unwrap();
        }
    });
    assert!(call.await.unwrap_err().is_panic());
    assert_eq!((quell.snapshot().in_flight, quell.snapshot().ghosts), (0, 1));
    quell.call(async |_| Ok::<_, &str>(())).await.unwrap();
    assert_eq!((quell.snapshot().in_flight, quell.snapshot().ghosts), (0, 0));
}

/// P4 on a thread, in the closure and in what it calls back.
#[test]
fn a_blocking_closure_that_panics_releases_what_its_call_held_and_is_recorded() {
    struct Ends(Arc<AtomicUsize>);
    impl Observe for Ends {
        fn observe(&self, _: &str, event: &Event<'_>) {
            if let Event::Finished(end) = event {
                assert_eq!((end.attempts, end.reason), (1, Some(Reason::ClientGone)));
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let ends = Arc::new(AtomicUsize::new(0));
    let quell = Quell::upstream("u").clock(Clock::manual()).idempotent();
    let quell = quell.observe(Ends(ends.clone())).build().unwrap();
    let outcome = std::panic::catch_unwind(|| {
        quell.call_blocking(|_| -> Result<(), &str> { panic!("on purpose") }).wait()
    });
    assert!(outcome.is_err());
    assert_eq!((quell.snapshot().in_flight, quell.snapshot().ghosts), (0, 1));
    assert_eq!(ends.load(Ordering::Relaxed), 1);
    let outcome = std::panic::catch_unwind(|| {
        let call = quell.call_blocking(|_| Err::<(), _>("failed"));
        call.on_retry(|_| panic!("on purpose")).wait()
    });
    assert!(outcome.is_err());
    assert_eq!(quell.snapshot().in_flight, 0);
    assert_eq!(quell.snapshot().budget, 1.0, "the retry that was paid for was never sent");
}

//! What tower asks of a service, and what ours promises beyond it.
#![allow(clippy::unwrap_used)]

mod strict;

use std::{
    convert::Infallible,
    future::{Future, Ready, pending, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell::{
    Builder, CallError, Cause, Clock, Failure, Fault, Limit, Outcome, Quell, Reason, Rules,
    core::{
        Policy, Time,
        budget::tokens,
        hedge::Hedge,
        spec::{PolicySpec, UpstreamSpec},
    },
    run::Try,
    tower::{Inbound, Outbound, Plain, QuellLayer, QuellService},
};
use strict::{Act, Called, Script, Strict, call, held, look};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _, util::BoxCloneService};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// One slot, one token, a queue of eight.
fn narrow() -> Builder {
    let budget = tokens::Spec { max: 1, ratio: 0.0, ..tokens::Spec::default() };
    let narrow = Quell::upstream("narrow").clock(Clock::tokio()).seed(1).idempotent();
    narrow.in_flight(Limit::Fixed(1)).queue(8).budget(budget)
}

/// The same with two slots and two tokens, where an attempt that takes longer than most is hedged.
fn hedged() -> Builder {
    let budget = tokens::Spec { max: 2, ratio: 0.0, ..tokens::Spec::default() };
    narrow().in_flight(Limit::Fixed(2)).budget(budget).hedge(Hedge::new(0.9, 200 * MS).unwrap())
}

struct World {
    quell: Quell,
    script: Arc<Script>,
    service: QuellService<Strict>,
}

impl World {
    fn new(builder: Builder) -> Self {
        let quell = builder.build().unwrap();
        let (strict, script) = Strict::new();
        let service = QuellLayer::new(quell.clone()).layer(strict);
        Self { quell, script, service }
    }

    /// One in which calls are known to take 100 ms.
    async fn warm(builder: Builder) -> Self {
        let mut world = Self::new(builder);
        world.script.play([Act::WorksAfter(100 * MS); 32]);
        for request in 0..32 {
            assert_eq!(call(&mut world.service, request).await.await.unwrap(), request);
        }
        world
    }

    /// A call that was sent and goes according to this.
    async fn sent(&mut self, acts: impl IntoIterator<Item = Act>) -> Called {
        self.script.play(acts);
        let mut call = call(&mut self.service, 7).await;
        assert!(look(&mut call).is_pending());
        call
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_inner_services_own_and_holds_nothing_of_ours() {
    let World { quell, script, service } = World::new(narrow());
    script.shut();
    let mut shut = Box::pin(service.clone().ready_oneshot());
    assert!(look(&mut shut).is_pending());
    script.open();
    let mut first = shut.await.unwrap();
    let others: Vec<_> = (0..3).map(|_| service.clone()).collect();
    for mut other in others {
        other.ready().await.unwrap(); // though there is but one slot
    }
    assert_eq!(held(&quell), (0, 0, 0, 1.0));
    assert_eq!(first.call(7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_readiness_is_passed_on() {
    let World { quell, script, mut service } = World::new(narrow());
    script.break_down();
    let error = service.ready().await.unwrap_err();
    assert!(matches!(error.cause(), Cause::Error("broken")));
    assert_eq!((error.attempts(), error.operation()), (0, "narrow"));
    assert_eq!(held(&quell), (0, 0, 0, 1.0));
}

/// A layer as it is often written: the clone is called, and the one that was ready is kept.
struct Careless(Strict);

impl Service<i64> for Careless {
    type Response = i64;
    type Error = &'static str;
    type Future = <Strict as Service<i64>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: i64) -> Self::Future {
        self.0.clone().call(request)
    }
}

#[tokio::test(start_paused = true)]
#[should_panic = "called without being ready"]
async fn a_layer_that_calls_a_clone_that_is_not_ready_is_caught() {
    let _ = Careless(Strict::new().0).ready().await.unwrap().call(7).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_is_called_was_ready_be_it_for_a_call_a_retry_or_a_hedge() {
    let mut world = World::warm(hedged()).await;
    world.script.play([Act::Fails, Act::Fails]);
    assert_eq!(call(&mut world.service, 7).await.await.unwrap(), 7);
    assert_eq!(world.script.calls(), 32 + 3);

    let mut world = World::warm(hedged()).await;
    world.script.play([Act::Hangs, Act::Works]);
    assert_eq!(call(&mut world.service, 8).await.await.unwrap(), 8);
    assert_eq!(world.script.calls(), 32 + 2);
    assert_eq!(world.script.under_way(), 0, "the one that lost is dropped with the call's end");
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_readiness_within_its_own_timeout() {
    let mut world = World::new(narrow().per_try_timeout(2 * SECOND).attempts(2));
    let mut call = world.sent([Act::FailsAfter(MS)]).await;
    world.script.shut();
    tokio::time::advance(MS).await;
    assert!(look(&mut call).is_pending());
    let began = tokio::time::Instant::now();
    let error = call.await.unwrap_err();
    assert!(began.elapsed() >= 2 * SECOND && began.elapsed() < 3 * SECOND);
    assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
    assert!(matches!(error.cause(), Cause::Error("failed")), "{error}");
    assert_eq!((world.script.calls(), held(&world.quell).0), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn clones_share_slots_queue_and_budget() {
    let World { quell, script, mut service } = World::new(narrow());
    let mut clone = service.clone();
    script.play([Act::WorksAfter(10 * MS)]);
    let mut first = call(&mut service, 1).await;
    assert!(look(&mut first).is_pending());
    let mut second = call(&mut clone, 2).await;
    assert!(look(&mut second).is_pending());
    assert_eq!(held(&quell), (1, 0, 1, 1.0));
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    assert_eq!(held(&quell), (0, 0, 0, 1.0));
}

/// P1: admitted in `call`, and nothing was sent.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_polled_gives_its_slot_back() {
    let mut world = World::new(narrow());
    let call = call(&mut world.service, 7).await;
    assert_eq!(held(&world.quell), (1, 0, 0, 1.0));
    drop(call);
    assert_eq!(held(&world.quell), (0, 0, 0, 1.0));
    assert_eq!(world.script.calls(), 0);
}

/// P1.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_in_the_queue_gives_up_its_place() {
    let mut world = World::new(narrow());
    let _first = world.sent([Act::Hangs]).await;
    for polled in [false, true] {
        let mut queued = call(&mut world.service, 8).await;
        assert!(!polled || look(&mut queued).is_pending());
        assert_eq!(held(&world.quell), (1, 0, 1, 1.0));
        drop(queued);
        assert_eq!(held(&world.quell), (1, 0, 0, 1.0));
    }
    assert_eq!(world.script.calls(), 1);
}

/// P1: the slot is its own and it does not know yet.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_with_a_grant_it_has_not_seen_hands_it_on() {
    let mut world = World::new(narrow());
    let first = world.sent([Act::WorksAfter(MS)]).await;
    let (mut second, mut third) =
        (call(&mut world.service, 8).await, call(&mut world.service, 9).await);
    assert!(look(&mut second).is_pending() && look(&mut third).is_pending());
    first.await.unwrap();
    assert_eq!(held(&world.quell), (1, 0, 1, 1.0));
    drop(second);
    assert_eq!(third.await.unwrap(), 9);
    assert_eq!(held(&world.quell), (0, 0, 0, 1.0));
    assert_eq!(world.script.calls(), 2);
}

/// P1, P2.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_in_its_attempt_leaves_one_ghost() {
    let mut world = World::new(narrow());
    drop(world.sent([Act::Hangs]).await);
    assert_eq!(held(&world.quell), (0, 1, 0, 1.0));
    assert_eq!(world.script.under_way(), 0);
}

/// P1, G6, X2.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_in_its_backoff_holds_no_slot_and_gets_its_token_back() {
    let mut world = World::new(narrow());
    let asleep = world.sent([Act::Fails]).await;
    assert_eq!(held(&world.quell), (0, 0, 0, 0.0));
    drop(asleep);
    assert_eq!(held(&world.quell), (0, 0, 0, 1.0));
}

/// P1, G6: a retry that waits for readiness has a slot and was not sent.
#[tokio::test(start_paused = true)]
async fn a_retry_dropped_while_it_gets_ready_gives_back_slot_and_token_and_leaves_no_ghost() {
    let mut world = World::new(narrow());
    let mut retry = world.sent([Act::Fails]).await;
    world.script.shut();
    tokio::time::advance(SECOND).await;
    assert!(look(&mut retry).is_pending());
    assert_eq!(held(&world.quell), (1, 0, 0, 0.0));
    drop(retry);
    assert_eq!(held(&world.quell), (0, 0, 0, 1.0));
    assert_eq!(world.script.calls(), 1);
}

/// P2, G6: one that was sent is paid for, and may be worked on.
#[tokio::test(start_paused = true)]
async fn a_retry_dropped_after_it_was_sent_leaves_a_ghost_and_stays_paid() {
    let mut world = World::new(narrow());
    let mut retry = world.sent([Act::Fails, Act::Hangs]).await;
    tokio::time::advance(SECOND).await;
    assert!(look(&mut retry).is_pending());
    drop(retry);
    assert_eq!(held(&world.quell), (0, 1, 0, 0.0));
    assert_eq!(world.script.calls(), 2);
}

/// P1, X4: both were sent, or the second still got ready.
#[tokio::test(start_paused = true)]
async fn a_hedged_call_that_is_dropped_leaves_a_ghost_for_each_attempt_that_was_sent() {
    for (shut, left) in [(false, (0, 2, 0, 1.0)), (true, (0, 1, 0, 2.0))] {
        let mut world = World::warm(hedged()).await;
        let mut call = world.sent([Act::Hangs, Act::Hangs]).await;
        if shut {
            world.script.shut();
        }
        tokio::time::advance(SECOND).await;
        assert!(look(&mut call).is_pending());
        assert_eq!(held(&world.quell), (2, 0, 0, 1.0));
        drop(call);
        assert_eq!(held(&world.quell), left, "shut: {shut}");
        assert_eq!(world.script.under_way(), 0);
    }
}

/// Requests whose failed replies take for ever to be kept.
#[derive(Clone)]
struct KeptForEver;

impl Outbound<i64> for KeptForEver {
    type Source = i64;
    type Outgoing = i64;

    fn source(&self, request: i64, _: &Rules) -> i64 {
        request
    }

    fn next(&self, source: &mut i64, _: &Try) -> Option<i64> {
        Some(*source)
    }

    fn is_repeatable(&self, _: &i64) -> bool {
        true
    }

    fn is_replayable(&self, _: &i64) -> bool {
        true
    }
}

type Read = Result<i64, &'static str>;

impl Inbound<i64, &'static str> for KeptForEver {
    type Answer = i64;
    type Keeping = Pin<Box<dyn Future<Output = Result<Read, Read>>>>;

    fn answer(&self, reply: i64) -> i64 {
        reply
    }

    fn classify(&self, result: &Read, _: &Clock, _: &Rules) -> Outcome {
        match result {
            Ok(0..) => Outcome::Success,
            _ => Outcome::Failed(Failure::of(Fault::Server).with_code(503)),
        }
    }

    fn keep(&self, _: Read, _: &Clock, _: Time) -> Self::Keeping {
        Box::pin(pending())
    }
}

/// P1: the slot was free before the reply was read.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_a_reply_is_kept_holds_its_token_alone_and_gives_it_back() {
    let quell = narrow().build().unwrap();
    let (strict, script) = Strict::new();
    script.play([Act::Says(-1)]);
    let mut service = QuellLayer::with(quell.clone(), KeptForEver).layer(strict);
    let mut keeping = Box::pin(service.ready().await.unwrap().call(7));
    assert!(look(&mut keeping).is_pending());
    tokio::time::advance(5 * SECOND).await;
    assert!(look(&mut keeping).is_pending());
    assert_eq!((held(&quell), script.calls()), ((0, 0, 0, 0.0), 1));
    drop(keeping);
    assert_eq!(held(&quell), (0, 0, 0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why_and_when_to_come_back_and_reaches_nobody() {
    let mut world = World::new(narrow().queue(0));
    let _first = world.sent([Act::Hangs]).await;
    let error = call(&mut world.service, 8).await.await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (0, Reason::InFlightFull));
    assert!(matches!(error.cause(), Cause::Refused));
    assert!(error.retry_in().unwrap() > Duration::ZERO);
    assert_eq!(world.script.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_reply_is_returned_as_it_is() {
    let status = |result: &Result<i64, &'static str>| match result {
        Ok(0..) => Outcome::Success,
        _ => Outcome::Failed(Failure::of(Fault::Server).with_code(503)),
    };
    let quell = hedged().build().unwrap();
    let (strict, script) = Strict::new();
    script.play([Act::Says(-1), Act::Says(-2), Act::Says(-3)]);
    let mut service = QuellLayer::with(quell, Plain::by(status)).layer(strict);
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), -3);
    assert_eq!(script.calls(), 3);
    script.play([Act::Fails; 3]);
    let error = service.ready().await.unwrap().call(7).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::BudgetEmpty));
    assert!(matches!(error.into_parts().cause, Cause::Error("failed")));
}

/// Calls that queue hold no place of the service inside, or those who have a slot would wait for them for ever.
#[tokio::test(start_paused = true)]
async fn a_limit_inside_of_ours_and_our_queue_do_not_wait_for_each_other() {
    let quell = narrow().build().unwrap();
    let (strict, script) = Strict::new();
    let mut service = ServiceBuilder::new()
        .layer(QuellLayer::new(quell.clone()))
        .concurrency_limit(1)
        .service(strict);
    script.play([Act::Fails, Act::WorksAfter(SECOND)]);
    let mut first = Box::pin(service.ready().await.unwrap().call(1));
    assert!(look(&mut first).is_pending()); // asleep
    let mut second = Box::pin(service.ready().await.unwrap().call(2));
    assert!(look(&mut second).is_pending()); // at work
    tokio::time::advance(SECOND / 2).await;
    assert!(look(&mut first).is_pending()); // in the queue
    tokio::time::advance(SECOND / 2).await;
    assert_eq!(second.await.unwrap(), 2);
    let mut third = Box::pin(service.ready().await.unwrap().call(3)); // in the queue, after the first
    assert!(look(&mut third).is_pending());
    let began = tokio::time::Instant::now();
    let (first, third) = tokio::join!(first, third);
    assert_eq!((first.unwrap(), third.unwrap()), (1, 3));
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn it_stands_among_other_layers() {
    let quell = narrow().build().unwrap();
    let (strict, script) = Strict::new();
    let service = ServiceBuilder::new()
        .buffer(8)
        .timeout(60 * SECOND)
        .map_err(|error: CallError<(), tower::BoxError>| error.to_string())
        .layer(QuellLayer::new(quell.clone()))
        .concurrency_limit(2)
        .timeout(SECOND)
        .service(strict);
    script.play([Act::Fails, Act::WorksAfter(10 * MS), Act::Hangs]);
    let all = (1..=4).map(|request| tokio::spawn(service.clone().oneshot(request)));
    let mut served = 0;
    for call in all.collect::<Vec<_>>() {
        served += u32::from(call.await.unwrap().is_ok());
    }
    assert!(served >= 3, "{served}");
    assert_eq!((held(&quell).0, held(&quell).2), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn it_can_be_boxed_sent_to_another_task_and_cloned_there() {
    let (strict, script) = Strict::new();
    script.play([Act::Fails]);
    let service = QuellLayer::new(narrow().build().unwrap()).layer(strict);
    let boxed = BoxCloneService::new(service);
    let answer = tokio::spawn(async move { boxed.clone().oneshot(7).await.unwrap() });
    assert_eq!(answer.await.unwrap(), 7);
    assert_eq!(script.calls(), 2);
}

/// A service knows its terms by heart, and learns of other ones before its next call.
#[tokio::test(start_paused = true)]
async fn a_reload_reaches_services_that_were_made_before_it() {
    let World { quell, script, mut service } = World::new(narrow());
    assert_eq!(call(&mut service, 7).await.await.unwrap(), 7);
    let policy = Policy::new(PolicySpec { attempts: 1, ..PolicySpec::library() }).unwrap();
    quell.reload(Rules { policy, ..*quell.rules() }, UpstreamSpec::library()).unwrap();
    script.play([Act::Fails]);
    let error = call(&mut service, 7).await.await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::AttemptsSpent));
}

/// For threads without a runtime: as long as nobody has to wait, there is no timer and nobody asks for one.
#[test]
fn a_call_that_is_answered_at_once_needs_no_runtime() {
    let quell = Quell::upstream("stock").build().unwrap();
    let at_once = tower::service_fn(|n: u64| -> Ready<Result<_, Infallible>> { ready(Ok(n)) });
    let mut service = QuellLayer::new(quell).layer(at_once);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(Service::<u64>::poll_ready(&mut service, &mut cx), Poll::Ready(Ok(()))));
    assert!(matches!(look(&mut Box::pin(service.call(7))), Poll::Ready(Ok(7))));
}

/// An attempt that asks to come back later is made again, even where there is only one.
#[tokio::test(start_paused = true)]
async fn a_deferred_attempt_is_made_again_even_if_it_was_the_last() {
    let quell = Quell::upstream("u").clock(Clock::tokio()).attempts(1).build().unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let later = tower::service_fn(move |_: ()| {
        let asked = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { Ok::<_, Infallible>(asked) }
    });
    let layer = QuellLayer::with(
        quell,
        Plain::by(|result: &Result<u32, Infallible>| match result {
            Ok(0) => Outcome::Defer { after: SECOND },
            _ => Outcome::Success,
        }),
    );
    assert_eq!(layer.layer(later).oneshot(()).await.unwrap(), 1);
}

/// A service that cannot get ready for a retry was sent nothing, so even what must not be repeated is tried again.
#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_get_ready_was_sent_nothing() {
    /// Not ready the second time it is asked.
    #[derive(Clone)]
    struct Moody(Arc<std::sync::atomic::AtomicU32>);
    impl Service<()> for Moody {
        type Response = &'static str;
        type Error = &'static str;
        type Future = Ready<Result<&'static str, &'static str>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            let asked = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Poll::Ready(if asked == 1 { Err("not now") } else { Ok(()) })
        }
        fn call(&mut self, (): ()) -> Self::Future {
            let first = self.0.load(std::sync::atomic::Ordering::Relaxed) == 1;
            ready(if first { Err("refused") } else { Ok("fine") })
        }
    }
    let quell = Quell::upstream("u").clock(Clock::tokio()).build().unwrap();
    let never_sent = |result: &Result<&str, &str>| match result {
        Err("refused") => Outcome::Failed(Failure::of(Fault::Connect)),
        Err(_) => Outcome::Failed(Failure::of(Fault::Server)),
        Ok(_) => Outcome::Success,
    };
    let service = QuellLayer::with(quell, Plain::by(never_sent)).layer(Moody(Arc::default()));
    assert_eq!(service.oneshot(()).await.unwrap(), "fine");
}

//! Calls through clones of one service, dropped, failed, hung, refused and hedged at random on four threads: afterwards
//! nothing is held, and the budget is right to the token.
#![allow(clippy::unwrap_used)]

mod strict;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use quell::{
    Clock, Limit, Quell, Reason,
    core::{Rng, backoff, breaker, budget::tokens, hedge::Hedge},
    observe::{Event, Observe},
    tower::{QuellLayer, QuellService},
};
use strict::DropAfter;
use tower::{Layer as _, Service, ServiceExt as _};

const CALLS: u64 = 20_000;
const MS: Duration = Duration::from_millis(1);
const START: u32 = 15_000;
/// Never reached: each success earns a tenth.
const MAX: u32 = START + (CALLS / 10) as u32 + 1_000;

/// What happened, counted by the service and the callers themselves.
#[derive(Default, Debug)]
struct Tally {
    /// Attempts that reached the service.
    sent: AtomicU64,
    /// Those that were answered well.
    worked: AtomicU64,
    failed: AtomicU64,
    hung: AtomicU64,
    /// Times that an attempt found the service not ready.
    not_ready: AtomicU64,
    /// Attempts under way in the service.
    under_way: AtomicU64,
    /// Calls of which at least one attempt was sent.
    begun: AtomicU64,
    /// Callers who left, were refused, got a reply or an error.
    left: AtomicU64,
    refused: AtomicU64,
    served: AtomicU64,
    gave_up: AtomicU64,
    hedges: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Fails, hangs, dawdles and is not ready at random, and insists on being asked for readiness by whoever calls it.
struct Moody {
    tally: Arc<Tally>,
    seed: u64,
    draws: Arc<AtomicU64>,
    /// Which calls have been here, by their numbers.
    seen: Arc<[AtomicBool]>,
    waits: u32,
    ready: bool,
    calm: bool,
}

impl Moody {
    fn rng(&self) -> Rng {
        Rng::stream(self.seed, self.draws.fetch_add(1, Ordering::Relaxed), 1)
    }
}

impl Clone for Moody {
    fn clone(&self) -> Self {
        let waits = if self.calm || self.rng().below(4) > 0 { 0 } else { 2 };
        let (tally, draws) = (Arc::clone(&self.tally), Arc::clone(&self.draws));
        let (seed, seen, calm) = (self.seed, Arc::clone(&self.seen), self.calm);
        Self { tally, seed, draws, seen, waits, ready: false, calm }
    }
}

impl Service<u64> for Moody {
    type Response = u64;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<u64, &'static str>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.waits > 0 {
            self.waits -= 1;
            add(&self.tally.not_ready);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, id: u64) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        add(&self.tally.sent);
        let seen = self.seen[id as usize].swap(true, Ordering::Relaxed);
        self.tally.begun.fetch_add(u64::from(!seen), Ordering::Relaxed);
        let mut rng = self.rng();
        let (luck, takes) = (if self.calm { 99 } else { rng.below(100) }, rng.up_to(2 * MS));
        let guard = UnderWay::new(&self.tally);
        Box::pin(async move {
            let tally = &guard.0;
            match luck {
                0..2 => {
                    add(&tally.hung);
                    std::future::pending().await
                }
                2..14 => {
                    if luck < 8 {
                        tokio::time::sleep(takes).await;
                    }
                    add(&tally.failed);
                    return Err("failed");
                }
                14..22 => tokio::time::sleep(10 * takes).await,
                22..60 => tokio::time::sleep(takes).await,
                _ => {}
            }
            add(&tally.worked);
            Ok(id)
        })
    }
}

struct UnderWay(Arc<Tally>);

impl UnderWay {
    fn new(tally: &Arc<Tally>) -> Self {
        add(&tally.under_way);
        Self(Arc::clone(tally))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Watch(Arc<Tally>);

impl Observe for Watch {
    fn observe(&self, _: &str, event: &Event<'_>) {
        if let Event::Tried(tried) = event
            && tried.hedge
        {
            add(&self.0.hedges);
        }
    }
}

/// One slot fewer than the crowd needs, a queue, and no breaker: it would keep the crowd from being one.
fn quell(seed: u64, tally: &Arc<Tally>) -> Quell {
    let budget = tokens::Spec { max: MAX, start: Some(START), ..tokens::Spec::default() };
    let backoff = backoff::Spec { base: MS, cap: 4 * MS, ..backoff::Spec::default() };
    let breaker = breaker::Spec { min_calls: u32::MAX, ..breaker::Spec::default() };
    Quell::upstream("moody")
        .clock(Clock::system())
        .seed(seed)
        .idempotent()
        .in_flight(Limit::Fixed(128))
        .queue(32)
        .per_try_timeout(Duration::from_secs(1)) // as long as nobody waits to get ready
        .budget(budget)
        .backoff(backoff)
        .breaker(breaker)
        .hedge(Hedge::new(0.9, MS).unwrap())
        .observe(Watch(Arc::clone(tally)))
        .build()
        .unwrap()
}

async fn visit(mut service: QuellService<Moody>, id: u64, mut rng: Rng, tally: &Tally) {
    let call = Box::pin(service.ready().await.unwrap().call(id));
    let answer = match rng.below(8) {
        0 => None, // never polled
        1 | 2 => DropAfter(rng.below(12), call).await,
        3 => tokio::time::timeout(Duration::from_secs(3), call).await.ok(),
        _ => tokio::time::timeout(rng.up_to(20 * MS), call).await.ok(),
    };
    add(match answer {
        None => &tally.left,
        Some(Ok(_)) => &tally.served,
        Some(Err(error)) if error.attempts() == 0 => {
            tokio::time::sleep(20 * MS).await; // or all of them are refused before anybody is served
            &tally.refused
        }
        Some(Err(error)) => {
            assert_ne!(error.reason(), Reason::ClientGone);
            &tally.gave_up
        }
    });
}

/// P1, P2, G6, X4, X5 at large.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_thousand_calls_through_clones_leak_nothing_and_the_budget_is_right_to_the_token() {
    let seed = Rng::new(CALLS).next_u64() ^ u64::from(std::process::id());
    println!("seed {seed}");
    let tally = Arc::new(Tally::default());
    let quell = quell(seed, &tally);
    let seen = (0..CALLS + 100).map(|_| AtomicBool::new(false)).collect();
    let (tally_too, draws, ready, waits) = (Arc::clone(&tally), Arc::default(), false, 0);
    let moody = Moody { tally: tally_too, seed, draws, seen, waits, ready, calm: false };
    let calm = Moody { calm: true, ..moody.clone() };
    let layer = QuellLayer::new(quell.clone());
    let service = layer.layer(moody);
    let crowd = Arc::new(tokio::sync::Semaphore::new(256));
    let mut callers = tokio::task::JoinSet::new();
    for id in 0..CALLS {
        let place = Arc::clone(&crowd).acquire_owned().await.unwrap();
        let (service, tally, rng) = (service.clone(), tally.clone(), Rng::stream(seed, id, 0));
        callers.spawn(async move {
            visit(service, id, rng, &tally).await;
            drop(place);
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }

    // The faults that were planned did happen.
    println!("{tally:?}");
    let counts = [&tally.left, &tally.served, &tally.failed, &tally.not_ready];
    assert!(counts.iter().all(|count| get(count) > 1_000), "seed {seed}: too little was tried");
    let counts = [&tally.hung, &tally.hedges, &tally.refused];
    assert!(counts.iter().all(|count| get(count) > 50), "seed {seed}: too little was tried");

    // Nothing is held, and nobody is at work.
    let now = quell.snapshot();
    assert_eq!((now.in_flight, now.queued), (0, 0), "seed {seed}: {now:?}");
    assert_eq!(get(&tally.under_way), 0, "seed {seed}");
    let runtime = tokio::runtime::Handle::current().metrics();
    let over = async {
        while runtime.num_alive_tasks() > 0 {
            tokio::task::yield_now().await; // the last caller is on its way out
        }
    };
    tokio::time::timeout(Duration::from_secs(10), over).await.unwrap();

    // Every success earned a tenth, and every attempt of a call but its first was paid for, once.
    let spent = get(&tally.sent) - get(&tally.begun);
    assert_eq!(now.retries.successes, get(&tally.worked), "seed {seed}");
    assert_eq!(now.retries.allowed - now.retries.refunded, spent, "seed {seed}");
    let level = f64::from(START) + get(&tally.worked) as f64 / 10.0 - spent as f64;
    assert!((now.retries.level - level).abs() < 1e-6, "seed {seed}: {} {level}", now.retries.level);

    // Ghosts stand until a later call is answered; where they fill the limit, that is a probe's.
    let mut calm = layer.layer(calm);
    for id in CALLS..CALLS + 100 {
        let served = calm.ready().await.unwrap().call(id).await.is_ok();
        let now = quell.snapshot();
        if served {
            assert_eq!((now.in_flight, now.ghosts, now.queued), (0, 0, 0), "seed {seed}");
            return;
        }
        tokio::time::sleep(100 * MS).await; // until a probe is due
    }
    panic!("seed {seed}: nobody got through: {:?}", quell.snapshot());
}

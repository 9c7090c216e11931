//! What becomes of a claim when nobody waits for its end any more.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod axum_kit;

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    middleware::{Next, from_fn},
    routing::post,
};
use axum_kit::{client, header, serve, until};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use quell::{
    Clock,
    axum::{Idempotency, idempotency::OnExpiry},
    store::{Answer, Begun, Claim, Down, Ended, Memory, Request, Store, Unsettled},
};
use tokio::sync::{Semaphore, mpsc};

/// Counts when it is dropped.
struct Gone(Arc<AtomicU32>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn reaches(count: &AtomicU32, times: u32) {
    until(|| count.load(Ordering::SeqCst) == times).await;
}

/// Serves `/` behind a store, and counts requests that are over, one way or another.
async fn start(
    store: Arc<dyn Store>,
    on_expiry: OnExpiry,
    handler: axum::routing::MethodRouter,
) -> (impl Fn() -> reqwest::RequestBuilder, Arc<AtomicU32>) {
    let gone = Arc::new(AtomicU32::new(0));
    let watch = {
        let gone = gone.clone();
        move |request, next: Next| {
            let guard = Gone(gone.clone());
            async move {
                let _guard = guard;
                next.run(request).await
            }
        }
    };
    let keys = Idempotency::new("shop", store).on_expiry(on_expiry).build().unwrap();
    let app = Router::new().route("/", handler).layer(keys).layer(from_fn(watch));
    let url = format!("http://{}/", serve(app).await);
    (move || client().post(&url).header("idempotency-key", "k"), gone)
}

/// A store whose every verb takes a while.
struct Slow {
    memory: Memory,
    door: Semaphore,
    asked: AtomicU32,
}

impl Slow {
    async fn pass(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.door.acquire().await.unwrap().forget();
    }
}

impl Store for Slow {
    fn begin<'a>(&'a self, request: &'a Request) -> Answer<'a, Result<Begun, Down>> {
        Box::pin(async move {
            let begun = self.memory.begin(request).await;
            self.pass().await;
            begun
        })
    }

    fn complete<'a>(&'a self, claim: &'a Claim, ended: Ended) -> Answer<'a, Result<(), Unsettled>> {
        Box::pin(async move {
            self.pass().await;
            self.memory.complete(claim, ended).await
        })
    }

    fn abandon<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>> {
        Box::pin(async move {
            self.pass().await;
            self.memory.abandon(claim).await
        })
    }

    fn renew<'a>(&'a self, claim: &'a Claim) -> Answer<'a, Result<(), Unsettled>> {
        self.memory.renew(claim)
    }
}

/// P1.
#[tokio::test]
async fn what_is_said_to_a_slow_store_is_said_though_the_caller_left() {
    for on_expiry in [OnExpiry::Rerun, OnExpiry::Hold] {
        let (memory, door) = (Memory::new(), Semaphore::new(0));
        let store = Arc::new(Slow { memory, door, asked: AtomicU32::new(0) });
        let runs = Arc::new(AtomicU32::new(0));
        let handler = {
            let runs = runs.clone();
            post(async move || format!("run {}", runs.fetch_add(1, Ordering::SeqCst) + 1))
        };
        let (ask, gone) = start(store.clone(), on_expiry, handler).await;

        // It leaves while the store claims: nobody will do the work.
        let leaving = tokio::spawn(ask().send());
        reaches(&store.asked, 1).await;
        leaving.abort();
        reaches(&gone, 1).await;
        store.door.add_permits(1);
        reaches(&store.asked, 2).await;
        store.door.add_permits(1);
        until(|| store.memory.usage().entries == 0).await;
        assert_eq!(runs.load(Ordering::SeqCst), 0);

        // It leaves while the store is told that it is done: so it is.
        let leaving = tokio::spawn(ask().send());
        reaches(&store.asked, 3).await;
        store.door.add_permits(1);
        reaches(&store.asked, 4).await;
        leaving.abort();
        reaches(&gone, 2).await;
        store.door.add_permits(1);
        until(|| store.memory.usage().bytes > 0).await;
        store.door.add_permits(1);
        let again = ask().send().await.unwrap();
        assert_eq!(header(&again, "idempotency-replayed"), Some("true"));
        assert_eq!(again.text().await.unwrap(), "run 1");
    }
}

/// Nobody knows whether the handler was before or after its effect.
#[tokio::test]
async fn a_handler_that_was_dropped_midway_is_run_again_or_held_until_forgotten() {
    for (on_expiry, panics) in
        [OnExpiry::Rerun, OnExpiry::Hold].into_iter().flat_map(|on| [(on, false), (on, true)])
    {
        let clock = Clock::manual();
        let store = Arc::new(Memory::new().clock(clock.clone()));
        let runs = Arc::new(AtomicU32::new(0));
        let handler = {
            let runs = runs.clone();
            post(async move || {
                let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(run > 1 || !panics, "as it is meant to");
                if run == 1 {
                    std::future::pending::<()>().await;
                }
                format!("run {run}")
            })
        };
        let (ask, gone) = start(store.clone(), on_expiry, handler).await;
        let leaving = tokio::spawn(ask().send());
        reaches(&runs, 1).await;
        if !panics {
            leaving.abort();
        }
        reaches(&gone, 1).await;

        if on_expiry == OnExpiry::Hold {
            for later in [Duration::ZERO, Duration::from_secs(61)] {
                clock.advance(later);
                let again = ask().send().await.unwrap();
                let stop = header(&again, "quell-stop");
                assert_eq!((again.status().as_u16(), stop), (409, Some("key_in_flight")));
            }
            clock.advance(Duration::from_secs(24 * 3_600));
        }
        assert_eq!(ask().send().await.unwrap().text().await.unwrap(), "run 2");
    }
}

/// A body that says how long it is and takes its time.
struct Promised(mpsc::Receiver<io::Result<Bytes>>);

impl http_body::Body for Promised {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(4)
    }
}

/// The handler has answered, so its work is done: that its body did not arrive does not have it done again.
#[tokio::test]
async fn an_answer_whose_body_never_came_is_never_run_again() {
    for breaks in [false, true] {
        let store = Arc::new(Memory::new());
        let (sender, pieces) = mpsc::channel(1);
        let (runs, pieces) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Some(pieces))));
        let handler = {
            let runs = runs.clone();
            post(async move || {
                runs.fetch_add(1, Ordering::SeqCst);
                Body::new(Promised(pieces.lock().take().unwrap()))
            })
        };
        let (ask, gone) = start(store.clone(), OnExpiry::Rerun, handler).await;
        if breaks {
            sender.send(Err(io::ErrorKind::BrokenPipe.into())).await.unwrap();
            let broken = ask().send().await.unwrap();
            assert_eq!(broken.status(), 500);
            assert!(broken.text().await.unwrap().contains("ANSWER_BROKEN"));
        } else {
            let leaving = tokio::spawn(ask().send());
            reaches(&runs, 1).await;
            leaving.abort();
            reaches(&gone, 1).await;
        }
        let again = ask().send().await.unwrap();
        assert_eq!(
            (again.status().as_u16(), header(&again, "quell-stop")),
            (409, Some("key_in_flight"))
        );
        assert_eq!((runs.load(Ordering::SeqCst), store.usage().entries), (1, 1));
        drop(sender);
    }
}

//! Strict: a service that follows a script and holds its callers to tower's contract.
#![allow(dead_code, reason = "every test that uses it uses another part of it")]

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use quell::{Quell, tower::QuellService};
use tower::{Service, ServiceExt};

/// What a call comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// The request comes back.
    Works,
    /// This comes back.
    Says(i64),
    Fails,
    Hangs,
    WorksAfter(Duration),
    FailsAfter(Duration),
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    /// In the order of calls; when there are no more, everything works.
    acts: Mutex<VecDeque<Act>>,
    calls: AtomicU32,
    under_way: AtomicU32,
    shut: AtomicBool,
    broken: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Script {
    pub(crate) fn play(&self, acts: impl IntoIterator<Item = Act>) {
        self.acts.lock().unwrap().extend(acts);
    }

    /// Nobody gets ready any more.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    pub(crate) fn open(&self) {
        self.shut.store(false, Ordering::Release);
        self.waiting.lock().unwrap().drain(..).for_each(Waker::wake);
    }

    /// Whoever wants to get ready learns that it never will.
    pub(crate) fn break_down(&self) {
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Acquire)
    }

    /// Calls that were neither answered nor dropped.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::Acquire)
    }
}

/// See the [module](self). Each clone has to get ready by itself, and once for every call.
#[derive(Debug, Default)]
pub(crate) struct Strict {
    script: Arc<Script>,
    ready: bool,
}

impl Strict {
    pub(crate) fn new() -> (Self, Arc<Script>) {
        let script = Arc::new(Script::default());
        (Self { script: Arc::clone(&script), ready: false }, script)
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { script: Arc::clone(&self.script), ready: false }
    }
}

impl Service<i64> for Strict {
    type Response = i64;
    type Error = &'static str;
    type Future = Pin<Box<dyn Future<Output = Result<i64, &'static str>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if self.script.broken.load(Ordering::Acquire) {
            return Poll::Ready(Err("broken"));
        }
        let mut waiting = self.script.waiting.lock().unwrap();
        if self.script.shut.load(Ordering::Acquire) {
            waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: i64) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        self.script.calls.fetch_add(1, Ordering::AcqRel);
        let act = self.script.acts.lock().unwrap().pop_front().unwrap_or(Act::Works);
        let under_way = UnderWay::new(&self.script);
        Box::pin(async move {
            let _until_dropped = under_way;
            match act {
                Act::Works => Ok(request),
                Act::Says(reply) => Ok(reply),
                Act::Fails => Err("failed"),
                Act::Hangs => std::future::pending().await,
                Act::WorksAfter(takes) => {
                    tokio::time::sleep(takes).await;
                    Ok(request)
                }
                Act::FailsAfter(takes) => {
                    tokio::time::sleep(takes).await;
                    Err("failed")
                }
            }
        })
    }
}

struct UnderWay(Arc<Script>);

impl UnderWay {
    fn new(script: &Arc<Script>) -> Self {
        script.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(script))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How a call through a layer ends.
pub(crate) type Ended = Result<i64, quell::CallError<(), &'static str>>;

/// One call, polled by hand.
pub(crate) type Called = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Gets ready and calls; nothing is polled yet.
pub(crate) async fn call(service: &mut QuellService<Strict>, request: i64) -> Called {
    Box::pin(service.ready().await.unwrap().call(request))
}

/// One look at a future.
pub(crate) fn look<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Attempts under way, ghosts, calls in the queue, and tokens.
pub(crate) fn held(quell: &Quell) -> (u32, usize, usize, f64) {
    let now = quell.snapshot();
    (now.in_flight, now.ghosts, now.queued, now.retries.level)
}

/// Drops what it wraps after so many polls, so that every wait gets its turn to be the last.
pub(crate) struct DropAfter<F>(pub(crate) u64, pub(crate) F);

impl<F: Future + Unpin> Future for DropAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0 == 0 {
            return Poll::Ready(None);
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Pin::new(&mut self.1).poll(cx).map(Some)
    }
}

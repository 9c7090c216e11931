//! Held: a claim that is ended whatever becomes of its request.
//!
//! **Why.** Futures are dropped at any await: the caller leaves, the handler panics. A claim that is then forgotten keeps the key
//! from everybody until its lease runs out, and one that is given up after the work was done has it done twice.
//!
//! **How.** The guard knows how far the work is. Dropped before it began, it abandons the claim; dropped after the work was
//! answered, it says that it is done; in between nobody knows, and it goes by [`OnExpiry`]. Work that somebody else does,
//! and goes on with when this is dropped, keeps its claim until the lease runs out. What the guard says to the store is
//! [seen through](see_through): if nobody waits for it any more, a task of its own does.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use quell_core::idempotency::{Ending, OnExpiry};

use crate::{
    Clock,
    http::Statuses,
    store::{Answer, Begun, Claim, Down, Ended, Reply, Request, Store, Unsettled},
};

/// The right to do the work of one key, until it is [settled](Held::settle) or dropped. See [`super::Keys::begin`].
#[must_use = "dropping it gives the key up"]
pub struct Held {
    store: Arc<dyn Store>,
    clock: Clock,
    /// Until it is ended.
    claim: Option<Claim>,
    stage: Stage,
    is_elsewhere: AtomicBool,
}

/// How far the work is.
enum Stage {
    Claimed,
    /// It may have had its effect or not.
    Working,
    Answered(StatusCode),
}

/// A reply's body after its key was [settled](Held::settle).
#[derive(Debug)]
pub enum Settled<B> {
    /// As it was: it is not stored.
    Passing(B),
    /// It was read whole, and is stored.
    Whole(Bytes),
    /// It was to be stored and broke off.
    Broken,
}

/// Asks the store. What it says is not lost if nobody waits for it any more: a claim is then abandoned.
pub(super) async fn begin(
    store: &Arc<dyn Store>,
    clock: &Clock,
    request: Request,
) -> Result<Result<Held, Begun>, Down> {
    let (store, clock) = (store.clone(), clock.clone());
    see_through(async move {
        Ok(match store.begin(&request).await? {
            Begun::Claimed(claim) => Ok(Held {
                store,
                clock,
                claim: Some(claim),
                stage: Stage::Claimed,
                is_elsewhere: AtomicBool::new(false),
            }),
            other => Err(other),
        })
    })
    .await
}

impl Held {
    /// From now on the work may have had its effect. It stops when this is dropped.
    pub fn working(&mut self) {
        self.stage = Stage::Working;
    }

    /// From now on the work may have its effect, and goes on elsewhere if this is dropped: nobody else may begin it before
    /// the lease is over.
    pub fn elsewhere(&self) {
        self.is_elsewhere.store(true, Ordering::Relaxed);
    }

    /// Does the work, and renews the claim as long as that takes.
    pub async fn work<F: Future>(&self, work: F) -> F::Output {
        let (mut work, mut renewing) = (pin!(work), pin!(self.renew()));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => renewing.as_mut().poll(cx).map(|never: Infallible| match never {}),
        })
        .await
    }

    /// Settles the key by what came of the work, before anybody hears of it: what may be given again is stored, what is
    /// too long or streams counts as done, and what may be tried again frees the key. `finals` are statuses of 4xx that
    /// no repetition will change.
    pub async fn settle<B: Body>(
        mut self,
        response: Response<B>,
        finals: &Statuses,
    ) -> Response<Settled<B>> {
        let status = response.status();
        let length = response.body().size_hint().upper();
        match Ending::of(status.as_u16(), finals.contains(status.as_u16()), length) {
            None => {
                self.abandon().await;
                response.map(Settled::Passing)
            }
            Some(Ending::Stored { .. }) => {
                self.stage = Stage::Answered(status);
                let (parts, body) = response.into_parts();
                match self.work(body.collect()).await {
                    Ok(whole) => {
                        let body = whole.to_bytes();
                        let reply = Reply::new(status, &parts.headers, body.clone());
                        self.complete(Ended::Stored(reply)).await;
                        Response::from_parts(parts, Settled::Whole(body))
                    }
                    Err(_) => Response::from_parts(parts, Settled::Broken),
                }
            }
            Some(_) => {
                self.complete(Ended::Unstored { status }).await;
                response.map(Settled::Passing)
            }
        }
    }

    /// The work came to nothing and may be done again: the key is free.
    pub async fn abandon(mut self) {
        if let Some(claim) = self.claim.take() {
            let _ = see_through(abandon(self.store.clone(), claim)).await;
        }
    }

    /// Nobody knows what came of the work. The key is free again, unless its rules are to [hold](OnExpiry::Hold) such keys.
    pub async fn doubt(mut self) {
        match &self.claim {
            Some(claim) if claim.rules.on_expiry() == OnExpiry::Hold => self.claim = None,
            _ => self.abandon().await,
        }
    }

    /// The work is done. That the claim was lost or the store is down changes nothing about that.
    async fn complete(mut self, ended: Ended) {
        if let Some(claim) = self.claim.take() {
            let _ = see_through(complete(self.store.clone(), claim, ended)).await;
        }
    }

    async fn renew(&self) -> Infallible {
        let Some(claim) = &self.claim else { return pending().await };
        let every = claim.rules.lease() / 3;
        loop {
            self.clock.sleep_until(self.clock.now() + every).await;
            if let Err(Unsettled::Stale(_)) = self.store.renew(claim).await {
                return pending().await; // somebody else is at it, and nothing can be done about that
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let store = self.store.clone();
        drop(match self.stage {
            Stage::Answered(status) => {
                see_through(complete(store, claim, Ended::Unstored { status }))
            }
            _ if *self.is_elsewhere.get_mut() => return,
            Stage::Working if claim.rules.on_expiry() == OnExpiry::Hold => return,
            Stage::Working | Stage::Claimed => see_through(abandon(store, claim)),
        });
    }
}

impl fmt::Debug for Held {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

async fn complete(store: Arc<dyn Store>, claim: Claim, ended: Ended) -> Result<(), Unsettled> {
    store.complete(&claim, ended).await
}

async fn abandon(store: Arc<dyn Store>, claim: Claim) -> Result<(), Unsettled> {
    store.abandon(&claim).await
}

/// Runs to its end even if it is dropped: at once if it can, else in a task. Without a runtime the rest is not done, and the
/// lease has to run out.
fn see_through<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> SeeThrough<T> {
    SeeThrough(Some(Box::pin(future)))
}

struct SeeThrough<T: Send + 'static>(Option<Answer<'static, T>>);

impl<T: Send + 'static> Future for SeeThrough<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out for as long as it runs: what panics is not to be run again by `drop`.
        let Some(mut future) = self.0.take() else { return Poll::Pending };
        let output = future.as_mut().poll(cx);
        if output.is_pending() {
            self.0 = Some(future);
        }
        output
    }
}

impl<T: Send + 'static> Drop for SeeThrough<T> {
    fn drop(&mut self) {
        let Some(mut rest) = self.0.take() else { return };
        let now = rest.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if now.is_pending()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(rest));
        }
    }
}

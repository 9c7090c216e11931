//! Held: a claim that is ended whatever becomes of its request.
//!
//! **Why.** Futures are dropped at any await: the caller leaves, the handler panics. A claim that is then forgotten keeps the key
//! from everybody until its lease runs out, and one that is given up after the work was done has it done twice.
//!
//! **How.** The guard knows how far the work is. Dropped before it began, it abandons the claim; dropped after the handler
//! answered, it says that the work is done; in between nobody knows, and it goes by [`OnExpiry`]. What it says to the store is [seen through](see_through): if nobody waits for it any more, a task of
//! its own does.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::StatusCode;
use quell_core::idempotency::OnExpiry;

use crate::{
    Clock,
    store::{Answer, Begun, Claim, Down, Ended, Request, Store, Unsettled},
};

/// See the [module](self).
pub(super) struct Held {
    store: Arc<dyn Store>,
    /// Until it is ended.
    claim: Option<Claim>,
    stage: Stage,
}

/// How far the work is.
enum Stage {
    Claimed,
    /// It may have had its effect or not.
    Working,
    Answered(StatusCode),
}

/// Asks the store. What it says is not lost if nobody waits for it any more: a claim is then abandoned.
pub(super) async fn begin(
    store: &Arc<dyn Store>,
    request: Request,
) -> Result<Result<Held, Begun>, Down> {
    let store = store.clone();
    see_through(async move {
        Ok(match store.begin(&request).await? {
            Begun::Claimed(claim) => Ok(Held { store, claim: Some(claim), stage: Stage::Claimed }),
            other => Err(other),
        })
    })
    .await
}

impl Held {
    /// From now on the work may have had its effect.
    pub(super) fn working(&mut self) {
        self.stage = Stage::Working;
    }

    /// Does the work, and renews the claim as long as that takes.
    pub(super) async fn work<F: Future>(
        &self,
        work: F,
        lease: Duration,
        clock: &Clock,
    ) -> F::Output {
        let (mut work, mut renewing) = (pin!(work), pin!(self.renew(lease / 3, clock)));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => renewing.as_mut().poll(cx).map(|never: Infallible| match never {}),
        })
        .await
    }

    /// From now on the work is done, whatever happens.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.stage = Stage::Answered(status);
    }

    /// The work is done. That the claim was lost or the store is down changes nothing about that.
    pub(super) async fn complete(mut self, ended: Ended) {
        if let Some(claim) = self.claim.take() {
            let _ = see_through(complete(self.store.clone(), claim, ended)).await;
        }
    }

    /// The work may be done again.
    pub(super) async fn abandon(mut self) {
        if let Some(claim) = self.claim.take() {
            let _ = see_through(abandon(self.store.clone(), claim)).await;
        }
    }

    async fn renew(&self, every: Duration, clock: &Clock) -> Infallible {
        loop {
            clock.sleep_until(clock.now() + every).await;
            let Some(claim) = &self.claim else { return pending().await };
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
            Stage::Working if claim.rules.on_expiry() == OnExpiry::Hold => return,
            Stage::Working | Stage::Claimed => see_through(abandon(store, claim)),
        });
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

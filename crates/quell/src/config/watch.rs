//! Watch: a file that is looked at again and again.
//!
//! **Why.** Files come by editors, by links that are switched and by mounted volumes. Their times lie and notifications get lost;
//! content does not. Reading a few kilobytes every few seconds costs nothing.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use quell_config::text;

use super::{
    Changes, Unusable,
    live::{Live, Mark, mark},
};
use crate::Clock;

/// The shortest time between two looks.
const OFTEN: Duration = Duration::from_millis(100);

/// Looks at a file for as long as it is polled: see [`Live::watch`]. It never ends by itself.
#[must_use = "nobody looks at the file before this is polled: spawn it"]
pub struct Watch(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Watch {
    pub(super) fn new(
        live: Live,
        clock: Clock,
        every: Duration,
        mut told: impl FnMut(Result<Changes, Unusable>) + Send + 'static,
    ) -> Self {
        Self(Box::pin(async move {
            let mut fresh = None;
            loop {
                clock.sleep_until(clock.now() + every.max(OFTEN)).await;
                let live = live.clone();
                // A mounted volume may take its time.
                let look = tokio::task::spawn_blocking(move || look(&live, fresh));
                let Ok((next, news)) = look.await else { continue }; // the runtime is going down
                fresh = next;
                if let Some(news) = news {
                    told(news);
                }
            }
        }))
    }
}

/// Takes what was seen twice: something `fresh` may still be in the middle of being written.
fn look(live: &Live, fresh: Option<Mark>) -> (Option<Mark>, Option<Result<Changes, Unusable>>) {
    let content = text(live.path());
    match mark(&content) {
        seen if seen == live.seen() => (None, None),
        again if fresh == Some(again) => (None, Some(live.take(content))),
        first => (Some(first), None),
    }
}

impl Future for Watch {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

//! Peek: looks at the first frame of a reply before it is judged.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use quell_core::Time;

use super::{Peeked, STATUS};
use crate::{Clock, clock::Timer};

/// A reply that says nothing for so long is a stream, and is passed on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Looks at a reply up to its first message or its trailers, for a tenth of a second at most; not at all where its head
/// says all: its status, or that it is not gRPC. See the [module](super).
pub fn peek<B: Body + Unpin>(
    status: StatusCode,
    headers: &HeaderMap,
    body: B,
    clock: Clock,
) -> Peek<B> {
    let is_told = status != StatusCode::OK || headers.contains_key(STATUS);
    let until = if is_told { Time::ZERO } else { clock.now() + PATIENCE };
    Peek { body: Some(body), is_told, clock, until, timer: Timer::default() }
}

pin_project! {
    /// A reply that is being looked at: made by [`peek`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Peek<B> {
        // `None` once it was handed out.
        body: Option<B>,
        is_told: bool,
        clock: Clock,
        until: Time,
        #[pin]
        timer: Timer,
    }
}

impl<B: Body + Unpin> Future for Peek<B> {
    type Output = Peeked<B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Peeked<B>> {
        let this = self.project();
        let Some(mut body) = this.body.take() else {
            return Poll::Ready(Peeked::over()); // nobody polls a future that is done
        };
        if *this.is_told {
            return Poll::Ready(Peeked::passing(body));
        }
        Poll::Ready(match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(first) => Peeked::read(first, body),
            Poll::Pending if this.timer.poll_until(cx, this.clock, *this.until).is_ready() => {
                Peeked::passing(body)
            }
            Poll::Pending => {
                *this.body = Some(body);
                return Poll::Pending;
            }
        })
    }
}

impl<B> fmt::Debug for Peek<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek").field("until", &self.until).finish_non_exhaustive()
    }
}

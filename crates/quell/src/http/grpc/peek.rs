//! Peek: looks at the first frame of a reply before it is judged.

use std::{
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
use crate::{Clock, clock::Timer, http::pool::without_its_bytes};

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

without_its_bytes!(Peek);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    /// A body whose frames come when they are sent.
    struct Sent(mpsc::UnboundedReceiver<Frame<Bytes>>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.0.poll_recv(cx).map(|frame| frame.map(Ok))
        }
    }

    fn message() -> Frame<Bytes> {
        Frame::data(Bytes::from("pens"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_with_nothing_to_say_is_passed_on_after_a_tenth_of_a_second_and_loses_nothing()
    {
        let (send, frames) = mpsc::unbounded_channel();
        let started = tokio::time::Instant::now();
        let body = peek(StatusCode::OK, &HeaderMap::new(), Sent(frames), Clock::tokio()).await;
        assert_eq!(started.elapsed(), PATIENCE);
        assert!(body.trailers().is_none() && !body.is_broken() && !body.is_over());
        send.send(message()).unwrap();
        drop(send);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "pens");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_not_waited_for_any_longer_and_comes_first() {
        let (send, frames) = mpsc::unbounded_channel();
        send.send(message()).unwrap();
        let started = tokio::time::Instant::now();
        let body = peek(StatusCode::OK, &HeaderMap::new(), Sent(frames), Clock::tokio()).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        send.send(message()).unwrap();
        drop(send);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "penspens");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_looks_behind_a_head_that_says_all() {
        let told = HeaderMap::from_iter([(STATUS, "5".parse().unwrap())]);
        for (status, headers) in
            [(StatusCode::OK, told), (StatusCode::BAD_GATEWAY, HeaderMap::new())]
        {
            let (_send, frames) = mpsc::unbounded_channel();
            let started = tokio::time::Instant::now();
            peek(status, &headers, Sent(frames), Clock::tokio()).await;
            assert_eq!(started.elapsed(), Duration::ZERO);
        }
    }
}

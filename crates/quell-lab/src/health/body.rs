//! A body that comes piece by piece, each after a pause: a slow upload, a stream of events, or simply a reply.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

const PIECE: usize = 32 * 1024;
static FILLER: [u8; PIECE] = [b'.'; PIECE];

/// See the [module](self).
pub(crate) struct Paced {
    left: usize,
    piece: usize,
    pause: Duration,
    /// Whether the peer is told how long it will be.
    known: bool,
    next: Option<Pin<Box<Sleep>>>,
    due: Option<Instant>,
}

impl Paced {
    /// So many bytes at once.
    pub(crate) fn at_once(bytes: usize) -> Self {
        Self {
            left: bytes,
            piece: PIECE,
            pause: Duration::ZERO,
            known: true,
            next: None,
            due: None,
        }
    }

    /// So many bytes, of which so many come per second, ten times a second.
    pub(crate) fn upload(bytes: usize, per_second: usize) -> Self {
        let piece = (per_second / 10).clamp(1, PIECE);
        let pause = Duration::from_secs_f64(piece as f64 / per_second.max(1) as f64);
        Self { left: bytes, piece, pause, known: true, next: None, due: None }
    }

    /// Small messages, so far apart, and nobody knows how many.
    pub(crate) fn events(count: u32, pause: Duration) -> Self {
        const EVENT: usize = 48;
        Self {
            left: EVENT * count as usize,
            piece: EVENT,
            pause,
            known: false,
            next: None,
            due: None,
        }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if !self.pause.is_zero() {
            // By absolute instants, so that lateness does not add up.
            if self.next.is_none() {
                let due = self.due.unwrap_or_else(Instant::now) + self.pause;
                self.due = Some(due);
                self.next = Some(Box::pin(sleep_until(due)));
            }
            if let Some(sleep) = &mut self.next {
                ready!(sleep.as_mut().poll(context));
            }
            self.next = None;
        }
        let piece = self.piece.min(self.left);
        self.left -= piece;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&FILLER[..piece])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.known { SizeHint::with_exact(self.left as u64) } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn took(body: Paced) -> (usize, Duration) {
        let begin = Instant::now();
        let bytes = body.collect().await.unwrap().to_bytes().len();
        (bytes, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_the_time_their_pace_gives() {
        assert_eq!(took(Paced::at_once(100_000)).await, (100_000, Duration::ZERO));
        let (bytes, time) = took(Paced::upload(20_480, 2_048)).await;
        assert_eq!(bytes, 20_480);
        assert!(time.abs_diff(Duration::from_secs(10)) < Duration::from_millis(200), "{time:?}");
        let (bytes, time) = took(Paced::events(5, Duration::from_millis(200))).await;
        assert_eq!((bytes, time), (240, Duration::from_secs(1)));
    }
}

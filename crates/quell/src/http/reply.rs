//! Reply bodies: passed on as they come, or read whole while a call sleeps before its next attempt.
//!
//! **Why.** Before a call sleeps, the failed reply has to be off its connection, and must still be there if no later
//! attempt gets a better one. So it is read whole, if it is short. What is too long, or does not come in time, is not
//! lost: the caller gets what was read and then the rest.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use bytes::Bytes;
//! use http_body_util::{BodyExt, Full};
//! use quell::http::{Pool, ReplyBody};
//!
//! let short = ReplyBody::passing(Full::new(Bytes::from("try again later")));
//! let whole = short.keep(Pool::global()).await.unwrap();
//! // … the call sleeps, and its next attempt gets no reply …
//! assert_eq!(whole.collect().await.unwrap().to_bytes(), "try again later");
//!
//! let long = ReplyBody::passing(Full::new(Bytes::from(vec![7; 100_000])));
//! let again = long.keep(Pool::global()).await.unwrap_err();
//! assert_eq!(again.collect().await.unwrap().to_bytes().len(), 100_000);
//! # });
//! ```

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::pool::{Kept, LONGEST_KEPT, Pool, in_one_piece, without_its_bytes};

/// The body of a reply that comes through us. See [`ReplyBody::passing`] and [`ReplyBody::keep`].
pub struct ReplyBody<B: Body> {
    /// What was read in order to keep it; in a box, for hardly any body has it.
    ahead: Option<Box<Ahead<B::Error>>>,
    /// `None` once it is known to be over.
    rest: Option<B>,
}

struct Ahead<E> {
    kept: Kept,
    /// How far it was handed out.
    at: usize,
    /// How it ended, if not well.
    broken: Option<E>,
}

/// Reads a failed reply whole. `Ok` is the whole of it; `Err` is one that is too long, which will give what was read and
/// then the rest. See [`ReplyBody::keep`].
#[must_use = "futures do nothing unless polled"]
pub struct Keep<B: Body>(Option<ReplyBody<B>>);

impl<B: Body> ReplyBody<B> {
    /// A body that is passed on as it comes.
    pub fn passing(body: B) -> Self {
        Self { ahead: None, rest: Some(body) }
    }

    /// A body of one's own, for a reply that no upstream gave.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use http_body_util::{BodyExt, Empty};
    /// use quell::http::ReplyBody;
    ///
    /// let none = ReplyBody::<Empty<bytes::Bytes>>::own("[]");
    /// assert_eq!(none.collect().await.unwrap().to_bytes(), "[]");
    /// # });
    /// ```
    pub fn own(bytes: impl Into<Bytes>) -> Self {
        Self::begun(Some(Ok(Frame::data(bytes.into()))), None)
    }

    /// A body of which one frame was read before, or how it broke off; the rest is `None` if it is known to be over.
    pub(super) fn begun(first: Option<Result<Frame<Bytes>, B::Error>>, rest: Option<B>) -> Self {
        let ahead = first.map(|first| {
            let (mut kept, mut broken) = (Kept::new(Pool::global()), None);
            match first {
                Ok(frame) => drop(kept.push(&frame)), // kept even where the pool is full
                Err(error) => broken = Some(error),
            }
            Box::new(Ahead { kept, at: 0, broken })
        });
        Self { ahead, rest }
    }

    /// What was read of it ahead of whoever gets it, up to so many bytes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use quell::http::{Pool, ReplyBody};
    ///
    /// let whole = ReplyBody::passing(Full::new(Bytes::from("no such order"))).keep(Pool::global()).await.unwrap();
    /// assert_eq!(whole.ahead(7), b"no such");
    /// # });
    /// ```
    pub fn ahead(&self, most: usize) -> Vec<u8> {
        let (mut read, mut at) = (Vec::new(), 0);
        let Some(ahead) = &self.ahead else { return read };
        while let Some(frame) = ahead.kept.next(&mut at) {
            let Some(data) = frame.data_ref().filter(|_| read.len() < most) else { break };
            read.extend_from_slice(&data[..data.len().min(most - read.len())]);
        }
        read
    }

    /// Reads it whole, trailers too, if it is no longer than 64 KiB and the pool has room. A body that breaks off counts
    /// as whole: whoever gets it sees what the upstream sent and then the same error, and the next attempt need not
    /// wait for a better ending.
    pub fn keep(mut self, pool: &Pool) -> Keep<B> {
        let ahead = || Box::new(Ahead { kept: Kept::new(pool), at: 0, broken: None });
        self.ahead.get_or_insert_with(ahead);
        Keep(Some(self))
    }
}

impl<B: Body> Keep<B> {
    /// The time for it is over: gives what was read, and then the rest.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use bytes::Bytes;
    /// use http_body_util::{BodyExt, Full};
    /// use quell::http::{Pool, ReplyBody};
    ///
    /// let keep = ReplyBody::passing(Full::new(Bytes::from("slow"))).keep(Pool::global());
    /// assert_eq!(keep.give_up().collect().await.unwrap().to_bytes(), "slow");
    /// # });
    /// ```
    pub fn give_up(self) -> ReplyBody<B> {
        // A future that was driven to its end has handed its body out.
        self.0.unwrap_or(ReplyBody { ahead: None, rest: None })
    }
}

impl<B: Body + Unpin> ReplyBody<B> {
    /// `Ready` with whether all of it is there.
    fn poll_whole(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(ahead) = &mut self.ahead else { return Poll::Ready(false) };
        while let Some(rest) = &mut self.rest {
            if rest.size_hint().lower() > LONGEST_KEPT as u64 {
                return Poll::Ready(false);
            }
            match ready!(Pin::new(&mut *rest).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let fits = ahead.kept.push(&in_one_piece(frame));
                    if rest.is_end_stream() {
                        self.rest = None;
                    }
                    if !fits {
                        return Poll::Ready(false);
                    }
                }
                Some(Err(error)) => (ahead.broken, self.rest) = (Some(error), None),
                None => self.rest = None,
            }
        }
        Poll::Ready(true)
    }
}

impl<B: Body + Unpin> Future for Keep<B> {
    type Output = Result<ReplyBody<B>, ReplyBody<B>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(body) = &mut self.0 else { return Poll::Pending };
        let whole = ready!(body.poll_whole(cx));
        match self.0.take() {
            Some(body) if whole => Poll::Ready(Ok(body)),
            Some(body) => Poll::Ready(Err(body)),
            None => Poll::Pending,
        }
    }
}

impl<B: Body + Unpin> Body for ReplyBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Self { ahead, rest } = self.get_mut();
        if let Some(read) = ahead {
            if let Some(frame) = read.kept.next(&mut read.at) {
                return Poll::Ready(Some(Ok(frame)));
            }
            let broken = read.broken.take();
            *ahead = None;
            if let Some(error) = broken {
                return Poll::Ready(Some(Err(error)));
            }
        }
        match rest {
            Some(rest) => Pin::new(rest).poll_frame(cx).map_ok(in_one_piece),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let handed_out = |ahead: &Ahead<_>| ahead.kept.is_over(ahead.at) && ahead.broken.is_none();
        self.ahead.as_deref().is_none_or(handed_out)
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let Some(ahead) = &self.ahead else { return rest };
        let left = ahead.kept.left(ahead.at) as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(left));
        // How long a broken body was to be, nobody knows.
        if let (Some(upper), None) = (rest.upper(), &ahead.broken) {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}

without_its_bytes!(ReplyBody Keep);

//! Request bodies that can be sent twice, as long as they are short.
//!
//! **Why.** A retry needs the whole body again, and the caller sends it only once. Keeping every body would let
//! callers fill our memory; keeping none would forbid retries of all that have one.
//!
//! **How.** While a body streams to the upstream it is copied, up to a cap and within a pool that the whole process
//! shares. A later attempt gets the copy first and then whatever the caller has not sent yet. A body that outgrows cap
//! or pool streams on, once: it is not failed, it only can no longer be repeated. Requests that may not be repeated
//! anyway are not copied.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::watch::Watch;

/// The longest body that is kept, of either way.
pub(super) const CAP: usize = 64 * 1024;
/// What all kept bodies of the process may take together.
const POOL: usize = 64 * 1024 * 1024;

/// Memory for kept bodies, bounded for the whole process.
#[derive(Debug, Default)]
pub(super) struct Memory(AtomicUsize);

/// A part of the [`Memory`], returned when dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Reserved {
    pub(super) fn none(memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0 }
    }

    /// Makes it larger, unless it would outgrow the cap or the pool.
    pub(super) fn grow(&mut self, by: usize) -> bool {
        if self.bytes + by > CAP {
            return false;
        }
        if self.memory.0.fetch_add(by, Ordering::Relaxed) + by > POOL {
            self.memory.0.fetch_sub(by, Ordering::Relaxed);
            return false;
        }
        self.bytes += by;
        true
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A caller's body, from which every attempt takes its own.
#[derive(Debug)]
pub(super) enum Source {
    Empty,
    Stream(Rc<RefCell<Stream>>),
}

#[derive(Debug)]
pub(super) struct Stream {
    rest: Incoming,
    done: bool,
    copy: Option<(Vec<u8>, Reserved)>,
    /// The attempt that reads; those before it have been cut off.
    turn: u32,
    failed: bool,
    length: SizeHint,
    watch: Rc<Watch>,
}

impl Source {
    pub(super) fn new(body: Incoming, keep: bool, memory: &Arc<Memory>, watch: &Rc<Watch>) -> Self {
        if body.is_end_stream() {
            return Self::Empty;
        }
        let length = body.size_hint();
        // What is known to be too long is not begun.
        let keep = keep && length.lower() <= CAP as u64;
        Self::Stream(Rc::new(RefCell::new(Stream {
            rest: body,
            done: false,
            copy: keep.then(|| (Vec::new(), Reserved::none(memory))),
            turn: 0,
            failed: false,
            length,
            watch: Rc::clone(watch),
        })))
    }

    /// The body from its beginning, for a new attempt.
    pub(super) fn open(&self) -> RequestBody {
        match self {
            Self::Empty => RequestBody::Empty,
            Self::Stream(stream) => {
                let mut inner = stream.borrow_mut();
                inner.turn += 1;
                RequestBody::Stream { stream: Rc::clone(stream), turn: inner.turn, at: 0 }
            }
        }
    }

    /// Whether another attempt would get all of it.
    pub(super) fn is_replayable(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream(stream) => stream.borrow().copy.is_some(),
        }
    }

    /// Whether the caller broke off in the middle of it.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Stream(stream) if stream.borrow().failed)
    }
}

/// The body of one attempt.
#[derive(Debug)]
pub(super) enum RequestBody {
    Empty,
    Stream { stream: Rc<RefCell<Stream>>, turn: u32, at: usize },
}

/// Why a request body ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the caller's body broke off: {0}")]
    Caller(#[from] hyper::Error),
    #[error("another attempt reads the body now")]
    CutOff,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Stream { stream, turn, at } => stream.borrow_mut().poll(*turn, at, cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream { stream, at, .. } => {
                let stream = stream.borrow();
                stream.done && stream.copy.as_ref().is_none_or(|(copy, _)| *at == copy.len())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream { stream, .. } => stream.borrow().length,
        }
    }
}

impl Stream {
    fn poll(
        &mut self,
        turn: u32,
        at: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if turn != self.turn {
            return Poll::Ready(Some(Err(Broken::CutOff)));
        }
        if let Some((copy, _)) = &self.copy
            && *at < copy.len()
        {
            let bytes = Bytes::copy_from_slice(&copy[*at..]);
            *at = copy.len();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        loop {
            if self.done {
                return Poll::Ready(None);
            }
            let polled = Pin::new(&mut self.rest).poll_frame(cx);
            self.watch.reading(polled.is_pending());
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.done = true,
                Poll::Ready(Some(Err(error))) => {
                    self.failed = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    self.done = self.rest.is_end_stream();
                    // Trailers end here: their announcement is a hop-by-hop field.
                    if let Ok(bytes) = frame.into_data() {
                        *at += bytes.len();
                        self.copy(&bytes);
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                }
            }
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        if let Some((copy, reserved)) = &mut self.copy {
            if reserved.grow(bytes.len()) {
                copy.extend_from_slice(bytes);
            } else {
                self.copy = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bodies_are_bounded_each_and_together_and_give_back_what_they_took() {
        let memory = Arc::new(Memory::default());
        let mut one = Reserved::none(&memory);
        assert!(one.grow(CAP) && !one.grow(1));
        let mut all: Vec<_> = (1..POOL / CAP).map(|_| Reserved::none(&memory)).collect();
        assert!(all.iter_mut().all(|reserved| reserved.grow(CAP)));
        let mut more = Reserved::none(&memory);
        assert!(!more.grow(1));
        drop(one);
        assert!(more.grow(CAP));
        drop((all, more));
        assert_eq!(memory.0.load(Ordering::Relaxed), 0);
    }
}

//! Pool: memory for bodies that are kept, bounded for the whole process.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

/// The longest body that is kept, of either way.
pub const LONGEST_KEPT: usize = 64 * 1024;
/// What all kept bodies of a process may take together.
const USUAL: usize = 64 * 1024 * 1024;
/// More pieces than this are put together: a body that comes byte by byte must not cost more than its bytes.
const PIECES: usize = 64;

/// Memory for kept bodies. A body that is kept for another attempt is memory that callers fill; one pool for all of them
/// is a bound for all of them. What does not fit is not refused, it only cannot be repeated. Cheap to clone.
///
/// ```
/// use quell::http::Pool;
///
/// let small = Pool::new(1024 * 1024);
/// assert_eq!((small.size(), small.used()), (1024 * 1024, 0));
/// assert_eq!(Pool::global().size(), 64 * 1024 * 1024);
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    used: AtomicUsize,
    size: usize,
}

impl Pool {
    /// A pool of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Shared { used: AtomicUsize::new(0), size: bytes }))
    }

    /// The pool of this process, of 64 MiB: what everybody uses who has no reason not to.
    pub fn global() -> &'static Self {
        static GLOBAL: LazyLock<Pool> = LazyLock::new(|| Pool::new(USUAL));
        &GLOBAL
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// How many of them are taken.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("used", &self.used()).field("size", &self.size()).finish()
    }
}

/// A part of the pool, returned when dropped.
pub(super) struct Reserved {
    pool: Pool,
    bytes: usize,
}

impl Reserved {
    /// Nothing of it yet.
    pub(super) fn of(pool: &Pool) -> Self {
        Self { pool: pool.clone(), bytes: 0 }
    }

    /// Makes it larger, unless it would outgrow the longest body or the pool.
    pub(super) fn grow(&mut self, by: usize, longest: usize) -> bool {
        if by > longest - self.bytes {
            return false;
        }
        let Shared { used, size } = &*self.pool.0;
        if used.fetch_add(by, Ordering::Relaxed) + by > *size {
            used.fetch_sub(by, Ordering::Relaxed);
            return false;
        }
        self.bytes += by;
        true
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.pool.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The frames of a body from its beginning, as they came: pieces are shared, not copied.
pub(super) struct Kept {
    pieces: Vec<Bytes>,
    /// Of all pieces together.
    length: usize,
    trailers: Option<HeaderMap>,
    reserved: Reserved,
}

impl Kept {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { pieces: Vec::new(), length: 0, trailers: None, reserved: Reserved::of(pool) }
    }

    /// All of a body, for which there was room.
    #[cfg(feature = "keys")]
    pub(super) fn whole(bytes: Bytes, reserved: Reserved) -> Self {
        Self { length: bytes.len(), pieces: vec![bytes], trailers: None, reserved }
    }

    /// Adds a frame, and says whether there was room for it.
    pub(super) fn push(&mut self, frame: &Frame<Bytes>) -> bool {
        if let Some(data) = frame.data_ref() {
            if !data.is_empty() {
                if self.pieces.len() == PIECES {
                    self.put_together();
                }
                self.pieces.push(data.clone());
                self.length += data.len();
            }
            return self.reserved.grow(data.len().max(1), LONGEST_KEPT); // empty ones are not free, or they could be endless
        }
        let Some(trailers) = frame.trailers_ref() else { return true };
        let size = trailers.iter().map(|(name, value)| name.as_str().len() + value.len());
        let size = size.sum();
        self.trailers = Some(trailers.clone());
        self.reserved.grow(size, LONGEST_KEPT)
    }

    fn put_together(&mut self) {
        let mut all = BytesMut::with_capacity(self.length);
        for piece in self.pieces.drain(..) {
            all.extend_from_slice(&piece);
        }
        self.pieces.push(all.freeze());
    }

    /// What comes next for somebody who has read so far; see [`weight`].
    pub(super) fn next(&self, at: &mut usize) -> Option<Frame<Bytes>> {
        let mut end = 0;
        for piece in &self.pieces {
            let start = end;
            end += piece.len();
            if *at < end {
                let rest = piece.slice(*at - start..);
                *at = end;
                return Some(Frame::data(rest));
            }
        }
        let trailers = self.trailers.as_ref().filter(|_| *at == self.length)?;
        *at += 1;
        Some(Frame::trailers(trailers.clone()))
    }

    /// How many bytes are left for somebody who has read so far.
    pub(super) fn left(&self, at: usize) -> usize {
        self.length.saturating_sub(at)
    }

    pub(super) fn is_over(&self, at: usize) -> bool {
        at >= self.length + usize::from(self.trailers.is_some())
    }
}

/// How far a frame takes its reader: its bytes, or one step for the trailers, which come last.
pub(super) fn weight(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(1, Bytes::len)
}

/// The frame with its data in one piece; for [`Bytes`] nothing is copied.
pub(super) fn in_one_piece<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

/// `Debug` for bodies: what is in one is nobody's business.
macro_rules! without_its_bytes {
    ($($name:ident)+) => {$(
        impl<B: Body> std::fmt::Debug for $name<B> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}
pub(super) use without_its_bytes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_bodies_are_bounded_each_and_together_and_give_back_what_they_took() {
        let pool = Pool::new(3 * LONGEST_KEPT);
        let reserve = || Reserved::of(&pool);
        let grow = |part: &mut Reserved, by| part.grow(by, LONGEST_KEPT);
        let (mut one, mut two, mut three, mut more) = (reserve(), reserve(), reserve(), reserve());
        assert!(grow(&mut one, LONGEST_KEPT) && !grow(&mut one, 1) && !grow(&mut two, usize::MAX));
        assert!(grow(&mut two, LONGEST_KEPT) && grow(&mut three, LONGEST_KEPT));
        assert!(!grow(&mut more, 1));
        drop(one);
        assert!(grow(&mut more, LONGEST_KEPT));
        drop((two, three, more));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_body_that_comes_byte_by_byte_is_held_in_few_pieces() {
        let mut kept = Kept::new(&Pool::new(LONGEST_KEPT));
        for n in 0..LONGEST_KEPT {
            assert!(kept.push(&Frame::data(Bytes::from(vec![n as u8]))));
            assert!(kept.pieces.len() <= PIECES);
        }
        assert!(!kept.push(&Frame::data(Bytes::from_static(b"x"))));
        let (mut at, mut read) = (0, Vec::new());
        while let Some(frame) = kept.next(&mut at) {
            read.extend_from_slice(frame.data_ref().unwrap());
        }
        assert!(read[..LONGEST_KEPT].iter().enumerate().all(|(n, byte)| n as u8 == *byte));
    }
}

//! Inbox: bytes that came and were not looked at yet.
//!
//! Reading goes through one buffer per core: connections that rest hold no memory. What follows of a long body is read
//! into memory of its own and handed on without a copy.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// How much is read at a time.
const SCRATCH: usize = 64 * 1024;
/// How much of a long body is read at a time, and the least room for which reading is worth it.
const LONG: usize = 128 * 1024;
const LEAST: usize = 16 * 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH]);
}

/// Reads once, up to `most` bytes, and shows what came. None is the end.
pub(crate) fn poll_read<T>(
    io: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    most: usize,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    READ.with_borrow_mut(|room| {
        let most = most.min(room.len());
        let mut room = ReadBuf::new(&mut room[..most]);
        ready!(Pin::new(io).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(take(room.filled())))
    })
}

/// Room for what follows of a long body.
#[derive(Debug, Default)]
pub(crate) struct Long(BytesMut);

impl Long {
    /// Whether so much more of a body is read this way.
    pub(crate) fn is_worth(left: u64) -> bool {
        left >= LEAST as u64
    }

    /// Reads once, up to `most` bytes. None is the end.
    pub(crate) fn poll_read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
        most: u64,
    ) -> Poll<io::Result<Bytes>> {
        if self.0.capacity() < LEAST {
            self.0.reserve(LONG); // what was handed on is used again, once nobody has it any more
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut limited = bytes::BufMut::limit(&mut self.0, most);
        ready!(pin!(io.read_buf(&mut limited)).poll(cx))?;
        Poll::Ready(Ok(self.0.split().freeze()))
    }
}

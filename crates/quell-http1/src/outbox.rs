//! Outbox: what is to be written, in as few calls as can be.
//!
//! Short pieces are put together; a long one is written from where it is, behind them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// A longer piece is not copied.
const SHORT: usize = 8 * 1024;
/// A larger buffer is not kept for the next message; most heads fit into this.
const KEPT: usize = 1024;
/// So much waits at most before more is taken.
const ENOUGH: usize = 16 * 1024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Written up to `at`.
    short: Vec<u8>,
    at: usize,
    long: Bytes,
    /// What ends the long one.
    tail: &'static [u8],
    /// Whether some of what was written may not have reached the socket.
    unflushed: bool,
}

impl Outbox {
    /// To be added to. Nothing long may be waiting.
    pub(crate) fn short(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.long.is_empty() && self.tail.is_empty());
        &mut self.short
    }

    /// Whether there is room for another piece.
    pub(crate) fn has_room(&self) -> bool {
        self.long.is_empty() && self.tail.is_empty() && self.short.len() - self.at < ENOUGH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0 && !self.unflushed
    }

    /// How much is to be written.
    pub(crate) fn left(&self) -> usize {
        self.short.len() - self.at + self.long.len() + self.tail.len()
    }

    /// Adds a piece of a body, in a chunk of its own or as it is.
    pub(crate) fn push(&mut self, data: Bytes, is_chunk: bool) {
        if data.is_empty() {
            return; // an empty chunk would end the body
        }
        if is_chunk {
            size(&mut self.short, data.len());
        }
        let tail: &[u8] = if is_chunk { b"\r\n" } else { b"" };
        if data.len() <= SHORT {
            self.short.extend_from_slice(&data);
            self.short.extend_from_slice(tail);
        } else {
            (self.long, self.tail) = (data, tail);
        }
    }

    /// Writes until nothing is left and all of it has reached the socket.
    pub(crate) fn poll_write(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left() > 0 {
            let short = &self.short[self.at..];
            let written = if self.long.is_empty() && self.tail.is_empty() {
                ready!(Pin::new(&mut *io).poll_write(cx, short))?
            } else {
                let parts =
                    [IoSlice::new(short), IoSlice::new(&self.long), IoSlice::new(self.tail)];
                let parts = if short.is_empty() { &parts[1..] } else { &parts };
                ready!(Pin::new(&mut *io).poll_write_vectored(cx, parts))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.passed(written);
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(io).poll_flush(cx))?;
            self.unflushed = false;
        }
        if self.short.capacity() > KEPT {
            self.short = Vec::new(); // a connection that rests holds little memory
        }
        self.short.clear();
        self.at = 0;
        Poll::Ready(Ok(()))
    }

    fn passed(&mut self, written: usize) {
        let short = written.min(self.short.len() - self.at);
        self.at += short;
        let long = (written - short).min(self.long.len());
        self.long.advance(long);
        self.tail = &self.tail[written - short - long..];
        if self.long.is_empty() {
            self.long = Bytes::new(); // whoever lent it may use it again
        }
    }
}

/// A chunk's size, in a line of its own.
fn size(out: &mut Vec<u8>, size: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| DIGITS[size >> (4 * digit) & 15]));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_hexadecimal_digits_without_zeros_before_them() {
        for n in [0, 1, 9, 10, 15, 16, 255, 256, 4095, 65_536, usize::MAX] {
            let mut out = Vec::new();
            size(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{n:x}\r\n"));
        }
    }

    #[test]
    fn what_was_written_in_part_goes_on_where_it_stopped() {
        let mut out = Outbox::default();
        out.short().extend_from_slice(b"head");
        let long = Bytes::from(vec![b'x'; SHORT + 1]);
        out.push(long.clone(), true);
        let all = [b"head2001\r\n".as_slice(), &long, b"\r\n"].concat();
        let mut seen = Vec::new();
        while !out.is_empty() {
            let left = [&out.short[out.at..], &out.long, out.tail].concat();
            let count = left.len().min(7);
            seen.extend_from_slice(&left[..count]);
            out.passed(count);
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn an_empty_piece_does_not_end_a_body_in_chunks() {
        let mut out = Outbox::default();
        out.push(Bytes::new(), true);
        assert!(out.is_empty());
    }
}

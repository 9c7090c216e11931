//! A caller's socket: only what passes the gate is read from it, and what it waits for is noted.
//!
//! **Why.** The gate has to stand before the parser, and the parser reads from the socket. A request that is refused
//! must not reach the parser in any part, yet its caller must get an answer.
//!
//! **How.** Bytes are read into the parser's own buffer and looked at there; nothing is copied. Only a head that came in
//! parts is held back until it is complete. After a refusal nothing more is read: the replies that are under way are
//! finished, then the socket writes its own, and to the parser the connection seems to have ended.
//!
//! A connection that is closed while its caller still sends would be reset, and the caller might never see the reply.
//! So what still comes is read and thrown away for a moment: 64 KiB or a second, whichever is first.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::gate::{Gate, Malformed, Phase, Refused};
use super::watch::Watch;

/// How much of what a caller still sends is read before the connection is closed.
const MOST_UNREAD: usize = 1024 * 1024;

/// Who is told of every request that was refused here.
pub(super) type OnRefusal = Rc<dyn Fn(&Malformed)>;

/// See the [module](self).
pub(super) struct Socket<S> {
    stream: S,
    watch: Rc<Watch>,
    gate: Gate,
    /// Bytes that could not be given to the parser at once: they have passed, up to `passed`, or belong to a head that
    /// is not complete.
    held: Vec<u8>,
    given: usize,
    passed: usize,
    end: End,
    /// How much more is read though nobody wants it.
    unread: usize,
    on_refusal: OnRefusal,
}

#[derive(Debug)]
enum End {
    /// Not in sight.
    Open,
    /// The parser is told that nothing more comes, in the middle of a body.
    Broken,
    /// A reply of ours is to be written, and so much of it was.
    Refused(Vec<u8>, usize),
    /// We have said our last word, and wait for the caller's.
    Lingering,
    Over,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(super) fn new(stream: S, watch: Rc<Watch>, on_refusal: OnRefusal) -> Self {
        Self {
            stream,
            watch,
            gate: Gate::new(),
            held: Vec::new(),
            given: 0,
            passed: 0,
            end: End::Open,
            unread: MOST_UNREAD,
            on_refusal,
        }
    }

    /// The connection without HTTP, and what was read from it already, by the parser and here.
    pub(super) fn into_raw(self, parsed: Bytes) -> (S, Bytes) {
        let held = &self.held[self.given..];
        let ahead = if held.is_empty() { parsed } else { [&parsed[..], held].concat().into() };
        (self.stream, ahead)
    }

    /// Leaves in the buffer, from here on, what passes of the bytes that were read into it.
    fn sift(&mut self, buffer: &mut ReadBuf<'_>, from: usize) {
        let fresh = &buffer.filled()[from..];
        let count = fresh.len();
        let (look, pass_now) = if self.held.is_empty() {
            let look = self.gate.look(fresh);
            if look.refused.is_none() && look.pass < count {
                self.held.extend_from_slice(&fresh[look.pass..]);
            }
            (look, look.pass)
        } else {
            self.held.extend_from_slice(fresh);
            let look = self.gate.look(&self.held);
            self.passed = look.pass;
            (look, 0)
        };
        buffer.set_filled(from + pass_now);
        self.watch.came(count, self.gate.phase());
        match look.refused {
            None => {}
            Some(Refused::Body(_)) => self.end = End::Broken,
            Some(Refused::Request(malformed)) => {
                (self.on_refusal)(&malformed);
                self.end = End::Refused(malformed.reply(), 0);
            }
        }
    }

    /// Gives what has passed of the held bytes.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = buffer.remaining().min(self.passed - self.given);
        buffer.put_slice(&self.held[self.given..self.given + count]);
        self.given += count;
        if self.given == self.passed {
            self.held.drain(..self.passed);
            (self.given, self.passed) = (0, 0);
            if self.held.is_empty() {
                self.held = Vec::new(); // a connection that rests holds no memory
            }
        }
    }

    /// After a refusal: waits until nothing else is to be said, and says why. To the parser nothing more comes.
    fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.watch.is_quiet() {
            // Reads on only to notice a caller who leaves. The last flush wakes us.
            ready!(self.poll_throw_away(cx, buffer))?;
            return if self.unread > 0 { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        if let End::Refused(reply, written) = &mut self.end {
            while *written < reply.len() {
                let polled = Pin::new(&mut self.stream).poll_write(cx, &reply[*written..]);
                self.watch.writing(polled.is_pending());
                match ready!(polled)? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => *written += count,
                }
            }
        }
        self.poll_linger(cx)
    }

    /// Closes our half, and reads on until the caller closes its own or a bound is reached; the watch has the time.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !matches!(self.end, End::Lingering | End::Over) {
            let _ = ready!(Pin::new(&mut self.stream).poll_shutdown(cx)); // it may be gone already
            self.watch.lingering();
            self.end = End::Lingering;
        }
        if let End::Lingering = self.end {
            let _ = ready!(self.poll_throw_away(cx, &mut ReadBuf::new(&mut [0; 1024])));
            self.end = End::Over;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the caller has closed its half, or when enough was thrown away.
    fn poll_throw_away(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        while self.unread > 0 {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            let count = buffer.filled().len() - before;
            buffer.set_filled(before);
            if count == 0 {
                break;
            }
            self.unread = self.unread.saturating_sub(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let from = buffer.filled().len();
        if this.watch.is_tunnel() && this.gate.phase() != Phase::Open {
            this.gate.open();
            this.passed = this.held.len();
        }
        loop {
            if this.given < this.passed {
                this.give(buffer);
                return Poll::Ready(Ok(()));
            }
            match this.end {
                End::Open => {}
                End::Broken | End::Over => return Poll::Ready(Ok(())),
                End::Refused(..) | End::Lingering => return this.poll_refuse(cx, buffer),
            }
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
            if buffer.filled().len() == from {
                return Poll::Ready(Ok(()));
            }
            this.sift(buffer, from);
            if buffer.filled().len() > from {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch.writing(polled.is_pending());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.watch.writing(polled.is_pending());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch.writing(polled.is_pending());
        // The parser flushes when it has written all it has.
        if polled.is_ready() && self.watch.flushed() && matches!(self.end, End::Refused(..)) {
            cx.waker().wake_by_ref();
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let may_send_more = self.gate.phase() == Phase::Body || !matches!(self.end, End::Open);
        if may_send_more {
            self.poll_linger(cx)
        } else {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }
}

//! Io: the kinds of sockets that bytes come and go through, as one type.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

use super::listen::{Prefixed, Stream};

/// See the [module](self). TLS is boxed: it is large, and an enum is as large as its largest.
#[derive(Debug)]
pub(super) enum Io {
    Plain(Stream),
    Detected(Prefixed<Stream>),
    Accepted(Box<server::TlsStream<Stream>>),
    Connected(Box<client::TlsStream<TcpStream>>),
    /// Somebody else has it now.
    Closed,
}

impl Io {
    pub(super) fn tcp(stream: TcpStream) -> Self {
        Self::Plain(Stream::Tcp(stream))
    }
}

/// Calls the same on whichever it is.
macro_rules! each {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Io::Plain($io) => $call,
            Io::Detected($io) => $call,
            Io::Accepted($io) => $call,
            Io::Connected($io) => $call,
            Io::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Detected(io) => io.is_write_vectored(),
            Self::Accepted(io) => io.is_write_vectored(),
            Self::Connected(io) => io.is_write_vectored(),
            Self::Closed => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}

/// Runs what HTTP/2 has to do on the side on this very core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move { drop(future.await) });
    }
}

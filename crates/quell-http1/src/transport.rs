//! Transport: what a connection of HTTP/1 runs over.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes both ways: a socket, with TLS or without.
pub trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// One that is closed: it stands in for a transport that somebody else has taken.
    fn closed() -> Self;

    /// Whether the other end is known to have closed it, with something unread before that or not. Asked now and then, of
    /// a connection that nothing is read from.
    fn is_closed(&self) -> bool;
}

/// A connection that HTTP has let go of, and what was read from it already.
#[derive(Debug)]
pub struct Raw<I> {
    /// The transport itself.
    pub io: I,
    /// What was read from it and belongs to whatever comes after HTTP.
    pub ahead: Bytes,
}

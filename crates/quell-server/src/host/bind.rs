//! Bind: a socket that listens.
//!
//! **Why.** The standard library cannot say how many may wait, nor let several threads share a port. Both are needed wherever a
//! herd may come.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted: a herd must reach the queue, not die before it.
pub(crate) const BACKLOG: i32 = 4096;

/// A listener of its own, or one that shares its port with others of this process.
pub(crate) fn bind(addr: SocketAddr, shared: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

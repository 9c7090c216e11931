//! Where callers come in: TCP with a listener per core, or one Unix socket that all cores share.
//!
//! **Why.** A caller on the same machine needs no port, and file permissions say who may call. Whatever the door, what
//! comes through it is a [`Stream`] and a [`Peer`], and a drain lets in whoever stands in the kernel's queue.
//!
//! **How.** [`tcp`] and [`unix`] give one [`Bound`] per core, which can be sent to the core's thread; there
//! [`Bound::open`] makes a [`Listener`] of it. On TCP the kernel spreads callers over the cores (`SO_REUSEPORT`). A
//! Unix socket has no such thing: the cores hold duplicates of one socket, all are woken and one of them gets the caller.
//!
//! A Unix socket's file is readable and writable for its owner and group. One that was left behind is taken away only if
//! nobody answers on it. Ours is taken away when a drain begins, or with the last listener.

mod detect;
mod file;
mod stream;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::host::bind::{BACKLOG, bind};
pub(super) use crate::host::tls::Version;
pub(super) use detect::{Prefixed, detect};
pub(super) use stream::Stream;

use file::SocketFile;

/// Who called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// From this address; an IPv4 address is never written as an IPv6 one.
    Ip(IpAddr),
    /// From this machine, through the Unix socket.
    Unix,
}

/// One core's part of a socket that listens, on its way to the core.
#[derive(Debug)]
pub(super) enum Bound {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, Arc<SocketFile>),
}

/// One listener per core on one address; port 0 takes a free one.
pub(super) fn tcp(addr: SocketAddr, cores: usize) -> io::Result<Vec<Bound>> {
    if addr.port() != 0 {
        drop(bind(addr, false)?); // a port shared by mistake with another process is found here
    }
    let first = bind(addr, true)?;
    let addr = first.local_addr()?;
    let rest = (1..cores).map(|_| bind(addr, true));
    std::iter::once(Ok(first)).chain(rest).map(|bound| bound.map(Bound::Tcp)).collect()
}

/// One listener per core on one Unix socket.
pub(super) fn unix(path: &Path, cores: usize) -> io::Result<Vec<Bound>> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let addr = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&addr) {
        if error.kind() != ErrorKind::AddrInUse {
            return Err(error);
        }
        file::remove_stale(path, &addr)?;
        socket.bind(&addr)?;
    }
    // Nobody can connect before `listen`, so nobody gets in before the permissions are right.
    let file = Arc::new(SocketFile::protect(path)?);
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    let first = std::os::unix::net::UnixListener::from(socket);
    let rest: io::Result<Vec<_>> = (1..cores).map(|_| first.try_clone()).collect();
    let all = rest?.into_iter().chain([first]);
    Ok(all.map(|listener| Bound::Unix(listener, Arc::clone(&file))).collect())
}

impl Bound {
    /// Where callers come in, if that is an address.
    pub(super) fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Begins to listen in the present runtime.
    pub(super) fn open(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(listener) => TcpListener::from_std(listener).map(Listener::Tcp),
            Self::Unix(listener, file) => {
                UnixListener::from_std(listener).map(|listener| Listener::Unix(listener, file))
            }
        }
    }
}

/// One core's listener.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Arc<SocketFile>),
}

impl Listener {
    /// The next caller. Small writes go out at once.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                listener.accept().await.map(|(stream, peer)| over_tcp(stream, peer))
            }
            Self::Unix(listener, _) => {
                listener.accept().await.map(|(stream, _)| (Stream::Unix(stream), Peer::Unix))
            }
        }
    }

    /// Lets in whoever stands in the kernel's queue, and listens no more.
    pub(super) fn drain(self, enter: impl FnMut((Stream, Peer))) {
        // Asks the kernel itself: the runtime may not have heard of the last ones yet.
        match self {
            Self::Tcp(listener) => {
                let Ok(listener) = listener.into_std() else { return };
                let accept = || {
                    let (stream, peer) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok(over_tcp(TcpStream::from_std(stream)?, peer))
                };
                queued(accept, enter);
            }
            Self::Unix(listener, file) => {
                file.remove(); // from here on nobody joins the queue
                let Ok(listener) = listener.into_std() else { return };
                let accept = || {
                    let (stream, _) = listener.accept()?;
                    stream.set_nonblocking(true)?;
                    Ok((Stream::Unix(UnixStream::from_std(stream)?), Peer::Unix))
                };
                queued(accept, enter);
            }
        }
    }
}

fn over_tcp(stream: TcpStream, peer: SocketAddr) -> (Stream, Peer) {
    let _ = stream.set_nodelay(true); // a caller who has already gone is noticed soon enough
    (Stream::Tcp(stream), Peer::Ip(peer.ip().to_canonical()))
}

/// Accepts until nobody waits, at most as many as can wait.
fn queued<T>(mut accept: impl FnMut() -> io::Result<T>, mut enter: impl FnMut(T)) {
    for _ in 0..BACKLOG {
        match accept() {
            Ok(caller) => enter(caller),
            Err(error) => match error.kind() {
                ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {} // that one only
                _ => return,
            },
        }
    }
}

#[cfg(test)]
#[path = "listen_tests.rs"]
mod tests;

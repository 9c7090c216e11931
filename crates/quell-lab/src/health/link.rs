//! Connections of one flow's callers to the proxy.
//!
//! **How.** HTTP/1.1 connections are kept after a complete reply and taken again, the youngest first; a connection is
//! closed with the call that holds it, so whoever drops a call hangs up. HTTP/2 has a few connections for all calls, and
//! whoever drops a call resets its stream. A connection that was never used for the call because the peer had just
//! closed it is replaced once, as every client does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::AbortHandle;

use super::body::Paced;
use super::world::Wire;

/// Why there was no reply.
pub(crate) type Broken = &'static str;

/// See the [module](self).
pub(crate) struct Links {
    to: SocketAddr,
    from: Ipv4Addr,
    idle: Mutex<Vec<Link>>,
    streams: Vec<Mutex<Option<Streams>>>,
    turn: AtomicUsize,
}

/// A connection that one call has for itself.
pub(crate) struct Link {
    sender: http1::SendRequest<Paced>,
    task: Ends,
}

/// A connection that many calls share.
struct Streams {
    sender: http2::SendRequest<Paced>,
    _task: Ends,
}

/// What a call talks over.
pub(crate) enum Line {
    Own(Link),
    Shared(http2::SendRequest<Paced>),
}

/// Closes the connection when it is dropped.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Links {
    pub(crate) fn new(to: SocketAddr, address: u8, wire: Wire) -> Self {
        let connections = if let Wire::Http2(connections) = wire { connections.max(1) } else { 0 };
        Self {
            to,
            from: Ipv4Addr::new(127, 0, 0, address),
            idle: Mutex::default(),
            streams: (0..connections).map(|_| Mutex::default()).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// A line that is open as far as can be seen.
    pub(crate) async fn take(&self) -> Result<Line, Broken> {
        if !self.streams.is_empty() {
            return self.share().await.map(Line::Shared);
        }
        loop {
            let Some(mut link) = self.idle.lock().pop() else { break };
            if link.sender.ready().await.is_ok() {
                return Ok(Line::Own(link));
            }
        }
        let (sender, connection) =
            http1::handshake(TokioIo::new(self.connect().await?)).await.map_err(|_| "handshake")?;
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Line::Own(Link { sender, task: Ends(task) }))
    }

    /// Keeps a connection whose reply was read to its end.
    pub(crate) fn keep(&self, line: Line) {
        if let Line::Own(link) = line
            && !link.sender.is_closed()
        {
            self.idle.lock().push(link);
        }
    }

    pub(crate) async fn connect(&self) -> Result<TcpStream, Broken> {
        let socket = TcpSocket::new_v4().map_err(|_| "no socket left")?;
        if self.from != Ipv4Addr::LOCALHOST {
            socket.bind((self.from, 0).into()).map_err(|_| "no port left")?;
        }
        let stream = socket.connect(self.to).await.map_err(|_| "connect")?;
        stream.set_nodelay(true).map_err(|_| "connect")?;
        Ok(stream)
    }

    async fn share(&self) -> Result<http2::SendRequest<Paced>, Broken> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.streams.len();
        if let Some(streams) = &*self.streams[turn].lock()
            && !streams.sender.is_closed()
        {
            return Ok(streams.sender.clone());
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        let stream = TokioIo::new(self.connect().await?);
        let (sender, connection) = builder.handshake(stream).await.map_err(|_| "handshake")?;
        let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        // Two calls may have connected at once: the first stays.
        let mut place = self.streams[turn].lock();
        match &*place {
            Some(streams) if !streams.sender.is_closed() => {
                task.abort();
                Ok(streams.sender.clone())
            }
            _ => {
                *place = Some(Streams { sender: sender.clone(), _task: Ends(task) });
                Ok(sender)
            }
        }
    }
}

impl Line {
    pub(crate) async fn send(
        &mut self,
        request: Request<Paced>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Own(link) => {
                let _alive = &link.task;
                link.sender.send_request(request).await
            }
            Self::Shared(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

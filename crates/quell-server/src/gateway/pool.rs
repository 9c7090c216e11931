//! Upstream connections: made when needed, kept while idle, closed the moment nobody waits for what they carry.
//!
//! One pool per core, so nothing is locked. The newest connection is taken first, which lets the others grow old
//! and be closed when traffic falls.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, spawn_local};
use tokio_rustls::TlsConnector;

use super::config::Target;
use super::replay::RequestBody;
use super::tls::Tls;
use super::watch::ticks;

/// The longest that a connection may take, name lookup and TLS included.
const CONNECT: Duration = Duration::from_secs(2);
/// Idle connections kept per core.
const MOST_IDLE: usize = 512;
/// Less than the minute after which many servers close: who closes first should be us.
const IDLE: u32 = ticks(50);
/// The longest head of a reply.
const MOST_HEAD: usize = 64 * 1024;

/// A connection to the upstream. Dropping it closes it at once, whatever is under way on it.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) send: SendRequest<RequestBody>,
    task: AbortHandle,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Conn {
    /// Connects within two seconds, or within what is left.
    pub(super) async fn open(to: &Target, tls: Option<&Tls>, left: Duration) -> io::Result<Self> {
        match tokio::time::timeout(CONNECT.min(left), Self::connect(to, tls)).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn connect(to: &Target, tls: Option<&Tls>) -> io::Result<Self> {
        let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
        stream.set_nodelay(true)?;
        match tls {
            None => Self::over(stream).await,
            Some(tls) => {
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                Self::over(connector.connect(tls.name.clone(), stream).await?).await
            }
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Self> {
        let (send, connection) = Builder::new()
            .max_buf_size(MOST_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // How it ends is learned by whoever waits for a reply on it.
        let task = spawn_local(async move { drop(connection.await) }).abort_handle();
        Ok(Self { send, task })
    }
}

#[derive(Debug)]
struct Idle {
    conn: Conn,
    since: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Oldest first.
    idle: RefCell<Vec<Idle>>,
}

impl Pool {
    /// The newest connection that is alive and free.
    pub(super) fn take(&self) -> Option<Conn> {
        let mut idle = self.idle.borrow_mut();
        let mut at = idle.len();
        while at > 0 {
            at -= 1;
            let send = &idle[at].conn.send;
            if send.is_ready() {
                return Some(idle.remove(at).conn);
            }
            if send.is_closed() {
                idle.remove(at);
            } // else its last request is still on its way out
        }
        None
    }

    /// Keeps a connection whose reply was read to the end.
    pub(super) fn put(&self, conn: Conn, now: u32) {
        if conn.send.is_closed() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= MOST_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { conn, since: now });
    }

    /// Closes what has been idle for too long or was closed by the upstream.
    pub(super) fn sweep(&self, now: u32) {
        self.idle
            .borrow_mut()
            .retain(|idle| now - idle.since < IDLE && !idle.conn.send.is_closed());
    }
}

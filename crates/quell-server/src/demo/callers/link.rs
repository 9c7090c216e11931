//! Connections of the callers: kept while idle, closed when their attempt gives up.
//!
//! **How.** Nobody polls a connection in the background: the attempt that borrowed it drives it, and it
//! goes back to the pool only after a complete reply. So there are no tasks to end and no half-used
//! connection to reuse. One that the peer closed while it lay idle is noticed when it is borrowed and
//! dropped; one that breaks later fails its attempt like any other fault.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::demo::tally::Tally;

/// Idle connections kept; further ones are closed.
const MOST_IDLE: usize = 1024;

/// Why an attempt failed. Naive callers do not ask.
#[derive(Debug)]
pub(super) struct Broken;

impl From<hyper::Error> for Broken {
    fn from(_: hyper::Error) -> Self {
        Self
    }
}

impl From<http::Error> for Broken {
    fn from(_: http::Error) -> Self {
        Self
    }
}

/// What came back, after the whole body was read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Whether Quell refused it and the upstream never saw it.
    pub(super) refused: bool,
}

/// Connections to one target.
pub(super) struct Pool {
    target: SocketAddr,
    path: String,
    host: String,
    idle: Mutex<Vec<Link>>,
    tally: Arc<Tally>,
}

impl Pool {
    pub(super) fn new(target: SocketAddr, path: &str, tally: Arc<Tally>) -> Self {
        let (path, host) = (path.to_owned(), target.to_string());
        Self { target, path, host, idle: Mutex::default(), tally }
    }

    /// One attempt. Dropping it closes its connection.
    pub(super) async fn get(&self, id: &str) -> Result<Answer, Broken> {
        let request = Request::get(&self.path)
            .header("host", &self.host)
            .header("x-request-id", HeaderValue::from_str(id).map_err(http::Error::from)?)
            .body(Empty::new())?;
        let mut link = self.borrow().await?;
        let answer = link.exchange(request).await?;
        let mut idle = self.idle.lock();
        if link.open && idle.len() < MOST_IDLE {
            idle.push(link);
        }
        Ok(answer)
    }

    async fn borrow(&self) -> Result<Link, Broken> {
        loop {
            let Some(mut link) = self.idle.lock().pop() else { break };
            if link.ready().await {
                return Ok(link);
            }
        }
        match TcpStream::connect(self.target).await {
            Ok(stream) => Link::over(stream).await,
            Err(error) => {
                if ours(&error) {
                    self.tally.count_unsent();
                }
                Err(Broken)
            }
        }
    }
}

/// Whether it was this machine that had nothing left to connect with, rather than the target that refused.
fn ours(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, OutOfMemory};
    /// No file left for the system, for the process: the standard library has no kind for these.
    const NO_FILE: [i32; 2] = [23, 24];
    matches!(error.kind(), AddrInUse | AddrNotAvailable | OutOfMemory)
        || error.raw_os_error().is_some_and(|code| cfg!(unix) && NO_FILE.contains(&code))
}

struct Link {
    sender: SendRequest<Empty<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Empty<Bytes>>,
    open: bool,
}

impl Link {
    async fn over(stream: TcpStream) -> Result<Self, Broken> {
        let _ = stream.set_nodelay(true); // a peer that has already gone fails the exchange
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, connection, open: true })
    }

    /// Whether the peer still keeps its end open.
    async fn ready(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = &mut self.connection => false,
            ready = self.sender.ready() => ready.is_ok(),
        }
    }

    async fn exchange(&mut self, request: Request<Empty<Bytes>>) -> Result<Answer, Broken> {
        let Self { sender, connection, open } = self;
        let answer = async {
            let reply = sender.send_request(request).await?;
            let status = reply.status();
            let refused =
                matches!(status.as_u16(), 429 | 503) && reply.headers().contains_key("quell-stop");
            let mut body = reply.into_body();
            while let Some(frame) = body.frame().await {
                frame?;
            }
            Ok(Answer { status, refused })
        };
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                // Closed after the reply, or without one: the answer knows which.
                _ = &mut *connection, if *open => *open = false,
            }
        }
    }
}

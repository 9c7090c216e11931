//! One core: its listener, its connections, its pool and its counters. Only the policies' state is shared.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use quell::Upstream;
use quell::core::Policy;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, interval, sleep};

use super::config::Config;
use super::counters::Counters;
use super::log::Log;
use super::pool::{Conn, Pool};
use super::replay::Memory;
use super::socket::Socket;
use super::start::Phase;
use super::tls::Tls;
use super::watch::{TICK, Told, Watches};

/// Connections from callers that the process holds at most; beyond it, accepting pauses.
const MOST_CONNECTIONS: usize = 20_000;
/// The longest head of a request, and the largest buffer of a connection.
const MOST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;
/// How long to wait before accepting again when there is no file descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(10);
/// How long an idle connection is kept in a drain: a request may be on its way already.
const LINGER: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// What all cores share.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    pub(crate) upstream: Upstream,
    pub(super) tls: Option<Tls>,
    pub(super) memory: Arc<Memory>,
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) log: Arc<Log>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Core {
    pub(super) gateway: Arc<Gateway>,
    pub(super) counters: Arc<Counters>,
    pub(super) pool: Pool,
    pub(super) draining: Cell<bool>,
    watches: Watches,
    http: http1::Builder,
}

impl Core {
    pub(super) fn new(gateway: Arc<Gateway>, counters: Arc<Counters>) -> Rc<Self> {
        let mut http = http1::Builder::new();
        // Heads are timed by the watch, which costs nothing per request.
        http.header_read_timeout(None).max_headers(MOST_HEADERS).max_buf_size(MOST_HEAD);
        Rc::new(Self {
            gateway,
            counters,
            pool: Pool::default(),
            draining: Cell::new(false),
            watches: Watches::default(),
            http,
        })
    }

    /// Keeps an upstream connection for the next attempt.
    pub(super) fn keep(&self, conn: Conn) {
        self.pool.put(conn, self.watches.now());
    }

    /// Accepts until told to drain, then finishes what is under way; ends at once when told to stop.
    pub(super) async fn run(
        self: Rc<Self>,
        listener: std::net::TcpListener,
        mut phase: watch::Receiver<Phase>,
    ) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let sweep = Rc::clone(&self);
        spawn_local(async move { sweep.sweep().await });
        let mut stop = phase.clone();
        let stopped = stop.wait_for(|phase| *phase == Phase::Stopping);
        let serve = async {
            tokio::select! {
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
                () = self.accept(&listener) => {}
            }
            self.drain(listener).await;
        };
        tokio::select! {
            () = serve => {}
            _ = stopped => {}
        }
        Ok(())
    }

    async fn sweep(&self) {
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            self.watches.tick();
            self.pool.sweep(self.watches.now());
        }
    }

    async fn accept(self: &Rc<Self>, listener: &TcpListener) {
        let most = (MOST_CONNECTIONS / self.gateway.config.cores).max(1);
        let room = Arc::new(Semaphore::new(most));
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, peer)) => self.enter(stream, peer, Some(place)),
                Err(_) => sleep(OUT_OF_FILES).await,
            }
        }
    }

    fn enter(
        self: &Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        place: Option<OwnedSemaphorePermit>,
    ) {
        let core = Rc::clone(self);
        spawn_local(async move {
            core.converse(stream, peer).await;
            drop(place);
        });
    }

    /// One caller's connection, from its first request to its last.
    async fn converse(self: Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true); // a caller who has already gone is noticed soon enough
        let Ok(peer) = HeaderValue::try_from(peer.ip().to_canonical().to_string()) else { return };
        self.counters.connections.add();
        let (id, watch) = self.watches.enter();
        let _left = Leave { core: &self, id };
        let service = service_fn(|request| super::handle(&self, &peer, watch.begin(), request));
        let connection =
            self.http.serve_connection(Socket::new(stream, Rc::clone(&watch)), service);
        let mut connection = std::pin::pin!(connection);
        let mut finishing = false;
        std::future::poll_fn(|cx| {
            match watch.told(cx) {
                Told::Close => return std::task::Poll::Ready(()),
                Told::Finish if !finishing => {
                    finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
                Told::Finish | Told::Nothing => {}
            }
            // Callers who leave in the middle or talk nonsense are nobody's fault here.
            connection.as_mut().poll(cx).map(drop)
        })
        .await;
    }

    /// Whoever is in the kernel's queue is let in; whoever is connected is answered, and asked to go.
    async fn drain(self: &Rc<Self>, listener: TcpListener) {
        self.draining.set(true);
        let until = Instant::now() + self.gateway.config.drain;
        if let Ok(listener) = listener.into_std() {
            // Asks the kernel itself: the runtime may not have heard of the last ones yet.
            while let Ok((stream, peer)) = listener.accept() {
                let stream =
                    stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                if let Ok(stream) = stream {
                    self.enter(stream, peer, None);
                }
            }
        }
        tokio::task::yield_now().await; // lets those who were let in last be counted
        let linger = until.min(Instant::now() + LINGER);
        while self.watches.len() > 0 && Instant::now() < linger {
            sleep(LOOK).await;
        }
        self.watches.tell(Told::Finish);
        while self.watches.len() > 0 && Instant::now() < until {
            sleep(LOOK).await;
        }
    }
}

struct Leave<'a> {
    core: &'a Core,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.core.watches.leave(self.id);
    }
}

//! Lanes: one core's connections to the endpoints of an upstream, made when needed, kept while idle, and closed the
//! moment nobody waits for what they carry.
//!
//! Nothing here is locked, as no other core sees it. Of HTTP/1 connections the newest is taken first, which lets the
//! others grow old and be closed when traffic falls. An HTTP/2 connection carries many requests; one that is cut off is
//! reset, and a connection on which that happened often is retired, for a peer or our own library may close one that has
//! too many answers for nobody on their way, and everything else on it would die along.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::config::{HostField, Protocol};
use bytes::Bytes;
use http_body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use quell_http1::limits::LONGEST_REPLY_HEADER_LIST;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use super::backend::{Backend, Endpoint};
use super::forward::RequestBody;
use super::io::{Io, Local};
use super::listen::Version;
use super::per_core::Tick;
use super::resolve::Resolver;
use super::tunnel::Raw;
use super::watch::ticks;
use super::wire::{Broken, Conn, RULES};

/// Idle HTTP/1 connections kept per core and endpoint.
const MOST_IDLE: usize = 512;
/// Less than the minute after which many servers close: who closes first should be us.
const IDLE: u32 = ticks(50);
/// Requests at a time on one HTTP/2 connection.
const MOST_STREAMS: u32 = 100;
/// Resets after which an HTTP/2 connection is used no more: far less than what closes one.
const MOST_RESETS: u32 = 400;
/// What HTTP/2 may have in flight to us, per stream and per connection.
const WINDOW: u32 = 64 * 1024;
const WINDOWS: u32 = 1024 * 1024;

/// One core's way to an upstream.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Rc<Lane>>,
    /// Replies whose bodies are on their way, and tunnels.
    pub(super) streams: Rc<Cell<u32>>,
}

impl Lanes {
    /// For a backend, with the connections of those before where the endpoint is the same.
    pub(super) fn new(backend: &Backend, before: Option<&Self>, tick: &Tick) -> Self {
        let kept = |endpoint: &Endpoint| {
            let mut lanes = before?.lanes.iter();
            let lane = lanes.find(|lane| lane.is_for(endpoint, backend))?;
            lane.resolver.set_every(backend.resolve);
            Some(Rc::clone(lane))
        };
        let lane = |endpoint| kept(endpoint).unwrap_or_else(|| Lane::new(endpoint, backend, tick));
        Self {
            lanes: backend.endpoints.iter().map(lane).collect(),
            streams: before.map_or_else(Rc::default, |before| Rc::clone(&before.streams)),
        }
    }

    pub(super) fn lane(&self, endpoint: u16) -> Option<&Rc<Lane>> {
        self.lanes.get(usize::from(endpoint))
    }

    /// A reply that is on its way, or a tunnel, until it is dropped.
    pub(super) fn stream(&self) -> Streaming {
        self.streams.set(self.streams.get() + 1);
        Streaming(Rc::clone(&self.streams))
    }

    /// Closes what has been idle for too long or was closed by the upstream.
    pub(super) fn sweep(&self) {
        self.lanes.iter().for_each(|lane| lane.sweep());
    }
}

/// See [`Lanes::stream`].
#[derive(Debug)]
pub(super) struct Streaming(Rc<Cell<u32>>);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// One core's way to one endpoint.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) endpoint: Endpoint,
    /// Which host requests name.
    pub(super) host: HostField,
    protocol: Protocol,
    connect_timeout: Duration,
    resolver: Rc<Resolver>,
    tick: Tick,
    /// Oldest first.
    idle: RefCell<Vec<Idle>>,
    shared: RefCell<Vec<Rc<Shared>>>,
    /// Whether the endpoint speaks HTTP/2, as far as is known.
    is_h2: Cell<bool>,
    /// A connection that many can share is being made: others wait for it.
    connecting: Cell<bool>,
    connected: Notify,
}

#[derive(Debug)]
struct Idle {
    conn: Box<Conn>,
    since: u32,
}

/// An HTTP/2 connection. Dropping it closes it at once.
#[derive(Debug)]
struct Shared {
    send: http2::SendRequest<RequestBody>,
    open: Cell<u32>,
    resets: Cell<u32>,
    since: Cell<u32>,
    _task: Task,
}

/// Ends with its owner.
#[derive(Debug)]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection, or a part of one, for one request.
#[derive(Debug)]
pub(super) struct Taken {
    lane: Weak<Lane>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Alone(Box<Conn>),
    Shared(Part),
}

/// One request's part of an HTTP/2 connection: a reset, if it is dropped before it is over.
#[derive(Debug)]
struct Part {
    shared: Rc<Shared>,
    is_over: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        let Shared { open, resets, .. } = &*self.shared;
        open.set(open.get() - 1);
        resets.set(resets.get() + u32::from(!self.is_over));
    }
}

/// Which HTTP a connection speaks.
pub(super) enum Spoken<'a> {
    Http1(&'a mut Conn),
    Http2(http2::SendRequest<RequestBody>),
}

impl Taken {
    pub(super) fn spoken(&mut self) -> Spoken<'_> {
        match &mut self.kind {
            Kind::Alone(conn) => Spoken::Http1(conn),
            Kind::Shared(part) => Spoken::Http2(part.shared.send.clone()),
        }
    }

    /// The next of a reply's body. Of HTTP/2 somebody else has that.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.kind {
            Kind::Alone(conn) => conn.poll_frame(cx),
            Kind::Shared(_) => Poll::Ready(None),
        }
    }

    /// Whether all of a reply's body was read, as far as is known here.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.kind, Kind::Alone(conn) if conn.is_over())
    }

    /// How much of a reply's body is to come, as far as is known here.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Alone(conn) => conn.length(),
            Kind::Shared(_) => None,
        }
    }

    /// Its reply was read to the end.
    pub(super) fn give_back(self) {
        match self.kind {
            Kind::Shared(mut part) => part.is_over = true,
            Kind::Alone(conn) => {
                if let Some(lane) = self.lane.upgrade() {
                    lane.put(conn);
                }
            }
        }
    }

    /// After a 101: the connection itself. Only HTTP/1 has this.
    pub(super) fn into_raw(self) -> Option<Raw> {
        match self.kind {
            Kind::Alone(conn) => Some(conn.into_raw()),
            Kind::Shared(_) => None,
        }
    }
}

impl Lane {
    fn new(endpoint: &Endpoint, backend: &Backend, tick: &Tick) -> Rc<Self> {
        let protocol = backend.protocol;
        Rc::new(Self {
            endpoint: endpoint.clone(),
            host: backend.host,
            protocol,
            connect_timeout: backend.connect_timeout,
            resolver: backend.resolver(endpoint),
            tick: tick.clone(),
            idle: RefCell::default(),
            shared: RefCell::default(),
            is_h2: Cell::new(protocol == Protocol::Http2),
            connecting: Cell::new(false),
            connected: Notify::new(),
        })
    }

    fn is_for(&self, endpoint: &Endpoint, backend: &Backend) -> bool {
        let tls = |endpoint: &Endpoint| endpoint.tls.as_ref().map(|(tls, _)| Arc::as_ptr(tls));
        self.endpoint.target == endpoint.target
            && tls(&self.endpoint) == tls(endpoint)
            && (self.protocol, self.host) == (backend.protocol, backend.host)
            && self.connect_timeout == backend.connect_timeout
    }

    /// A connection that is alive and free.
    pub(super) fn take(self: &Rc<Self>) -> Option<Taken> {
        let kind = match self.is_h2.get() {
            true => Kind::Shared(self.take_part()?),
            false => Kind::Alone(self.take_alone()?),
        };
        Some(Taken { lane: Rc::downgrade(self), kind })
    }

    fn take_alone(&self) -> Option<Box<Conn>> {
        let mut idle = self.idle.borrow_mut();
        let mut newest = std::iter::from_fn(|| idle.pop()).map(|idle| idle.conn);
        newest.find_map(|mut conn| (!conn.is_stale()).then_some(conn))
    }

    fn take_part(&self) -> Option<Part> {
        let mut all = self.shared.borrow_mut();
        // Those that are retired live on in their parts.
        all.retain(|shared| !shared.send.is_closed() && shared.resets.get() < MOST_RESETS);
        let shared = all.iter().find(|shared| shared.open.get() < MOST_STREAMS)?;
        Some(Part::of(shared, self.tick.now()))
    }

    fn put(&self, mut conn: Box<Conn>) {
        if !conn.is_reusable() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= MOST_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { conn, since: self.tick.now() });
    }

    fn sweep(&self) {
        self.resolver.refresh();
        let now = self.tick.now();
        let is_fresh = |since: u32| now - since < IDLE;
        self.idle.borrow_mut().retain_mut(|idle| is_fresh(idle.since) && !idle.conn.is_stale());
        self.shared.borrow_mut().retain(|shared| {
            !shared.send.is_closed() && (shared.open.get() > 0 || is_fresh(shared.since.get()))
        });
    }

    /// Connects, within the time for it or within what is left; or waits for a connection that others are making.
    pub(super) async fn connect(self: &Rc<Self>, left: Duration) -> io::Result<Taken> {
        let within = self.connect_timeout.min(left);
        let connecting = async {
            while self.is_h2.get() && self.connecting.get() {
                self.connected.notified().await;
                if let Some(taken) = self.take() {
                    return Ok(taken);
                }
            }
            let _turn = Turn::begin(self);
            self.open(within).await
        };
        match tokio::time::timeout(within, connecting).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn open(self: &Rc<Self>, within: Duration) -> io::Result<Taken> {
        let stream = self.resolver.connect(within).await?;
        let (io, is_h2) = match &self.endpoint.tls {
            None => (Io::tcp(stream), self.protocol == Protocol::Http2),
            Some((tls, name)) => {
                let (stream, version) = tls.connect(name, stream).await?;
                (Io::Connected(Box::new(stream)), version == Version::Http2)
            }
        };
        self.is_h2.set(is_h2);
        let kind = match is_h2 {
            true => Kind::Shared(self.share(io).await?),
            false => Kind::Alone(Box::new(Conn::new(io, &RULES))),
        };
        Ok(Taken { lane: Rc::downgrade(self), kind })
    }

    async fn share(&self, io: Io) -> io::Result<Part> {
        let (send, connection) = http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOWS)
            .max_header_list_size(LONGEST_REPLY_HEADER_LIST)
            .max_concurrent_reset_streams(MOST_RESETS as usize * 2)
            .handshake(TokioIo::new(io))
            .await
            .map_err(io::Error::other)?;
        let task = Task(spawn_local(async move { drop(connection.await) }).abort_handle());
        let shared = Rc::new(Shared {
            send,
            open: Cell::new(0),
            resets: Cell::new(0),
            since: Cell::new(self.tick.now()),
            _task: task,
        });
        self.shared.borrow_mut().push(Rc::clone(&shared));
        Ok(Part::of(&shared, self.tick.now()))
    }
}

impl Part {
    fn of(shared: &Rc<Shared>, now: u32) -> Self {
        shared.open.set(shared.open.get() + 1);
        shared.since.set(now);
        Self { shared: Rc::clone(shared), is_over: false }
    }
}

/// Says that a connection is being made, and when that is over.
struct Turn<'a>(&'a Lane);

impl<'a> Turn<'a> {
    fn begin(lane: &'a Lane) -> Self {
        lane.connecting.set(true);
        Self(lane)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.connecting.set(false);
        self.0.connected.notify_waiters();
    }
}

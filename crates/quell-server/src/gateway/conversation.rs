//! Conversation: one caller's connection, from its first byte to its last, in whichever protocol it speaks.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use quell::classes::caller_at;
use quell_http1::limits::LONGEST_HEADER_LIST;

use super::body::Uploaded;
use super::io::{Io, Local};
use super::lane::Streaming;
use super::listen::{Peer, Stream, Version, detect};
use super::per_core::Core;
use super::tunnel::{self, Raw};
use super::watch::{Told, Watch};
use super::wire::{self, Ended, Minded, RULES, Talk, Upload};

/// Requests at a time on one HTTP/2 connection, and what may be in flight to us per stream and per connection.
const MOST_STREAMS: u32 = 100;
const WINDOW: u32 = 64 * 1024;
const WINDOWS: u32 = 1024 * 1024;
/// How long a caller may take to show which version of HTTP it speaks.
const HEAD: Duration = Duration::from_secs(10);
/// How often a silent HTTP/2 connection is asked whether it lives, and how long it has to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);

pub(super) fn http2() -> http2::Builder<Local> {
    let mut http = http2::Builder::new(Local);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOWS)
        .max_header_list_size(LONGEST_HEADER_LIST)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    http
}

/// Who calls, for all requests on one connection.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) ip: Option<IpAddr>,
    /// Who that is, for a fair share; 0 where nobody knows.
    pub(super) key: u64,
    /// The same as it stands in a field.
    pub(super) shown: HeaderValue,
    pub(super) is_tls: bool,
    pub(super) is_h2: bool,
    /// Its connection, if that is HTTP/1.
    pub(super) talk: Option<Talk>,
    /// What this connection goes on with once HTTP has let go of it.
    pub(super) tunnel: RefCell<Option<Tunnel>>,
}

/// The other end of a tunnel, and what says that it is under way.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) upstream: Raw,
    pub(super) open: Streaming,
}

impl Caller {
    fn new(peer: Peer, is_tls: bool, talk: Option<Talk>) -> Self {
        let ip = match peer {
            Peer::Ip(ip) => Some(ip),
            Peer::Unix => None,
        };
        let shown = ip.and_then(|ip| HeaderValue::try_from(ip.to_string()).ok());
        let shown = shown.unwrap_or(HeaderValue::from_static("unix"));
        let (key, is_h2) = (ip.map_or(0, caller_at), talk.is_none());
        Self { ip, key, shown, is_tls, is_h2, talk, tunnel: RefCell::default() }
    }
}

/// Answers one caller until it leaves, is told to, or has nothing more to say.
pub(super) async fn converse(core: &Rc<Core>, stream: Stream, peer: Peer) {
    let entered = Entered::new(core);
    let Some((io, is_tls, is_h2)) = greet(core, stream, &entered.watch).await else { return };
    if is_h2 {
        by_http2(core, io, Caller::new(peer, is_tls, None), &entered.watch).await;
        return;
    }
    let minded = Minded { watch: Rc::clone(&entered.watch), core: Rc::clone(core) };
    let talk = Talk::new(io, minded, &RULES);
    by_http1(core, &talk, Caller::new(peer, is_tls, Some(talk.clone())), &entered.watch).await;
}

/// Finds out what a caller speaks, unless it is told to go before it has said anything.
async fn greet(core: &Core, stream: Stream, watch: &Rc<Watch>) -> Option<(Io, bool, bool)> {
    let greeting = async {
        match &core.gateway.tls {
            Some(tls) => {
                let agreed = tls.accept(stream).await;
                let (stream, version) =
                    agreed.inspect_err(|_| core.counters().handshakes.add()).ok()?;
                Some((Io::Accepted(Box::new(stream)), true, version == Version::Http2))
            }
            None => {
                let (stream, version) = detect(stream, HEAD).await.ok()?;
                Some((Io::Detected(stream), false, version == Version::Http2))
            }
        }
    };
    let mut greeting = std::pin::pin!(greeting);
    std::future::poll_fn(|cx| match greeting.as_mut().poll(cx) {
        Poll::Pending if watch.told(cx) >= Told::Finish => Poll::Ready(None),
        greeted => greeted,
    })
    .await
}

async fn by_http1(core: &Rc<Core>, talk: &Talk, caller: Caller, watch: &Rc<Watch>) {
    let handle = |request: Request<Upload>| {
        super::handle(core, &caller, watch.begin(), request.map(Uploaded::Wire))
    };
    let ended = wire::serve(talk, &core.date, handle).await;
    if let (Ended::Switched, Some(Tunnel { upstream, open })) = (ended, caller.tunnel.take()) {
        tunnel::carry(talk.take_raw(), upstream).await;
        drop(open);
    }
}

async fn by_http2(core: &Rc<Core>, io: Io, caller: Caller, watch: &Rc<Watch>) {
    let (core, caller) = (Rc::clone(core), Rc::new(caller));
    let (http, watching) = (core.http2.clone(), Rc::clone(watch));
    let service = service_fn(move |request| {
        let (core, caller) = (Rc::clone(&core), Rc::clone(&caller));
        let busy = watching.begin();
        async move {
            let request = request.map(|body| Uploaded::Stream(Box::new(body)));
            Ok::<_, Infallible>(super::handle(&core, &caller, busy, request).await)
        }
    });
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(io), service));
    let mut finishing = false;
    std::future::poll_fn(|cx| match told(watch, Told::Leave, &mut finishing, cx) {
        Told::Close => Poll::Ready(()),
        told => {
            if told == Told::Finish {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx).map(drop)
        }
    })
    .await;
}

/// What the connection is told: to finish once, as soon as it is told `least`.
fn told(watch: &Rc<Watch>, least: Told, finishing: &mut bool, cx: &Context<'_>) -> Told {
    match watch.told(cx) {
        Told::Close => Told::Close,
        told if told < least || std::mem::replace(finishing, true) => Told::Nothing,
        _ => Told::Finish,
    }
}

/// A connection that is here, until this is dropped.
struct Entered<'a> {
    core: &'a Core,
    id: u64,
    watch: Rc<Watch>,
}

impl<'a> Entered<'a> {
    fn new(core: &'a Core) -> Self {
        let pause = core.driven().plan.file.gateway.caller_pause;
        let (id, watch) = core.watches.enter(pause);
        Self { core, id, watch }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.core.watches.leave(self.id);
    }
}

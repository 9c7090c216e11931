//! A drain under load: one of two gateways goes, and nobody behind them notices.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::kit::*;

const PIECES: usize = 4;
const PIECE: &str = "a piece of it;";

/// A body that takes its time.
struct Trickle {
    left: usize,
    next: Pin<Box<Sleep>>,
}

impl Trickle {
    fn of(pieces: usize) -> Self {
        Self { left: pieces, next: Box::pin(sleep(ms(5))) }
    }
}

impl Body for Trickle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(cx));
        self.next.as_mut().reset(Instant::now() + ms(5));
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(PIECE.as_bytes())))))
    }
}

/// A caller's connection.
enum Link {
    Http1(http1::SendRequest<Trickle>),
    Http2(http2::SendRequest<Trickle>),
}

impl Link {
    async fn to(addr: SocketAddr, is_h2: bool) -> Option<Self> {
        let io = TokioIo::new(TcpStream::connect(addr).await.ok()?);
        if is_h2 {
            let (send, http) = http2::handshake(TokioExecutor::new(), io).await.ok()?;
            tokio::spawn(http);
            return Some(Self::Http2(send));
        }
        let (send, http) = http1::handshake(io).await.ok()?;
        tokio::spawn(http);
        Some(Self::Http1(send))
    }

    async fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(send) => send.ready().await.is_ok(),
            Self::Http2(send) => send.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, request: Request<Trickle>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(send) => send.send_request(request).await,
            Self::Http2(send) => send.send_request(request).await,
        }
    }
}

/// One who asks on a kept connection, and turns to the second gateway when the first sends it away.
struct Caller {
    name: String,
    is_h2: bool,
    /// What its bodies are made of, both ways.
    pieces: usize,
    gateways: Vec<SocketAddr>,
    link: Option<Link>,
}

impl Caller {
    /// Asks until told to stop: how often it was answered, by id.
    async fn run(mut self, stop: Arc<AtomicBool>) -> HashMap<String, u32> {
        let mut answered = HashMap::new();
        for number in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let id = format!("{}-{number}", self.name);
            let mut tries = 0;
            while !self.ask(&id).await {
                tries += 1;
                assert!(tries < 5, "{id} is not answered");
            }
            *answered.entry(id).or_default() += 1;
        }
        answered
    }

    /// False if nobody can have acted on it. That is for the upstream's books to prove.
    async fn ask(&mut self, id: &str) -> bool {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => match Link::to(self.gateways[0], self.is_h2).await {
                Some(link) => link,
                None => return self.turn(),
            },
        };
        if !link.is_open().await {
            return self.turn();
        }
        let uri = if self.is_h2 { "http://shop.example/" } else { "/" };
        let asks = request("POST", uri).header("x-request-id", id);
        let asks = asks.body(Trickle::of(self.pieces)).unwrap();
        let Ok(reply) = link.send(asks).await else { return self.turn() };
        let status = reply.status().as_u16();
        let goes = reply.headers().contains_key("connection");
        let stop = reply.headers().get("quell-stop").map(|stop| stop.to_str().unwrap().to_owned());
        let body = reply.into_body().collect().await.unwrap_or_else(|e| panic!("{id}: {e}"));
        // A head that had begun to arrive when all was over is told so; a stream is never begun.
        if (status, stop.as_deref(), self.is_h2) == (503, Some("draining"), false) {
            return self.turn();
        }
        assert_eq!((status, stop), (200, None), "{id}");
        assert_eq!(body.to_bytes(), PIECE.repeat(self.pieces), "{id}");
        match goes {
            true => drop(self.turn()),
            false => self.link = Some(link),
        }
        true
    }

    fn turn(&mut self) -> bool {
        if self.gateways.len() > 1 {
            self.gateways.remove(0);
        }
        false
    }
}

#[tokio::test]
async fn a_drain_under_load_loses_no_request_and_answers_none_twice() {
    let visits: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let counted = Arc::clone(&visits);
    let upstream = Fake::start(move |_, seen| {
        let id = seen.header("x-request-id").unwrap().to_owned();
        *counted.lock().unwrap().entry(id).or_default() += 1;
        Some(Response::new(Trickle::of(seen.body.len() / PIECE.len()).boxed()))
    })
    .await;
    let (going, staying) = (gateway(upstream.addr), gateway(upstream.addr));
    let (gone, stop) = (going.addr(), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for number in 0..16 {
        let (is_h2, pieces) = (number % 2 == 0, number % 4 / 2 * PIECES);
        let name = format!("{}-{number}", if is_h2 { "http2" } else { "http1" });
        let gateways = vec![gone, staying.addr()];
        callers.spawn(Caller { name, is_h2, pieces, gateways, link: None }.run(Arc::clone(&stop)));
    }
    let seen = async |more: usize| {
        let before = visits.lock().unwrap().len();
        until("traffic", || async { visits.lock().unwrap().len() >= before + more }).await;
    };
    seen(100).await;
    let drained = tokio::task::spawn_blocking(move || going.drain());
    timeout(PATIENCE, drained).await.expect("still draining").unwrap();
    assert!(TcpStream::connect(gone).await.is_err());
    seen(100).await;
    stop.store(true, Ordering::SeqCst);
    let answered = timeout(PATIENCE, callers.join_all()).await.expect("callers hang");
    let answered: HashMap<_, _> = answered.into_iter().flatten().collect();
    assert_eq!(answered, *visits.lock().unwrap());
    assert!(answered.values().all(|times| *times == 1));
}

/// A balancer that asks now and then whether the gateway is ready, and sends new callers there until it has heard that it
/// is not.
#[tokio::test]
async fn a_drain_with_a_delay_takes_whoever_comes_until_a_balancer_has_noticed() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.file.gateway.drain_delay = ms(600);
    });
    let (addr, admin) = (gateway.addr(), gateway.admin_addr());
    let drained = tokio::task::spawn_blocking(move || gateway.drain());
    until("not ready", || async { look(admin, "/readyz").await.status == 503 }).await;
    for _ in 0..10 {
        assert_eq!(get(addr, "/").await.status, 200);
        sleep(ms(10)).await;
    }
    timeout(PATIENCE, drained).await.expect("still draining").unwrap();
    assert!(TcpStream::connect(addr).await.is_err());
}

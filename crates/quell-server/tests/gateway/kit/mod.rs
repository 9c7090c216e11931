//! Test kit for the gateway: an upstream that answers as told, and a caller.
#![allow(dead_code)] // every test file uses its own part of it

pub(crate) mod scrape;
pub(crate) mod server;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use quell_server::gateway::{self, Config, Running};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use self::server::Server;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A request as the upstream saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) type Answer = Option<Response<BoxBody<Bytes, Infallible>>>;

/// A reply of this status and body.
pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    Some(Response::builder().status(status).body(Full::new(body.into()).boxed()).unwrap())
}

/// An upstream that answers the n-th request (from 1) as told; `None` never answers.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _server: Server,
}

impl Fake {
    pub(crate) async fn start(
        tell: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (all, tell) = (Arc::clone(&seen), Arc::new(tell));
        let server = Server::start(move |stream| {
            let (all, tell) = (Arc::clone(&all), Arc::clone(&tell));
            async move {
                let service = service_fn(|request| serve(request, &all, &*tell));
                let http = hyper::server::conn::http1::Builder::new()
                    .header_read_timeout(None)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = http.await;
            }
        })
        .await;
        Self { addr: server.addr, seen, _server: server }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    request: Request<Incoming>,
    all: &Mutex<Vec<Seen>>,
    tell: &(impl Fn(usize, &Seen) -> Answer + ?Sized),
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let http::request::Parts { method, uri, version, headers, .. } = parts;
    let seen = Seen { method, uri, version, headers, body };
    let told = {
        let mut all = all.lock().unwrap();
        all.push(seen.clone());
        tell(all.len(), &seen)
    };
    match told {
        Some(response) => Ok(response),
        None => std::future::pending().await,
    }
}

/// A gateway with its defaults in front of this address.
pub(crate) fn gateway(to: SocketAddr) -> Running {
    gateway_with(to, |_| {})
}

pub(crate) fn gateway_with(to: SocketAddr, change: impl FnOnce(&mut Config)) -> Running {
    let mut config = Config::local(format!("http://{to}").parse().unwrap());
    config.cores = 2;
    change(&mut config);
    gateway::start(config).unwrap()
}

/// The gateway of a file with these lines, on free ports.
pub(crate) fn from_file(lines: &str) -> Running {
    from_file_with(lines, |_| {})
}

pub(crate) fn from_file_with(lines: &str, change: impl FnOnce(&mut Config)) -> Running {
    let text = format!("version = 1\n{lines}");
    let file = quell_server::config::Config::parse("test.toml", &text, &[]).unwrap();
    let mut config = Config::of(file).on_free_ports();
    change(&mut config);
    gateway::start(config).unwrap()
}

/// A reply as the caller saw it.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Sends a request on a new connection and reads the whole reply.
pub(crate) async fn send<B>(to: SocketAddr, request: Request<B>) -> Reply
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let exchange = async {
        let stream = TcpStream::connect(to).await.unwrap();
        let (mut send, http) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let http = tokio::spawn(http);
        let response = send.send_request(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        http.abort();
        Reply { status: parts.status, headers: parts.headers, body }
    };
    timeout(PATIENCE, exchange).await.expect("no reply in time")
}

pub(crate) fn request(method: &str, target: &str) -> http::request::Builder {
    Request::builder().method(method).uri(target).header("host", "shop.example")
}

pub(crate) async fn get(to: SocketAddr, target: &str) -> Reply {
    send(to, request("GET", target).body(Full::<Bytes>::default()).unwrap()).await
}

pub(crate) async fn post(to: SocketAddr, target: &str, body: impl Into<Bytes>) -> Reply {
    send(to, request("POST", target).body(Full::new(body.into())).unwrap()).await
}

/// What the admin side shows, which is for this machine only.
pub(crate) async fn look(admin: SocketAddr, target: &str) -> Reply {
    let request = Request::builder().uri(target).header("host", "localhost");
    send(admin, request.body(Full::<Bytes>::default()).unwrap()).await
}

/// One metric by its full name with labels; 0 if it has not counted yet.
pub(crate) async fn metric(gateway: &Running, name: &str) -> f64 {
    let text = look(gateway.admin_addr(), "/metrics").await;
    let line = text.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let family = name.split('{').next().unwrap().trim_end_matches("_total");
    assert!(text.text().contains(&format!("# TYPE {family} ")), "no {name} in\n{}", text.text());
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// What was counted for this reason, on all routes and on none.
pub(crate) async fn reasoned(gateway: &Running, name: &str, reason: impl ToString) -> f64 {
    let labels = [("reason", &*reason.to_string())];
    scrape::Scrape::of(gateway.admin_addr()).await.sum(name, &labels)
}

/// An upstream's gauge.
pub(crate) async fn gauge(gateway: &Running, name: &str) -> f64 {
    metric(gateway, &format!("{name}{{upstream=\"default\"}}")).await
}

/// Waits until it holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not seen in time: {what}");
        sleep(ms(2)).await;
    }
}

/// A body of unknown length: it goes out in chunks.
pub(crate) struct Chunks(pub(crate) Vec<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready((!self.0.is_empty()).then(|| Ok(Frame::data(self.0.remove(0)))))
    }
}

/// Bytes that are not all the same.
pub(crate) fn noise(length: usize) -> Bytes {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

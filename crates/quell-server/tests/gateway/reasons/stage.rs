//! A gateway of a file, an origin that answers as each request asks it to, and other callers in the background.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use quell::core::Reason;
use quell_server::gateway::Running;
use quell_server::key::Hash;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::files::Dir;
use crate::kit::*;

/// A place that every test has, and no secret.
const TOKEN: &str = env!("CARGO_PKG_NAME");
/// The keys of two tenants; one matters less than the other.
const LOW: &str = "qk_low";
const HIGH: &str = "qk_high";

pub(super) type Asked = Request<Full<Bytes>>;

pub(super) struct Stage {
    /// Callers under way, and connections that are held open.
    others: JoinSet<Reply>,
    pub(super) idlers: Vec<TcpStream>,
    pub(super) gateway: Running,
    origin: Fake,
    log: PathBuf,
    _dir: Dir,
}

/// A request to which the origin answers like this.
pub(super) fn ask(method: &str, answer: &str, body: impl Into<Bytes>) -> Asked {
    request(method, "/").header("x-answer", answer).body(Full::new(body.into())).unwrap()
}

pub(super) fn get(answer: &str) -> Asked {
    ask("GET", answer, "")
}

pub(super) fn with(mut request: Asked, name: &'static str, value: &'static str) -> Asked {
    request.headers_mut().insert(name, HeaderValue::from_static(value));
    request
}

/// What a request asks for.
fn answered(seen: &Seen) -> Answer {
    let hinted = |name: &str, value: &str| {
        let reply = Response::builder().status(503).header(name, value);
        Some(reply.body(Full::from("theirs").boxed()).unwrap())
    };
    match seen.header("x-answer").unwrap_or("200") {
        "hangs" => None,
        "endless" => Some(Response::new(Endless.boxed())),
        "never" => hinted("quell-retry", "no"),
        "later" => hinted("retry-after", "20"),
        "much later" => hinted("retry-after", "31"),
        status => answer(status.parse().unwrap(), "theirs"),
    }
}

/// A body that has nothing more to say and does not end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

impl Stage {
    pub(super) async fn new(reason: Reason, lines: &str) -> Self {
        let (origin, dir) =
            (Fake::start(|_, seen| answered(seen)).await, Dir::new(reason.as_str()));
        let log = dir.path("access.log");
        let mut text = format!(
            "gateway = {{ admin_token = \"env:CARGO_PKG_NAME\", access_log = \"{}\" }}\n",
            log.display()
        );
        text += &match reason {
            Reason::NoEndpoint => "upstream.default.host = \"keep\"\n".to_owned(),
            _ => format!("upstream.default.endpoints = [\"http://{}\"]\n", origin.addr),
        };
        if matches!(reason, Reason::Shed | Reason::Unauthorized) {
            for (key, priority) in [(LOW, "sheddable"), (HIGH, "critical")] {
                let file = dir.path(key);
                std::fs::write(&file, Hash::of(key.as_bytes()).to_string()).unwrap();
                let keys = format!("keys = [\"file:{}\"]", file.display());
                text += &format!("tenant.{key} = {{ {keys}, priority = \"{priority}\" }}\n");
            }
        }
        text += lines;
        let gateway = from_file_with(&text, |config| {
            config.cores = 1;
            if reason == Reason::PoolFull {
                config.streams = 1;
            }
        });
        Self { others: JoinSet::new(), idlers: Vec::new(), gateway, origin, log, _dir: dir }
    }

    pub(super) async fn ask(&self, request: Asked) -> Reply {
        send(self.gateway.addr(), request).await
    }

    /// How many requests came to this.
    pub(super) async fn came(&self, outcome: &str) -> f64 {
        let labels = format!("route=\"default\",upstream=\"default\",outcome=\"{outcome}\"");
        metric(&self.gateway, &format!("quell_requests_total{{{labels}}}")).await
    }

    /// What was noted for this reason, as soon as there are so many lines.
    pub(super) async fn lines(&self, reason: Reason, count: usize) -> Vec<Value> {
        let lines = || -> Vec<Value> {
            let text = std::fs::read_to_string(&self.log).unwrap();
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            lines.filter(|line: &Value| line["reason"] == reason.as_str()).collect()
        };
        until("it is noted", || async { lines().len() >= count }).await;
        lines()
    }

    /// Waits until the origin has seen so many requests.
    pub(super) async fn arrived(&self, count: usize) {
        until("it arrives", || async { self.origin.seen().len() == count }).await;
    }

    /// Somebody else's request is under way.
    pub(super) async fn hold(&mut self, request: Asked) {
        self.others.spawn(send(self.gateway.addr(), request));
        self.arrived(1).await;
    }

    /// Somebody else's request waits for a slot.
    pub(super) async fn queue(&mut self, request: Asked) {
        self.others.spawn(send(self.gateway.addr(), request));
        until("it waits", || async { gauge(&self.gateway, "quell_queued").await == 1.0 }).await;
    }

    /// Somebody else's request is the breaker's only probe.
    pub(super) async fn probe(&mut self) {
        let before = self.origin.seen().len();
        loop {
            self.others.spawn(send(self.gateway.addr(), get("hangs")));
            let (others, origin) = (&mut self.others, &self.origin);
            tokio::select! {
                _ = others.join_next() => {} // refused, for it is open still
                () = until("a probe", || async { origin.seen().len() > before }) => return,
            }
        }
    }

    /// One that matters less waits, and others that matter more come until it is told to go.
    pub(super) async fn shed(&mut self) -> Reply {
        self.hold(with(get("hangs"), "x-api-key", HIGH)).await;
        self.queue(with(get("200"), "x-api-key", LOW)).await;
        loop {
            self.others.spawn(send(self.gateway.addr(), with(get("200"), "x-api-key", HIGH)));
            let reply = self.others.join_next().await.unwrap().unwrap();
            if reply.header("quell-stop") != Some("queue_full") {
                return reply;
            }
        }
    }

    /// A request whose head was begun before the drain ended its patience with such.
    pub(super) async fn drained(&mut self) -> Reply {
        let mut idle = self.connect("\r\n").await;
        assert_eq!(idle.read(&mut [0]).await.unwrap(), 1);
        let mut slow = self.connect("\r\nGET / HTTP/1.1\r\n").await;
        assert_eq!(slow.read(&mut [0]).await.unwrap(), 1);
        self.change("/drain", Value::Null).await;
        // Whoever has nothing under way is let go, and from then on nothing is begun.
        timeout(PATIENCE, idle.read_to_end(&mut Vec::new())).await.unwrap().unwrap();
        slow.write_all(b"host: shop.example\r\n\r\n").await.unwrap();
        let mut text = String::new();
        timeout(PATIENCE, slow.read_to_string(&mut text)).await.unwrap().unwrap();
        let (_, second) = text.split_once("HTTP/1.1 ").unwrap();
        parsed(second)
    }

    /// A connection on which a request was sent that ends like this.
    pub(super) async fn connect(&self, end: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.gateway.addr()).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: shop.example\r\n{end}");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Changes something by the admin side.
    pub(super) async fn change(&self, path: &str, body: Value) {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {TOKEN}"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = send(self.gateway.admin_addr(), request.body(Full::from(body)).unwrap()).await;
        assert!(reply.status.is_success(), "{}", reply.text());
    }
}

/// A reply as it was read, from its status on.
fn parsed(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap()[..3].parse().unwrap();
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
    };
    let headers: HeaderMap = lines.map(field).collect();
    Reply { status, headers, body: Bytes::copy_from_slice(body.as_bytes()) }
}

//! A server and a caller that speak gRPC over HTTP/2, frame by frame. Messages are text.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::kit::PATIENCE;

pub(crate) type Fields = &'static [(&'static str, &'static str)];

pub(crate) const OK: Fields = &[("grpc-status", "0")];

pub(crate) fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &'static str)| {
        (name.parse().unwrap(), value.parse().unwrap())
    };
    fields.iter().map(pair).collect()
}

/// What the server answers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line {
    /// A status in the head, and nothing else.
    TrailersOnly(Fields),
    /// A head, and a status after it.
    Trailers(Fields),
    /// A message and then a status.
    Then(&'static str, Fields),
    /// A head, and this message when it is told to speak.
    Quiet(&'static str),
    /// Each message comes back as it came, and then all is well.
    Echo,
    /// How many messages there were.
    Count,
    /// A head, and then a reset.
    Broken,
    /// Something in between that does not speak gRPC.
    Http(u16, &'static str),
    /// Nothing at all.
    Hang,
}

/// A request as it came, and all of its messages if it was read before the answer.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) messages: Vec<String>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Answers from a script whose last line is repeated.
pub(crate) struct Origin {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    script: Vec<Line>,
    seen: Mutex<Vec<Seen>>,
    speak: Notify,
    connections: AtomicUsize,
    left: AtomicUsize,
}

impl Origin {
    pub(crate) async fn start(script: &[Line]) -> Self {
        Self::over(script, None).await
    }

    /// With TLS, if there is an acceptor.
    pub(crate) async fn over(script: &[Line], tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: script.to_vec(),
            seen: Mutex::default(),
            speak: Notify::new(),
            connections: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
        });
        let all = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                all.connections.fetch_add(1, Ordering::Relaxed);
                let (all, tls) = (Arc::clone(&all), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, all).await,
                        Some(tls) => serve(tls.accept(stream).await.unwrap(), all).await,
                    }
                });
            }
        });
        Self { addr, shared, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Connections that were ever made to it.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Replies that nobody wanted to the end.
    pub(crate) fn left(&self) -> usize {
        self.shared.left.load(Ordering::Relaxed)
    }

    /// Lets one quiet reply go on.
    pub(crate) fn speak(&self) {
        self.shared.speak.notify_one();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, all: Arc<Shared>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&all)));
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

type Sent = Result<Frame<Bytes>, &'static str>;

/// A body whose frames come when they are sent.
pub(crate) struct Frames(UnboundedReceiver<Sent>);

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Sent>> {
        self.0.poll_recv(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed() && self.0.is_empty()
    }
}

/// Who sends the frames of a body.
pub(crate) struct Speaker(UnboundedSender<Sent>);

impl Speaker {
    pub(crate) fn new() -> (Self, Frames) {
        let (send, frames) = unbounded_channel();
        (Self(send), Frames(frames))
    }

    /// A message; or nobody listens any more.
    pub(crate) fn say(&self, text: &str) {
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(text.len() as u32);
        framed.put_slice(text.as_bytes());
        let _ = self.0.send(Ok(Frame::data(framed.freeze())));
    }

    fn end(&self, trailers: Fields) {
        let _ = self.0.send(Ok(Frame::trailers(map(trailers))));
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Frames>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut heard = Listener::new(body);
    let (speaker, frames) = Speaker::new();
    let mut reply = Response::new(frames);
    reply.headers_mut().insert("content-type", "application/grpc+text".parse().unwrap());
    reply.headers_mut().insert("shelf", "9".parse().unwrap());

    let number = shared.seen.lock().unwrap().len();
    let line = shared.script[number.min(shared.script.len() - 1)];
    let whole = !matches!(line, Line::Echo);
    let messages = if whole { heard.rest().await.unwrap_or_default() } else { Vec::new() };
    let count = messages.len();
    shared.seen.lock().unwrap().push(Seen { headers: parts.headers, messages });

    match line {
        Line::TrailersOnly(fields) => reply.headers_mut().extend(map(fields)),
        Line::Trailers(fields) => speaker.end(fields),
        Line::Then(text, fields) => {
            speaker.say(text);
            speaker.end(fields);
        }
        Line::Count => {
            speaker.say(&count.to_string());
            speaker.end(OK);
        }
        Line::Broken => drop(speaker.0.send(Err("torn off"))),
        Line::Http(status, text) => {
            *reply.status_mut() = StatusCode::from_u16(status).unwrap();
            reply.headers_mut().insert("content-type", "text/html".parse().unwrap());
            let _ = speaker.0.send(Ok(Frame::data(Bytes::from(text))));
        }
        Line::Quiet(text) => drop(tokio::spawn(async move {
            tokio::select! {
                () = shared.speak.notified() => {
                    speaker.say(text);
                    speaker.end(OK);
                }
                () = speaker.0.closed() => drop(shared.left.fetch_add(1, Ordering::Relaxed)),
            }
        })),
        Line::Echo => drop(tokio::spawn(async move {
            while let Some(text) = heard.next().await.unwrap() {
                speaker.say(&text);
            }
            speaker.end(OK);
        })),
        Line::Hang => std::future::pending().await,
    }
    Ok(reply)
}

/// Reads messages.
pub(crate) struct Listener {
    body: Incoming,
    read: BytesMut,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Listener {
    fn new(body: Incoming) -> Self {
        Self { body, read: BytesMut::new(), trailers: None }
    }

    /// Whether the head was all.
    pub(crate) fn is_over(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, hyper::Error> {
        loop {
            let whole = self.read.get(1..5).map(|mut length| length.get_u32() as usize + 5);
            if let Some(whole) = whole.filter(|whole| self.read.len() >= *whole) {
                let message = self.read.split_to(whole).split_off(5);
                return Ok(Some(String::from_utf8(message.to_vec()).unwrap()));
            }
            let next = timeout(PATIENCE, self.body.frame()).await.expect("no frame in time");
            match next.transpose()?.map(Frame::into_data) {
                None => return Ok(None),
                Some(Ok(data)) => self.read.put(data),
                Some(Err(rest)) => self.trailers = rest.into_trailers().ok(),
            }
        }
    }

    /// All messages there are.
    pub(crate) async fn rest(&mut self) -> Result<Vec<String>, hyper::Error> {
        let mut all = Vec::new();
        while let Some(text) = self.next().await? {
            all.push(text);
        }
        Ok(all)
    }
}

/// A caller's connection.
pub(crate) struct Caller(SendRequest<Frames>);

/// A reply as the caller saw it.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) listener: Listener,
}

/// A call that came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Whether the head was all.
    pub(crate) trailers_only: bool,
    pub(crate) messages: Vec<String>,
    /// What came after them and is none.
    pub(crate) rest: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Ended {
    /// A field of the trailers, or of the head where that was all.
    pub(crate) fn end(&self, name: &str) -> Option<&str> {
        let fields = if self.trailers_only { Some(&self.headers) } else { self.trailers.as_ref() };
        fields?.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn code(&self) -> Option<&str> {
        self.end("grpc-status")
    }
}

/// A request with these fields.
pub(crate) fn asking(fields: &[(&'static str, &'static str)]) -> http::request::Builder {
    let mut request =
        Request::builder().method("POST").uri("http://stock.example/stock.Stock/Left");
    let headers = request.headers_mut().unwrap();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    headers.insert("te", "trailers".parse().unwrap());
    headers.extend(map(fields));
    request
}

impl Caller {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let http = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (send, connection) = http.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(send)
    }

    /// A call up to the head of its reply; what else there is to say comes later.
    pub(crate) async fn begin(&mut self) -> (Speaker, Reply) {
        let (speaker, frames) = Speaker::new();
        let reply = self.send(asking(&[]).body(frames).unwrap()).await;
        (speaker, reply)
    }

    /// A call that has nothing to say, up to the head of its reply.
    pub(crate) async fn watch(&mut self) -> Reply {
        let (_, frames) = Speaker::new();
        self.send(asking(&[]).body(frames).unwrap()).await
    }

    async fn send(&mut self, request: Request<Frames>) -> Reply {
        let reply =
            timeout(PATIENCE, self.0.send_request(request)).await.expect("no reply in time");
        let (parts, body) = reply.unwrap().into_parts();
        Reply { status: parts.status, headers: parts.headers, listener: Listener::new(body) }
    }

    /// A call with these messages, to its end.
    pub(crate) async fn call(
        &mut self,
        fields: &[(&'static str, &'static str)],
        messages: &[&str],
    ) -> Ended {
        let (speaker, frames) = Speaker::new();
        messages.iter().for_each(|text| speaker.say(text));
        drop(speaker);
        let mut reply = self.send(asking(fields).body(frames).unwrap()).await;
        let trailers_only = reply.listener.is_over();
        let messages = reply.listener.rest().await.unwrap();
        let Reply { status, headers, listener: Listener { read, trailers, .. } } = reply;
        Ended { status, headers, trailers_only, messages, rest: read.freeze(), trailers }
    }
}

/// What is told in a `grpc-timeout`.
pub(crate) fn told(timeout: &str) -> Duration {
    let (amount, unit) = timeout.split_at(timeout.len() - 1);
    let amount = amount.parse().unwrap();
    match unit {
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => panic!("{timeout}"),
    }
}

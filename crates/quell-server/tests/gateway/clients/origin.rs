//! The service that the tour visits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::{Semaphore, watch};

use super::socket;
use crate::kit::noise;
use crate::kit::server::Server;

/// What the browser is shown.
const PAGE: &str = include_str!("../../clients/page.html");
/// How long a large reply is.
const LARGE: usize = 8 * 1024 * 1024;
const EVENTS: usize = 5;

type Reply = Response<BoxBody<Bytes, Infallible>>;

#[derive(Debug)]
struct Shared {
    /// How many events may be sent.
    events: Semaphore,
    /// How often each path was asked for.
    asked: Mutex<Vec<String>>,
    report: watch::Sender<Option<String>>,
}

/// See the [module](self).
pub(super) struct Origin {
    pub(super) addr: SocketAddr,
    shared: Arc<Shared>,
    _server: Server,
}

impl Origin {
    pub(super) async fn start() -> Self {
        let shared = Arc::new(Shared {
            events: Semaphore::new(1),
            asked: Mutex::default(),
            report: watch::Sender::new(None),
        });
        let all = Arc::clone(&shared);
        let server = Server::start(move |stream| {
            let shared = Arc::clone(&all);
            async move {
                let service = service_fn(|request| answer(request, Arc::clone(&shared)));
                let http = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                let _ = http.await;
            }
        })
        .await;
        Self { addr: server.addr, shared, _server: server }
    }

    /// The paths that were asked for, in their order.
    pub(super) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// What the page has to report.
    pub(super) async fn report(&self) -> String {
        let mut report = self.shared.report.subscribe();
        let report = report.wait_for(Option::is_some).await.unwrap();
        report.clone().unwrap()
    }
}

/// What the tour should find at `/large`.
pub(super) fn large() -> Bytes {
    noise(LARGE)
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Reply, hyper::Error> {
    let path = request.uri().path().to_owned();
    let before = {
        let mut asked = shared.asked.lock().unwrap();
        asked.push(path.clone());
        asked.iter().filter(|asked| **asked == path).count() - 1
    };
    Ok(match path.as_str() {
        "/hello" => whole(format!("hello {}", request.uri().query().unwrap_or_default())),
        "/echo" => whole(request.into_body().collect().await?.to_bytes()),
        "/flaky" if before == 0 => status(StatusCode::SERVICE_UNAVAILABLE, "not yet"),
        "/flaky" => whole("now"),
        "/limited" => whole("once"),
        "/large" => whole(large()),
        "/events" => events(shared),
        "/next" => {
            shared.events.add_permits(1);
            whole("")
        }
        "/page" => {
            let mut page = whole(PAGE);
            page.headers_mut().insert(CONTENT_TYPE, "text/html; charset=utf-8".parse().unwrap());
            page
        }
        "/socket" => upgrade(request),
        "/report" => {
            let report = request.into_body().collect().await?.to_bytes();
            shared.report.send_replace(Some(String::from_utf8(report.to_vec()).unwrap()));
            whole("")
        }
        _ => status(StatusCode::NOT_FOUND, "not here"),
    })
}

fn whole(body: impl Into<Bytes>) -> Reply {
    Response::new(Full::new(body.into()).boxed())
}

fn status(status: StatusCode, body: &'static str) -> Reply {
    let mut reply = whole(body);
    *reply.status_mut() = status;
    reply
}

/// Events of which each is sent only when somebody has asked for the next: a proxy that collects them waits for ever.
fn events(shared: Arc<Shared>) -> Reply {
    let (frames, body) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for n in 1..=EVENTS {
            shared.events.acquire().await.unwrap().forget();
            let event = Bytes::from(format!("data: {n}\n\n"));
            if frames.send(event).await.is_err() {
                return;
            }
        }
        shared.events.acquire().await.unwrap().forget(); // the last one was seen, too
    });
    let mut reply = Response::new(Received(body).boxed());
    reply.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
    reply
}

struct Received(tokio::sync::mpsc::Receiver<Bytes>);

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn upgrade(mut request: Request<Incoming>) -> Reply {
    let Some(accept) = request.headers().get("sec-websocket-key").map(socket::accept) else {
        return status(StatusCode::BAD_REQUEST, "this is for WebSockets");
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let stream = TokioIo::new(upgraded.await.expect("no upgrade came"));
        socket::echo(stream).await;
    });
    let mut reply = status(StatusCode::SWITCHING_PROTOCOLS, "");
    let fields = reply.headers_mut();
    fields.insert(CONNECTION, "upgrade".parse().unwrap());
    fields.insert(UPGRADE, "websocket".parse().unwrap());
    fields.insert("sec-websocket-accept", accept.parse().unwrap());
    reply
}

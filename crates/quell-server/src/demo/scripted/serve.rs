//! HTTP in front of the shop: one task per connection, none of which outlives the accepting one.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::shop::{Fate, Shop};

/// The longest reply that `?bytes=` can ask for.
const LONGEST_REPLY: usize = 1024 * 1024;
/// The longest work that `?ms=` can ask for.
const LONGEST_WORK: Duration = Duration::from_secs(60);
/// How long to wait before accepting again when there is no file descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(10);

pub(super) async fn accept(listener: TcpListener, shop: Arc<Shop>) {
    let filler = Bytes::from(vec![b'.'; LONGEST_REPLY]);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, Arc::clone(&shop), filler.clone()));
                }
                Err(_) => sleep(OUT_OF_FILES).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, shop: Arc<Shop>, filler: Bytes) {
    shop.connected();
    let _ = stream.set_nodelay(true); // a peer that has already gone is noticed soon enough
    let service = service_fn(|request| answer(&shop, &filler, request));
    let connection = http1::Builder::new()
        .header_read_timeout(None) // idle callers may keep their connection as long as they like
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await; // callers who leave in the middle are part of the script
}

/// Dropped when the caller closes the connection: that is how the departed are told from those who wait.
async fn answer(
    shop: &Shop,
    filler: &Bytes,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let waiting = Waiting { shop, answered: false };
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok());
    let id = shop.arrived(id);
    let time = asked(request.uri(), "ms=").map(Duration::from_millis);
    let body = match asked(request.uri(), "bytes=") {
        Some(bytes) => filler.slice(..LONGEST_REPLY.min(bytes as usize)),
        None => Bytes::from_static(b"ok\n"),
    };
    let mut incoming = request.into_body();
    while let Some(frame) = incoming.frame().await {
        match frame {
            Ok(frame) => shop.read(frame.data_ref().map_or(0, Bytes::len)),
            Err(_) => return Ok(waiting.answer(StatusCode::BAD_REQUEST, Bytes::new())),
        }
    }
    let sorry = Bytes::from_static(b"out of order\n");
    Ok(match shop.place(id, time.map(|time| time.min(LONGEST_WORK))) {
        Fate::Fail => waiting.answer(StatusCode::INTERNAL_SERVER_ERROR, sorry),
        Fate::Nothing => pending().await,
        Fate::Line(due) => match due.await {
            Ok(()) => waiting.answer(StatusCode::OK, body),
            Err(_) => pending().await, // lost in a hole
        },
    })
}

/// A caller who has no reply yet.
struct Waiting<'a> {
    shop: &'a Shop,
    answered: bool,
}

impl Waiting<'_> {
    fn answer(mut self, status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
        self.answered = true;
        let mut reply = Response::new(Full::new(body));
        *reply.status_mut() = status;
        reply
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shop.abandoned();
        }
    }
}

/// A number in the query.
fn asked(uri: &Uri, name: &str) -> Option<u64> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix(name))?.parse().ok()
}

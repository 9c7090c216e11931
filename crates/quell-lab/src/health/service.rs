//! The service: it does what each request asks of it, and is healthy throughout.
//!
//! **How.** A request says in its fields how long its work takes, what is answered and how large the reply is. So all that
//! is random is drawn where calls are made, and two services behind two proxies do exactly the same. Work starts when
//! the whole request is here. Every reply carries [`SERVED`]: a failure without it was made by a proxy.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::body::Paced;
use super::world::{Odd, Pause, Shape};

/// What every reply of the service carries.
pub(crate) const SERVED: &str = "lab-served";
/// Microseconds of work.
pub(crate) const WORK: &str = "lab-work";
/// The status of the reply.
pub(crate) const STATUS: &str = "lab-status";
/// Bytes of the reply.
pub(crate) const REPLY: &str = "lab-reply";
/// Events of the reply, and milliseconds between them.
pub(crate) const EVENTS: &str = "lab-events";
/// A number: the first request with it gets a 503.
pub(crate) const FAILS_ONCE: &str = "lab-fails-once";

const BACKLOG: u32 = 4096;
/// How long somebody who is over quota is to wait, in seconds.
const RETRY_AFTER: &str = "30";

/// One endpoint of the service. All endpoints share what they remember and who works.
#[derive(Clone)]
pub(crate) struct Service {
    begin: Instant,
    pause: Option<Pause>,
    h2c: bool,
    odd: Option<Odd>,
    workers: Option<Arc<Semaphore>>,
    failed: Arc<Mutex<HashSet<u64>>>,
}

impl Service {
    /// `begin` is when the world begins: pauses are counted from there.
    pub(crate) fn new(shape: &Shape, begin: Instant) -> Self {
        Self {
            begin,
            pause: shape.pause,
            h2c: shape.h2c,
            odd: None,
            workers: shape.workers.map(|workers| Arc::new(Semaphore::new(workers))),
            failed: Arc::default(),
        }
    }

    /// Lets it listen at these ports; the first of several is the odd one.
    pub(crate) fn listen(&self, odd: Option<Odd>, at: &[SocketAddr]) -> Result<()> {
        for (number, addr) in at.iter().enumerate() {
            let odd = odd.filter(|_| number == 0);
            if odd == Some(Odd::Refuses) {
                continue;
            }
            let listener =
                bind(*addr).with_context(|| format!("the service cannot listen at {addr}"))?;
            tokio::spawn(accept(listener, Self { odd, ..self.clone() }));
        }
        Ok(())
    }

    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<Paced>, Infallible> {
        let fields = request.headers().clone();
        if fields.contains_key(header::UPGRADE) {
            return Ok(echo(&mut request));
        }
        let mut body = request.into_body();
        while let Some(frame) = body.frame().await {
            if frame.is_err() {
                return Ok(reply(StatusCode::BAD_REQUEST, Paced::at_once(0)));
            }
        }
        if self.odd == Some(Odd::Errs) || self.fails(&fields) {
            return Ok(reply(StatusCode::SERVICE_UNAVAILABLE, Paced::at_once(0)));
        }
        self.work(Duration::from_micros(number(&fields, WORK).unwrap_or(0))).await;
        let status = number(&fields, STATUS).and_then(|code| u16::try_from(code).ok());
        let status = status.and_then(|code| StatusCode::from_u16(code).ok());
        let text = |name: &str| fields.get(name).and_then(|value| value.to_str().ok());
        let events = text(EVENTS).and_then(|events| events.split_once(','));
        let body = match events.and_then(|(n, ms)| Some((n.parse().ok()?, ms.parse().ok()?))) {
            Some((count, ms)) => Paced::events(count, Duration::from_millis(ms)),
            None => Paced::at_once(number(&fields, REPLY).unwrap_or(0) as usize),
        };
        Ok(reply(status.unwrap_or_default(), body))
    }

    /// Whether this is the first attempt of a call that fails once.
    fn fails(&self, fields: &HeaderMap) -> bool {
        number(fields, FAILS_ONCE).is_some_and(|id| self.failed.lock().insert(id))
    }

    async fn work(&self, mut time: Duration) {
        let _worker = match &self.workers {
            Some(workers) => workers.acquire().await.ok(), // never closed
            None => None,
        };
        if let Some(Odd::Slow(more)) = self.odd {
            time += more;
        }
        let now = self.begin.elapsed();
        let end = self.pause.map_or(now + time, |pause| pause.end_of(now, time));
        if end > now {
            sleep_until(self.begin + end).await;
        }
    }
}

impl Pause {
    /// When work that starts now is done: nothing moves in a pause. There is none at the very beginning.
    fn end_of(self, now: Duration, mut work: Duration) -> Duration {
        let every = self.every.max(self.lasts + Duration::from_millis(1));
        let mut at = now;
        loop {
            let round = (at.as_nanos() / every.as_nanos()) as u32;
            if round > 0 {
                at = at.max(every * round + self.lasts); // still in the pause that this round begins with
            }
            let next = every * (round + 1);
            if at + work <= next {
                return at + work;
            }
            work -= next - at;
            at = next;
        }
    }
}

fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, service: Service) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, service.clone()))),
            // No file left: others have to end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn converse(stream: TcpStream, service: Service) {
    let _ = stream.set_nodelay(true); // a peer that has already gone is noticed soon enough
    let (stream, h2c) = (TokioIo::new(stream), service.h2c);
    let answer = service_fn(move |request| service.clone().answer(request));
    // Whoever leaves in the middle is part of the script.
    let _ = if h2c {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(4096);
        builder.serve_connection(stream, answer).await
    } else {
        let connection =
            http1::Builder::new().header_read_timeout(None).serve_connection(stream, answer);
        connection.with_upgrades().await
    };
}

/// Says the upgraded connection's own words back to it.
fn echo(request: &mut Request<Incoming>) -> Response<Paced> {
    let upgraded = hyper::upgrade::on(request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgraded.await {
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
            let _ = tokio::io::copy(&mut read, &mut write).await; // until the peer leaves
        }
    });
    let mut reply = reply(StatusCode::SWITCHING_PROTOCOLS, Paced::at_once(0));
    reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    reply.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("lab-echo"));
    reply
}

fn reply(status: StatusCode, body: Paced) -> Response<Paced> {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let fields = reply.headers_mut();
    fields.insert(SERVED, HeaderValue::from_static("yes"));
    // Or nginx would keep events back until there are many.
    fields.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if status == StatusCode::TOO_MANY_REQUESTS {
        fields.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    reply
}

fn number(fields: &HeaderMap, name: &str) -> Option<u64> {
    fields.get(name)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stands_still_in_a_pause_and_only_there() {
        let ms = Duration::from_millis;
        let pause = Pause { every: ms(8_000), lasts: ms(600) };
        let end = |now, work| pause.end_of(ms(now), ms(work));
        assert_eq!(end(0, 20), ms(20), "none at the beginning");
        assert_eq!(end(7_990, 10), ms(8_000));
        assert_eq!(end(7_990, 20), ms(8_610), "half of it after the pause");
        assert_eq!(end(8_100, 20), ms(8_620), "came in the pause");
        assert_eq!(end(8_600, 20), ms(8_620));
        assert_eq!(end(7_000, 9_000), ms(17_200), "two pauses");
    }
}

//! The layer around hyper's client, over real sockets.
#![allow(clippy::unwrap_used)]

mod wire;

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use quell::{
    Builder, Delivery, Quell, Reason,
    core::backoff,
    http::{LONGEST_KEPT, Pool, ReplayBody, ReplyBody},
    observe::{Event, Observe},
    tower::{Ended, Http, QuellLayer, QuellService, Refused},
};
use tower::{Layer as _, ServiceExt as _};
use wire::{BUSY, CLOSE, FINE, HANG, SOON, Server};

type Body = BoxBody<Bytes, Infallible>;
type Hyper = Client<HttpConnector, ReplayBody<Body>>;
type Guarded<D> = QuellService<Hyper, Http<D>>;

fn quick() -> Builder {
    let wait = Duration::from_millis(1);
    let backoff = backoff::Spec { base: wait, cap: wait, ..backoff::Spec::default() };
    Quell::upstream("origin").backoff(backoff).seed(1)
}

/// As the layer's page says it is built: hyper-util's own retries off, and its word taken on whether it connected.
fn guarded(quell: Builder) -> Guarded<impl Fn(&Error) -> Delivery + Clone> {
    guarded_in(quell, Pool::global())
}

fn guarded_in(quell: Builder, pool: &Pool) -> Guarded<impl Fn(&Error) -> Delivery + Clone + use<>> {
    let client = Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
    let sent = |error: &Error| match error.is_connect() {
        true => Delivery::NeverSent,
        false => Delivery::Unknown,
    };
    QuellLayer::with(quell.build().unwrap(), Http::by(sent).pool(pool.clone())).layer(client)
}

fn request(method: &str, to: SocketAddr, body: Body) -> Request<Body> {
    Request::builder().method(method).uri(format!("http://{to}/pay")).body(body).unwrap()
}

fn short(text: &'static str) -> Body {
    Full::from(text).boxed()
}

/// A body of so many pieces of a kilobyte, whose length nobody knows beforehand.
fn stream(pieces: usize) -> Body {
    Pieces(pieces).boxed()
}

struct Pieces(usize);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 = match self.0.checked_sub(1) {
            Some(left) => left,
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; 1_024])))))
    }
}

fn ended<B>(reply: &Response<B>) -> Ended {
    *reply.extensions().get().unwrap() // there, after more than one attempt or a failure
}

async fn text<B: http_body::Body<Error: std::fmt::Debug>>(reply: Response<B>) -> Bytes {
    tokio::time::timeout(SOON, reply.into_body().collect()).await.unwrap().unwrap().to_bytes()
}

/// H6.
#[tokio::test]
async fn every_attempt_carries_its_own_number_time_and_credit_and_the_whole_body() {
    let server = Server::start(&[BUSY, BUSY, FINE]).await;
    let service = guarded(quick().attempts(4));
    let mut post = request("POST", server.address, short("17 pens"));
    post.headers_mut().insert("idempotency-key", "order-17".parse().unwrap());
    post.headers_mut().insert("baggage", "shop=7".parse().unwrap());
    let reply = service.oneshot(post).await.unwrap();
    assert_eq!((reply.status().as_u16(), ended(&reply).attempts), (200, 3));
    assert_eq!(text(reply).await, "fine");
    let seen = server.requests();
    let all = |name| seen.iter().map(|request| request.header(name)).collect::<Vec<_>>();
    assert_eq!(all("quell-attempt"), [["1"], ["2"], ["3"]]);
    assert_eq!(all("idempotency-key"), [["order-17"]; 3]);
    // The server said nothing of what it did with its credit, so it may have spent it: it gets no other.
    assert_eq!(all("quell-retry-credit"), [["3"], ["0"], ["0"]]);
    let baggage = |credit| vec![format!("shop=7,quell-retry-credit={credit}")];
    assert_eq!(all("baggage"), [baggage(3), baggage(0), baggage(0)]);
    assert!(all("quell-deadline-ms").iter().all(|values| values.len() == 1));
    assert!(seen.iter().all(|request| request.body == b"17 pens"));
}

/// H3, H9.
#[tokio::test]
async fn a_body_too_long_to_keep_is_sent_once_and_the_reason_is_told() {
    #[derive(Default)]
    struct Reasons(parking_lot::Mutex<Vec<Reason>>);
    impl Observe for Reasons {
        fn observe(&self, _: &str, event: &Event<'_>) {
            if let Event::Finished(finished) = event {
                self.0.lock().extend(finished.reason);
            }
        }
    }
    let pieces = LONGEST_KEPT / 1_024 + 1;
    let server = Server::start(&[BUSY]).await;
    let reasons = Arc::new(Reasons::default());
    let pool = Pool::new(1 << 20);
    let service = guarded_in(quick().observe(Arc::clone(&reasons)), &pool);
    let reply = service.oneshot(request("PUT", server.address, stream(pieces))).await.unwrap();
    assert_eq!(ended(&reply), Ended { reason: Some(Reason::NotReplayable), ..ended(&reply) });
    assert_eq!(text(reply).await, "busy");
    let seen = server.requests();
    assert_eq!(seen.len(), 1, "never again, and never empty");
    assert_eq!(*reasons.0.lock(), [Reason::NotReplayable]);
    assert_eq!(pool.used(), 0);
}

/// H3: one that fits is repeated in full although nobody knew its length.
#[tokio::test]
async fn a_body_of_unknown_length_that_fits_is_replayed_whole() {
    let server = Server::start(&[BUSY, FINE]).await;
    let reply = guarded(quick()).oneshot(request("PUT", server.address, stream(3))).await.unwrap();
    assert_eq!(reply.status(), 200);
    // Chunked at first; by the second time the length is known.
    let sevens = |body: &[u8]| body.iter().filter(|byte| **byte == 7).count();
    let sent: Vec<_> = server.requests().iter().map(|request| sevens(&request.body)).collect();
    assert_eq!(sent, [3 * 1_024; 2]);
}

/// H4.
#[tokio::test]
async fn a_reply_that_breaks_off_in_its_body_is_not_tried_again() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nhalf";
    let server = Server::start(&[half, FINE]).await;
    let service = guarded(quick().idempotent());
    let reply = service.oneshot(request("GET", server.address, short(""))).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert!(reply.into_body().collect().await.is_err(), "the caller sees it break");
    assert_eq!(server.requests().len(), 1);
}

/// H5, H8: the server has read the request and closed the connection. Nobody knows what it did.
#[tokio::test]
async fn a_connection_that_dies_proves_nothing_so_a_post_is_not_repeated_and_a_get_is() {
    for (method, attempts) in [("POST", 1), ("GET", 2)] {
        let server = Server::start(&[CLOSE, FINE]).await;
        let result = guarded(quick()).oneshot(request(method, server.address, short("x"))).await;
        match result {
            Ok(reply) => assert_eq!((reply.status().as_u16(), method), (200, "GET")),
            Err(error) => assert_eq!((error.reason(), method), (Reason::NotSafe, "POST")),
        }
        assert_eq!(server.requests().len(), attempts, "{method}");
    }
}

/// H10.
#[tokio::test]
async fn a_failure_to_connect_is_repeated_whatever_the_method_and_with_no_copy_of_the_body() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let long = stream(10 * LONGEST_KEPT / 1_024);
    let pool = Pool::new(1 << 20);
    let service = guarded_in(quick(), &pool);
    let error = service.oneshot(request("POST", nobody, long)).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (3, Reason::AttemptsSpent));
    assert_eq!(pool.used(), 0);
}

/// P5.
#[tokio::test]
async fn the_last_real_reply_comes_back_whole_when_later_attempts_get_none() {
    let server = Server::start(&[BUSY, CLOSE]).await;
    let service = guarded(quick().attempts(2));
    let reply = service.oneshot(request("GET", server.address, short(""))).await.unwrap();
    assert_eq!((reply.status().as_u16(), ended(&reply).attempts), (503, 2));
    assert_eq!(text(reply).await, "busy");
}

/// A failed reply that does not end by the attempt's timeout is delivered instead of retried, with all that came.
#[tokio::test]
async fn a_failed_reply_that_takes_too_long_to_keep_is_delivered() {
    let slow = format!("HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nslow{HANG}");
    let server = Server::start(&[&slow, FINE]).await;
    let service = guarded(quick().per_try_timeout(Duration::from_millis(100)));
    let reply = service.oneshot(request("GET", server.address, short(""))).await.unwrap();
    assert_eq!(ended(&reply).reason, Some(Reason::NotReplayable));
    let mut body = reply.into_body();
    let frame = tokio::time::timeout(SOON, body.frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "slow");
    assert_eq!(server.requests().len(), 1);
}

/// D1: what the client does with a connection that was closed a moment ago is an attempt of ours, or nothing.
#[tokio::test]
async fn the_origin_never_sees_more_requests_than_there_were_attempts() {
    let closes = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine"; // and does not say that it will
    let server = Server::start(&[closes]).await;
    let service = guarded(quick().attempts(5));
    let mut attempts = 0;
    for _ in 0..200 {
        let get = request("GET", server.address, short(""));
        let reply = service.clone().oneshot(get).await.unwrap();
        assert_eq!(reply.status(), 200);
        attempts += reply.extensions().get::<Ended>().map_or(1, |ended| ended.attempts);
        text(reply).await;
    }
    assert!(server.requests().len() <= attempts as usize);
    assert!(attempts >= 200);
}

#[tokio::test]
async fn refusals_become_replies_that_forbid_to_retry_where_that_was_asked_for() {
    let server = Server::start(&[FINE]).await;
    let limit = quell::core::limiter::Spec { per_second: 0.001, burst: 1 };
    let quell = quick().rate_limit(limit).build().unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let service = QuellLayer::with(quell, Http::new().refusals_as_replies()).layer(client);
    let get = || request("GET", server.address, short(""));
    assert_eq!(service.clone().oneshot(get()).await.unwrap().status(), 200);
    let refused = service.oneshot(get()).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["quell-stop"], "rate_limited");
    assert!(refused.headers()["quell-retry"].to_str().unwrap().starts_with("after="));
    assert_eq!(text(refused).await, r#"{"error":"Rate limit exceeded","code":"RATE_LIMITED"}"#);
}

/// The request's own body breaks off: nobody tries again, and the breaker does not hear of it.
#[tokio::test]
async fn a_body_that_breaks_off_is_not_the_upstreams_fault() {
    struct Broken;
    impl http_body::Body for Broken {
        type Data = Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Ready(Some(Err(std::io::Error::other("the disk is gone"))))
        }
    }
    let server = Server::start(&[FINE]).await;
    let breaker = quell::core::breaker::Spec { min_calls: 1, ..Default::default() };
    let quell = quick().breaker(breaker).idempotent().build().unwrap();
    let client = Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
    let service = QuellLayer::with(quell.clone(), Http::new()).layer(client);
    let put = Request::put(format!("http://{}/", server.address)).body(Broken).unwrap();
    let error = service.oneshot(put).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::ClientGone));
    assert_eq!(quell.snapshot().breaker, quell::core::breaker::State::Closed);
}

/// X12.
#[tokio::test]
async fn a_fallback_stands_in_for_failed_replies_and_refusals_and_the_breaker_still_opens() {
    let server = Server::start(&[BUSY]).await;
    let breaker = quell::core::breaker::Spec { min_calls: 2, ..Default::default() };
    let quell = quick().attempts(2).breaker(breaker).build().unwrap();
    let client: Hyper = Client::builder(TokioExecutor::new()).build_http();
    let none = |_: &Refused| Response::new(ReplyBody::own("[]"));
    let service = QuellLayer::with(quell.clone(), Http::new()).fallback(none).layer(client);
    for attempts in [2, 0] {
        let get = request("GET", server.address, short(""));
        let reply = service.clone().oneshot(get).await.unwrap();
        assert_eq!((reply.status().as_u16(), ended(&reply).attempts), (200, attempts));
        assert_eq!(text(reply).await, "[]");
    }
    assert_eq!(quell.snapshot().breaker, quell::core::breaker::State::Open);
    // What is the caller's own fault stays so.
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let server = Server::start(&[missing]).await;
    let client: Hyper = Client::builder(TokioExecutor::new()).build_http();
    let layer = QuellLayer::with(quick().build().unwrap(), Http::new()).fallback(none);
    let reply = layer.layer(client).oneshot(request("GET", server.address, short(""))).await;
    assert_eq!(reply.unwrap().status(), 404);
}

/// X4, P3: a body that is still on its way belongs to the attempt that reads it.
#[tokio::test(start_paused = true)]
async fn an_upload_under_way_is_not_hedged_and_a_whole_body_is() {
    struct Slow(tokio::time::Interval, usize);
    impl http_body::Body for Slow {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.1 == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(self.0.poll_tick(cx));
            self.1 -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }
    let seen = Arc::new(parking_lot::Mutex::new((0, 0)));
    let heard = Arc::clone(&seen);
    // Reads the whole body, and answers a little later.
    let origin = tower::service_fn(move |request: Request<ReplayBody<Body>>| {
        let seen = Arc::clone(&heard);
        async move {
            seen.lock().0 += 1;
            let body = request.into_body().collect().await;
            seen.lock().1 += usize::from(body.is_err());
            tokio::time::sleep(Duration::from_millis(if body.is_ok() { 5 } else { 0 })).await;
            body.map(|_| Response::new(short("")))
        }
    });
    let hedge = quell::core::hedge::Hedge::new(0.5, Duration::from_millis(20)).unwrap();
    let quell = quick().clock(quell::Clock::tokio()).hedge(hedge).build().unwrap();
    let service = QuellLayer::with(quell.clone(), Http::boxed()).layer(origin);
    let put = |body| service.clone().oneshot(request("PUT", ([127, 0, 0, 1], 80).into(), body));
    for _ in 0..50 {
        put(short("quick")).await.unwrap();
    }
    assert_eq!(*seen.lock(), (50, 0));
    for _ in 0..10 {
        let every = tokio::time::interval(Duration::from_millis(10));
        put(Slow(every, 20).boxed()).await.unwrap();
    }
    assert_eq!(*seen.lock(), (60, 0), "each was sent once, and none was cut off");
    assert_eq!(quell.snapshot().breaker, quell::core::breaker::State::Closed);
}

/// Nothing is kept of what could not be sent again anyway.
#[tokio::test]
async fn the_body_of_a_post_without_a_key_takes_no_memory() {
    let pool = Pool::new(1 << 20);
    let most = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (watched, used) = (pool.clone(), Arc::clone(&most));
    let origin = tower::service_fn(move |request: Request<ReplayBody<Body>>| {
        let (pool, most) = (watched.clone(), Arc::clone(&used));
        async move {
            request.into_body().collect().await?;
            most.fetch_max(pool.used(), std::sync::atomic::Ordering::Relaxed);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::new(short("")))
        }
    });
    let layer = QuellLayer::with(quick().build().unwrap(), Http::boxed().pool(pool));
    let service = layer.layer(origin);
    let send =
        |method| service.clone().oneshot(request(method, ([127, 0, 0, 1], 80).into(), stream(4)));
    send("POST").await.unwrap();
    assert_eq!(most.load(std::sync::atomic::Ordering::Relaxed), 0);
    send("PUT").await.unwrap();
    assert_eq!(most.load(std::sync::atomic::Ordering::Relaxed), 4 * 1_024);
}

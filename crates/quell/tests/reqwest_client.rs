//! The wrapped client of reqwest over real sockets.
#![cfg(feature = "reqwest")]
#![allow(clippy::unwrap_used)]

mod wire;

use std::{
    convert::Infallible,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use quell::{
    Builder, Cause, Limit, Quell, Reason,
    reqwest::{Client, Error, RequestBuilder},
    tower::Ended,
};
use tokio::time::Instant;
use wire::{BUSY, CLOSE, FINE, HANG, Server, in_time, nobody, until};

fn stock() -> Builder {
    Quell::upstream("stock")
}

fn client(upstream: Builder) -> Client {
    let builder = reqwest::Client::builder().no_proxy();
    Client::with(builder, upstream.build().unwrap()).unwrap()
}

async fn send(request: RequestBuilder) -> Result<reqwest::Response, Error> {
    in_time(request.send()).await
}

/// H6.
#[tokio::test]
async fn a_503_is_retried_and_each_attempt_carries_its_own_number_once() {
    let server = Server::start(&[BUSY, BUSY, FINE]).await;
    let reply = send(client(stock()).get(server.url())).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.text().await.unwrap().as_str()), (200, "fine"));
    let requests = server.requests();
    let numbers: Vec<_> = requests.iter().map(|request| request.header("quell-attempt")).collect();
    assert_eq!(numbers, [["1"], ["2"], ["3"]]);
    for request in &requests {
        let [left] = request.header("quell-deadline-ms")[..] else { panic!("one time each") };
        assert!((1..=10_000).contains(&left.parse::<u64>().unwrap()), "{left}");
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_time_that_the_upstream_asked_for() {
    let later = BUSY.replace("\r\n\r\n", "\r\nretry-after-ms: 200\r\n\r\n");
    let server = Server::start(&[&later, FINE]).await;
    let started = Instant::now();
    let reply = send(client(stock()).get(server.url())).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert!(started.elapsed() >= Duration::from_millis(200));
}

/// H5.
#[tokio::test]
async fn a_post_is_repeated_only_with_a_key_which_is_the_same_on_every_attempt_and_new_for_every_call()
 {
    let server = Server::start(&[BUSY, BUSY, FINE, FINE, BUSY]).await;
    let client = client(stock());
    let post = || client.post(server.url()).body("pens=7");
    assert_eq!(send(post().keyed()).await.unwrap().status(), 200);
    assert_eq!(send(post().keyed()).await.unwrap().status(), 200);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.body == b"pens=7"));
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert!(keys.iter().all(|key| key.len() == 1), "{keys:?}");
    assert!(keys[0] == keys[1] && keys[1] == keys[2] && keys[2] != keys[3], "{keys:?}");

    let reply = send(post()).await.unwrap();
    let ended = reply.extensions().get::<Ended>().unwrap();
    assert_eq!((ended.attempts, ended.reason), (1, Some(Reason::NotSafe)));
    assert_eq!((reply.status().as_u16(), reply.text().await.unwrap().as_str()), (503, "busy"));
    assert_eq!(server.requests().len(), 5, "sent once");
    assert_eq!(send(post().idempotency_key("order 7")).await.unwrap().status(), 503);
    let requests = server.requests();
    assert_eq!(requests.len(), 8);
    assert!(requests[5..].iter().all(|request| request.header("idempotency-key") == ["order 7"]));
}

/// So many pieces of a kilobyte, in a body that reqwest cannot clone.
struct Pieces(usize);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
        self.0 = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; 1_024])))))
    }
}

fn streamed(pieces: usize) -> reqwest::Body {
    reqwest::Body::wrap(Pieces(pieces))
}

/// H3.
#[tokio::test]
async fn a_long_stream_is_sent_once_and_a_short_one_again_in_full() {
    let server = Server::start(&[BUSY]).await;
    let client = client(stock().attempts(2));
    let put = |pieces| client.put(server.url()).body(streamed(pieces));
    let reply = send(put(100)).await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.text().await.unwrap().as_str()), (503, "busy"));
    let long = server.requests();
    assert_eq!(long.len(), 1);
    assert!(long[0].body.len() > 100 * 1_024);

    assert_eq!(send(put(3)).await.unwrap().status(), 503);
    let [_, short @ ..] = &server.requests()[..] else { panic!() };
    let sent = |request: &wire::Request| request.body.iter().filter(|byte| **byte == b'x').count();
    assert_eq!(short.iter().map(sent).collect::<Vec<_>>(), [3 * 1_024; 2]);
}

/// H10.
#[tokio::test]
async fn a_refused_connection_is_tried_again_whatever_the_method_and_the_body() {
    let url = format!("http://{}/", nobody().await);
    let client = client(stock().attempts(2));
    for request in
        [client.post(&url), client.post(&url).body("pens=7"), client.post(&url).body(streamed(100))]
    {
        let error = send(request).await.unwrap_err();
        assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
        assert!(matches!(error.cause(), Cause::Error(cause) if cause.is_connect()), "{error}");
    }
}

/// P5.
#[tokio::test]
async fn the_last_real_reply_is_returned_when_later_attempts_get_none() {
    let server = Server::start(&[BUSY, CLOSE]).await;
    let reply = send(client(stock()).get(server.url())).await.unwrap();
    assert_eq!(server.requests().len(), 3);
    let ended = reply.extensions().get::<Ended>().unwrap();
    assert_eq!((ended.attempts, ended.reason), (3, Some(Reason::AttemptsSpent)));
    assert_eq!((reply.status().as_u16(), reply.url().as_str()), (503, server.url().as_str()));
    assert_eq!((reply.version(), reply.content_length()), (reqwest::Version::HTTP_11, Some(4)));
    assert_eq!(reply.headers()["connection"], "close");
    assert_eq!(reply.text().await.unwrap(), "busy");
}

#[tokio::test]
async fn a_failed_reply_that_is_too_long_to_keep_is_returned_whole() {
    let long = "x".repeat(100_000);
    let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n";
    let known = format!("{head}content-length: 100000\r\n\r\n{long}");
    let unknown = format!("{head}transfer-encoding: chunked\r\n\r\n186a0\r\n{long}\r\n0\r\n\r\n");
    for reply in [known, unknown] {
        let server = Server::start(&[&reply]).await;
        let reply = send(client(stock()).get(server.url())).await.unwrap();
        assert_eq!(reply.status(), 503);
        assert!(in_time(reply.text()).await.unwrap() == long);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_failed_reply_that_does_not_come_in_time_is_returned_as_far_as_it_came() {
    let slow = format!("{}{HANG}", BUSY.replace("4", "9"));
    let server = Server::start(&[&slow]).await;
    let upstream = stock().per_try_timeout(Duration::from_millis(300));
    let mut reply = send(client(upstream).get(server.url())).await.unwrap();
    assert_eq!(reply.status(), 503);
    assert_eq!(in_time(reply.chunk()).await.unwrap().unwrap(), "busy");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_server_sees_as_many_attempts_as_the_error_tells() {
    let server = Server::start(&[CLOSE]).await;
    let count = client(stock().attempts(4)).get(server.url()).operation("count");
    let error = send(count).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (4, Reason::AttemptsSpent));
    assert_eq!(server.requests().len(), 4);
    assert!(error.to_string().starts_with("count failed after 4 attempts in "), "{error}");
}

/// D2.
#[tokio::test]
async fn reqwest_itself_does_not_repeat_what_an_http_2_server_refuses() {
    let (address, refused) = wire::refuse_streams().await;
    let builder = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
    let client = Client::with(builder, stock().build().unwrap()).unwrap();
    let error = send(client.post(format!("http://{address}/"))).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::NotSafe));
    assert_eq!(refused.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_hung_server_is_cut_off_and_leaves_a_ghost() {
    let server = Server::start(&[HANG]).await;
    let upstream = stock().per_try_timeout(Duration::from_millis(200)).in_flight(Limit::Fixed(4));
    let client = client(upstream);
    let error = send(client.post(server.url())).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::NotSafe));
    assert!(matches!(error.cause(), Cause::TimedOut), "{error}");
    assert_eq!(client.quell().snapshot().ghosts, 1);
    until(|| server.left() == 1).await;
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection_and_leaves_a_ghost() {
    let server = Server::start(&[HANG]).await;
    let client = client(stock().in_flight(Limit::Fixed(4)));
    let calling = tokio::spawn(client.get(server.url()).send());
    until(|| server.requests().len() == 1).await;
    assert_eq!((client.quell().snapshot().in_flight, client.quell().snapshot().ghosts), (1, 0));
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    until(|| server.left() == 1).await;
    assert_eq!(client.quell().snapshot().ghosts, 1);
}

#[tokio::test]
async fn a_requests_timeout_covers_all_attempts_and_the_body() {
    let server = Server::start(&[HANG]).await;
    let client = client(stock().attempts(5));
    let started = Instant::now();
    let within = Duration::from_millis(300);
    let error = send(client.get(server.url()).timeout(within)).await.unwrap_err();
    assert!(started.elapsed() >= within && started.elapsed() < 10 * within);
    assert_eq!((error.attempts(), error.reason()), (1, Reason::Deadline));

    let slow = FINE.replace("length: 4", "length: 9");
    let server = Server::start(&[&format!("{slow}{HANG}")]).await;
    let reply = send(client.get(server.url()).timeout(within)).await.unwrap();
    assert!(in_time(reply.text()).await.unwrap_err().is_timeout());
}

/// A call's own time ends with its reply's head; the caller does not wait for the body any longer either.
#[tokio::test]
async fn the_deadline_of_the_context_covers_the_body_though_the_request_has_more_time() {
    let slow = FINE.replace("length: 4", "length: 9");
    let server = Server::start(&[&format!("{slow}{HANG}")]).await;
    let client = client(stock());
    let within = Duration::from_millis(300);
    let get = || client.get(server.url());
    for request in [get(), get().timeout(2 * wire::SOON)] {
        let started = Instant::now();
        let context = quell::context::Context::new();
        let context = context.with_deadline(quell::Clock::system().now() + within);
        let reply = in_time(context.scope(request.send())).await.unwrap();
        assert!(in_time(reply.text()).await.unwrap_err().is_timeout());
        assert!(started.elapsed() < 10 * within);
    }
}

#[tokio::test]
async fn a_mistake_in_the_request_is_an_error_and_sends_nothing() {
    let client = client(stock());
    let error = send(client.get("no url").operation("count")).await.unwrap_err();
    assert_eq!((error.operation(), error.attempts()), ("count", 0));
    assert!(matches!(error.cause(), Cause::Error(cause) if cause.is_builder()), "{error}");
}

#[tokio::test]
async fn two_upstreams_share_connections_and_no_budget() {
    let server = Server::start(&[BUSY]).await;
    let stock = client(stock());
    let prices = stock.for_upstream(Quell::upstream("prices").build().unwrap());
    send(stock.get(server.url())).await.unwrap();
    assert!(stock.quell().snapshot().budget < 1.0);
    assert_eq!(prices.quell().snapshot().budget, 1.0);
}

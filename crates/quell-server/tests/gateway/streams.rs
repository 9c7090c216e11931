//! What is more than a request and a reply: trailers, protocols that are switched, bodies that do not end.

use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::kit::*;

/// Accepts one connection and reads a head from it.
async fn accept(listener: &TcpListener) -> (TcpStream, String) {
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let head = until_seen(&mut stream, "\r\n\r\n").await;
    (stream, head)
}

async fn until_seen(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.windows(end.len()).any(|part| part == end.as_bytes()) {
        let mut part = [0; 4096];
        let n = timeout(PATIENCE, stream.read(&mut part)).await.expect("too late").unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&part[..n]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_switched_protocol_is_carried_both_ways_until_one_side_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let ask = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, head) = accept(&listener).await;
    let head = head.to_ascii_lowercase();
    assert!(head.contains("upgrade: websocket") && head.contains("connection: upgrade"), "{head}");
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst";
    service.write_all(switch.as_bytes()).await.unwrap();
    let seen = until_seen(&mut caller, "first").await;
    assert!(
        seen.starts_with("HTTP/1.1 101")
            && seen.to_ascii_lowercase().contains("upgrade: websocket"),
        "{seen}"
    );
    // Bytes that would never pass as a request.
    caller.write_all(b"\x81\x00\n\n not http").await.unwrap();
    until_seen(&mut service, "not http").await;
    service.write_all(b"pong").await.unwrap();
    until_seen(&mut caller, "pong").await;
    assert_eq!(gauge(&gateway, "quell_in_flight").await, 0.0, "a tunnel holds no slot");
    drop(service);
    assert_eq!(timeout(PATIENCE, caller.read(&mut [0; 16])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_service_that_switches_unasked_is_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let reply = tokio::spawn(post_to(gateway.addr()));
    let (mut service, _) = accept(&listener).await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    service.write_all(switch.as_bytes()).await.unwrap();
    assert_eq!(timeout(PATIENCE, reply).await.unwrap().unwrap().status, 502);
}

async fn post_to(addr: std::net::SocketAddr) -> Reply {
    post(addr, "/", "x").await
}

/// A service that sends this many early hints before its reply, and what the caller sees, who speaks this version.
async fn hinted(hints: usize, version: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway_with(listener.local_addr().unwrap(), |config| {
        config.policy().attempts = 1;
    });
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let ask = format!("GET / {version}\r\nHost: a\r\nConnection: close\r\n\r\n");
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, _) = accept(&listener).await;
    let hint = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 7\r\n\r\n";
    service.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    // It may be let go in the middle.
    let _ = service.write_all(hint.repeat(hints).as_bytes()).await;
    if hints == 1 {
        assert!(
            version == "HTTP/1.0" || until_seen(&mut caller, "</a>\r\n\r\n").await.contains("103")
        );
    }
    let _ = service.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let mut seen = String::new();
    timeout(PATIENCE, caller.read_to_string(&mut seen)).await.unwrap().unwrap();
    seen
}

#[tokio::test]
async fn early_hints_pass_at_once_and_without_framing_and_a_mere_go_on_does_not() {
    assert!(hinted(1, "HTTP/1.1").await.starts_with("HTTP/1.1 200"), "the hint came before");
    let seen = hinted(20, "HTTP/1.1").await;
    let hints = seen.matches("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").count();
    assert_eq!((hints, seen.matches("HTTP/1.1").count()), (20, 21), "{seen}");
    assert!(seen.ends_with("ok"), "{seen}");
}

#[tokio::test]
async fn who_speaks_http_1_0_gets_no_early_hints_and_a_storm_of_them_is_a_broken_reply() {
    let seen = hinted(1, "HTTP/1.0").await;
    assert!(seen.starts_with("HTTP/1.1 200") && !seen.contains("103"), "{seen}");
    let seen = hinted(5_000, "HTTP/1.1").await;
    let (hints, reply) = seen.rsplit_once("HTTP/1.1 502").expect("no end of it");
    assert!(hints.matches("103 Early Hints").count() <= 100, "{hints}");
    assert!(reply.contains("BROKEN"), "{reply}");
}

#[tokio::test]
async fn a_caller_who_leaves_with_a_body_that_nobody_reads_is_noticed() {
    let upstream = Fake::start(|_, _| None).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.upstream().in_flight = quell::core::in_flight::Limit::Fixed(1);
    });
    let mut busy = TcpStream::connect(gateway.addr()).await.unwrap();
    busy.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until("it arrives", || async { upstream.seen().len() == 1 }).await;
    let mut queued = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nthe beginning";
    queued.write_all(head.as_bytes()).await.unwrap();
    until("it waits", || async { gauge(&gateway, "quell_queued").await == 1.0 }).await;
    drop(queued);
    until("it is let go", || async { gauge(&gateway, "quell_queued").await == 0.0 }).await;
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_reply_that_comes_before_the_end_of_its_request_passes_while_the_rest_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let ask = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, mut seen) = accept(&listener).await;
    if !seen.contains("one") {
        seen += &until_seen(&mut service, "one").await;
    }
    let begin = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\necho\r\n";
    service.write_all(begin.as_bytes()).await.unwrap();
    assert!(until_seen(&mut caller, "echo").await.starts_with("HTTP/1.1 200"));
    caller.write_all(b"3\r\ntwo\r\n").await.unwrap();
    until_seen(&mut service, "two").await;
    service.write_all(b"5\r\nagain\r\n").await.unwrap();
    until_seen(&mut caller, "again").await;
    caller.write_all(b"0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until_seen(&mut service, "0\r\n\r\n").await;
    service.write_all(b"0\r\n\r\n").await.unwrap();
    // Both sides are over: the next request takes the same connection.
    until_seen(&mut service, "GET /next").await;
    service.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert!(until_seen(&mut caller, "HTTP/1.1 204").await.contains("0\r\n\r\n"));
}

#[tokio::test]
async fn a_caller_that_expects_is_told_to_go_on_only_when_it_is_admitted() {
    let upstream = Fake::start(|_, seen| answer(200, seen.body.clone())).await;
    let gateway = gateway(upstream.addr);
    let head = |more: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n{more}\r\n"
        )
    };
    let mut admitted = TcpStream::connect(gateway.addr()).await.unwrap();
    admitted.write_all(head("").as_bytes()).await.unwrap();
    let seen = until_seen(&mut admitted, "\r\n\r\n").await;
    assert!(seen.starts_with("HTTP/1.1 100"), "{seen}");
    admitted.write_all(b"hello").await.unwrap();
    assert!(until_seen(&mut admitted, "hello").await.starts_with("HTTP/1.1 200"));

    let mut refused = TcpStream::connect(gateway.addr()).await.unwrap();
    refused.write_all(head("quell-deadline-ms: 0\r\n").as_bytes()).await.unwrap();
    let seen = until_seen(&mut refused, "\r\n\r\n").await;
    assert!(seen.starts_with("HTTP/1.1 504"), "{seen}");
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn trailers_pass_both_ways_over_http_1() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let ask = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n";
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, mut text) = accept(&listener).await;
    if !text.contains("x-sum: 7") {
        text += &until_seen(&mut service, "x-sum: 7").await;
    }
    assert!(text.to_ascii_lowercase().contains("te: trailers"), "{text}");
    let reply = "HTTP/1.1 200 OK\r\nTrailer: x-end\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-end: 9\r\n\r\n";
    service.write_all(reply.as_bytes()).await.unwrap();
    let seen = until_seen(&mut caller, "x-end: 9").await;
    assert!(seen.starts_with("HTTP/1.1 200"), "{seen}");
}

/// H4 for streams: the events come one by one, long before the end, and the rest of a stream that breaks is not repeated.
#[tokio::test]
async fn events_pass_as_they_come_and_a_broken_stream_is_not_begun_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let (mut service, _) = accept(&listener).await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    for n in 0..3 {
        service.write_all(format!("9\r\ndata: {n}\n\n\r\n").as_bytes()).await.unwrap();
        until_seen(&mut caller, &format!("data: {n}")).await;
    }
    drop(service);
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, caller.read_to_end(&mut rest)).await.expect("left open");
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP/1.1"));
    let again = timeout(ms(100), listener.accept()).await;
    assert!(again.is_err(), "nothing is retried after the first byte out");
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_attempt_within_a_tenth_of_a_second() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut fastest = PATIENCE;
    // The best of a few: what is promised is what the gateway does, not what a busy machine does.
    for _ in 0..5 {
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        caller.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let (mut service, _) = accept(&listener).await;
        let left = Instant::now();
        drop(caller);
        let closed = timeout(PATIENCE, service.read(&mut [0; 16])).await.expect("left open");
        assert!(matches!(closed, Ok(0) | Err(_)));
        fastest = fastest.min(left.elapsed());
    }
    assert!(fastest < ms(100), "{fastest:?}");
}

/// H2 in, HTTP/1 out: many at once on one connection, each with its own reply; cookies are joined, the host is kept.
#[tokio::test]
async fn many_requests_on_one_http_2_connection_each_get_their_reply() {
    let upstream = Fake::start(|_, seen| {
        let cookie = seen.header("cookie").unwrap_or("").to_owned();
        answer(200, format!("{} {} {cookie}", seen.uri, seen.header("host").unwrap()))
    })
    .await;
    let gateway = gateway(upstream.addr);
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let (send, http) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(http);
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..50 {
        let mut send = send.clone();
        asked.spawn(async move {
            let request = http::Request::get(format!("http://shop.example/{n}"))
                .header("cookie", "a=1")
                .header("cookie", "b=2");
            let reply =
                send.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
            let text = reply.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(text, format!("/{n} shop.example a=1; b=2"));
        });
    }
    while let Some(result) = timeout(PATIENCE, asked.join_next()).await.expect("too late") {
        result.unwrap();
    }
    assert_eq!(upstream.seen().len(), 50);
}

/// A body far larger than any buffer passes both ways while the process hardly grows.
#[tokio::test]
async fn a_large_body_passes_with_constant_memory() {
    const MIB: usize = 64;
    let upstream = echo().await;
    let gateway = gateway(upstream);
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let (mut send, http) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(http);
    let before = resident();
    let body = Chunks(vec![noise(64 * 1024); MIB * 16]); // which share their bytes
    let request = request("POST", "/").body(body).unwrap();
    let reply = timeout(PATIENCE, send.send_request(request)).await.unwrap().unwrap();
    assert_eq!(reply.status(), 200);
    let (mut body, mut length, mut most) = (reply.into_body(), 0, 0);
    while let Some(frame) = timeout(PATIENCE, body.frame()).await.expect("stands still") {
        length += frame.unwrap().into_data().map_or(0, |data| data.len());
        most = most.max(resident().saturating_sub(before));
    }
    assert_eq!(length, MIB * 1024 * 1024);
    assert!(most < 24 * 1024 * 1024, "grew by {} MiB", most / 1024 / 1024);
}

/// Sends back what it gets, as it comes.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(
                    |request: http::Request<hyper::body::Incoming>| async move {
                        Ok::<_, std::convert::Infallible>(http::Response::new(request.into_body()))
                    },
                );
                let http = hyper::server::conn::http1::Builder::new()
                    .header_read_timeout(None)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = http.await;
            });
        }
    });
    addr
}

/// What a caller sees of a service that answers with these packets, a moment apart.
async fn answered_by(ask: &str, packets: &[&[u8]]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway_with(listener.local_addr().unwrap(), |config| {
        config.policy().attempts = 1;
    });
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, _) = accept(&listener).await;
    for packet in packets {
        let _ = service.write_all(packet).await; // it may be let go in the middle
        tokio::time::sleep(ms(30)).await;
    }
    let mut seen = Vec::new();
    timeout(PATIENCE, caller.read_to_end(&mut seen)).await.unwrap().unwrap();
    String::from_utf8(seen).unwrap()
}

const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_reply_whose_head_is_too_long_is_none_however_it_is_cut() {
    let first =
        ["HTTP/1.1 200 OK\r\nx-a: Zset-cookie=forged=1", &"a".repeat(55_000), "\r\n"].concat();
    let rest = ["x-b: ", &"b".repeat(20_000), "\r\ncontent-length: 2\r\n\r\nok"].concat();
    let seen = answered_by(LAST, &[first.as_bytes(), rest.as_bytes()]).await;
    assert!(seen.starts_with("HTTP/1.1 502") && !seen.contains("forged"), "{seen}");
    let coded = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert!(answered_by(LAST, &[coded]).await.starts_with("HTTP/1.1 502"));
}

#[tokio::test]
async fn a_whole_reply_to_a_part_of_a_request_is_the_last_and_says_so() {
    let ask = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\na part";
    let early = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig";
    let seen = answered_by(ask, &[early]).await;
    assert!(seen.starts_with("HTTP/1.1 413") && seen.ends_with("big"), "{seen}");
    assert!(seen.contains("connection: close\r\n"), "{seen}");
}

#[tokio::test]
async fn trailers_that_frame_or_vouch_go_no_further() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let ask = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
        x-forwarded-for: 6.6.6.6\r\nquell-attempt: 9\r\nx-sum: 7\r\n\r\n";
    caller.write_all(ask.as_bytes()).await.unwrap();
    let (mut service, mut seen) = accept(&listener).await;
    while !seen.ends_with("x-sum: 7\r\n\r\n") {
        seen += &until_seen(&mut service, "\r\n\r\n").await;
    }
    assert!(!seen.contains("6.6.6.6") && !seen.contains("quell-attempt: 9"), "{seen}");
}

#[tokio::test]
async fn a_caller_who_leaves_behind_more_than_is_read_ahead_is_noticed() {
    let upstream = Fake::start(|_, _| None).await;
    let gateway = gateway(upstream.addr);
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    let asks = ["GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", &next.repeat(1_000)].concat();
    caller.write_all(asks.as_bytes()).await.unwrap();
    until("it arrives", || async { upstream.seen().len() == 1 }).await;
    drop(caller);
    until("it is let go", || async { gauge(&gateway, "quell_ghosts").await == 1.0 }).await;
    assert_eq!(upstream.seen().len(), 1);
}

/// H12, from the other side: whoever takes nothing is late, however willing the caller is.
#[tokio::test]
async fn a_service_that_stops_reading_is_late_and_not_its_caller() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway_with(listener.local_addr().unwrap(), |config| {
        config.policy().per_try_timeout = Some(ms(300));
        config.policy().timeout = ms(10_000);
    });
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = caller.into_split();
    let sends =
        tokio::spawn(async move { while write.write_all(&[b'x'; 65_536]).await.is_ok() {} });
    let (_service, _) = accept(&listener).await;
    let mut seen = [0; 16];
    timeout(ms(5_000), read.read_exact(&mut seen)).await.expect("too late").unwrap();
    assert!(seen.starts_with(b"HTTP/1.1 504"), "{}", String::from_utf8_lossy(&seen));
    sends.abort();
}

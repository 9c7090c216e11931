//! The gate over real sockets: what is refused is answered, counted, and seen by nobody else.

use std::net::SocketAddr;

use crate::kit::*;
use quell_server::gateway::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Sends these bytes, and reads until the connection is closed.
async fn exchange(to: SocketAddr, bytes: &[u8]) -> String {
    let mut caller = TcpStream::connect(to).await.unwrap();
    caller.write_all(bytes).await.unwrap();
    rest(&mut caller).await
}

async fn rest(caller: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(PATIENCE, caller.read_to_string(&mut text)).await.expect("left open").unwrap();
    text
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut part = [0; 4096];
    let count = timeout(PATIENCE, stream.read(&mut part)).await.expect("too late").unwrap();
    String::from_utf8(part[..count].to_vec()).unwrap()
}

async fn malformed(gateway: &Running) -> u64 {
    let text = look(gateway.admin_addr(), "/metrics").await;
    let lines = text.text().lines().filter(|line| {
        line.starts_with("quell_requests_total{") && line.contains("outcome=\"malformed\"")
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

const GOOD: &str = "GET /good HTTP/1.1\r\nHost: a\r\n\r\n";

/// H12.
#[tokio::test]
async fn what_is_refused_is_answered_and_counted_and_the_upstream_sees_none_of_it() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let chunked = |body: &str| head("Transfer-Encoding: chunked\r\n") + body;
    let long = "x".repeat(40_000);
    let refused = [
        ("GET / HTTP/1.1\nHost: a\n\n".into(), 400, "control"),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n".into(), 400, "control"),
        ("GET /\r\n".into(), 400, "line"),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n".into(), 505, "version"),
        ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400, "target"),
        ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400, "target"),
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "target"),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400, "host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".into(), 400, "host"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".into(), 400, "host"),
        ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400, "host"),
        (head("X : y\r\n"), 400, "field"),
        (head("X: y\r\n z\r\n"), 400, "field"),
        (head(&format!("X: {long}\r\n")), 431, "head"),
        (head(&"Cookie: a=1\r\n".repeat(100)), 431, "fields"),
        (head("Content-Length: 3\r\nContent-Length: 3\r\n") + "abc", 400, "framing"),
        (head("Content-Length: +3\r\n") + "abc", 400, "framing"),
        (head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400, "framing"),
        (head("Transfer-Encoding: identity, chunked\r\n") + "0\r\n\r\n", 400, "framing"),
        (head("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 501, "coding"),
        (chunked("3 \r\nabc\r\n0\r\n\r\n"), 400, "chunk"),
        (chunked("3\nabc\r\n0\r\n\r\n"), 400, "chunk"),
        (chunked("fffffffffffffffff\r\nabc"), 400, "chunk"),
        (chunked(&format!("3;{long}\r\nabc\r\n0\r\n\r\n")), 400, "chunk"),
        (chunked("0\r\nX : y\r\n\r\n"), 400, "trailer"),
        ("\u{16}\u{3}\u{1}\u{2}".into(), 400, "control"),
    ];
    for (bytes, status, code) in &refused {
        let text = exchange(gateway.addr(), bytes.as_bytes()).await;
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{bytes:?}: {text:?}"));
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{bytes:?}: {text}");
        for line in ["connection: close", "quell-attempts: 0", "content-type: application/json"] {
            assert!(head.contains(line), "{bytes:?}: no {line} in {text}");
        }
        assert!(body.ends_with(&format!("\"code\":\"{code}\"}}")), "{bytes:?}: {text}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{text}");
    }
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
    assert_eq!(malformed(&gateway).await, refused.len() as u64);
}

/// H12.
#[tokio::test]
async fn a_request_that_comes_byte_by_byte_is_the_same_request() {
    let upstream = Fake::start(|_, seen| answer(200, seen.body.clone())).await;
    let gateway = gateway(upstream.addr);
    let request = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\n0\r\nT: u\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.set_nodelay(true).unwrap();
    for byte in request.bytes() {
        caller.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let text = rest(&mut caller).await;
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
    let seen = upstream.seen();
    assert_eq!(seen.iter().map(|seen| seen.uri.path()).collect::<Vec<_>>(), ["/x", "/y"]);
    assert_eq!(seen[0].body, "hello");
}

/// It is larger than the parser's first buffer, so it comes in parts and is given in parts.
#[tokio::test]
async fn a_long_head_is_held_back_and_passes_whole() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let long = "x".repeat(30_000);
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {long}\r\n\r\n");
    assert!(exchange(gateway.addr(), request.as_bytes()).await.starts_with("HTTP/1.1 200"));
    assert_eq!(upstream.seen()[0].header("x"), Some(long.as_str()));
}

#[tokio::test]
async fn replies_under_way_are_finished_before_a_refusal_and_in_order() {
    let upstream = Fake::start(|n, _| answer(200, format!("reply {n}."))).await;
    let gateway = gateway(upstream.addr);
    let bytes = [GOOD, GOOD, GOOD, "GET / HTTP/1.1\r\nX : y\r\n\r\n", GOOD].concat();
    let text = exchange(gateway.addr(), bytes.as_bytes()).await;
    let order: Vec<_> = ["reply 1.", "reply 2.", "reply 3.", "HTTP/1.1 400"]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}")))
        .collect();
    assert!(order.is_sorted(), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 4, "{text}");
    assert_eq!(upstream.seen().len(), 3);
    assert_eq!(malformed(&gateway).await, 1);
}

#[tokio::test]
async fn a_refusal_waits_for_a_slow_reply_and_a_caller_who_leaves_meanwhile_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    for leaves in [false, true] {
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        caller.write_all(GOOD.as_bytes()).await.unwrap();
        let (mut upstream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        assert!(read_some(&mut upstream).await.starts_with("GET /good"));
        let before = malformed(&gateway).await;
        caller.write_all(b"\n\n").await.unwrap();
        until("it is refused", || async { malformed(&gateway).await == before + 1 }).await;
        if leaves {
            drop(caller);
            assert_eq!(read_some(&mut upstream).await, "", "the upstream is let go");
            continue;
        }
        upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").await.unwrap();
        let text = rest(&mut caller).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.contains("lateHTTP/1.1 400 Bad Request\r\n"), "{text}");
    }
}

/// Where the head has passed, whoever reads the body answers, and the upstream never gets the end of it.
#[tokio::test]
async fn a_body_that_breaks_the_rules_later_ends_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    let (mut upstream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut seen = read_some(&mut upstream).await;
    while !seen.ends_with("hello\r\n") {
        seen += &read_some(&mut upstream).await;
    }
    caller.write_all(b"0\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert_eq!(read_some(&mut upstream).await, "", "no end of the body, and no second request");
    let text = rest(&mut caller).await;
    assert!(text.starts_with("HTTP/1.1 400") && text.contains("\"code\":\"BODY\""), "{text}");
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    assert_eq!(malformed(&gateway).await, 0, "it was counted as the request that it was");
}

/// H13: what the caller still sends is read for a moment, so that the reply is not lost in a reset.
#[tokio::test]
async fn a_refused_caller_who_goes_on_sending_still_gets_the_reply() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let body = "x".repeat(16 * 1024);
    let shed =
        "POST / HTTP/1.1\r\nHost: a\r\nquell-deadline-ms: 0\r\nContent-Length: 49152\r\n\r\n";
    let bad = "POST / HTTP/1.1\r\nHost : a\r\nContent-Length: 49152\r\n\r\n";
    for (head, code) in [(shed, "DEADLINE"), (bad, "field")] {
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        caller.write_all(head.as_bytes()).await.unwrap();
        let mut text = read_some(&mut caller).await;
        for _ in 0..3 {
            caller.write_all(body.as_bytes()).await.unwrap();
        }
        text += &rest(&mut caller).await;
        assert!(text.ends_with(&format!("\"code\":\"{code}\"}}")), "{text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
    }
    assert!(upstream.seen().is_empty());
}

/// An upload that takes this many pieces, one in 50 ms, of the eight that it promises; and what its caller is told.
async fn upload(gateway: &Running, pieces: usize) -> String {
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 8\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..pieces {
        tokio::time::sleep(ms(50)).await;
        caller.write_all(b"x").await.unwrap();
    }
    rest(&mut caller).await
}

/// The caller's time is not the service's: an attempt's own begins when it has all of the request.
#[tokio::test]
async fn a_slow_upload_is_no_slow_service() {
    let upstream = Fake::start(|_, seen| answer(200, seen.body.clone())).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.policy().per_try_timeout = Some(ms(120));
        config.policy().timeout = ms(200); // less than the upload takes
    });
    let text = upload(&gateway, 8).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("xxxxxxxx"), "{text}");
    assert!(text.contains("quell-attempts: 1\r\n"), "{text}");

    // Enough of them to open the breaker, if they were the service's fault.
    let mut late = tokio::task::JoinSet::new();
    let gateway = std::sync::Arc::new(gateway);
    for _ in 0..25 {
        let gateway = std::sync::Arc::clone(&gateway);
        late.spawn(async move { upload(&gateway, 3).await });
    }
    while let Some(text) = late.join_next().await {
        let text = text.unwrap();
        assert!(text.starts_with("HTTP/1.1 408") && text.contains("\"code\":\"BODY\""), "{text}");
    }
    let closed = "quell_breaker_state{upstream=\"default\",state=\"closed\"}";
    assert_eq!(metric(&gateway, closed).await, 1.0);
    assert_eq!(get(gateway.addr(), "/").await.status, 200);
}

/// Who leaves in the middle of its upload has not waited for anything, and left nothing to work on.
#[tokio::test]
async fn who_leaves_in_its_own_upload_teaches_no_impatience_and_leaves_no_ghost() {
    let upstream = Fake::start(|_, seen| answer(200, seen.body.clone())).await;
    let gateway = gateway(upstream.addr);
    assert_eq!(get(gateway.addr(), "/").await.status, 200);
    let level = |name: &str| format!("{name}{{upstream=\"default\"}}");
    let patience = metric(&gateway, &level("quell_patience_seconds")).await;
    for gone in 1..=30 {
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf";
        caller.write_all(head.as_bytes()).await.unwrap();
        drop(caller);
        let left =
            "quell_requests_total{route=\"default\",upstream=\"default\",outcome=\"abandoned\"}";
        until("it is over", || async { metric(&gateway, left).await == f64::from(gone) }).await;
        assert_eq!(metric(&gateway, &level("quell_in_flight")).await, 0.0);
    }
    assert_eq!(metric(&gateway, &level("quell_ghosts")).await, 0.0);
    // It settles from 1,024 as soon as something is known, and never under this without evidence of trouble.
    let limit = metric(&gateway, &level("quell_in_flight_limit")).await;
    assert!(limit >= 256.0, "{limit}");
    assert_eq!(metric(&gateway, &level("quell_patience_seconds")).await, patience);
}

/// H12: a body that stands still, or trickles, is not waited for.
#[tokio::test]
async fn a_body_that_trickles_ends_its_connection() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.file.gateway.caller_pause = ms(2_000);
    });
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = caller.split();
    let trickle = async {
        while write.write_all(b"x").await.is_ok() {
            tokio::time::sleep(ms(50)).await;
        }
        std::future::pending::<()>().await;
    };
    let end = async {
        let mut reply = [0; 512];
        let length = read.read(&mut reply).await.unwrap();
        assert!(reply[..length].starts_with(b"HTTP/1.1 408 "));
        matches!(read.read(&mut reply).await, Ok(0) | Err(_))
    };
    tokio::select! {
        () = trickle => {}
        closed = timeout(3 * PATIENCE, end) => assert!(closed.expect("left open")),
    }
}

//! The gateway as a proxy: what goes in comes out, framed and labelled as it should be.

use crate::kit::*;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use quell_server::gateway::HostField;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn a_get_passes_with_its_query_and_the_reply_unchanged() {
    let upstream = Fake::start(|_, _| {
        let reply = Response::builder().status(203).header("x-reply", "1").header("x-reply", "2");
        Some(reply.body(Full::from("hello").boxed()).unwrap())
    })
    .await;
    let gateway = gateway(upstream.addr);
    let reply = get(gateway.addr(), "/a%20b?c=d&e").await;
    assert_eq!((reply.status.as_u16(), reply.text()), (203, "hello"));
    assert_eq!(reply.headers.get_all("x-reply").iter().count(), 2);
    assert_eq!((reply.header("quell-attempts"), reply.header("quell-stop")), (Some("1"), None));
    let seen = &upstream.seen()[0];
    assert_eq!((seen.method.as_str(), seen.uri.to_string().as_str()), ("GET", "/a%20b?c=d&e"));
    assert!(seen.body.is_empty() && seen.header("transfer-encoding").is_none());
}

#[tokio::test]
async fn bodies_pass_unchanged_with_and_without_a_length() {
    let upstream = Fake::start(|_, seen| {
        let chunks = seen.body.chunks(7_000).map(Bytes::copy_from_slice).collect();
        match seen.uri.path() {
            "/chunked" => Some(Response::new(Chunks(chunks).boxed())),
            _ => answer(200, seen.body.clone()),
        }
    })
    .await;
    let gateway = gateway(upstream.addr);
    for length in [0, 1, 1_000, 70_000, 2 * 1024 * 1024] {
        for path in ["/length", "/chunked"] {
            let body = noise(length);
            let reply = post(gateway.addr(), path, body.clone()).await;
            assert_eq!(reply.status, 200);
            assert!(reply.body == body, "{path} {length}: {} bytes came back", reply.body.len());
            let sent = upstream.seen().last().unwrap().clone();
            let told = (length > 0).then(|| length.to_string()); // this caller sends none for an empty one
            assert_eq!(sent.header("content-length"), told.as_deref());

            let chunks = Chunks(body.chunks(5_000).map(Bytes::copy_from_slice).collect());
            let reply = send(gateway.addr(), request("PUT", path).body(chunks).unwrap()).await;
            assert!(reply.body == body, "{path} {length}: {} bytes came back", reply.body.len());
            let sent = upstream.seen().last().unwrap().clone();
            assert_eq!(sent.header("content-length"), None);
        }
    }
}

#[tokio::test]
async fn a_reply_reaches_the_caller_before_it_is_complete() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let (mut upstream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let _ = upstream.read(&mut [0; 4096]).await.unwrap();
    upstream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").await.unwrap();
    read_until(&mut caller, "half").await;
    upstream.write_all(b"rest").await.unwrap();
    read_until(&mut caller, "rest").await;
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut part = [0; 4096];
        let n = timeout(PATIENCE, stream.read(&mut part)).await.expect("too late").unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&part[..n]);
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn hop_by_hop_fields_end_here_on_both_ways_and_we_say_who_called() {
    let upstream = Fake::start(|_, _| {
        let reply = Response::builder()
            .header("connection", "x-private, keep-alive")
            .header("x-private", "1")
            .header("keep-alive", "timeout=5")
            .header("proxy-authenticate", "Basic")
            .header("x-public", "1");
        Some(reply.body(Full::from("ok").boxed()).unwrap())
    })
    .await;
    let gateway = gateway(upstream.addr);
    let request = request("GET", "/")
        .header("connection", "x-private, quell-attempt")
        .header("x-private", "1")
        .header("te", "gzip")
        .header("upgrade", "websocket")
        .header("proxy-authorization", "secret")
        .header("x-forwarded-for", "6.6.6.6")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-port", "1")
        .header("x-real-ip", "6.6.6.6")
        .header("via", "1.1 evil")
        .header("quell-attempt", "7")
        .header("quell-retry-credit", "7")
        .header("x-public", "1");
    let reply = send(gateway.addr(), request.body(Full::<Bytes>::default()).unwrap()).await;
    let seen = upstream.seen()[0].clone();
    for gone in ["connection", "x-private", "te", "upgrade", "proxy-authorization"]
        .into_iter()
        .chain(["x-forwarded-port", "x-real-ip"])
    {
        assert_eq!(seen.header(gone), None, "{gone}");
    }
    for (name, value) in [
        ("host", "shop.example"),
        ("x-public", "1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "shop.example"),
        ("via", "1.1 quell"),
        ("quell-attempt", "1"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let left: u64 = seen.header("quell-deadline-ms").unwrap().parse().unwrap();
    assert!((59_000..=60_000).contains(&left), "{left}");
    for gone in ["x-private", "keep-alive", "proxy-authenticate"] {
        assert_eq!(reply.header(gone), None, "{gone}");
    }
    assert_eq!(reply.header("x-public"), Some("1"));
}

#[tokio::test]
async fn host_can_be_rewritten_to_the_upstreams() {
    let upstream = Fake::start(|_, _| answer(200, "")).await;
    let gateway = gateway_with(upstream.addr, |config| {
        config.file.upstreams.get_mut("default").unwrap().host = HostField::Rewrite;
    });
    get(gateway.addr(), "/").await;
    let seen = upstream.seen()[0].clone();
    assert_eq!(seen.header("host"), Some(upstream.addr.to_string().as_str()));
    assert_eq!(seen.header("x-forwarded-host"), Some("shop.example"));
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused_and_the_connection_closed() {
    let upstream = Fake::start(|_, _| answer(200, "")).await;
    let gateway = gateway(upstream.addr);
    for (head, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"),
        ("GET http://b/ HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity, chunked\r\n\r\n0\r\n\r\n",
            "400",
        ),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", "501"),
        ("not http at all\r\n\r\n", "400"),
    ] {
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        caller.write_all(head.as_bytes()).await.unwrap();
        let mut text = String::new();
        timeout(PATIENCE, caller.read_to_string(&mut text)).await.expect("left open").unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{head:?} got {text:?}");
    }
    assert!(upstream.seen().is_empty());
    let absolute = "GET http://a/x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(absolute.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, caller.read_to_string(&mut text)).await.expect("left open").unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text:?}");
    assert_eq!(upstream.seen()[0].uri, "/x");
}

#[tokio::test]
async fn the_unread_body_of_a_refused_request_never_becomes_the_next_request() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    for missing in [0, 10] {
        let length = smuggled.len() + missing;
        let head = format!(
            "POST / HTTP/1.1\r\nhost: a\r\nquell-deadline-ms: 0\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
        caller.write_all(head.as_bytes()).await.unwrap();
        read_until(&mut caller, "\"DEADLINE\"}").await;
        // It may be closed by now, or read on: either way these bytes are a body.
        let _ = caller.write_all(smuggled.as_bytes()).await;
        let _ = timeout(ms(100), caller.read(&mut [0; 4096])).await;
        assert!(upstream.seen().is_empty());
    }
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway_with(upstream.addr, |config| config.cores = 1);
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    for _ in 0..20 {
        caller.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        read_until(&mut caller, "ok").await;
    }
    assert_eq!(metric(&gateway, "quell_connections_total").await, 1.0);
    assert_eq!(metric(&gateway, "quell_upstream_connects_total").await, 1.0);
    assert_eq!(upstream.seen().len(), 20);
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let upstream = Fake::start(|_, _| answer(200, "12345")).await;
    let gateway = gateway(upstream.addr);
    let head = request("HEAD", "/").body(Full::<Bytes>::default()).unwrap();
    let reply = send(gateway.addr(), head).await;
    assert_eq!((reply.header("content-length"), reply.body.len()), (Some("5"), 0));
}

/// The client below assumes that a GET has no body unless it is told.
#[tokio::test]
async fn the_body_of_a_get_passes_whole_in_chunks_too() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let chunks = Chunks(vec!["half".into(), "rest".into()]);
    let get = request("GET", "/").header("transfer-encoding", "chunked").body(chunks).unwrap();
    assert_eq!(send(gateway.addr(), get).await.status, 200);
    assert_eq!(upstream.seen()[0].body, "halfrest");
}

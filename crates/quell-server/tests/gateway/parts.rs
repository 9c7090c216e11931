//! A part that is slow, refused or held back is not the whole: kinds of calls, credentials, uploads and endpoints side by side.

use bytes::Bytes;
use http_body_util::Full;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::kit::*;

async fn shown(gateway: &quell_server::gateway::Running, path: &str) -> Value {
    let reply = look(gateway.admin_addr(), path).await;
    serde_json::from_str(reply.text()).unwrap()
}

#[tokio::test]
async fn requests_of_one_shape_are_one_class_and_shown_by_name() {
    let upstream = Fake::start(|_, _| answer(200, "")).await;
    let gateway = gateway(upstream.addr);
    for n in 0..20 {
        get(gateway.addr(), &format!("/orders/{n}?page={n}")).await;
    }
    post(gateway.addr(), "/orders", "x").await;
    let state = shown(&gateway, "/state").await;
    let classes = state["upstreams"][0]["classes"].as_array().unwrap();
    let names: Vec<_> = classes.iter().map(|class| class["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"default GET /orders/*"), "{names:?}");
    assert!(names.contains(&"default POST /orders"), "{names:?}");
    let alone = shown(&gateway, "/classes").await;
    assert_eq!(alone["upstreams"][0]["classes"].as_array().unwrap().len(), classes.len());
}

#[tokio::test]
async fn what_the_upstream_asks_one_credential_to_wait_for_others_need_not() {
    let upstream = Fake::start(|n, seen| match seen.header("authorization") {
        Some("Bearer greedy") => {
            let mut reply = answer(429, "").unwrap();
            reply.headers_mut().insert("retry-after", http::HeaderValue::from_static("20"));
            Some(reply)
        }
        _ => answer(if n == 2 { 503 } else { 200 }, ""),
    })
    .await;
    let gateway = gateway(upstream.addr);
    let ask = |who: &str| {
        let request = request("GET", "/").header("authorization", format!("Bearer {who}"));
        let to = gateway.addr();
        tokio::spawn(timeout(ms(2_000), send(to, request.body(Full::<Bytes>::default()).unwrap())))
    };
    let greedy = ask("greedy"); // it sleeps until it may come back
    until("the 429", async || !upstream.seen().is_empty()).await;
    let modest = ask("modest").await.unwrap().expect("held back by another's hint");
    assert_eq!((modest.status.as_u16(), modest.header("quell-attempts")), (200, Some("2")));
    greedy.abort();
}

/// A request whose body trickles, and the in-flight attempts that are shown meanwhile and once it is whole.
#[tokio::test]
async fn a_slow_upload_holds_no_slot_until_it_is_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = gateway(listener.local_addr().unwrap());
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "PUT /files/7 HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc";
    caller.write_all(head.as_bytes()).await.unwrap();
    let (mut service, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut came = Vec::new();
    while !came.ends_with(b"abc") {
        assert!(timeout(PATIENCE, service.read_buf(&mut came)).await.unwrap().unwrap() > 0);
    }
    assert_eq!(gauge(&gateway, "quell_in_flight").await, 0.0, "it is no work yet");
    caller.write_all(b"defghi").await.unwrap();
    until("work", async || gauge(&gateway, "quell_in_flight").await == 1.0).await;
    service.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"ok") {
        assert!(timeout(PATIENCE, caller.read_buf(&mut seen)).await.unwrap().unwrap() > 0);
    }
    until("done", async || gauge(&gateway, "quell_in_flight").await == 0.0).await;
}

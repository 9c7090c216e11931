//! The defaults break nothing that worked: long replies, late bodies, quick failures.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::kit::*;

async fn shown(gateway: &quell_server::gateway::Running, path: &str) -> Value {
    let reply = look(gateway.admin_addr(), path).await;
    serde_json::from_str(reply.text()).unwrap()
}

#[tokio::test]
async fn by_default_a_reply_may_take_a_minute_in_one_attempt() {
    let upstream = Fake::start(|_, _| answer(200, "")).await;
    let times = async |gateway: &quell_server::gateway::Running| {
        let routes = shown(gateway, "/routes").await;
        ["timeout_seconds", "per_try_seconds"].map(|name| routes[0][name].as_f64().unwrap())
    };
    assert_eq!(times(&gateway(upstream.addr)).await, [60.0, 60.0]);
    let lines = format!("[upstream.x]\nendpoints = [\"http://{}\"]\n", upstream.addr);
    let strict = from_file(&format!("{lines}preset = \"strict\""));
    assert_eq!(times(&strict).await, [15.0, 5.0]);
    assert_eq!(shown(&strict, "/routes").await[0]["settings"]["upstream"]["connect_timeout"], "2s");
}

/// The same, sixty times as fast: a reply after five sixths of the time that there is.
#[tokio::test]
async fn a_reply_that_takes_most_of_the_time_arrives() {
    let upstream = quell_server::demo::scripted::Scripted::start(
        quell_server::demo::scripted::Shape::constant(8, ms(833)),
    );
    let upstream = upstream.await.unwrap();
    let to = upstream.addr();
    let gateway = from_file(&format!(
        "[policy.x]\ntimeout = \"1s\"\n[upstream.x]\nendpoints = [\"http://{to}\"]"
    ));
    let reply = get(gateway.addr(), "/report").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (200, Some("1")));
}

#[tokio::test]
async fn a_quick_failure_is_tried_again_though_one_attempt_may_take_all_the_time() {
    let upstream = Fake::start(|n, _| answer(if n == 1 { 503 } else { 200 }, "x")).await;
    let gateway = gateway(upstream.addr);
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (200, Some("2")));
}

#[tokio::test]
async fn a_body_that_comes_late_is_passed_on_whole_and_answered() {
    let upstream = Fake::start(|_, seen| answer(200, seen.body.clone())).await;
    let gateway = gateway(upstream.addr);
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = "PUT /files/7 HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 6\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    for byte in b"abcdef" {
        sleep(ms(20)).await;
        caller.write_all(&[*byte]).await.unwrap();
    }
    let mut seen = String::new();
    timeout(PATIENCE, caller.read_to_string(&mut seen)).await.unwrap().unwrap();
    assert!(seen.starts_with("HTTP/1.1 200") && seen.ends_with("abcdef"), "{seen}");
    assert_eq!(gauge(&gateway, "quell_in_flight").await, 0.0);
}

//! The access log: a line per request, with all that is needed at night and nothing that is nobody's business.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use quell::core::idempotency::Spec;
use quell_server::config::{AccessLog, Keys, Protocol};
use quell_server::gateway::{Config, Running};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::files::Dir;
use crate::grpc::peers::{Caller, Fields, Line, OK, Origin};
use crate::kit::*;

/// A gateway that writes a log, and its file.
fn logged(dir: &Dir, upstream: &Fake, change: impl FnOnce(&mut Config)) -> (Running, PathBuf) {
    let path = dir.path("access.log");
    let gateway = gateway_with(upstream.addr, |config| {
        config.file.gateway.access_log = AccessLog::File(path.clone());
        change(config);
    });
    (gateway, path)
}

/// All lines, as soon as there are so many.
async fn lines(path: &Path, count: usize) -> Vec<Value> {
    let text = || fs::read_to_string(path).unwrap();
    until("the lines are written", || async { text().lines().count() >= count }).await;
    text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// O1.
#[tokio::test]
async fn a_line_has_every_attempt_and_what_followed_it() {
    let dir = Dir::new("access-attempts");
    let upstream = Fake::start(|n, _| match n {
        1 => answer(503, "overloaded"),
        _ => answer(200, "fine"),
    })
    .await;
    let (gateway, path) = logged(&dir, &upstream, |_| {});
    assert_eq!(get(gateway.addr(), "/orders/7?page=2").await.status, 200);
    let line = &lines(&path, 1).await[0];
    let expected = [
        ("method", "GET"),
        ("path", "/orders/7"),
        ("protocol", "HTTP/1.1"),
        ("route", "default"),
        ("upstream", "default"),
        ("outcome", "success"),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field} in {line}");
    }
    assert_eq!((&line["status"], &line["bytes_out"]), (&200.into(), &4.into()));
    assert_eq!((&line["reason"], &line["cut_off"]), (&Value::Null, &false.into()));
    assert!(line["time"].as_str().unwrap().ends_with('Z'));
    let [first, retry] = line["attempts"].as_array().unwrap().as_slice() else {
        panic!("not two attempts: {line}")
    };
    assert_eq!((&first["kind"], &first["code"]), (&"first".into(), &503.into()));
    assert_eq!((&first["error"], &retry["error"]), (&"503".into(), &Value::Null));
    assert_eq!((&retry["kind"], &retry["code"]), (&"retry".into(), &200.into()));
    assert_eq!(first["endpoint"], format!("http://{}", upstream.addr));
    assert_eq!(first["error_hash"].as_str().unwrap().len(), 16);
    let ms = |of: &Value| of.as_f64().unwrap();
    let (ended, delay) = (ms(&first["offset_ms"]) + ms(&first["duration_ms"]), &first["delay_ms"]);
    assert!(ms(&retry["offset_ms"]) + 0.01 >= ended + ms(delay), "{line}");
    assert!(ms(&line["duration_ms"]) >= ms(&retry["offset_ms"]), "{line}");
}

/// O5.
#[tokio::test]
async fn nothing_that_a_caller_keeps_to_itself_gets_into_the_log() {
    let dir = Dir::new("access-secrets");
    let upstream = Fake::start(|_, _| {
        let reply = Response::builder().status(400).header("set-cookie", "session=hush-1");
        let body = Full::from(r#"{"error":"bad","token":"hush-2"}"#);
        Some(reply.body(body.boxed()).unwrap())
    })
    .await;
    let (gateway, path) = logged(&dir, &upstream, |_| {});
    let request = || {
        request("POST", "/pay?key=hush-3")
            .header("authorization", "Bearer hush-4")
            .header("cookie", "a=hush-5")
            .header("x-api-key", "hush-6")
            .body(Full::<Bytes>::from("hush-7"))
            .unwrap()
    };
    send(gateway.addr(), request()).await;
    let line = lines(&path, 1).await.remove(0).to_string();
    assert!(line.contains("error_hash") && !line.contains("hush"), "{line}");
    assert!(!line.contains("error_body"), "{line}");
    drop(gateway);

    let (gateway, _) = logged(&dir, &upstream, |config| config.file.gateway.log_error_body = 100);
    send(gateway.addr(), request()).await;
    let line = lines(&path, 2).await.remove(1);
    let shown = &line["attempts"][0]["error_body"];
    assert_eq!(shown, r#"{"error":"bad","token":"[masked]"}"#);
    assert!(!line.to_string().contains("hush"), "{line}");
}

#[tokio::test]
async fn a_caller_who_leaves_has_a_line_with_499() {
    let dir = Dir::new("access-gone");
    let upstream = Fake::start(|_, _| None).await;
    let (gateway, path) = logged(&dir, &upstream, |_| {});
    let to = gateway.addr();
    let caller = tokio::spawn(async move { get(to, "/slow").await });
    until("it is under way", || async { upstream.seen().len() == 1 }).await;
    tokio::time::sleep(ms(20)).await;
    caller.abort();
    let line = &lines(&path, 1).await[0];
    let took = line["attempts"][0]["duration_ms"].as_f64().unwrap();
    assert!(took >= 20.0, "{line}");
    assert_eq!((&line["status"], &line["reason"]), (&499.into(), &"client_gone".into()));
    assert_eq!((&line["outcome"], &line["cut_off"]), (&"abandoned".into(), &true.into()));
    assert_eq!(line["attempts"][0]["error"], "abandoned");
}

#[tokio::test]
async fn refusals_and_replays_are_told_apart_from_replies() {
    let dir = Dir::new("access-refused");
    let upstream = Fake::start(|_, _| answer(201, "paid")).await;
    let (gateway, path) = logged(&dir, &upstream, |config| {
        let keys = Keys { required: true, spec: Spec::default() };
        config.file.routes[0].idempotency = Some(keys);
    });
    post(gateway.addr(), "/pay", "7 euros").await;
    for _ in 0..2 {
        let keyed = request("POST", "/pay").header("idempotency-key", "k");
        send(gateway.addr(), keyed.body(Full::<Bytes>::from("7 euros")).unwrap()).await;
    }
    let lines = lines(&path, 3).await;
    let told = |line: &Value| {
        let attempts = line["attempts"].as_array().unwrap().len();
        (line["status"].clone(), line["reason"].clone(), line["replayed"].clone(), attempts)
    };
    assert_eq!(told(&lines[0]), (400.into(), "key_missing".into(), false.into(), 0));
    assert_eq!(told(&lines[1]), (201.into(), Value::Null, false.into(), 1));
    assert_eq!(told(&lines[2]), (201.into(), Value::Null, true.into(), 0));
    assert_eq!(lines[0]["outcome"], "refused");
}

#[tokio::test]
async fn a_grpc_call_is_noted_with_the_status_that_its_caller_got() {
    const DOWN: Fields = &[("grpc-status", "14")];
    let dir = Dir::new("access-grpc");
    let path = dir.path("access.log");
    let script = [Line::Trailers(DOWN), Line::TrailersOnly(DOWN), Line::Then("7", OK)];
    let origin = Origin::start(&script).await;
    let gateway = gateway_with(origin.addr, |config| {
        config.file.gateway.access_log = AccessLog::File(path.clone());
        let upstreams = config.file.upstreams.values_mut();
        upstreams.for_each(|upstream| upstream.protocol = Protocol::Http2);
    });
    let mut caller = Caller::connect(gateway.addr()).await;
    for _ in 0..3 {
        caller.call(&[], &["pens"]).await;
    }
    let lines = lines(&path, 3).await;
    let told: Vec<_> = lines.iter().map(|line| (&line["status"], &line["grpc_status"])).collect();
    let status = |code: u32| (Value::from(200), Value::from(code));
    let expected = [status(14), status(14), status(0)];
    assert_eq!(told, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    assert_eq!(lines[0]["attempts"][0]["error"], "503");
}

/// A body that begins and never ends.
struct Endless(bool);

impl Body for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match std::mem::replace(&mut self.0, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"beginning"))))),
            true => Poll::Pending,
        }
    }
}

#[tokio::test]
async fn a_streamed_reply_has_its_line_at_its_end_and_says_if_that_was_early() {
    let dir = Dir::new("access-cut");
    let upstream = Fake::start(|_, _| Some(Response::new(Endless(false).boxed()))).await;
    let (gateway, path) = logged(&dir, &upstream, |_| {});
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    while !read.windows(9).any(|bytes| bytes == b"beginning") {
        let mut some = [0; 1024];
        let n = timeout(PATIENCE, caller.read(&mut some)).await.unwrap().unwrap();
        read.extend_from_slice(&some[..n]);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "", "it is not over yet");
    drop(caller);
    let line = &lines(&path, 1).await[0];
    assert_eq!((&line["status"], &line["cut_off"]), (&200.into(), &true.into()));
    assert_eq!(line["bytes_out"], 9);
}

/// Whoever reads the log of a drained gateway misses nothing.
#[tokio::test]
async fn every_request_has_a_line_when_the_gateway_has_ended() {
    let dir = Dir::new("access-all");
    let upstream = Fake::start(|_, _| answer(200, "x")).await;
    let (gateway, path) = logged(&dir, &upstream, |_| {});
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let (mut sender, http) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let http = tokio::spawn(http);
    for n in 0..100 {
        let request = request("GET", &format!("/{n}")).body(Full::<Bytes>::default()).unwrap();
        let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
        response.into_body().collect().await.unwrap();
    }
    http.abort();
    tokio::task::spawn_blocking(|| gateway.stop()).await.unwrap();
    let text = fs::read_to_string(path).unwrap();
    for (n, line) in text.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["path"], format!("/{n}"));
    }
    assert_eq!(text.lines().count(), 100);
}

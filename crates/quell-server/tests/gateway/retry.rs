//! The gateway under failure: what is repeated, what is not, and what the caller is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::*;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use quell::core::in_flight::Limit;
use quell_server::gateway::{Config, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A port where nobody listens.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn hasty(config: &mut Config) {
    config.policy().per_try_timeout = Some(ms(200));
}

#[tokio::test]
async fn a_get_is_tried_twice_and_the_last_reply_is_passed_on() {
    let upstream = Fake::start(|n, _| answer(500, format!("no {n}"))).await;
    let gateway = gateway(upstream.addr);
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "no 2"));
    assert_eq!(reply.header("quell-attempts"), Some("2"));
    assert_eq!(reply.header("quell-stop"), Some("attempts_spent"));
    let attempts: Vec<_> = upstream
        .seen()
        .iter()
        .map(|seen| seen.header("quell-attempt").unwrap().to_owned())
        .collect();
    assert_eq!(attempts, ["1", "2"]);
    assert_eq!(upstream.seen()[1].headers.get_all("quell-attempt").iter().count(), 1);
    let denied = reasoned(&gateway, "quell_retries_denied_total", "attempts_spent").await;
    assert_eq!(denied, 1.0);
}

#[tokio::test]
async fn a_get_that_fails_once_succeeds() {
    let upstream = Fake::start(|n, _| answer(if n == 1 { 503 } else { 200 }, "x")).await;
    let gateway = gateway(upstream.addr);
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (200, Some("2")));
    assert_eq!(reply.header("quell-stop"), None);
    let labels = "route=\"default\",upstream=\"default\"";
    let first = format!("quell_attempts_total{{{labels},kind=\"first\",result=\"503\"}}");
    let retry = format!("quell_attempts_total{{{labels},kind=\"retry\",result=\"success\"}}");
    assert_eq!((metric(&gateway, &first).await, metric(&gateway, &retry).await), (1.0, 1.0));
}

/// Sends a request that is answered with 503 through the gateway of a file with this policy: how often it is sent.
async fn sends_by_file(policy: &str, method: &str) -> usize {
    let upstream = Fake::start(|_, _| answer(503, "x")).await;
    let addr = upstream.addr;
    let local = "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"";
    let text = format!(
        "version = 1\n{local}\n[upstream.x]\nendpoints = [\"http://{addr}\"]\n[policy.x]\n{policy}"
    );
    let file = quell_server::config::Config::parse("f", &text, &[]).unwrap();
    let config = Config { log: false, ..Config::of(file).on_free_ports() };
    let gateway = quell_server::gateway::start(config).unwrap();
    let request = request(method, "/").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(send(gateway.addr(), request).await.status.as_u16(), 503);
    upstream.seen().len()
}

#[tokio::test]
async fn a_files_policy_says_what_is_repeated() {
    assert_eq!(sends_by_file("attempts = 3", "GET").await, 3);
    assert_eq!(sends_by_file("retry_on = [\"connect\", \"timeout\", 502]", "GET").await, 1);
    assert_eq!(sends_by_file("", "POST").await, 1);
    assert_eq!(sends_by_file("unsafe_methods = \"always\"", "POST").await, 2);
}

#[tokio::test]
async fn a_post_is_sent_once_unless_it_carries_a_key() {
    let upstream = Fake::start(|_, _| answer(500, "broke")).await;
    let gateway = gateway(upstream.addr);
    let reply = post(gateway.addr(), "/pay", "1 €").await;
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "broke"));
    assert_eq!(
        (reply.header("quell-attempts"), reply.header("quell-stop")),
        (Some("1"), Some("not_safe"))
    );
    assert_eq!(upstream.seen().len(), 1);
    let keyed =
        request("POST", "/pay").header("idempotency-key", "k").body(Full::from("1 €")).unwrap();
    let reply = send(gateway.addr(), keyed).await;
    assert_eq!(reply.header("quell-attempts"), Some("2"));
    let seen = upstream.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|seen| seen.body == "1 €"));
    assert_eq!(seen[2].header("idempotency-key"), Some("k"));
}

#[tokio::test]
async fn a_short_body_is_replayed_whole_and_a_long_one_is_sent_once_and_not_failed() {
    let upstream = Fake::start(|_, _| answer(503, "busy")).await;
    let gateway = gateway(upstream.addr);
    for (length, sends, stop) in [
        (64 * 1024, 2, "attempts_spent"),
        (64 * 1024 + 1, 1, "not_replayable"),
        (300_000, 1, "not_replayable"),
    ] {
        let body = noise(length);
        let before = upstream.seen().len();
        let put = request("PUT", "/").body(Full::new(body.clone())).unwrap();
        let reply = send(gateway.addr(), put).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (503, "busy"));
        assert_eq!(reply.header("quell-stop"), Some(stop), "{length} bytes");
        let seen = upstream.seen().split_off(before);
        assert_eq!(seen.len(), sends, "{length} bytes");
        assert!(seen.iter().all(|seen| seen.body == body));

        let before = upstream.seen().len();
        let chunks = Chunks(body.chunks(10_000).map(Bytes::copy_from_slice).collect());
        send(gateway.addr(), request("PUT", "/").body(chunks).unwrap()).await;
        let seen = upstream.seen().split_off(before);
        assert_eq!(seen.len(), sends, "{length} bytes in chunks");
        assert!(seen.iter().all(|seen| seen.body == body));
    }
}

#[tokio::test]
async fn a_failed_reply_too_long_to_keep_is_delivered_and_not_retried() {
    let long = noise(64 * 1024 + 1);
    let body = long.clone();
    let upstream = Fake::start(move |_, seen| match seen.uri.path() {
        "/chunked" => {
            let chunks = Chunks(body.chunks(9_000).map(Bytes::copy_from_slice).collect());
            Some(Response::builder().status(500).body(chunks.boxed()).unwrap())
        }
        _ => answer(500, body.clone()),
    })
    .await;
    let gateway = gateway(upstream.addr);
    for path in ["/length", "/chunked"] {
        let before = upstream.seen().len();
        let reply = get(gateway.addr(), path).await;
        assert_eq!(reply.status, 500);
        assert!(reply.body == long, "{path}: {} bytes", reply.body.len());
        assert_eq!(reply.header("quell-stop"), Some("not_replayable"), "{path}");
        assert_eq!(upstream.seen().len(), before + 1);
    }
    let budget = gauge(&gateway, "quell_retry_budget_tokens").await;
    assert_eq!(budget, 100.0, "what was paid for retries that were not made came back");
}

#[tokio::test]
async fn no_connection_is_a_502_even_for_a_post_that_was_tried_twice() {
    let gateway = gateway(nobody().await);
    for reply in [get(gateway.addr(), "/").await, post(gateway.addr(), "/", "x").await] {
        assert_eq!(reply.status, 502);
        // Nothing was ever sent.
        assert_eq!(reply.header("quell-attempts"), Some("0"));
        assert_eq!(reply.header("quell-stop"), Some("attempts_spent"));
        assert_eq!(reply.header("retry-after"), None);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(reply.text().contains("\"code\":\"CONNECT\""), "{}", reply.text());
    }
}

#[tokio::test]
async fn no_reply_in_time_is_a_504_and_leaves_ghosts() {
    let upstream = Fake::start(|_, _| None).await;
    let gateway = gateway_with(upstream.addr, hasty);
    let reply = post(gateway.addr(), "/", "x").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-stop")), (504, Some("not_safe")));
    assert_eq!(gauge(&gateway, "quell_ghosts").await, 1.0);
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (504, Some("2")));
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_a_502_and_no_post_is_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let upstream = tokio::spawn(async move {
        for served in 0u32.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            drop(stream);
            if served == 2 {
                return;
            }
        }
    });
    let gateway = gateway(addr);
    let reply = post(gateway.addr(), "/", "x").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (502, Some("1")));
    assert_eq!(reply.header("quell-stop"), Some("not_safe"));
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (502, Some("2")));
    upstream.await.unwrap();
}

#[tokio::test]
async fn a_kept_connection_that_the_upstream_closed_costs_no_attempt_and_fails_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        } // and closes it, though it did not say so
    });
    let gateway = gateway_with(addr, |config| config.cores = 1);
    for _ in 0..50 {
        let reply = post(gateway.addr(), "/", "x").await;
        // In the moment between their close and our notice, the request may have been sent: that is unknown.
        if reply.status != 200 {
            assert_eq!(
                (reply.status.as_u16(), reply.header("quell-stop")),
                (502, Some("not_safe"))
            );
        }
        assert_eq!(reply.header("quell-attempts"), Some("1"));
    }
}

/// An upstream that answers with 500 until it is told to be well.
async fn breakable() -> (Fake, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let upstream = Fake::start(move |_, _| {
        answer(if is_broken.load(Ordering::SeqCst) { 500 } else { 200 }, "x")
    });
    (upstream.await, broken)
}

#[tokio::test]
async fn the_breaker_opens_and_refuses_with_retry_after_and_closes_again() {
    let (upstream, broken) = breakable().await;
    let gateway = gateway(upstream.addr);
    let refused = loop {
        let reply = post(gateway.addr(), "/", "x").await;
        if reply.status == 503 {
            break reply;
        }
        assert_eq!(reply.status, 500);
    };
    assert!((20..60).contains(&upstream.seen().len()));
    assert_eq!(refused.header("quell-stop"), Some("breaker_open"));
    assert_eq!(refused.header("quell-attempts"), Some("0"));
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&after), "{after}");
    assert!(refused.text().contains("\"code\":\"BREAKER_OPEN\""), "{}", refused.text());
    let refusals = reasoned(&gateway, "quell_refusals_total", "breaker_open").await;
    assert!(refusals >= 1.0);
    broken.store(false, Ordering::SeqCst);
    let state = |word| format!("quell_breaker_state{{upstream=\"default\",state=\"{word}\"}}");
    until("the breaker closes", || async {
        post(gateway.addr(), "/", "x").await;
        metric(&gateway, &state("closed")).await == 1.0
    })
    .await;
    assert_eq!(metric(&gateway, &state("open")).await, 0.0);
    assert_eq!(metric(&gateway, &state("half_open")).await, 0.0);
}

#[tokio::test]
async fn a_retry_refused_at_admission_returns_the_earlier_reply() {
    let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // One slot, and no place to wait in.
    let gateway = gateway_with(upstream.local_addr().unwrap(), |config| {
        config.upstream().in_flight = Limit::Fixed(1);
        config.upstream().queue = 0;
    });
    let caller = tokio::spawn(get(gateway.addr(), "/"));
    let (mut first, _) = upstream.accept().await.unwrap();
    let _ = first.read(&mut [0; 4096]).await.unwrap();
    let half = b"HTTP/1.1 500 Oh\r\nx-own: yes\r\ncontent-length: 11\r\n\r\ntheir";
    first.write_all(half).await.unwrap();
    // With the head its slot is free, and somebody else takes it before the reply is kept.
    until("the slot is free", || async { gauge(&gateway, "quell_in_flight").await == 0.0 }).await;
    let mut holder = TcpStream::connect(gateway.addr()).await.unwrap();
    holder.write_all(b"GET /hold HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until("the slot is taken", || async { gauge(&gateway, "quell_in_flight").await == 1.0 }).await;
    first.write_all(b" words").await.unwrap();
    let reply = caller.await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.text()), (500, "their words"));
    assert_eq!((reply.header("x-own"), reply.header("quell-attempts")), (Some("yes"), Some("1")));
    assert_eq!(reply.header("quell-stop"), Some("in_flight_full"));
    assert_eq!(gauge(&gateway, "quell_retry_budget_tokens").await, 100.0);
}

#[tokio::test]
async fn a_told_deadline_shortens_ours_and_is_passed_on_shrunk() {
    let upstream = Fake::start(|_, _| None).await;
    let gateway = gateway(upstream.addr);
    let told = request("GET", "/").header("quell-deadline-ms", "150");
    let reply = send(gateway.addr(), told.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-stop")), (504, Some("deadline")));
    let left: u64 = upstream.seen()[0].header("quell-deadline-ms").unwrap().parse().unwrap();
    assert!(left <= 150, "{left}");
    let longer = request("GET", "/").header("quell-deadline-ms", "0");
    let reply = send(gateway.addr(), longer.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (504, Some("0")));
    assert_eq!(upstream.seen().len(), 1);
}

/// C12: all three gauges of one scrape.
async fn states(gateway: &Running) -> [String; 3] {
    let text = look(gateway.admin_addr(), "/metrics").await;
    ["closed", "open", "half_open"].map(|word| {
        let name = format!("quell_breaker_state{{upstream=\"default\",state=\"{word}\"}} ");
        let found: Vec<_> =
            text.text().lines().filter_map(|line| line.strip_prefix(&name)).collect();
        assert_eq!(found.len(), 1, "each state once: {word}");
        found[0].to_owned()
    })
}

/// C12.
#[tokio::test]
async fn the_breakers_gauges_clear_the_old_state() {
    let (upstream, broken) = breakable().await;
    let gateway = gateway(upstream.addr);
    assert_eq!(states(&gateway).await, ["1", "0", "0"]);
    while post(gateway.addr(), "/", "x").await.status == 500 {}
    let opened = states(&gateway).await;
    // On a slow machine its open time may be over by now: then it waits for a probe.
    assert!([["0", "1", "0"], ["0", "0", "1"]].iter().any(|state| opened == *state), "{opened:?}");
    until("it waits for a probe", || async { states(&gateway).await == ["0", "0", "1"] }).await;
    broken.store(false, Ordering::SeqCst);
    until("it closes", || async {
        post(gateway.addr(), "/", "x").await;
        states(&gateway).await == ["1", "0", "0"]
    })
    .await;
}

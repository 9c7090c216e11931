//! Idempotency keys through the gateway: the same request twice has its effect once.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use quell::core::idempotency::{OnExpiry, Spec};
use quell_server::config::{Fallback, Keys};
use quell_server::gateway::{Config, Running};
use quell_server::key::Hash;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::files::Dir;
use crate::kit::*;

/// A gateway whose only route has keys.
fn keyed(to: SocketAddr, spec: Spec, change: impl FnOnce(&mut Config)) -> Running {
    gateway_with(to, |config| {
        config.file.routes[0].idempotency = Some(Keys { required: true, spec });
        change(config);
    })
}

fn usual(to: SocketAddr) -> Running {
    keyed(to, Spec::default(), |_| {})
}

fn once(config: &mut Config) {
    config.policy().attempts = 1;
}

async fn pay(to: SocketAddr, key: &str, body: impl Into<Bytes>) -> Reply {
    let request = request("POST", "/pay").header("idempotency-key", key);
    send(to, request.body(Full::new(body.into())).unwrap()).await
}

fn is_replay(reply: &Reply) -> bool {
    reply.header("idempotency-replayed") == Some("true")
}

/// H5. The body is longer than what is kept of others.
#[tokio::test]
async fn every_attempt_of_a_keyed_post_has_the_same_key_and_the_whole_body() {
    let upstream = Fake::start(|n, _| answer(if n == 1 { 503 } else { 201 }, "paid")).await;
    let gateway = usual(upstream.addr);
    let reply = pay(gateway.addr(), "k-1", noise(500_000)).await;
    assert_eq!((reply.status.as_u16(), reply.text()), (201, "paid"));
    assert_eq!(reply.header("quell-attempts"), Some("2"));
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!(seen.header("idempotency-key"), Some("k-1"));
        assert_eq!(seen.body, noise(500_000));
    }
}

/// X11.
#[tokio::test]
async fn a_repeated_request_gets_the_same_reply_and_the_upstreams_state_is_not_touched() {
    let upstream = Fake::start(|_, _| answer(201, "paid")).await;
    let gateway = usual(upstream.addr);
    let first = pay(gateway.addr(), "k", "7 euros").await;
    assert!(!is_replay(&first));
    let attempts = "quell_attempts_total{route=\"default\",upstream=\"default\",kind=\"first\",\
                    result=\"success\"}";
    let before = gauge(&gateway, "quell_retry_budget_tokens").await;
    for _ in 0..3 {
        let again = pay(gateway.addr(), "k", "7 euros").await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert!(is_replay(&again));
        assert_eq!(again.header("quell-attempts"), Some("0"));
    }
    assert_eq!(gauge(&gateway, "quell_retry_budget_tokens").await, before);
    assert_eq!(metric(&gateway, attempts).await, 1.0);
    let replayed = "quell_idempotency_total{result=\"replayed\"}";
    assert_eq!(metric(&gateway, replayed).await, 3.0);
    assert_eq!(upstream.seen().len(), 1);
    let other = request("POST", "/refund").header("idempotency-key", "k");
    let other = send(gateway.addr(), other.body(Full::from("7 euros")).unwrap()).await;
    assert!(!is_replay(&other), "another path is another key");
}

#[tokio::test]
async fn the_same_key_of_two_tenants_is_two_keys_and_each_gets_its_own_reply() {
    let upstream = Fake::start(|n, _| answer(201, format!("receipt {n}"))).await;
    let dir = Dir::new("idempotency-tenants");
    let tenant = |name: &str| {
        let hash = Hash::of(key_of(name).as_bytes()).to_string();
        std::fs::write(dir.path(name), hash).unwrap();
        format!("[tenant.{name}]\nkeys = [\"file:{}\"]\n", dir.path(name).display())
    };
    let gateway = from_file(&format!(
        "[upstream.x]\nendpoints = [\"http://{}\"]\n{}{}[[route]]\nupstream = \"x\"\ntenants = \"optional\"\n\
         idempotency = {{ required = true }}\n",
        upstream.addr,
        tenant("shop"),
        tenant("bank")
    ));
    let ask = async |tenant: Option<&str>| {
        let mut request = request("POST", "/pay").header("idempotency-key", "k");
        if let Some(tenant) = tenant {
            request = request.header("x-api-key", key_of(tenant));
        }
        let reply = send(gateway.addr(), request.body(Full::from("7 euros")).unwrap()).await;
        (reply.text().to_owned(), is_replay(&reply))
    };
    for (n, tenant) in [Some("shop"), Some("bank"), None].into_iter().enumerate() {
        let receipt = format!("receipt {}", n + 1);
        assert_eq!(ask(tenant).await, (receipt.clone(), false), "{tenant:?}");
        assert_eq!(ask(tenant).await, (receipt, true), "{tenant:?}");
    }
    assert_eq!(ask(Some("shop")).await, ("receipt 1".to_owned(), true));
    assert_eq!(upstream.seen().len(), 3);
    assert!(upstream.seen().iter().all(|seen| seen.header("x-api-key").is_none()));
}

/// A tenant's key.
fn key_of(tenant: &str) -> String {
    format!("qk_{}", tenant.repeat(8))
}

#[tokio::test]
async fn what_is_wrong_with_a_key_is_said_and_nothing_is_sent() {
    let upstream = Fake::start(|_, _| answer(200, "paid")).await;
    let gateway = usual(upstream.addr);
    let stop =
        |reply: &Reply| (reply.status.as_u16(), reply.header("quell-stop").map(ToOwned::to_owned));
    let missing = post(gateway.addr(), "/pay", "7 euros").await;
    assert_eq!(stop(&missing), (400, Some("key_missing".into())));
    let unusable = pay(gateway.addr(), "two words", "7 euros").await;
    assert_eq!(stop(&unusable), (400, Some("key_missing".into())));
    let long = pay(gateway.addr(), "long", noise(1024 * 1024 + 1)).await;
    assert_eq!((long.status.as_u16(), long.text().contains("BODY_TOO_LARGE")), (413, true));
    assert_eq!(upstream.seen().len(), 0);
    assert_eq!(pay(gateway.addr(), "k", "7 euros").await.status, 200);
    let mismatch = pay(gateway.addr(), "k", "8 euros").await;
    assert_eq!(stop(&mismatch), (422, Some("key_mismatch".into())));
    assert_eq!(get(gateway.addr(), "/pay").await.status, 200);
    assert_eq!(upstream.seen().len(), 2, "what needs no key passes without one");
}

/// The first one stays under way when its caller leaves: the upstream may be at it.
#[tokio::test]
async fn while_a_request_may_be_running_its_key_is_taken() {
    let upstream = Fake::start(|n, _| if n == 1 { None } else { answer(200, "paid") }).await;
    let gateway = usual(upstream.addr);
    let to = gateway.addr();
    let first = tokio::spawn(async move { pay(to, "k", "7 euros").await });
    until("the first is under way", || async { upstream.seen().len() == 1 }).await;
    let in_flight = |reply: Reply| {
        assert_eq!(reply.status.as_u16(), 409);
        assert_eq!(reply.header("quell-stop"), Some("key_in_flight"));
        assert!(reply.header("retry-after").is_some());
    };
    in_flight(pay(to, "k", "7 euros").await);
    first.abort();
    let given_up =
        "quell_requests_total{route=\"default\",upstream=\"default\",outcome=\"abandoned\"}";
    until("the first is given up", || async { metric(&gateway, given_up).await == 1.0 }).await;
    in_flight(pay(to, "k", "7 euros").await);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_key_whose_caller_left_is_free_when_its_lease_is_over() {
    let upstream = Fake::start(|n, _| if n == 1 { None } else { answer(200, "paid") }).await;
    let gateway = keyed(upstream.addr, Spec { lease: ms(100), ..Spec::default() }, |_| {});
    let to = gateway.addr();
    let first = tokio::spawn(async move { pay(to, "k", "7 euros").await });
    until("the first is under way", || async { upstream.seen().len() == 1 }).await;
    first.abort();
    until("the second is done", || async { pay(to, "k", "7 euros").await.status == 200 }).await;
    assert_eq!(upstream.seen().len(), 2);
}

/// K13.
#[tokio::test]
async fn a_failure_frees_the_key() {
    let upstream = Fake::start(|n, _| answer([500, 429, 404, 200][(n - 1).min(3)], "x")).await;
    let gateway = keyed(upstream.addr, Spec::default(), once);
    for status in [500, 429, 404, 200] {
        let reply = pay(gateway.addr(), "k", "7 euros").await;
        assert_eq!((reply.status.as_u16(), is_replay(&reply)), (status, false));
    }
    assert!(is_replay(&pay(gateway.addr(), "k", "7 euros").await));
}

#[tokio::test]
async fn a_request_that_timed_out_is_run_again_or_held_as_the_route_says() {
    for (on_expiry, status, sends) in [(OnExpiry::Rerun, 200, 2), (OnExpiry::Hold, 409, 1)] {
        let upstream = Fake::start(|n, _| if n == 1 { None } else { answer(200, "paid") }).await;
        let spec = Spec { on_expiry, ..Spec::default() };
        let gateway = keyed(upstream.addr, spec, |config| {
            once(config);
            config.policy().per_try_timeout = Some(ms(500));
        });
        assert_eq!(pay(gateway.addr(), "k", "7 euros").await.status.as_u16(), 504);
        // Reached the upstream or not: a busy machine may need all its time to connect.
        let reached = upstream.seen().len();
        let again = pay(gateway.addr(), "k", "7 euros").await;
        if reached == 1 {
            assert_eq!((again.status.as_u16(), upstream.seen().len()), (status, sends));
        }
    }
}

#[tokio::test]
async fn a_long_reply_counts_as_done_and_is_not_given_again() {
    let upstream = Fake::start(|_, _| answer(200, noise(100_000))).await;
    let gateway = usual(upstream.addr);
    assert_eq!(pay(gateway.addr(), "k", "7 euros").await.body, noise(100_000));
    let again = pay(gateway.addr(), "k", "7 euros").await;
    assert_eq!((again.status.as_u16(), again.header("quell-stop")), (409, Some("key_in_flight")));
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_fallback_is_not_remembered_as_the_upstreams_reply() {
    let upstream = Fake::start(|n, _| answer(if n == 1 { 503 } else { 200 }, "paid")).await;
    let gateway = keyed(upstream.addr, Spec::default(), |config| {
        once(config);
        let json = "application/json".to_owned();
        config.file.routes[0].fallback =
            Some(Fallback { status: 200, body: "[]".into(), content_type: json });
    });
    assert_eq!(pay(gateway.addr(), "k", "7 euros").await.text(), "[]");
    let again = pay(gateway.addr(), "k", "7 euros").await;
    assert_eq!((again.text(), is_replay(&again)), ("paid", false));
}

/// H13.
#[tokio::test]
async fn the_unread_body_of_a_refused_request_is_never_taken_for_a_request() {
    let upstream = Fake::start(|_, _| answer(200, "x")).await;
    let gateway = usual(upstream.addr);
    let inner = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    let length = inner.len();
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    let head = format!("POST /pay HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    caller.write_all(head.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    timeout(PATIENCE, caller.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 400");
    let after = "GET /after HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    // Whether the connection is still open for it is the gateway's choice.
    let _ = caller.write_all(format!("{inner}{after}").as_bytes()).await;
    let _ = timeout(PATIENCE, caller.read_to_end(&mut Vec::new())).await.unwrap();
    assert!(upstream.seen().iter().all(|seen| seen.uri.path() == "/after"));
}

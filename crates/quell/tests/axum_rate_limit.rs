//! The rate limit of a real server over real sockets.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod axum_kit;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::ConnectInfo, routing::get};
use axum_kit::{client, header, raw, serve};
use quell::{
    Clock,
    axum::{RateLimit, rate_limit::Builder},
};

const BODY: &str = r#"{"error":"Rate limit exceeded","code":"RATE_LIMITED"}"#;
const ASK: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn app(limit: &RateLimit) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }).post(|| async { "posted" }))
        .layer(limit.clone())
}

/// One token, and another one every five seconds, on a clock that stands still.
fn slow(clock: &Clock) -> Builder {
    RateLimit::new("default").per_second(0.2).burst(1).clock(clock.clone()).seed(7)
}

/// The status line, every field but the date, and the body.
fn parts(reply: &str) -> (&str, BTreeSet<&str>, &str) {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let (status, fields) = head.split_once("\r\n").unwrap();
    let fields = fields.split("\r\n").filter(|field| !field.starts_with("date: ")).collect();
    (status, fields, body)
}

fn retry_after(reply: &str) -> u64 {
    let (_, rest) = reply.split_once("retry-after: ").unwrap();
    rest.split("\r\n").next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_refusal_is_the_429_that_was_promised_to_the_byte() {
    let clock = Clock::manual();
    clock.advance(Duration::from_millis(1_000_500));
    let address = serve(app(&slow(&clock).legacy_headers(true).build().unwrap())).await;
    raw(address, ASK).await;
    let reply = raw(address, ASK).await;
    let (status, fields, body) = parts(&reply);
    let wait = retry_after(&reply);
    assert!((5..=8).contains(&wait), "{wait}: five seconds, and up to half as much again");
    assert_eq!(status, "HTTP/1.1 429 Too Many Requests");
    let expected = [
        "connection: close".to_owned(),
        "content-length: 53".to_owned(),
        "content-type: application/json".to_owned(),
        "quell-stop: rate_limited".to_owned(),
        format!("ratelimit: \"default\";r=0;t={wait}"),
        "ratelimit-policy: \"default\";q=1;w=5".to_owned(),
        format!("retry-after: {wait}"),
        "x-ratelimit-limit: 1".to_owned(),
        "x-ratelimit-remaining: 0".to_owned(),
        format!("x-ratelimit-reset: {}", 1_001 + wait),
    ];
    assert_eq!(fields, expected.iter().map(String::as_str).collect());
    assert_eq!(body, BODY);
}

/// The bucket is full again only after fifteen seconds, and no two refusals need to name the same wait.
#[tokio::test]
async fn every_field_of_a_refusal_names_the_instant_of_its_retry_after() {
    let clock = Clock::manual();
    let limit = slow(&clock).burst(3).legacy_headers(true).build().unwrap();
    let address = serve(app(&limit)).await;
    for _ in 0..3 {
        raw(address, ASK).await;
    }
    for _ in 0..8 {
        let reply = raw(address, ASK).await;
        let wait = retry_after(&reply);
        assert!((5..=8).contains(&wait), "{wait}");
        let (_, fields, _) = parts(&reply);
        assert!(
            fields.contains(format!("ratelimit: \"default\";r=0;t={wait}").as_str()),
            "{reply}"
        );
        assert!(fields.contains(format!("x-ratelimit-reset: {wait}").as_str()), "{reply}");
    }
}

#[tokio::test]
async fn what_passes_says_what_is_left_unless_it_is_told_not_to() {
    let clock = Clock::manual();
    let limit = slow(&clock).burst(3);
    let address = serve(app(&limit.build().unwrap())).await;
    let reply = client().get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(header(&reply, "ratelimit"), Some("\"default\";r=2;t=5"));
    assert_eq!(header(&reply, "ratelimit-policy"), Some("\"default\";q=3;w=15"));
    assert_eq!(header(&reply, "x-ratelimit-limit"), None);
    assert_eq!(header(&reply, "quell-stop"), None);
    assert_eq!(reply.text().await.unwrap(), "hello");

    let address = serve(app(&slow(&clock).headers_on_pass(false).build().unwrap())).await;
    let reply = client().get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(header(&reply, "ratelimit"), None);
    let refused = client().get(format!("http://{address}/")).send().await.unwrap();
    assert!(header(&refused, "ratelimit").is_some());
}

#[tokio::test]
async fn whoever_comes_back_when_it_was_told_to_passes_and_not_much_before() {
    let clock = Clock::manual();
    let address = serve(app(&slow(&clock).build().unwrap())).await;
    raw(address, ASK).await;
    clock.advance(Duration::from_millis(1_500));
    let wait = retry_after(&raw(address, ASK).await); // 3.5 s, rounded up and spread
    assert!((4..=6).contains(&wait), "{wait}");
    clock.advance(Duration::from_millis(3_499));
    assert!((1..=2).contains(&retry_after(&raw(address, ASK).await)));
    clock.advance(Duration::from_secs(wait) - Duration::from_millis(3_499));
    assert!(raw(address, ASK).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn those_who_were_refused_together_do_not_come_back_together() {
    let clock = Clock::manual();
    let address = serve(app(&slow(&clock).build().unwrap())).await;
    raw(address, ASK).await;
    let mut waits = BTreeSet::new();
    for _ in 0..40 {
        waits.insert(retry_after(&raw(address, ASK).await));
    }
    assert_eq!(waits, BTreeSet::from([5, 6, 7, 8]));
}

#[tokio::test]
async fn each_header_value_has_a_bucket_and_those_without_share_one() {
    let clock = Clock::manual();
    let limit = slow(&clock).by_header("x-api-key").build().unwrap();
    let address = serve(app(&limit)).await;
    let ask = async |key: Option<&str>| {
        let request = client().get(format!("http://{address}/"));
        let request =
            key.into_iter().fold(request, |request, key| request.header("x-api-key", key));
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(ask(Some("shop")).await, 200);
    assert_eq!(ask(Some("shop")).await, 429);
    assert_eq!(ask(Some("other")).await, 200);
    assert_eq!(ask(None).await, 200);
    assert_eq!(ask(None).await, 429);
    let status = limit.status("shop");
    assert_eq!((status.key.as_str(), status.tokens, status.capacity), ("shop", 0, 1));
    assert_eq!(status.refill_per_second, 0.2);
    assert_eq!(limit.status("never seen").tokens, 1);
    assert_eq!(limit.keys(), (3, 0));
}

#[tokio::test]
async fn an_address_is_a_key_under_its_own_name() {
    let clock = Clock::manual();
    let limit = slow(&clock)
        .by_ip(|parts| parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip()))
        .build()
        .unwrap();
    let address = serve(app(&limit)).await;
    assert_eq!(limit.status("127.0.0.1").tokens, 1);
    raw(address, ASK).await;
    assert_eq!(limit.status("127.0.0.1").tokens, 0);
}

#[tokio::test]
async fn a_request_that_costs_more_than_the_bucket_holds_is_told_not_to_come_back() {
    let clock = Clock::manual();
    let limit = slow(&clock).burst(2).cost(|parts| match parts.method.as_str() {
        "POST" => 3,
        _ => 2,
    });
    let address = serve(app(&limit.build().unwrap())).await;
    let reply = client().post(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(reply.status(), 429);
    assert_eq!(header(&reply, "retry-after"), None);
    assert_eq!(header(&reply, "quell-retry"), Some("no"));
    assert_eq!(header(&reply, "ratelimit"), Some("\"default\";r=2;t=1"));
    let reply = client().get(format!("http://{address}/")).send().await.unwrap();
    assert_eq!(header(&reply, "ratelimit"), Some("\"default\";r=0;t=10"));
}

/// H13.
#[tokio::test]
async fn the_unread_body_of_a_refused_request_is_not_the_next_request() {
    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let (clock, reached) = (Clock::manual(), Arc::new(AtomicBool::new(false)));
    let smuggled = {
        let reached = reached.clone();
        get(async move || reached.store(true, Ordering::SeqCst))
    };
    let limited = app(&slow(&clock).build().unwrap());
    let address = serve(limited.route("/smuggled", smuggled)).await;
    raw(address, ASK).await;
    for filler in [0, 1_000_000] {
        let body = format!("{SMUGGLED}{}", "x".repeat(filler));
        let length = format!("content-length: {}", body.len());
        let post = format!("POST / HTTP/1.1\r\nhost: a\r\n{length}\r\n\r\n{body}");
        let reply = raw(address, &format!("{post}{ASK}")).await;
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 429 "), "{reply}");
        assert!(!reached.load(Ordering::SeqCst), "with {filler} bytes of filler");
    }
    raw(address, SMUGGLED).await;
    assert!(reached.load(Ordering::SeqCst), "it can be reached");
}

//! Idempotency keys of a real server over real sockets.
#![cfg(feature = "axum")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod axum_kit;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    response::IntoResponse,
    routing::post,
};
use axum_kit::{Streamed, client, header, in_time, raw, serve, until};
use http::{Method, StatusCode};
use quell::{
    Clock, Limit,
    axum::{Admission, Idempotency, idempotency::Builder},
    store::Memory,
};
use reqwest::{RequestBuilder, Response};
use tokio::sync::Semaphore;

#[derive(Clone)]
struct Shop {
    runs: Arc<AtomicU32>,
    door: Arc<Semaphore>,
}

impl Shop {
    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    fn count(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::SeqCst) + 1
    }
}

async fn pay(State(shop): State<Shop>, body: Bytes) -> impl IntoResponse {
    let run = shop.count();
    let fields = [("x-run", run.to_string()), ("set-cookie", "session=secret".to_owned())];
    (StatusCode::CREATED, fields, [b"paid ", &body[..], &[0xff, 0, 0xfe]].concat())
}

async fn wait(State(shop): State<Shop>) -> String {
    let run = shop.count();
    shop.door.acquire().await.unwrap().forget();
    format!("run {run}")
}

/// Fails the first time with the status in its path, then works.
async fn fail(State(shop): State<Shop>, path: axum::extract::Path<u16>) -> (StatusCode, String) {
    let run = shop.count();
    let first = StatusCode::from_u16(path.0).unwrap();
    (if run == 1 { first } else { StatusCode::OK }, format!("run {run}"))
}

async fn panic(State(shop): State<Shop>) -> String {
    match shop.count() {
        1 => panic!("a handler's own fault"),
        run => format!("run {run}"),
    }
}

async fn stream(State(shop): State<Shop>) -> Body {
    let (sender, pieces) = tokio::sync::mpsc::channel(1);
    sender.send(Bytes::from(format!("run {}", shop.count()))).await.unwrap();
    Body::new(Streamed(pieces))
}

struct World {
    shop: Shop,
    store: Arc<Memory>,
    address: SocketAddr,
}

async fn start(build: impl FnOnce(Builder) -> Builder) -> World {
    start_with(Memory::new(), build, |app| app).await
}

async fn start_with(
    store: Memory,
    build: impl FnOnce(Builder) -> Builder,
    inside: impl FnOnce(Router) -> Router,
) -> World {
    let (shop, store) = (shop(), Arc::new(store));
    let keys = build(Idempotency::new("shop", store.clone())).build().unwrap();
    let address = serve(inside(app(&shop)).layer(keys)).await;
    World { shop, store, address }
}

fn shop() -> Shop {
    Shop { runs: Arc::default(), door: Arc::new(Semaphore::new(0)) }
}

fn app(shop: &Shop) -> Router {
    Router::new()
        .route("/pay", post(pay).patch(pay).put(pay))
        .route("/wait", post(wait))
        .route("/fail/{status}", post(fail))
        .route("/panic", post(panic))
        .route("/stream", post(stream))
        .route(
            "/long",
            post(|State(shop): State<Shop>| async move {
                shop.count();
                "x".repeat(64 * 1024 + 1)
            }),
        )
        .with_state(shop.clone())
}

impl World {
    fn ask(&self, path: &str, key: &str) -> RequestBuilder {
        client().post(format!("http://{}{path}", self.address)).header("idempotency-key", key)
    }

    async fn send(&self, path: &str, key: &str, body: &'static str) -> Response {
        self.ask(path, key).body(body).send().await.unwrap()
    }
}

async fn stop(reply: Response) -> (u16, String, String) {
    let stop = header(&reply, "quell-stop").unwrap_or_default().to_owned();
    (reply.status().as_u16(), stop, reply.text().await.unwrap())
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_ones_reply_to_the_byte() {
    let world = start(|keys| keys).await;
    let first = world.send("/pay", "k1", "5 EUR").await;
    assert_eq!(header(&first, "idempotency-replayed"), None);
    assert_eq!(header(&first, "set-cookie"), Some("session=secret"));
    let body = first.bytes().await.unwrap();
    for _ in 0..3 {
        let again = world.send("/pay", "k1", "5 EUR").await;
        assert_eq!(again.status(), 201);
        assert_eq!(header(&again, "idempotency-replayed"), Some("true"));
        assert_eq!((header(&again, "x-run"), header(&again, "set-cookie")), (Some("1"), None));
        assert_eq!(again.bytes().await.unwrap(), body);
    }
    assert_eq!(world.shop.runs(), 1);
    world.send("/pay", "k2", "5 EUR").await;
    assert_eq!(world.shop.runs(), 2);
}

#[tokio::test]
async fn another_payload_or_query_under_the_same_key_is_refused() {
    let world = start(|keys| keys).await;
    world.send("/pay?to=a", "k", "5 EUR").await;
    for (path, body) in [("/pay?to=a", "50 EUR"), ("/pay?to=b", "5 EUR")] {
        let (status, stop, body) = stop(world.send(path, "k", body).await).await;
        assert_eq!((status, stop.as_str()), (422, "key_mismatch"));
        let error = "This Idempotency-Key was used with another request";
        assert_eq!(body, format!(r#"{{"error":"{error}","code":"KEY_MISMATCH"}}"#));
    }
    assert_eq!(world.shop.runs(), 1);
}

#[tokio::test]
async fn method_path_and_tenant_have_keys_of_their_own() {
    let world = start(|keys| {
        let tenant = |parts: &http::request::Parts| parts.headers.get("x-tenant").cloned();
        keys.tenant(tenant)
    })
    .await;
    let url = format!("http://{}/pay", world.address);
    for (method, tenant) in [("POST", "a"), ("PATCH", "a"), ("POST", "b")] {
        for _ in 0..2 {
            let request = client().request(method.parse::<Method>().unwrap(), &url);
            let request = request.header("x-tenant", tenant).header("idempotency-key", "k");
            assert_eq!(request.send().await.unwrap().status(), 201);
        }
    }
    assert_eq!(world.shop.runs(), 3);
    for _ in 0..2 {
        client().put(&url).header("idempotency-key", "k").send().await.unwrap();
    }
    assert_eq!(world.shop.runs(), 5, "PUT is idempotent by itself and passes untouched");
}

#[tokio::test]
async fn of_many_at_once_one_is_run_and_the_others_are_told_to_wait() {
    let world = Arc::new(start(|keys| keys).await);
    let ask = || {
        let world = world.clone();
        tokio::spawn(async move { world.send("/wait", "k", "").await })
    };
    let first = ask();
    until(|| world.shop.runs() == 1).await;
    for other in (0..10).map(|_| ask()).collect::<Vec<_>>() {
        let other = in_time(other).await.unwrap();
        let wait: u64 = header(&other, "retry-after").unwrap().parse().unwrap();
        assert!((1..=2).contains(&wait), "{wait}");
        let (status, stop, body) = stop(other).await;
        assert_eq!((status, stop.as_str()), (409, "key_in_flight"));
        assert!(body.ends_with(r#","code":"KEY_IN_FLIGHT"}"#), "{body}");
    }
    world.shop.door.add_permits(1);
    assert_eq!(in_time(first).await.unwrap().text().await.unwrap(), "run 1");
    assert_eq!(world.send("/wait", "k", "").await.text().await.unwrap(), "run 1");
}

#[tokio::test]
async fn a_key_that_is_required_is_missed_and_one_that_cannot_be_kept_is_refused() {
    let world = start(|keys| keys.required(true)).await;
    let url = format!("http://{}/pay", world.address);
    let missing = client().post(&url).send().await.unwrap();
    assert_eq!(header(&missing, "quell-retry"), Some("no"));
    let (status, reason, _) = stop(missing).await;
    assert_eq!((status, reason.as_str()), (400, "key_missing"));

    let world = start(|keys| keys).await;
    let url = format!("http://{}/pay", world.address);
    assert_eq!(client().post(&url).send().await.unwrap().status(), 201);
    for key in ["x".repeat(256), "a b".to_owned(), String::new()] {
        assert_eq!(world.send("/pay", &key, "").await.status(), 400, "{key:?}");
    }
    assert_eq!(world.shop.runs(), 1);
}

#[tokio::test]
async fn a_keyed_body_is_read_whole_up_to_a_mebibyte() {
    let world = start(|keys| keys).await;
    let most = world.ask("/fail/200", "k1").body("x".repeat(1024 * 1024)).send().await.unwrap();
    assert_eq!(most.status(), 200);
    let over = "x".repeat(1024 * 1024 + 1);
    let request = format!(
        "POST /pay HTTP/1.1\r\nhost: a\r\nidempotency-key: k2\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{over}",
        over.len()
    );
    let reply = raw(world.address, &request).await;
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 413 "), "{reply}");
    assert_eq!((world.shop.runs(), world.store.usage().entries), (1, 1));
}

/// K13.
#[tokio::test]
async fn a_reply_that_may_be_retried_frees_the_key() {
    for status in [404, 408, 425, 429, 500, 503] {
        let world = start(|keys| keys.final_statuses(&[StatusCode::CONFLICT])).await;
        let path = format!("/fail/{status}");
        assert_eq!(world.send(&path, "k", "").await.status().as_u16(), status);
        assert_eq!(world.store.usage().entries, 0, "{status}");
        assert_eq!(world.send(&path, "k", "").await.text().await.unwrap(), "run 2");
        assert_eq!(world.send(&path, "k", "").await.text().await.unwrap(), "run 2");
    }
    let world = start(|keys| keys.final_statuses(&[StatusCode::CONFLICT])).await;
    for _ in 0..2 {
        let reply = world.send("/fail/409", "k", "").await;
        assert_eq!((reply.status().as_u16(), reply.text().await.unwrap().as_str()), (409, "run 1"));
    }
}

#[tokio::test]
async fn a_reply_too_long_or_streamed_is_not_stored_and_never_run_again() {
    let world = start(|keys| keys).await;
    for (run, path) in [(1, "/stream"), (2, "/long")] {
        let first = world.send(path, "k", "").await;
        assert_eq!(first.status(), 200);
        assert!(!first.text().await.unwrap().is_empty());
        let again = world.send(path, "k", "").await;
        let wait: u64 = header(&again, "retry-after").unwrap().parse().unwrap();
        assert!(wait > 80_000, "{wait}: for as long as the key is remembered");
        assert_eq!(stop(again).await.0, 409);
        assert_eq!(world.shop.runs(), run);
    }
    assert_eq!(world.store.usage().bytes, 0);
}

/// P1, P4.
#[tokio::test]
async fn a_caller_who_leaves_and_a_handler_that_panics_free_the_key() {
    let world = start(|keys| keys).await;
    let leaving = tokio::spawn(world.ask("/wait", "k").send());
    until(|| world.shop.runs() == 1).await;
    assert_eq!(world.store.usage().entries, 1);
    leaving.abort();
    until(|| world.store.usage().entries == 0).await;
    world.shop.door.add_permits(1);
    assert_eq!(world.send("/wait", "k", "").await.text().await.unwrap(), "run 2");

    let world = start(|keys| keys).await;
    assert!(world.ask("/panic", "k").send().await.is_err());
    until(|| world.store.usage().entries == 0).await;
    assert_eq!(world.send("/panic", "k", "").await.text().await.unwrap(), "run 2");
}

#[tokio::test]
async fn a_handler_may_take_longer_than_the_lease() {
    let clock = Clock::manual();
    let store = Memory::new().clock(clock.clone());
    let lease = Duration::from_secs(3);
    let world = start_with(store, |keys| keys.lease(lease).clock(clock.clone()), |app| app).await;
    let first = tokio::spawn(world.ask("/wait", "k").send());
    until(|| world.shop.runs() == 1).await;
    for _ in 0..20 {
        clock.advance(Duration::from_secs(1));
        // Sent after the renewal is due, on the server's only thread, so answered after it.
        tokio::task::yield_now().await;
        assert_eq!(world.send("/wait", "k", "").await.status(), 409);
    }
    world.shop.door.add_permits(1);
    assert_eq!(in_time(first).await.unwrap().unwrap().text().await.unwrap(), "run 1");
    assert_eq!(world.shop.runs(), 1);
}

/// X11.
#[tokio::test]
async fn a_replay_takes_no_slot_and_meets_no_limit() {
    let admission = Admission::new("api").in_flight(Limit::Fixed(1)).queue(0).build().unwrap();
    let inside = admission.clone();
    let world = start_with(Memory::new(), |keys| keys, |app| app.layer(inside)).await;
    assert_eq!(world.send("/pay", "k", "").await.status(), 201);
    let holding = tokio::spawn(world.ask("/wait", "other").send());
    until(|| admission.snapshot().in_flight == 1).await;
    assert_eq!(world.send("/pay", "k", "").await.status(), 201, "replayed");
    let refused = world.send("/pay", "new", "").await;
    assert_eq!(stop(refused).await.1, "in_flight_full");
    world.shop.door.add_permits(1);
    in_time(holding).await.unwrap().unwrap();
    assert_eq!(world.send("/pay", "new", "").await.status(), 201, "a refusal frees the key");
}

#[tokio::test]
async fn a_store_that_is_full_lets_nobody_through() {
    let world = start_with(Memory::new().entries(1), |keys| keys, |app| app).await;
    assert_eq!(world.send("/pay", "k1", "").await.status(), 201);
    let refused = world.send("/pay", "k2", "").await;
    assert!(header(&refused, "retry-after").is_some());
    let (status, stop, _) = stop(refused).await;
    assert_eq!((status, stop.as_str()), (503, "store_down"));
    assert_eq!(world.send("/pay", "k1", "").await.status(), 201);
    assert_eq!(world.shop.runs(), 1);
}

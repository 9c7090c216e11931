//! A server behind all three layers, and who meets them: `cargo run -p quell --features axum --example axum_server`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    routing::{get, post},
};
use quell::{
    Limit,
    axum::{Admission, Idempotency, RateLimit},
    store::Memory,
};
use reqwest::{Client, Response, retry};
use tokio::{net::TcpListener, sync::Notify};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (payments, finish) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let admission = Admission::new("api").in_flight(Limit::Fixed(1)).queue(0).build()?;
    let app = app(&admission, payments.clone(), finish.clone())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client = Client::builder().retry(retry::never()).no_proxy().build()?;

    // The answer got lost, so the caller asks again: it is paid once.
    let pay = || client.post(format!("{url}/pay")).header("idempotency-key", "order-7");
    let first = pay().header("x-api-key", "shop").send().await?;
    let again = pay().header("x-api-key", "shop").send().await?;
    println!("paid:    {} {}", again.status(), field(&again, "idempotency-replayed"));
    assert_eq!(field(&again, "idempotency-replayed"), "true");
    assert_eq!(first.bytes().await?, again.bytes().await?);
    assert_eq!(payments.load(Ordering::SeqCst), 1);

    // One report at a time, and nobody waits for it.
    let report = || client.get(format!("{url}/report"));
    let slow = tokio::spawn(report().header("x-api-key", "accounting").send());
    while admission.snapshot().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = report().header("x-api-key", "audit").send().await?;
    println!("refused: {} {}", refused.status(), field(&refused, "quell-stop"));
    assert_eq!((refused.status().as_u16(), field(&refused, "quell-stop")), (503, "in_flight_full"));
    finish.notify_one();
    assert_eq!(slow.await??.text().await?, "all is well");

    // Three requests a minute for each key: the shop has made two.
    let third = pay().header("x-api-key", "shop").send().await?;
    println!("limited: {} {}", third.status(), field(&third, "ratelimit"));
    assert_eq!(third.status(), 201);
    let limited = pay().header("x-api-key", "shop").send().await?;
    println!("limited: {} retry after {} s", limited.status(), field(&limited, "retry-after"));
    assert_eq!((limited.status().as_u16(), field(&limited, "quell-stop")), (429, "rate_limited"));
    println!("         {}", limited.text().await?);
    Ok(())
}

/// The layer that is added last is asked first.
fn app(
    admission: &Admission,
    payments: Arc<AtomicU32>,
    finish: Arc<Notify>,
) -> Result<Router, Failure> {
    let limit = RateLimit::new("per-key").per_second(0.05).burst(3).by_header("x-api-key");
    let keys = Idempotency::new("payments", Arc::new(Memory::new())).required(true);
    let pay = async move || {
        let number = payments.fetch_add(1, Ordering::SeqCst) + 1;
        (http::StatusCode::CREATED, format!("payment {number}"))
    };
    let report = async move || {
        finish.notified().await;
        "all is well"
    };
    Ok(Router::new()
        .route("/pay", post(pay))
        .route("/report", get(report))
        .layer(admission.clone())
        .layer(keys.build()?)
        .layer(limit.build()?))
}

fn field<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

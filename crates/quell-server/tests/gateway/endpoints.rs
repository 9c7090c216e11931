//! One endpoint of several that errs, refuses or is slow: the others serve all.

use std::net::SocketAddr;
use std::time::Duration;

use quell_server::demo::scripted::{Outage, Scripted, Shape};
use quell_server::gateway::Running;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

use crate::kit::scrape::Scrape;
use crate::kit::*;

/// What an endpoint that is well takes.
const USUAL: Duration = Duration::from_millis(4);

async fn service(time: Duration) -> Scripted {
    Scripted::start(Shape::constant(64, time)).await.unwrap()
}

/// A gateway in front of two endpoints that are well, and of this one.
async fn beside(third: SocketAddr) -> (Running, [Scripted; 2]) {
    let good = [service(USUAL).await, service(USUAL).await];
    let [one, other] = [good[0].addr(), good[1].addr()];
    let lines = format!(
        "[upstream.x]\nendpoints = [\"http://{one}\", \"http://{other}\", \"http://{third}\"]"
    );
    (from_file(&lines), good)
}

/// How many of these callers did not get a 200, when 150 came per second.
///
/// Nothing here asks how long a call took: a machine that stands still for a moment would be taken for the gateway. How
/// many calls were sent to the third endpoint says the same and does not hang on the machine.
async fn failed(gateway: &Running, calls: u32) -> usize {
    let (to, begun) = (gateway.addr(), Instant::now());
    let mut under_way = Vec::new();
    for nth in 0..calls {
        sleep_until(begun + Duration::from_secs(1) * nth / 150).await;
        under_way.push(tokio::spawn(async move { get(to, "/orders/7").await.status }));
    }
    let mut failed = 0;
    for call in under_way {
        failed += usize::from(call.await.unwrap() != 200);
    }
    failed
}

#[tokio::test]
async fn an_endpoint_that_answers_500_is_left_out_and_nobody_sees_an_error() {
    let bad = service(USUAL).await;
    bad.begin(Outage::Fail);
    let (gateway, _good) = beside(bad.addr()).await;
    assert_eq!(failed(&gateway, 100).await, 0, "while it was found out");
    let before = bad.ledger().failed;
    assert_eq!(failed(&gateway, 300).await, 0);
    let asked = bad.ledger().failed - before;
    assert!(asked <= 15, "{asked} of 300 calls were sent to it");
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_left_out_and_nobody_sees_an_error() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (gateway, _good) = beside(nobody).await;
    assert_eq!(failed(&gateway, 100).await, 0, "while it was found out");
    let retries = async || {
        let scrape = Scrape::of(gateway.admin_addr()).await;
        scrape.sum("quell_attempts_total", &[("kind", "retry")])
    };
    let before = retries().await;
    assert_eq!(failed(&gateway, 300).await, 0);
    let asked = retries().await - before;
    assert!(asked <= 15.0, "{asked} of 300 calls were sent to it");
}

#[tokio::test]
async fn an_endpoint_that_is_fifty_times_slower_is_left_to_the_few() {
    let slow = service(USUAL * 50).await;
    let (gateway, _good) = beside(slow.addr()).await;
    failed(&gateway, 150).await;
    let before = slow.ledger().received;
    assert_eq!(failed(&gateway, 450).await, 0);
    let asked = slow.ledger().received - before;
    // None, as a rule. After a moment in which the machine stood still all endpoints look slow, and it gets a few.
    assert!(asked <= 45, "{asked} of 450 calls were sent to it");
}

//! One endpoint of several that errs, refuses or is slow: the others serve all.

use std::net::SocketAddr;
use std::time::Duration;

use quell_server::demo::scripted::{Outage, Scripted, Shape};
use quell_server::gateway::Running;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

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

/// What callers got who came at 150 per second: how many did not get a 200, and how long it took, the longest last.
async fn called(gateway: &Running, calls: u32) -> (usize, Vec<Duration>) {
    let (to, begun) = (gateway.addr(), Instant::now());
    let mut under_way = Vec::new();
    for nth in 0..calls {
        sleep_until(begun + Duration::from_secs(1) * nth / 150).await;
        under_way.push(tokio::spawn(async move {
            let asked = Instant::now();
            (get(to, "/orders/7").await.status, asked.elapsed())
        }));
    }
    let (mut failed, mut took) = (0, Vec::new());
    for call in under_way {
        let (status, time) = call.await.unwrap();
        failed += usize::from(status != 200);
        took.push(time);
    }
    took.sort_unstable();
    (failed, took)
}

fn p99(took: &[Duration]) -> Duration {
    took[took.len() * 99 / 100]
}

#[tokio::test]
async fn an_endpoint_that_answers_500_is_left_out_and_nobody_sees_an_error() {
    let bad = service(USUAL).await;
    bad.begin(Outage::Fail);
    let (gateway, _good) = beside(bad.addr()).await;
    let (failed, _) = called(&gateway, 100).await;
    assert_eq!(failed, 0, "while it was found out");
    let before = bad.ledger().failed;
    let (failed, took) = called(&gateway, 300).await;
    let asked = bad.ledger().failed - before;
    assert_eq!(failed, 0);
    assert!(asked <= 15, "{asked} of 300 calls were sent to it");
    assert!(p99(&took) < ms(100), "{:?}", p99(&took));
}

#[tokio::test]
async fn an_endpoint_that_refuses_connections_is_left_out_and_nobody_sees_an_error() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (gateway, _good) = beside(nobody).await;
    let (failed, _) = called(&gateway, 100).await;
    assert_eq!(failed, 0, "while it was found out");
    let (failed, took) = called(&gateway, 300).await;
    assert_eq!(failed, 0);
    assert!(p99(&took) < ms(100), "{:?}", p99(&took));
}

#[tokio::test]
async fn an_endpoint_that_is_fifty_times_slower_is_left_to_the_few() {
    let slow = service(USUAL * 50).await;
    let (gateway, _good) = beside(slow.addr()).await;
    called(&gateway, 150).await;
    let (failed, took) = called(&gateway, 450).await;
    assert_eq!(failed, 0);
    assert!(p99(&took) < USUAL + ms(60), "{:?} of {:?}", p99(&took), took.last());
}

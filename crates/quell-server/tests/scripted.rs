//! The scripted upstream and its naive callers, on real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used)] // the helpers are tests too

use std::sync::Arc;
use std::time::Duration;

use quell_server::demo::callers::Callers;
use quell_server::demo::scripted::{Ledger, Outage, Scripted, Shape, Sharing, Visits};
use quell_server::demo::tally::Tally;
use quell_sim::verdict::{Count, Series};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(5);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn upstream(workers: usize, service: u64) -> Scripted {
    Scripted::start(Shape::constant(workers, ms(service))).await.unwrap()
}

/// Waits until the ledger shows it.
async fn until(upstream: &Scripted, shows: impl Fn(Ledger) -> bool) -> Ledger {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ledger = upstream.ledger();
        if shows(ledger) {
            return ledger;
        }
        assert!(Instant::now() < deadline, "not seen in time; the ledger says {ledger:?}");
        sleep(ms(1)).await;
    }
}

/// A connection that speaks only when told.
struct Peer(TcpStream);

impl Peer {
    async fn connect(upstream: &Scripted) -> Self {
        Self(TcpStream::connect(upstream.addr()).await.unwrap())
    }

    async fn send(&mut self, target: &str, id: &str) {
        let head = format!("GET {target} HTTP/1.1\r\nhost: test\r\nx-request-id: {id}\r\n\r\n");
        self.0.write_all(head.as_bytes()).await.unwrap();
    }

    /// The next reply's status and body.
    async fn reply(&mut self) -> (u16, String) {
        timeout(PATIENCE, self.read()).await.expect("no reply in time")
    }

    async fn read(&mut self) -> (u16, String) {
        let mut text = String::new();
        loop {
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.unwrap().parse().unwrap();
                if body.len() == length {
                    return (head[9..12].parse().unwrap(), body.to_owned());
                }
            }
            let mut part = [0; 4096];
            let n = self.0.read(&mut part).await.unwrap();
            assert!(n > 0, "closed after {text:?}");
            text.push_str(std::str::from_utf8(&part[..n]).unwrap());
        }
    }

    /// Whether nothing has come, not even a farewell.
    fn silent(&self) -> bool {
        self.0.try_read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// A connection with one request under way that the upstream has seen.
async fn asked(upstream: &Scripted, id: &str) -> Peer {
    let received = upstream.ledger().received;
    let mut peer = Peer::connect(upstream).await;
    peer.send("/", id).await;
    until(upstream, |ledger| ledger.received > received).await;
    peer
}

#[tokio::test]
async fn capacity_is_workers_by_service_time() {
    let upstream = upstream(8, 20).await;
    let mut peers = Vec::new();
    for _ in 0..400 {
        peers.push(Peer::connect(&upstream).await);
    }
    let start = Instant::now();
    for peer in &mut peers {
        peer.send("/", "saturate").await;
    }
    for peer in &mut peers {
        assert_eq!(peer.reply().await, (200, "ok\n".into()));
    }
    let took = start.elapsed();
    assert!((ms(1_000)..ms(1_050)).contains(&took), "50 rounds of 20 ms took {took:?}");
    assert_eq!(upstream.visits("saturate"), Visits { arrived: 400, served: 400 });
}

#[tokio::test]
async fn whoever_comes_first_is_served_first() {
    let upstream = upstream(1, 10).await;
    upstream.begin(Outage::Stall);
    let mut peers = Vec::new();
    for i in 0..20 {
        peers.push(asked(&upstream, &i.to_string()).await);
    }
    upstream.end();
    let mut glimpses = 0;
    while upstream.ledger().served < 20 {
        let served: Vec<_> = (0..20).map(|i| upstream.visits(&i.to_string()).served == 1).collect();
        assert!(served.is_sorted_by(|a, b| a >= b), "not in order: {served:?}");
        glimpses += u32::from(served[0]);
        timeout(PATIENCE, sleep(ms(5))).await.unwrap();
    }
    assert!(glimpses > 0, "never looked while the line moved");
}

#[tokio::test]
async fn the_departed_keep_their_place_and_waste_the_work() {
    let upstream = upstream(1, 50).await;
    upstream.begin(Outage::Stall);
    let leaver = asked(&upstream, "leaver").await;
    let mut stayer = asked(&upstream, "stayer").await;
    drop(leaver);
    until(&upstream, |ledger| ledger.abandoned == 1).await;
    let ledger = upstream.ledger();
    assert_eq!((ledger.in_service, ledger.in_queue), (1, 1));
    let resumed = Instant::now();
    upstream.end();
    assert_eq!(stayer.reply().await.0, 200);
    assert!(resumed.elapsed() >= ms(100), "did not wait for the work of the departed");
    let ledger = upstream.ledger();
    assert_eq!((ledger.served, ledger.wasted), (2, 1));
    assert_eq!(upstream.visits("leaver"), Visits { arrived: 1, served: 1 });
}

#[tokio::test]
async fn fail_answers_500_at_once_and_takes_no_worker() {
    let upstream = upstream(1, 60_000).await;
    upstream.begin(Outage::Fail);
    let mut peer = Peer::connect(&upstream).await;
    for _ in 0..3 {
        peer.send("/", "a").await;
        assert_eq!(peer.reply().await.0, 500);
    }
    let ledger = upstream.ledger();
    assert_eq!((ledger.failed, ledger.served, ledger.in_service), (3, 0, 0));
    upstream.end();
    peer.send("/", "a").await;
    until(&upstream, |ledger| ledger.in_service == 1).await;
}

#[tokio::test]
async fn a_hole_swallows_what_comes_and_loses_what_would_leave() {
    let upstream = upstream(2, 200).await;
    let early = asked(&upstream, "early").await;
    upstream.begin(Outage::Hole);
    let inside = asked(&upstream, "inside").await;
    until(&upstream, |ledger| ledger.lost == 1).await;
    upstream.end();
    let mut late = asked(&upstream, "late").await;
    assert_eq!(late.reply().await.0, 200);
    assert!(early.silent() && inside.silent());
    let ledger = upstream.ledger();
    assert_eq!((ledger.swallowed, ledger.lost, ledger.served), (1, 1, 2));
    assert_eq!(upstream.visits("inside"), Visits { arrived: 1, served: 0 });
    drop((early, inside));
    until(&upstream, |ledger| ledger.abandoned == 2).await;
}

#[tokio::test]
async fn a_stall_holds_everybody_up_and_then_serves_everybody() {
    let upstream = upstream(2, 10).await;
    upstream.begin(Outage::Stall);
    let mut peers = Vec::new();
    for i in 0..5 {
        peers.push(asked(&upstream, &i.to_string()).await);
    }
    assert!(timeout(ms(100), peers[0].read()).await.is_err(), "served in a stall");
    let ledger = upstream.ledger();
    assert_eq!((ledger.served, ledger.in_service, ledger.in_queue), (0, 2, 3));
    let resumed = Instant::now();
    upstream.end();
    for peer in &mut peers {
        assert_eq!(peer.reply().await.0, 200);
    }
    assert!(resumed.elapsed() >= ms(30), "five jobs of two workers take three rounds");
}

#[tokio::test]
async fn slowness_and_hangs_last_as_long_as_the_work_they_hit() {
    for outage in [Outage::Slow { factor: 10.0 }, Outage::Hang { share: 1.0, time: ms(200) }] {
        let upstream = upstream(1, 20).await;
        upstream.begin(outage);
        let start = Instant::now();
        let mut hit = asked(&upstream, "hit").await;
        upstream.end();
        assert_eq!(hit.reply().await.0, 200);
        assert!(start.elapsed() >= ms(200), "{outage:?}: over in {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn requests_that_share_a_worker_are_done_together() {
    let shape = Shape { sharing: Sharing::Equal, ..Shape::constant(1, ms(50)) };
    let upstream = Scripted::start(shape).await.unwrap();
    upstream.begin(Outage::Stall);
    let mut peers = Vec::new();
    for i in 0..4 {
        peers.push(asked(&upstream, &i.to_string()).await);
    }
    assert_eq!((upstream.ledger().in_service, upstream.ledger().in_queue), (4, 0));
    let resumed = Instant::now();
    upstream.end();
    assert_eq!(peers[0].reply().await.0, 200);
    assert!(
        resumed.elapsed() >= ms(200),
        "a quarter of a worker did it in {:?}",
        resumed.elapsed()
    );
    assert_eq!(upstream.ledger().served, 4);
}

#[tokio::test]
async fn bodies_are_read_whole_and_replies_are_as_long_as_asked() {
    let upstream = upstream(1, 0).await;
    let mut peer = Peer::connect(&upstream).await;
    let head = "POST /?x=1&bytes=5000 HTTP/1.1\r\nhost: test\r\ncontent-length: 100000\r\n\r\n";
    peer.0.write_all(head.as_bytes()).await.unwrap();
    peer.0.write_all(&[b'.'; 100_000]).await.unwrap();
    let (status, body) = peer.reply().await;
    assert_eq!((status, body.len()), (200, 5_000));
    assert_eq!(upstream.ledger().body_bytes, 100_000);
    peer.send("/?bytes=0", "a").await;
    assert_eq!(peer.reply().await, (200, String::new()));
    assert_eq!(upstream.ledger().connections, 1);
}

#[tokio::test]
async fn dropping_it_closes_every_connection_and_frees_the_port() {
    let upstream = upstream(1, 60_000).await;
    let addr = upstream.addr();
    let mut peer = asked(&upstream, "a").await;
    drop(upstream);
    let end = timeout(PATIENCE, peer.0.read(&mut [0])).await.expect("still open");
    assert!(matches!(end, Ok(0) | Err(_)));
    // The connection's task is dropped after the listener, so by now the port is free.
    let shape = Shape::constant(1, ms(1));
    let again = Scripted::start_on(addr, shape.clone()).await.unwrap();
    again.stop().await;
    Scripted::start_on(addr, shape).await.unwrap();
}

#[tokio::test]
async fn a_service_without_workers_is_refused_with_the_fix() {
    let shape = Shape::constant(0, ms(1));
    let error = Scripted::start(shape).await.err().unwrap();
    assert!(error.to_string().contains("at least 1"), "{error}");
}

/// Numbers from 0 to 1, the same every time.
fn dice() -> impl FnMut() -> f64 {
    let mut state = 1u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    }
}

fn total(series: &Series, what: Count) -> u64 {
    series.sum(what, 0..usize::MAX)
}

#[tokio::test]
async fn every_user_of_a_healthy_service_is_answered_at_the_first_attempt() {
    let upstream = upstream(8, 5).await;
    let tally = Arc::new(Tally::new());
    upstream.count_into(Arc::clone(&tally));
    let callers = Callers { rate: 400.0, ..Callers::naive(upstream.addr()) };
    callers.run(ms(1_200), Arc::clone(&tally), dice()).await;
    let series = tally.series();
    let demand = total(&series, Count::Demand);
    assert!((400..=560).contains(&demand), "480 expected, {demand} came");
    for what in [Count::Good, Count::Received, Count::Sent] {
        assert_eq!(total(&series, what), demand, "{what:?}");
    }
    assert!(series.len() >= 2 && series.at(Count::Demand, 0) > 0);
    let visits = upstream.all_visits();
    assert_eq!(visits.len() as u64, demand);
    assert!(visits.values().all(|v| *v == Visits { arrived: 1, served: 1 }));
    let ledger = upstream.ledger();
    assert!(ledger.connections < demand / 4, "connections are kept: {ledger:?}");
    assert_eq!((ledger.wasted, ledger.abandoned, tally.unsent()), (0, 0, 0));
    let [latency, during, after] = tally.seen().latency;
    assert_eq!((latency.count(), during.count(), after.count()), (demand, 0, 0));
    assert!(latency.quantile(0.5) >= Some(ms(4)), "work takes 5 ms");
}

#[tokio::test]
async fn every_user_of_a_failing_service_costs_four_attempts() {
    for outage in [Outage::Fail, Outage::Hole, Outage::Stall] {
        let upstream = upstream(1, 60_000).await;
        upstream.begin(outage);
        let tally = Arc::new(Tally::new());
        let callers =
            Callers { patience: ms(200), pause: ms(10), ..Callers::naive(upstream.addr()) };
        callers.run(ms(300), Arc::clone(&tally), dice()).await;
        let series = tally.series();
        let demand = total(&series, Count::Demand);
        assert!(demand > 10);
        assert_eq!(total(&series, Count::Received), 4 * demand, "{outage:?}");
        assert_eq!(total(&series, Count::Good), 0);
        let visits = upstream.all_visits();
        assert_eq!(visits.len() as u64, demand);
        assert!(visits.values().all(|v| *v == Visits { arrived: 4, served: 0 }), "{outage:?}");
        if outage != Outage::Fail {
            until(&upstream, |ledger| ledger.abandoned == 4 * demand).await;
        }
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_leaves_no_connection_behind() {
    let upstream = upstream(1, 60_000).await;
    let tally = Arc::new(Tally::new());
    let callers = Callers { patience: PATIENCE * 10, ..Callers::naive(upstream.addr()) };
    assert!(timeout(ms(300), callers.run(PATIENCE, tally, dice())).await.is_err());
    let ledger = until(&upstream, |ledger| ledger.abandoned == ledger.received).await;
    assert!(ledger.received > 10, "{ledger:?}");
}

#[tokio::test]
async fn callers_outlive_a_restart_on_connections_that_went_stale() {
    let shape = Shape::constant(8, ms(5));
    let upstream = Scripted::start(shape.clone()).await.unwrap();
    let addr = upstream.addr();
    let tally = Arc::new(Tally::new());
    let restart = async {
        until(&upstream, |ledger| ledger.served >= 50).await;
        upstream.stop().await;
        Scripted::start_on(addr, shape).await.unwrap()
    };
    let callers = Callers { rate: 200.0, pause: ms(20), ..Callers::naive(addr) };
    let run = callers.run(ms(800), Arc::clone(&tally), dice());
    let (_, upstream) = tokio::join!(run, restart);
    let series = tally.series();
    assert_eq!(total(&series, Count::Good), total(&series, Count::Demand));
    assert!(upstream.ledger().served >= 20);
}

#[tokio::test]
async fn a_refusal_is_told_from_a_fault_and_retried_all_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let refuse = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await.unwrap();
            let reply = b"HTTP/1.1 503 no\r\nquell-stop: shed\r\nretry-after: 60\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(reply).await.unwrap();
        }
    };
    let tally = Arc::new(Tally::new());
    let callers = Callers { pause: ms(5), ..Callers::naive(target) };
    tokio::select! {
        () = callers.run(ms(200), Arc::clone(&tally), dice()) => {}
        () = refuse => {}
    }
    let series = tally.series();
    let demand = total(&series, Count::Demand);
    assert!(demand > 5);
    assert_eq!(total(&series, Count::Refused), 4 * demand);
    assert_eq!(total(&series, Count::Good), 0);
}

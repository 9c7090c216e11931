//! Reloads in the middle of an outage: other numbers, the same knowledge.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::Full;
use quell_server::demo::scripted::{Outage, Scripted, Shape};
use quell_server::gateway::{self, Config, NotTaken, Running};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::files::Dir;
use crate::kit::*;
use crate::life::Quell;

/// A tenant's key, and what is known of it.
const KEY: &str = "quell-server";
const HASH: &str = "sha256:520d7603ae166ff637365a23125aed651be7296c503aca364e48cb5c323a69bd";

/// As people write it at first. Limits refill so slowly, and breakers stay open so long, that time plays no part.
const USUAL: &str = r#"
budget = { max = 10 }
breaker = { open = "10m", min_calls = 30, window = "10m" }
rate_limit = { per_second = 0.000001, burst = 5000 }
[policy.x]
attempts = 3
backoff = { base = "1ms" }
[tenant.shop]
keys = ["file:KEY"]
rate_limit = { per_second = 0.000001, burst = 900 }
[[route]]
name = "all"
upstream = "x"
tenants = "optional"
rate_limit = { per_second = 0.000001, burst = 90, key = "ip" }
"#;
/// As they write it in an outage.
const HASTY: &str = r#"
budget = { max = 400, ratio = 0.5, pause_below = 0.3 }
breaker = { open = "20m", min_calls = 90, window = "20m", failure_rate = 0.9, probes = 5 }
rate_limit = { per_second = 0.000002, burst = 9000 }
in_flight = { limit = 7, queue = 5 }
[policy.x]
attempts = 9
timeout = "50s"
per_try_timeout = "3s"
backoff = { base = "7ms" }
[tenant.shop]
keys = ["file:KEY"]
rate_limit = { per_second = 0.000002, burst = 9000 }
[[route]]
name = "all"
upstream = "x"
tenants = "optional"
timeout = "40s"
rate_limit = { per_second = 0.000002, burst = 9000, key = "ip" }
"#;

/// A gateway by a file that can be written anew.
struct Filed {
    dir: Dir,
    head: String,
    running: Running,
}

impl Filed {
    fn start(name: &str, to: SocketAddr, settings: &str) -> Self {
        let dir = Dir::new(&format!("reloads-{name}"));
        fs::write(dir.path("key"), HASH).unwrap();
        let head = head(to);
        write(&dir, &head, settings);
        let path = dir.path("quell.toml");
        let file = quell_server::config::Config::load(&path, &[]).unwrap();
        let config = Config { path: Some(path), cores: 2, ..Config::of(file).on_free_ports() };
        Self { dir, head, running: gateway::start(config).unwrap() }
    }

    fn reload(&self, settings: &str) -> Result<Vec<String>, NotTaken> {
        write(&self.dir, &self.head, settings);
        self.running.reload()
    }

    async fn state(&self) -> Value {
        let reply = look(self.running.admin_addr(), "/state").await;
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// Of the only upstream.
    async fn number(&self, name: &str) -> Option<f64> {
        self.state().await["upstreams"][0][name].as_f64()
    }

    async fn ask(&self, target: &str) -> Reply {
        let asks = request("GET", target).header("x-api-key", KEY);
        send(self.running.addr(), asks.body(Full::<Bytes>::default()).unwrap()).await
    }
}

fn head(to: SocketAddr) -> String {
    format!(
        "version = 1\n[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nwatch = \"off\"\n\
         [upstream.x]\nendpoints = [\"http://{to}\"]\n"
    )
}

fn write(dir: &Dir, head: &str, settings: &str) -> PathBuf {
    let key = dir.path("key").display().to_string();
    let path = dir.path("quell.toml");
    fs::write(&path, format!("{head}{}", settings.replace("KEY", &key))).unwrap();
    path
}

/// Good and bad reloads so far.
async fn reloads(admin: SocketAddr) -> (String, String) {
    let page = look(admin, "/metrics").await;
    let count = |result: &str| {
        let name = format!("quell_config_reloads_total{{result=\"{result}\"}} ");
        page.text().lines().find_map(|line| line.strip_prefix(&name)).unwrap().to_owned()
    };
    (count("success"), count("failure"))
}

fn counts(good: u32, bad: u32) -> (String, String) {
    (good.to_string(), bad.to_string())
}

/// X9.
#[tokio::test]
async fn a_hundred_reloads_in_an_outage_change_nothing_that_is_known() {
    let upstream = Scripted::start(Shape::constant(8, ms(5))).await.unwrap();
    let usual = USUAL.replace("burst = 90,", "burst = 900,");
    let usual = format!("in_flight = {{ queue_wait = \"30s\" }}{usual}");
    let filed = Filed::start("known", upstream.addr(), &usual);
    until("the service's pace is known", || async {
        assert_eq!(filed.ask("/").await.status, 200);
        filed.number("rate_per_second").await.is_some()
    })
    .await;
    upstream.begin(Outage::Fail);
    for _ in 0..4 {
        assert_eq!(filed.ask("/").await.status, 500);
    }
    // Callers who leave teach how long they wait, and what was sent for them stays behind as ghosts.
    upstream.begin(Outage::Hole);
    let before = filed.number("patience_seconds").await.unwrap();
    let mut leavers = Vec::new();
    for _ in 0..30 {
        let mut leaver = TcpStream::connect(filed.running.addr()).await.unwrap();
        leaver.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        leavers.push(leaver);
    }
    until("all are here", || async {
        let all = [filed.number("in_flight").await, filed.number("queued").await];
        all.into_iter().flatten().sum::<f64>() == 30.0
    })
    .await;
    // Whoever leaves before an answer is due teaches nothing: these have waited for it.
    tokio::time::sleep(ms(300)).await;
    drop(leavers);
    until("they have left", || async {
        filed.number("queued").await == Some(0.0) && filed.number("in_flight").await == Some(0.0)
    })
    .await;
    let was = filed.state().await;
    let upstream = &was["upstreams"][0];
    assert!(upstream["patience_seconds"].as_f64().unwrap() < before, "{was}");
    assert!(upstream["ghosts"].as_u64().unwrap() > 0, "{was}");
    assert!(upstream["budget"]["tokens"].as_f64().unwrap() < 10.0, "{was}");
    let begin = Instant::now();
    for _ in 0..25 {
        for settings in [HASTY, HASTY, &usual, &usual] {
            filed.reload(settings).unwrap();
        }
    }
    assert_eq!(filed.state().await, was);
    assert_eq!(reloads(filed.running.admin_addr()).await, counts(100, 0));
    println!("100 reloads in {:?}", begin.elapsed());
}

/// What of a state is the same in two gateways that lived through the same.
fn comparable(mut state: Value) -> Value {
    let upstream = state["upstreams"][0].as_object_mut().unwrap();
    for of_its_time in
        ["rate_per_second", "base_seconds", "p50_seconds", "margin", "limit", "classes"]
    {
        upstream.remove(of_its_time);
    }
    upstream["endpoints"][0].as_object_mut().unwrap().remove("address");
    state
}

/// X9.
#[tokio::test]
async fn a_gateway_that_is_reloaded_all_the_time_behaves_as_one_that_is_not() {
    let status = |seen: &Seen| seen.uri.path()[1..].parse().unwrap();
    let upstreams = [(); 2].map(|()| Fake::start(move |_, seen| answer(status(seen), "x")));
    let [one, two] = upstreams;
    let (one, two) = (one.await, two.await);
    let (left, changed) =
        (Filed::start("left", one.addr, USUAL), Filed::start("changed", two.addr, USUAL));
    let mut seen = std::collections::BTreeSet::new();
    // The budget is spent, some of it earned again, the breaker opens, and at last the route's limit is used up.
    let script = [("/200", 25), ("/503", 6), ("/200", 20), ("/404", 1), ("/503", 45)];
    for target in script.iter().flat_map(|(target, times)| (0..*times).map(move |_| target)) {
        changed.reload(HASTY).unwrap();
        changed.reload(USUAL).unwrap();
        let replies = [left.ask(target).await, changed.ask(target).await];
        let [expected, got] = replies.map(|reply| {
            let field = |name| reply.header(name).map(str::to_owned);
            (reply.status, field("quell-attempts"), field("quell-stop"))
        });
        assert_eq!(got, expected, "{target}");
        seen.extend(got.2);
    }
    for reason in ["budget_empty", "breaker_open", "rate_limited", "not_retryable"] {
        assert!(seen.contains(reason), "no {reason}: {seen:?}");
    }
    assert_eq!(comparable(changed.state().await), comparable(left.state().await));
    assert_eq!(two.seen().len(), one.seen().len());
    for state in ["open", "closed", "half_open"] {
        let name = format!("quell_breaker_transitions_total{{upstream=\"x\",state=\"{state}\"}}");
        assert_eq!(metric(&changed.running, &name).await, metric(&left.running, &name).await);
    }
}

#[tokio::test]
async fn whoever_is_under_way_or_waits_is_served_after_reloads() {
    let upstream = Scripted::start(Shape::constant(8, ms(1))).await.unwrap();
    let one_slot = format!("in_flight = {{ limit = 1, queue_wait = \"10s\" }}{USUAL}");
    let filed = Filed::start("under-way", upstream.addr(), &one_slot);
    upstream.begin(Outage::Stall);
    let addr = filed.running.addr();
    let calls: Vec<_> = (0..4).map(|_| tokio::spawn(get(addr, "/"))).collect();
    until("one is under way, three wait", || async {
        (filed.number("in_flight").await, filed.number("queued").await) == (Some(1.0), Some(3.0))
    })
    .await;
    for _ in 0..10 {
        filed.reload(&format!("in_flight = {{ limit = 1, queue = 0 }}{USUAL}")).unwrap();
        filed.reload(&one_slot).unwrap();
    }
    upstream.end();
    for call in calls {
        assert_eq!(call.await.unwrap().status, 200);
    }
    assert_eq!(upstream.ledger().received, 4);
}

#[tokio::test]
async fn a_broken_file_changes_nothing_and_is_counted() {
    let upstream = Fake::start(|_, _| answer(503, "x")).await;
    let filed = Filed::start("broken", upstream.addr, USUAL);
    assert_eq!(filed.ask("/").await.status, 503);
    let config = async || look(filed.running.admin_addr(), "/config").await.body;
    let (was, written) = (filed.state().await, config().await);
    for (settings, error) in [
        ("budget = { max = \"many\" }", "budget.max"),
        ("[[route]]\nupstream = \"y\"", "y"),
        ("attemps = 4", "attemps"),
        ("[", "quell.toml"),
    ] {
        let told = filed.reload(settings).unwrap_err().to_string();
        assert!(told.contains(error), "{told}");
    }
    fs::remove_file(filed.dir.path("quell.toml")).unwrap();
    filed.running.reload().unwrap_err();
    assert_eq!((filed.state().await, config().await), (was, written));
    assert_eq!(reloads(filed.running.admin_addr()).await, counts(0, 5));
    assert_eq!(filed.ask("/").await.header("quell-attempts"), Some("3"));
}

#[tokio::test]
async fn the_command_reloads_on_a_hangup_signal_and_when_the_file_changes() {
    let upstream = Fake::start(|_, _| answer(503, "x")).await;
    for (name, watch) in [("signal", "off"), ("watch", "50ms")] {
        let dir = Dir::new(&format!("reloads-{name}"));
        let head = head(upstream.addr).replace("\"off\"", &format!("\"{watch}\""));
        let path = write(&dir, &head, "[policy.x]\nattempts = 3");
        let quell = Quell::start(&["--config", path.to_str().unwrap(), "--cores", "1"], &[]);
        assert_eq!(get(quell.addr, "/").await.header("quell-attempts"), Some("3"));
        write(&dir, &head, "[policy.x]\nattempts = 1");
        if watch == "off" {
            quell.signal("HUP");
        }
        until(name, || async { reloads(quell.admin).await == counts(1, 0) }).await;
        assert_eq!(get(quell.addr, "/").await.header("quell-attempts"), Some("1"));
        write(&dir, &head, "[policy.x]\nattempts = 0");
        if watch == "off" {
            quell.signal("HUP");
        }
        until(name, || async { reloads(quell.admin).await == counts(1, 1) }).await;
        let reply = timeout(PATIENCE, get(quell.addr, "/")).await.unwrap();
        assert_eq!(reply.header("quell-attempts"), Some("1"));
    }
}

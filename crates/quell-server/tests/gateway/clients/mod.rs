//! Real clients through the gateway: what people have, as they have it.
//!
//! **Why.** Our own tests speak HTTP as the library we use reads it. Clients of other makes open connections early, ask for
//! other versions, send other headers and read bodies in other pieces.
//!
//! **How.** Every client makes the same tour through the gateway and prints what it saw; [`tour`] says what that should be. Their
//! programs are brought by `cargo xtask test`, which says in `QUELL_CLIENTS` where: these tests are only built with the
//! feature `test-clients`, so that whoever has no such programs does not seem to have run them.

mod origin;
mod socket;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use quell_server::gateway::Running;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use self::origin::Origin;
use crate::files::{Authority, Dir};
use crate::kit::*;

/// How long one client's tour may take, a browser's start on a busy machine included.
const TOUR: Duration = Duration::from_secs(90);

/// Where the programs are that no package of the system has.
fn brought() -> PathBuf {
    let folder = std::env::var_os("QUELL_CLIENTS");
    folder.expect("QUELL_CLIENTS is not set: run this by `cargo xtask test -- clients`").into()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn python(name: &str) -> Command {
    let mut python = Command::new(brought().join("bin/python"));
    python.arg("-u").arg(script(name));
    python
}

/// What a client printed, by the name of the stop.
type Told = BTreeMap<String, Value>;

fn read(text: &str) -> Told {
    let line = |line: &str| -> (String, Value) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        (value["stop"].as_str().unwrap().to_owned(), value)
    };
    text.lines().map(line).collect()
}

/// Runs a client to its end.
async fn run(mut client: Command) -> Told {
    brought();
    let child = client
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{client:?}: {error}"));
    let output = timeout(TOUR, child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{client:?} did not come to its end")).unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{client:?}:\n{said}\n{complained}");
    read(&said)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What everybody should have seen.
fn tour(told: &Told, version: Option<&str>) {
    let posted: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    for (stop, status, attempts, body) in [
        ("get", 200, "1", "hello from=here".to_owned()),
        ("post", 200, "1", hash(&posted)),
        ("retried", 200, "2", "now".to_owned()),
        ("passes", 200, "1", "once".to_owned()),
        ("large", 200, "1", hash(&origin::large())),
    ] {
        let seen = &told.get(stop).unwrap_or_else(|| panic!("no {stop} in {told:#?}"));
        assert_eq!(seen["status"], status, "{seen:#}");
        assert_eq!(seen["quell-attempts"], attempts, "{seen:#}");
        assert_eq!(seen["body"], body.as_str(), "{seen:#}");
        assert_eq!(seen["quell-stop"].as_str().unwrap_or_default(), "", "{seen:#}");
        if let Some(version) = version {
            assert_eq!(seen["version"], version, "{seen:#}");
        }
    }
    let refused = &told["refused"];
    assert_eq!(refused["status"], 429, "{refused:#}");
    assert_eq!(refused["quell-attempts"], "0", "{refused:#}");
    assert_eq!(refused["quell-stop"], "rate_limited", "{refused:#}");
    let wait: u64 = refused["retry-after"].as_str().unwrap().parse().unwrap();
    assert!(wait > 0, "{refused:#}");
    assert!(refused["body"].as_str().unwrap().contains("RATE_LIMITED"), "{refused:#}");
    assert_eq!(told["stream"]["body"], "1 2 3 4 5");
}

/// A gateway in front of the tour's origin, of which one path may be asked for once.
fn gateway_to(origin: &Origin, more: &str) -> Running {
    from_file(&format!(
        "{more}\n[upstream.tour]\nendpoints = [\"http://{}\"]\n\
         [[route]]\nname = \"limited\"\nmatch = {{ path = \"/limited\" }}\nupstream = \"tour\"\n\
         rate_limit = {{ per_second = 0.001, burst = 1 }}\n\
         [[route]]\nname = \"all\"\nupstream = \"tour\"\n",
        origin.addr
    ))
}

/// What the tour finds behind TLS: a certificate, and the authority that its client is told to trust.
struct Secure {
    dir: Dir,
    authority: Authority,
}

impl Secure {
    fn new(name: &str) -> Self {
        let dir = Dir::new(name);
        let authority = dir.authority("authority");
        authority.issue("localhost", &dir.path("cert.pem"), &dir.path("key.pem"));
        Self { dir, authority }
    }

    fn authority(&self) -> &str {
        self.authority.file.to_str().unwrap()
    }

    /// For a gateway's file.
    fn setting(&self) -> String {
        let (cert, key) = (self.dir.path("cert.pem"), self.dir.path("key.pem"));
        format!("[gateway]\ntls = {{ cert = {cert:?}, key = {key:?} }}\n")
    }
}

/// The tour by HTTPS.
async fn secure(name: &str, client: impl FnOnce(String, &str) -> Command) {
    let secure = Secure::new(name);
    let origin = Origin::start().await;
    let gateway = gateway_to(&origin, &secure.setting());
    let base = format!("https://localhost:{}", gateway.addr().port());
    tour(&run(client(base, secure.authority())).await, Some("2"));
}

/// The tour by HTTP without TLS.
async fn plain(client: impl FnOnce(String) -> Command, version: Option<&str>) {
    let origin = Origin::start().await;
    let gateway = gateway_to(&origin, "");
    let told = run(client(format!("http://{}", gateway.addr()))).await;
    tour(&told, version);
    let flaky = origin.asked().iter().filter(|path| *path == "/flaky").count();
    assert_eq!(flaky, 2, "the client asked once");
}

fn curl(base: String, flags: &[&str]) -> Command {
    let mut sh = Command::new("sh");
    sh.arg(script("tour.sh")).arg(base).args(flags);
    sh
}

fn by_python(client: &str, base: String) -> Command {
    let mut python = python("tour.py");
    python.arg(client).arg(base);
    python
}

#[tokio::test]
async fn curl_makes_the_tour() {
    plain(|base| curl(base, &["--http1.1"]), Some("1.1")).await;
}

#[tokio::test]
async fn curl_makes_the_tour_by_http2_from_the_first_byte() {
    plain(|base| curl(base, &["--http2-prior-knowledge"]), Some("2")).await;
}

#[tokio::test]
async fn pythons_requests_makes_the_tour() {
    plain(|base| by_python("requests", base), Some("1.1")).await;
}

#[tokio::test]
async fn pythons_httpx_makes_the_tour() {
    plain(|base| by_python("httpx", base), Some("1.1")).await;
}

#[tokio::test]
async fn pythons_httpx_makes_the_tour_by_http2() {
    plain(|base| by_python("httpx-http2", base), Some("2")).await;
}

#[tokio::test]
async fn curl_makes_the_tour_by_http2_over_tls() {
    secure("clients-curl", |base, ca| curl(base, &["--cacert", ca])).await;
}

#[tokio::test]
async fn pythons_httpx_makes_the_tour_by_http2_over_tls() {
    secure("clients-httpx", |base, ca| {
        let mut client = by_python("httpx-http2", base);
        client.arg(ca);
        client
    })
    .await;
}

#[tokio::test]
async fn nodes_fetch_makes_the_tour() {
    let node = |base| {
        let mut node = Command::new("node");
        node.arg(script("tour.mjs")).arg(base);
        node
    };
    plain(node, None).await;
}

#[tokio::test]
async fn a_browser_makes_the_tour_and_talks_over_a_web_socket() {
    let origin = Origin::start().await;
    let gateway = gateway_to(&origin, "");
    let dir = Dir::new("clients-browser");
    let mut chromium = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run"])
        .args(["--disable-dev-shm-usage", "--window-size=800,600"])
        .arg(format!("--user-data-dir={}", dir.path("profile").display()))
        .arg(format!("http://{}/page", gateway.addr()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("no chromium: run this by `cargo xtask test -- clients`");
    let report = timeout(TOUR, origin.report()).await;
    let _ = chromium.kill().await; // it has ended, or does now
    let told = read(&report.expect("the page reported nothing"));
    assert!(!told.contains_key("failed"), "{told:#?}");
    tour(&told, None);
    assert_eq!(told["socket"]["body"], "as sent, 1000, clean");
}

/// A gRPC service of Python's, and where it listens.
async fn grpc_origin() -> (Child, u16) {
    let mut child = python("grpc_origin.py")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = timeout(TOUR, lines.next_line()).await.expect("it does not start").unwrap();
    (child, port.expect("it ended").parse().unwrap())
}

async fn grpc_tour(tls: Option<Secure>) {
    let (_origin, port) = grpc_origin().await;
    // gRPC calls are POSTs: that these may be repeated has to be said.
    let gateway = from_file(&format!(
        "{}[upstream.tour]\nendpoints = [\"http://127.0.0.1:{port}\"]\nprotocol = \"http2\"\n\
         [policy.tour]\nunsafe_methods = \"always\"\n\
         [[route]]\nname = \"limited\"\nmatch = {{ path = \"/tour.Tour/Limited\" }}\nupstream = \"tour\"\n\
         rate_limit = {{ per_second = 0.001, burst = 1 }}\n\
         [[route]]\nname = \"all\"\nupstream = \"tour\"\n",
        tls.as_ref().map(Secure::setting).unwrap_or_default()
    ));
    let mut client = python("grpc_tour.py");
    client.arg(format!("localhost:{}", gateway.addr().port()));
    client.args(tls.as_ref().map(Secure::authority));
    let told = run(client).await;
    for (stop, code, attempts, why, body) in [
        ("unary", "OK", "1", None, Some("hello")),
        ("large", "OK", "1", None, Some("as sent")),
        ("retried", "OK", "2", None, Some("again")),
        ("rejected", "INVALID_ARGUMENT", "1", Some("not_retryable"), None),
        ("passes", "OK", "1", None, Some("one")),
        ("refused", "RESOURCE_EXHAUSTED", "0", Some("rate_limited"), None),
    ] {
        let seen = &told[stop];
        assert_eq!(seen["code"], code, "{seen:#}");
        assert_eq!(seen["quell-attempts"], attempts, "{seen:#}");
        assert_eq!(seen["quell-stop"].as_str(), why, "{seen:#}");
        assert_eq!(seen["body"].as_str(), body, "{seen:#}");
        if code == "OK" {
            assert_eq!(seen["seen-attempt"], attempts, "{seen:#}");
            assert_eq!(seen["time-left-told"], true, "{seen:#}");
        }
    }
    assert_eq!(told["late"]["code"], "DEADLINE_EXCEEDED", "{:#}", told["late"]);
    assert_eq!(told["stream"]["body"], "0 1 2 3 4");
    assert_eq!(told["chat"]["body"], "0 1 2 3 4");
}

#[tokio::test]
async fn pythons_grpc_makes_the_tour() {
    grpc_tour(None).await;
}

#[tokio::test]
async fn pythons_grpc_makes_the_tour_over_tls() {
    grpc_tour(Some(Secure::new("clients-grpc"))).await;
}

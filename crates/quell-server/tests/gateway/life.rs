//! The gateway's life: callers who leave, health, drains, and the command itself.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::kit::*;
use quell_server::demo::scripted::{Outage, Scripted, Shape, Visits};
use quell_server::gateway::{self, Config};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn a_caller_who_leaves_becomes_a_ghost_until_a_later_success() {
    let upstream = Scripted::start(Shape::constant(8, ms(1))).await.unwrap();
    upstream.begin(Outage::Hole);
    let gateway = gateway(upstream.addr());
    let mut leaver = TcpStream::connect(gateway.addr()).await.unwrap();
    leaver.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until("it arrives", || async { upstream.ledger().received == 1 }).await;
    assert_eq!(gauge(&gateway, "quell_in_flight").await, 1.0);
    drop(leaver);
    until("a ghost", || async { gauge(&gateway, "quell_ghosts").await == 1.0 }).await;
    until("the upstream connection closes", || async { upstream.ledger().abandoned == 1 }).await;
    let abandoned =
        "quell_requests_total{route=\"default\",upstream=\"default\",outcome=\"abandoned\"}";
    assert_eq!(metric(&gateway, abandoned).await, 1.0);
    upstream.end();
    assert_eq!(get(gateway.addr(), "/").await.status, 200);
    assert_eq!(gauge(&gateway, "quell_ghosts").await, 0.0);
    assert_eq!(gauge(&gateway, "quell_in_flight").await, 0.0);
}

#[tokio::test]
async fn no_post_reaches_the_upstream_twice_through_an_outage_of_any_kind() {
    let upstream = Scripted::start(Shape::constant(4, ms(5))).await.unwrap();
    let gateway = gateway_with(upstream.addr(), |config| {
        config.policy().per_try_timeout = Some(ms(100));
    });
    let mut calls = tokio::task::JoinSet::new();
    for (round, outage) in
        [None, Some(Outage::Fail), Some(Outage::Hole), Some(Outage::Stall)].iter().enumerate()
    {
        if let Some(outage) = outage {
            upstream.begin(*outage);
        }
        for i in 0..20 {
            let addr = gateway.addr();
            calls.spawn(async move {
                let post = request("POST", "/").header("x-request-id", format!("{round}-{i}"));
                send(addr, post.body(http_body_util::Full::from("once")).unwrap()).await
            });
        }
        while let Some(reply) = calls.join_next().await {
            reply.unwrap();
        }
        upstream.end();
    }
    let visits = upstream.all_visits();
    assert!(visits.len() > 20, "{visits:?}");
    assert!(visits.values().all(|Visits { arrived, .. }| *arrived == 1), "{visits:?}");
}

#[tokio::test]
async fn readiness_says_nothing_of_the_upstream() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gateway = gateway(nobody);
    assert_eq!(get(gateway.addr(), "/").await.status, 502);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(look(gateway.admin_addr(), path).await.status, 200, "{path}");
    }
    assert_eq!(look(gateway.admin_addr(), "/").await.status, 404);
    let posted = http::Request::post("/healthz").header("host", "localhost");
    let posted = posted.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    assert_eq!(send(gateway.admin_addr(), posted).await.status, 405);
}

#[tokio::test]
async fn metrics_are_open_metrics_with_every_name_promised() {
    let upstream = Fake::start(|_, _| answer(200, "x")).await;
    let gateway = gateway(upstream.addr);
    get(gateway.addr(), "/").await;
    let reply = look(gateway.admin_addr(), "/metrics").await;
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(reply.text().ends_with("# EOF\n"));
    for name in [
        "quell_requests_total{route=\"default\",upstream=\"default\",outcome=\"success\"} 1",
        "quell_retries_denied_total{route=\"none\",upstream=\"none\",reason=\"budget_empty\"} 0",
        "quell_refusals_total{route=\"none\",upstream=\"none\",reason=\"queue_full\"} 0",
        "quell_retry_budget_tokens{upstream=\"default\"} 100",
        "quell_retry_budget_max_tokens{upstream=\"default\"} 100",
        "quell_breaker_state{upstream=\"default\",state=\"closed\"} 1",
        "quell_in_flight{upstream=\"default\"} 0",
        "quell_in_flight_limit{upstream=\"default\"} ",
        "quell_ghosts{upstream=\"default\"} 0",
        "quell_queued{upstream=\"default\"} 0",
        "quell_not_before_seconds{upstream=\"default\"} 0",
        "quell_build_info{version=",
    ] {
        assert!(reply.text().contains(name), "no {name} in\n{}", reply.text());
    }
}

#[tokio::test]
async fn stopping_ends_every_thread_and_frees_the_port() {
    let upstream = Fake::start(|_, _| None).await;
    let running = gateway(upstream.addr);
    let (addr, admin) = (running.addr(), running.admin_addr());
    let mut caller = TcpStream::connect(addr).await.unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until("it arrives", || async { upstream.seen().len() == 1 }).await;
    running.stop();
    let end = timeout(PATIENCE, caller.read(&mut [0])).await.expect("left open");
    assert!(matches!(end, Ok(0) | Err(_)));
    for addr in [addr, admin] {
        assert!(TcpStream::connect(addr).await.is_err());
    }
    let mut config = Config::local(format!("http://{}", upstream.addr).parse().unwrap());
    config.file.gateway.listen = quell_server::config::Listen::Tcp(addr);
    let again = gateway::start(config.clone()).unwrap();
    let error = gateway::start(config).unwrap_err().to_string();
    assert!(error.contains("listen is") && error.contains("in use"), "{error}");
    drop(again);
}

/// The command, running.
pub(crate) struct Quell {
    child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Quell {
    pub(crate) fn start(args: &[&str], envs: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quell"))
            .args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(args)
            .envs(envs.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop)); // a full pipe would block it
        let mut addrs = first.split("on http://").skip(1).map(|rest| {
            rest.split([' ', ';']).next().unwrap().parse().unwrap_or_else(|_| panic!("{first}"))
        });
        Self { child, addr: addrs.next().unwrap(), admin: addrs.next().unwrap() }
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    async fn ends(&mut self) -> i32 {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(tokio::time::Instant::now() < deadline, "still running");
            tokio::time::sleep(ms(5)).await;
        }
    }
}

impl Drop for Quell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_terminated_gateway_loses_no_request() {
    let upstream = Scripted::start(Shape::constant(64, ms(300))).await.unwrap();
    let mut quell = Quell::start(&["--to", &format!("http://{}", upstream.addr())], &[]);
    let mut kept = TcpStream::connect(quell.addr).await.unwrap();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let calls: Vec<_> = (0..20).map(|_| tokio::spawn(get(quell.addr, "/"))).collect();
    until("all arrive", || async { upstream.ledger().received == 21 }).await;
    quell.signal("TERM");
    let draining = look(quell.admin, "/readyz").await;
    until("not ready", || async { look(quell.admin, "/readyz").await.status == 503 }).await;
    assert!([200, 503].contains(&draining.status.as_u16()));
    for call in calls {
        let reply = call.await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.header("connection")), (200, Some("close")));
    }
    let mut text = String::new();
    timeout(PATIENCE, kept.read_to_string(&mut text)).await.expect("left open").unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("ok\n"), "{text}");
    assert_eq!(quell.ends().await, 0);
    assert_eq!(upstream.ledger().served, 21);
    assert!(TcpStream::connect(quell.addr).await.is_err());
}

#[tokio::test]
async fn a_request_on_a_kept_connection_during_the_drain_is_answered_and_then_closed() {
    let upstream = Scripted::start(Shape::constant(64, ms(1))).await.unwrap();
    let mut quell = Quell::start(&["--to", &format!("http://{}", upstream.addr())], &[]);
    let mut kept = TcpStream::connect(quell.addr).await.unwrap();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut first = [0; 4096];
    let n = timeout(PATIENCE, kept.read(&mut first)).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&first[..n]).contains("connection: close"));
    quell.signal("INT");
    until("not ready", || async { look(quell.admin, "/readyz").await.status == 503 }).await;
    kept.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, kept.read_to_string(&mut text)).await.expect("left open").unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("connection: close"), "{text}");
    assert_eq!(quell.ends().await, 0);
}

#[tokio::test]
async fn a_setting_of_the_command_line_goes_over_the_file_at_every_reload() {
    let upstream = Fake::start(|_, _| answer(503, "no")).await;
    let dir = crate::files::Dir::new("life-set");
    let file = dir.path("quell.toml");
    let write = |attempts: u32| {
        let text = format!(
            "version = 1\n[policy.x]\nattempts = {attempts}\n[upstream.x]\nendpoints = [\"http://{}\"]\n",
            upstream.addr
        );
        std::fs::write(&file, text).unwrap();
    };
    write(2);
    let set = ["--set", "policy.x.attempts=1", "--set", "gateway.watch=\"off\""];
    let quell = Quell::start(&[&["--config", file.to_str().unwrap()], &set[..]].concat(), &[]);
    let sends = async || {
        let before = upstream.seen().len();
        get(quell.addr, "/").await;
        upstream.seen().len() - before
    };
    assert_eq!(sends().await, 1);
    write(3);
    quell.signal("HUP");
    let reloaded = "quell_config_reloads_total{result=\"success\"} 1\n";
    until("it reloads", || async { look(quell.admin, "/metrics").await.text().contains(reloaded) })
        .await;
    assert_eq!(sends().await, 1);
    let told = Quell::start(
        &["--to", &format!("http://{}", upstream.addr), "--set", "policy.default.attempts=1"],
        &[],
    );
    assert_eq!(get(told.addr, "/").await.header("quell-attempts"), Some("1"));
}

#[test]
fn an_admin_side_for_strangers_is_refused_with_the_fix() {
    let output = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["gateway", "--to", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"])
        .args(["--admin", "0.0.0.0:1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("admin is 0.0.0.0:1"), "{text}");
    assert!(text.contains("127.0.0.1:9901"), "{text}");
    let output =
        Command::new(env!("CARGO_BIN_EXE_quell")).args(["gateway", "--to", "x"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("write http://host:port"), "{text}");
}

/// An upstream that speaks TLS with a certificate of its own, and the file to trust it by.
async fn tls_upstream(file: &std::path::Path) -> SocketAddr {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(file, own.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = [0; 4096];
                while stream.read(&mut head).await.is_ok_and(|n| n > 0) {
                    let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret";
                    stream.write_all(reply).await.unwrap();
                    stream.flush().await.unwrap();
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn https_upstreams_are_trusted_by_the_file_that_is_named_and_by_no_other() {
    let dir = std::env::temp_dir().join(format!("quell-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (file, other) = (dir.join("ca.pem"), dir.join("other.pem"));
    let upstream = tls_upstream(&file).await;
    tls_upstream(&other).await;
    let to = format!("https://localhost:{}", upstream.port());
    for (file, status) in [(&file, 200), (&other, 502)] {
        let envs = [("SSL_CERT_FILE", file.to_str().unwrap())];
        let quell = Quell::start(&["--to", &to, "--host", "rewrite", "--cores", "1"], &envs);
        for _ in 0..2 {
            assert_eq!(get(quell.addr, "/").await.status.as_u16(), status);
        }
        let mut config = Config::local(to.parse().unwrap());
        let upstream = config.file.upstreams.get_mut("default").unwrap();
        upstream.tls.ca = Some(file.clone());
        let gateway = gateway::start(config).unwrap();
        assert_eq!(get(gateway.addr(), "/").await.status.as_u16(), status);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

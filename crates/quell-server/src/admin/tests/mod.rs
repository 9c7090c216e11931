//! The admin side with a host that is no gateway.
//!
//! **Why.** That admin side, metrics, levers, audit, reloads, drains and the access log belong to no host is easily said. Here is
//! another host that has all of them, over real sockets.

mod post;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::post::Running;
use crate::host::Host;
use crate::host::kit::Dir;

/// A place that every test has, and no secret.
const TOKEN: &str = env!("CARGO_PKG_NAME");
const PATIENCE: Duration = Duration::from_secs(10);

/// A service that turns down the first so many, and takes the rest. It counts both.
struct Service {
    addr: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Service {
    fn start(turned_down: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                let before = count.fetch_add(1, Ordering::SeqCst);
                let answer = if before < turned_down { "busy\n" } else { "taken\n" };
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { addr, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A post office, its file and its lines.
struct Office {
    running: Running,
    file: PathBuf,
    lines: PathBuf,
    services: [SocketAddr; 2],
    _dir: Dir,
}

impl Office {
    fn open(name: &str, mail: &Service, sms: &Service) -> Self {
        let dir = Dir::new(&format!("post-{name}"));
        let (file, lines) = (dir.path("quell.toml"), dir.path("access.log"));
        let services = [mail.addr, sms.addr];
        fs::write(&file, text(services, "2")).unwrap();
        let running = Running::start(file.clone(), &lines);
        Self { running, file, lines, services, _dir: dir }
    }

    fn write(&self, attempts: &str) {
        fs::write(&self.file, text(self.services, attempts)).unwrap();
    }

    /// Status and body.
    fn ask(&self, method: &str, path: &str, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.running.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{head}\r\n{body}"
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn get(&self, path: &str) -> String {
        let (status, body) = self.ask("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn shown(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).unwrap()
    }

    fn change(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask(method, path, &format!("authorization: Bearer {TOKEN}\r\n"), body)
    }

    /// The value of this very series.
    fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics");
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    fn has_ended(&self, pipeline: &str, outcome: &str, times: f64) {
        let upstream = if pipeline == "letters" { "mail" } else { "sms" };
        let name = format!(
            "quell_requests_total{{route=\"{pipeline}\",upstream=\"{upstream}\",outcome=\"{outcome}\"}}"
        );
        until(&name, || self.metric(&name) == Some(times));
    }
}

/// The file. Both pipelines make so many attempts.
fn text([mail, sms]: [SocketAddr; 2], attempts: &str) -> String {
    format!(
        "version = 1\n\
         [policy.letters]\nattempts = {attempts}\nbackoff = {{ base = \"1ms\" }}\n\
         [policy.texts]\nattempts = 1\n\
         [upstream.mail]\nendpoints = [\"http://{mail}\"]\n\
         [upstream.sms]\nendpoints = [\"http://{sms}\"]\n"
    )
}

#[allow(
    clippy::disallowed_methods,
    reason = "it waits on an event with a deadline, and holds up no runtime"
)]
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not seen in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_host_that_is_no_gateway_is_shown_and_counted_like_one() {
    let (mail, sms) = (Service::start(1), Service::start(0));
    let office = Office::open("shown", &mail, &sms);
    assert_eq!(office.get("/healthz"), "ok\n");
    assert_eq!(office.get("/readyz"), "ready\n");
    office.running.send("letters", "dear all");
    office.running.send("parcels", "a book");
    office.running.send("texts", "hi");
    office.has_ended("letters", "success", 1.0);
    office.has_ended("texts", "success", 1.0);
    assert_eq!((mail.asked(), sms.asked()), (2, 1));

    let page = office.get("/metrics");
    for line in [
        "quell_attempts_total{route=\"letters\",upstream=\"mail\",kind=\"retry\",result=\"success\"} 1",
        "quell_refusals_total{route=\"none\",upstream=\"none\",reason=\"no_route\"} 1",
        "quell_retry_delay_seconds_count{upstream=\"mail\",source=\"backoff\"} 1",
        "quell_breaker_state{upstream=\"sms\",state=\"closed\"} 1",
        "post_delivered_total{pipeline=\"letters\"} 1",
        "quell_access_log_dropped_total 0",
    ] {
        assert!(page.lines().any(|own| own == line), "no {line} in\n{page}");
    }
    for gateways in ["quell_tenant_tokens", "quell_connections", "quell_stale_connections"] {
        assert!(!page.contains(gateways), "{gateways} in\n{page}");
    }

    let state = office.shown("/state");
    assert_eq!((&state["ready"], &state["bags"]), (&json!(true), &json!(2)));
    let upstreams = state["upstreams"].as_array().unwrap();
    let names: Vec<_> = upstreams.iter().map(|own| own["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "sms"]);
    assert_eq!(upstreams[0]["endpoints"][0]["address"], json!(format!("http://{}", mail.addr)));
    assert_eq!(state["routes"][1], json!({ "name": "texts", "upstream": "sms" }));
    let routes = office.shown("/routes");
    assert_eq!((&routes[0]["role"], &routes[0]["attempts"]), (&json!("edge"), &json!(2)));
    assert_eq!(routes[0]["settings"]["pipeline"], json!("letters"));
    assert_eq!(office.shown("/classes")["upstreams"][1]["name"], json!("sms"));
    assert!(office.get("/config").contains("[policy.letters]"));

    let lines = || fs::read_to_string(&office.lines).unwrap();
    until("both lines", || lines().lines().count() == 2);
    let first: Value = serde_json::from_str(lines().lines().next().unwrap()).unwrap();
    assert_eq!((&first["pipeline"], &first["outcome"]), (&json!("letters"), &json!("success")));
    let kinds: Vec<_> =
        first["attempts"].as_array().unwrap().iter().map(|own| &own["kind"]).collect();
    assert_eq!(kinds, ["first", "retry"]);
}

#[test]
fn levers_and_audit_work_on_a_pipeline_as_on_a_route() {
    let (mail, sms) = (Service::start(2), Service::start(0));
    let office = Office::open("levers", &mail, &sms);
    let wanted = r#"{"route":"letters","lever":"retries-off","by":"ann","why":"drill"}"#;
    assert_eq!(office.ask("POST", "/levers", "", wanted).0, 401);
    let (status, pulled) = office.change("POST", "/levers", wanted);
    assert_eq!(status, 200, "{pulled}");
    assert!(pulled.contains("route letters of upstream mail: retries-off for 1h"), "{pulled}");
    office.running.send("letters", "once");
    office.has_ended("letters", "failed", 1.0);
    assert_eq!(mail.asked(), 1);
    let denied =
        "quell_retries_denied_total{route=\"letters\",upstream=\"mail\",reason=\"retries_off\"}";
    assert_eq!(office.metric(denied), Some(1.0));
    assert_eq!(office.change("DELETE", "/levers/1", "").0, 200);
    office.running.send("letters", "twice");
    office.has_ended("letters", "success", 1.0);
    assert_eq!(mail.asked(), 3);
    let audit = office.shown("/audit");
    assert_eq!(
        (&audit["records"][0]["by"], &audit["records"][0]["why"]),
        (&json!("ann"), &json!("drill"))
    );
    assert_eq!(audit["records"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_is_read_again_when_it_is_asked_for_and_when_it_has_changed() {
    let (mail, sms) = (Service::start(0), Service::start(0));
    let office = Office::open("reload", &mail, &sms);
    office.running.send("letters", "before");
    office.has_ended("letters", "success", 1.0);
    let attempts = || office.shown("/routes")[0]["attempts"].as_u64().unwrap();
    office.write("3");
    // Whether this or the watch comes first, it is in force when this is answered.
    assert_eq!(office.change("POST", "/reload", "").0, 200);
    assert_eq!(attempts(), 3);
    office.write("4");
    until("the watch finds it", || attempts() == 4);
    office.write("\"many\"");
    let (status, told) = office.change("POST", "/reload", "");
    assert_eq!((status, told.contains("policy.letters.attempts")), (422, true), "{told}");
    assert_eq!(attempts(), 4);
    office.has_ended("letters", "success", 1.0);
    assert!(office.metric("quell_config_reloads_total{result=\"success\"}") >= Some(2.0));
    assert!(office.metric("quell_config_reloads_total{result=\"failure\"}") >= Some(1.0));
}

#[test]
fn a_drain_is_heard_of_and_delivers_what_is_in_the_bag() {
    let (mail, sms) = (Service::start(0), Service::start(0));
    let office = Office::open("drain", &mail, &sms);
    (0..20).for_each(|_| office.running.send("texts", "bye"));
    let drains = office.running.drains();
    assert_eq!(office.change("POST", "/drain", "").0, 200);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, drains).await }).unwrap();
    assert_eq!(office.ask("GET", "/readyz", "", ""), (503, "draining\n".to_owned()));
    office.running.drain();
    assert_eq!(sms.asked(), 20);
}

#[test]
fn the_admin_side_listens_on_loopback_alone() {
    let error = super::listen(([0, 0, 0, 0], 0).into()).unwrap_err();
    assert!(error.to_string().contains("loopback"), "{error}");
}

//! The admin side: what it shows, what it lets change, and whom.

use std::net::SocketAddr;
use std::process::{Command, Output};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use quell::core::in_flight::Limit;
use quell_server::gateway::{self, Config, Running};
use serde_json::{Value, json};

use crate::kit::{self, *};

/// A place that every test has, and no secret.
const TOKEN: &str = env!("CARGO_PKG_NAME");

fn with_token(to: SocketAddr) -> Running {
    with_token_and(to, |_| {})
}

fn with_token_and(to: SocketAddr, change: impl FnOnce(&mut Config)) -> Running {
    gateway_with(to, |config| {
        // cargo tells every test its package's name.
        config.file.gateway.admin_token = Some("env:CARGO_PKG_NAME".parse().unwrap());
        change(config);
    })
}

async fn change(gateway: &Running, method: &str, path: &str, body: Value) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send(gateway.admin_addr(), request.body(Full::new(Bytes::from(body))).unwrap()).await
}

async fn pull(gateway: &Running, body: Value) -> Value {
    let reply = change(gateway, "POST", "/levers", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

async fn shown(gateway: &Running, path: &str) -> Value {
    let reply = look(gateway.admin_addr(), path).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

fn ctl(gateway: &Running, args: &[&str]) -> Output {
    let quell = Command::new(env!("CARGO_BIN_EXE_quell"))
        .arg("ctl")
        .args(args)
        .args(["--admin", &format!("http://{}", gateway.admin_addr())])
        .env("QUELL_ADMIN_TOKEN", TOKEN)
        .env("USER", "ann")
        .env_remove("SUDO_USER")
        .output();
    quell.unwrap()
}

#[tokio::test]
async fn a_foreign_page_can_neither_look_nor_change() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let gateway = with_token(fake.addr);
    for (host, origin) in [("evil.example", None), ("localhost", Some("http://evil.example"))] {
        for (method, path) in [("GET", "/state"), ("GET", "/metrics"), ("POST", "/drain")] {
            let mut request = Request::builder()
                .method(method)
                .uri(path)
                .header("host", host)
                .header("authorization", format!("Bearer {TOKEN}"));
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let reply =
                send(gateway.admin_addr(), request.body(Full::<Bytes>::default()).unwrap()).await;
            assert_eq!(reply.status, 403, "{method} {path} {host} {origin:?}");
            assert!(reply.text().contains("names another machine"), "{}", reply.text());
        }
    }
}

#[tokio::test]
async fn nothing_changes_without_the_token() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let (open, closed) = (kit::gateway(fake.addr), with_token(fake.addr));
    let body = || Full::new(Bytes::from(r#"{"lever":"open"}"#));
    for (method, path) in
        [("POST", "/levers"), ("DELETE", "/levers/1"), ("POST", "/reload"), ("POST", "/drain")]
    {
        let request = |token: &str| {
            let request = Request::builder().method(method).uri(path).header("host", "localhost");
            request.header("authorization", token).body(body()).unwrap()
        };
        let reply = send(open.admin_addr(), request(&format!("Bearer {TOKEN}"))).await;
        assert_eq!(reply.status, 403, "{path}");
        assert!(reply.text().contains("set gateway.admin_token"), "{}", reply.text());
        for wrong in ["Bearer quell", "", &format!("Basic {TOKEN}")] {
            assert_eq!(
                send(closed.admin_addr(), request(wrong)).await.status,
                401,
                "{path} {wrong}"
            );
        }
    }
    assert_eq!(shown(&closed, "/audit").await["records"], json!([]));
    assert_eq!(get(closed.addr(), "/").await.status, 200);
}

#[tokio::test]
async fn state_routes_and_config_show_what_is_in_force() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let gateway = with_token(fake.addr);
    assert_eq!(get(gateway.addr(), "/").await.status, 200);
    let state = shown(&gateway, "/state").await;
    let upstream = &state["upstreams"][0];
    assert_eq!((&state["ready"], &upstream["name"]), (&json!(true), &json!("default")));
    assert_eq!(
        (&upstream["breaker"], &upstream["breaker_mode"]),
        (&json!("closed"), &json!("enforce"))
    );
    assert_eq!((&upstream["budget"]["max"], &upstream["limit"]), (&json!(100.0), &json!(1024)));
    assert_eq!(upstream["endpoints"][0]["address"], json!(format!("http://{}", fake.addr)));
    let routes = shown(&gateway, "/routes").await;
    assert_eq!((&routes[0]["name"], &routes[0]["attempts"]), (&json!("default"), &json!(2)));
    assert_eq!(routes[0]["timeout_seconds"], json!(60.0));
    let settings = &routes[0]["settings"];
    assert_eq!(settings["route"]["match"]["path"], json!("/"));
    assert_eq!(settings["policy"]["backoff"]["base"], json!("50ms"));
    assert_eq!(settings["upstream"]["endpoints"], json!([format!("http://{}", fake.addr)]));
    assert_eq!(settings["upstream"]["in_flight"]["queue"], json!(64));
    let config = look(gateway.admin_addr(), "/config").await;
    assert!(config.text().contains("admin_token = \"env:CARGO_PKG_NAME\""), "{}", config.text());
    assert!(!config.text().contains(TOKEN));
    let read = quell_server::config::Config::parse("effective.toml", config.text(), &[]).unwrap();
    assert!(read.upstreams.contains_key("default"));
}

#[tokio::test]
async fn retries_stop_while_the_lever_is_pulled_and_return_when_it_is_undone() {
    let fake = Fake::start(|_, _| answer(503, "no")).await;
    let gateway = with_token(fake.addr);
    let sends = async |reason: &str| {
        let before = fake.seen().len();
        let reply = get(gateway.addr(), "/").await;
        assert_eq!((reply.status.as_u16(), reply.header("quell-stop")), (503, Some(reason)));
        fake.seen().len() - before
    };
    assert_eq!(sends("attempts_spent").await, 2);
    let wanted = json!({ "route": "default", "lever": "retries-off", "for": "10m", "by": "ann", "why": "drill" });
    let pulled = pull(&gateway, wanted).await;
    assert_eq!(sends("retries_off").await, 1);
    let levers = shown(&gateway, "/levers").await;
    assert_eq!(
        (&levers[0]["lever"], &levers[0]["route"]),
        (&json!("retries-off"), &json!("default"))
    );
    assert!((590.0..=600.0).contains(&levers[0]["left_seconds"].as_f64().unwrap()));
    assert_eq!(gauge(&gateway, "quell_levers").await, 1.0);
    let undone =
        change(&gateway, "DELETE", &format!("/levers/{}", pulled["id"]), Value::Null).await;
    assert_eq!(undone.status, 200, "{}", undone.text());
    assert_eq!(sends("attempts_spent").await, 2);
    pull(&gateway, json!({ "lever": "attempts", "value": 1 })).await;
    assert_eq!(sends("attempts_spent").await, 1);
    pull(&gateway, json!({ "lever": "attempts", "value": 4 })).await;
    assert_eq!(sends("attempts_spent").await, 4, "it raises, too");
    let lent = request("GET", "/").header("quell-retry-credit", "1");
    let lent = send(gateway.addr(), lent.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!(lent.header("quell-attempts"), Some("2"), "not what its caller allows");
    let audit = shown(&gateway, "/audit").await;
    let records = audit["records"].as_array().unwrap();
    assert_eq!(
        (records.len(), &records[0]["by"], &records[0]["why"]),
        (4, &json!("ann"), &json!("drill"))
    );
}

#[tokio::test]
async fn a_lever_raises_attempts_even_where_nothing_is_retried_and_only_for_its_time() {
    let fake = Fake::start(|_, _| answer(503, "no")).await;
    let gateway = with_token_and(fake.addr, |config| config.policy().attempts = 1);
    let sends = async || get(gateway.addr(), "/").await.header("quell-attempts").map(str::to_owned);
    assert_eq!(sends().await.as_deref(), Some("1"));
    pull(&gateway, json!({ "lever": "attempts", "value": 3, "for": "10m" })).await;
    assert_eq!(sends().await.as_deref(), Some("3"));
    pull(&gateway, json!({ "lever": "attempts", "value": 3, "for": "1ms" })).await;
    until("it ends", || async { sends().await.as_deref() == Some("1") }).await;
}

#[tokio::test]
async fn whoever_waits_is_dropped_and_a_limit_ends_by_itself() {
    let fake = Fake::start(|n, _| if n == 1 { None } else { answer(200, "") }).await;
    let gateway = with_token_and(fake.addr, |config| {
        config.upstream().in_flight = Limit::Fixed(8);
        config.upstream().queue_wait = Some(PATIENCE);
    });
    pull(&gateway, json!({ "upstream": "default", "lever": "limit", "value": 1, "for": "1h" }))
        .await;
    assert_eq!(gauge(&gateway, "quell_in_flight_limit").await, 1.0);
    let addr = gateway.addr();
    let hangs = tokio::spawn(async move { get(addr, "/hangs").await });
    until("it is under way", || async { gauge(&gateway, "quell_in_flight").await == 1.0 }).await;
    let waits = tokio::spawn(async move { get(addr, "/waits").await });
    until("it waits", || async { gauge(&gateway, "quell_queued").await == 1.0 }).await;
    let dropped = pull(&gateway, json!({ "lever": "drop" })).await;
    assert!(dropped["done"].as_str().unwrap().contains("dropped 1 "), "{dropped}");
    let reply = waits.await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.header("quell-stop")), (503, Some("shed")));
    hangs.abort();
    pull(&gateway, json!({ "lever": "limit", "value": 2, "for": "50ms" })).await;
    until("it is what it was", || async { gauge(&gateway, "quell_in_flight_limit").await == 8.0 })
        .await;
    let audit = shown(&gateway, "/audit").await.to_string();
    assert!(audit.contains("upstream default: limit has ended"), "{audit}");
}

#[tokio::test]
async fn what_cannot_be_done_is_told_with_what_to_write() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let gateway = with_token(fake.addr);
    for (body, says) in [
        (json!({ "lever": "explode" }), "write retries-off, attempts, limit"),
        (json!({ "lever": "limit" }), "limit needs a value"),
        (json!({ "lever": "limit", "value": 0 }), "limit needs a value of at least 1"),
        (json!({ "lever": "open", "value": 1 }), "open takes no value"),
        (json!({ "lever": "open", "for": "soon" }), "for: write a time such as \"10m\""),
        (json!({ "lever": "open", "upstream": "x" }), "there are: default"),
        (json!({ "lever": "open", "route": "x" }), "there are: default"),
        (json!({ "lever": "open", "route": "default" }), "name the upstream"),
        (json!({ "lever": "open", "route": "default", "upstream": "default" }), "not both"),
        (json!({ "lever": "open", "colour": "red" }), "unknown field `colour`"),
        (json!("open"), "the body is not what is expected"),
    ] {
        let reply = change(&gateway, "POST", "/levers", body.clone()).await;
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.text().contains(says), "{body}: {}", reply.text());
    }
    let gone = change(&gateway, "DELETE", "/levers/77", Value::Null).await;
    assert_eq!((gone.status.as_u16(), gone.text().contains("no lever 77")), (404, true));
    let long = json!({ "lever": "open", "why": "x".repeat(70_000) });
    assert_eq!(change(&gateway, "POST", "/levers", long).await.status, 413);
    assert_eq!(shown(&gateway, "/audit").await["records"], json!([]));
}

/// O2, D6: what is scraped can be read by those who scrape, in both forms.
#[tokio::test]
async fn both_forms_of_the_metrics_pass_the_rules_of_their_readers() {
    let fake = Fake::start(|n, _| answer(if n % 3 == 0 { 503 } else { 200 }, "")).await;
    let gateway = with_token(fake.addr);
    for _ in 0..9 {
        get(gateway.addr(), "/").await;
    }
    for (path, kind) in [
        ("/metrics", "application/openmetrics-text"),
        ("/metrics?format=text", "text/plain; version=0.0.4"),
    ] {
        let reply = look(gateway.admin_addr(), path).await;
        assert!(reply.header("content-type").unwrap().starts_with(kind));
        check(reply.text(), path == "/metrics");
    }
    let counted =
        "quell_requests_total{route=\"default\",upstream=\"default\",outcome=\"success\"}";
    assert_eq!(metric(&gateway, counted).await, 9.0);
}

/// Every sample belongs to the family above it, which has a help and a type, once; no series stands there twice.
fn check(text: &str, open: bool) {
    let (mut families, mut series) = (Vec::new(), std::collections::HashSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert!(open && lines.peek().is_none());
        } else if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(
                !help.is_empty() && !families.iter().any(|(known, _)| *known == name),
                "{line}"
            );
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
            families.push((name, kind));
        } else {
            let (name, kind) = families.last().unwrap();
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            let sample = labelled.split('{').next().unwrap();
            let suffixes: &[&str] = match *kind {
                "counter" if open => &["_total"],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let named = suffixes.iter().any(|suffix| sample == format!("{name}{suffix}"));
            assert!(named, "{line} of {name}, a {kind}");
            assert!(series.insert(labelled.to_owned()), "{line} twice");
            assert!(value == "+Inf" || value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            assert_eq!(*kind == "counter", sample.ends_with("_total"), "{line}");
        }
    }
    assert_eq!(text.ends_with("# EOF\n"), open);
    assert!(families.len() > 20, "{families:?}");
}

#[tokio::test]
async fn the_command_does_what_the_requests_do_in_the_name_of_whoever_asks() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let gateway = with_token(fake.addr);
    let said = |args: &[&str]| {
        let output = ctl(&gateway, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let pulled =
        said(&["limit", "20", "--upstream", "default", "--for", "10m", "--why", "restore"]);
    assert_eq!(pulled, "upstream default: limit 20 for 10m (quell ctl undo 1)\n");
    assert_eq!(gauge(&gateway, "quell_in_flight_limit").await, 20.0);
    let levers = said(&["levers"]);
    assert!(levers.lines().nth(1).unwrap().starts_with("1   limit 20  default"), "{levers}");
    assert!(said(&["state"]).contains("closed"));
    let routes = said(&["routes"]);
    assert!(routes.contains("1m 0s") && routes.contains("breaker  "), "{routes}");
    assert!(routes.contains("    lever            limit 20 for another 9m"), "{routes}");
    assert!(said(&["config"]).contains("version = 1"));
    assert_eq!(said(&["undo", "1"]), "upstream default: undone limit (1)\n");
    assert!(said(&["audit"]).contains("restore"));
    let state: Value = serde_json::from_str(&said(&["state", "--json"])).unwrap();
    assert_eq!(state["upstreams"][0]["limit"], json!(1024));

    let by = |name: &str, args: &[&str]| {
        said(args);
        let audit = said(&["audit"]);
        assert!(audit.lines().last().unwrap().contains(&format!("Z  {name}  ")), "{audit}");
    };
    by("ann", &["retries-off"]);
    by("bot-7", &["undo", "2", "--by", "bot-7"]);
    by("bot-7", &["--by", "bot-7", "reset-budget", "--why", "drill"]);

    let refused = ctl(&gateway, &["open", "--upstream", "nobody"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text.contains("refuses (400 Bad Request)") && text.contains("there are: default"),
        "{text}"
    );
    let admin = gateway.admin_addr();
    gateway.stop();
    let quell = Command::new(env!("CARGO_BIN_EXE_quell"))
        .args(["ctl", "state", "--admin", &format!("http://{admin}")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&quell.stderr).into_owned();
    assert!(text.contains(&format!("no gateway's admin side at http://{admin}")), "{text}");
}

/// X9: levers and state outlive a reload, and a file that is wrong changes nothing.
#[tokio::test]
async fn a_reload_is_asked_for_and_takes_all_of_the_file_or_nothing() {
    let fake = Fake::start(|_, _| answer(503, "no")).await;
    let folder = crate::files::Dir::new("admin-reload");
    let path = folder.path("quell.toml");
    let write = |attempts: &str| {
        let text = format!(
            "version = 1\n[gateway]\nadmin_token = \"env:CARGO_PKG_NAME\"\n[policy.x]\nattempts = {attempts}\n\
             [upstream.x]\nendpoints = [\"http://{}\"]\n",
            fake.addr
        );
        std::fs::write(&path, text).unwrap();
    };
    write("2");
    let file = quell_server::config::Config::load(&path, &[]).unwrap();
    let config = Config::of(file).on_free_ports();
    let gateway = gateway::start(Config { path: Some(path.clone()), ..config }).unwrap();
    let sends = async || {
        let before = fake.seen().len();
        get(gateway.addr(), "/").await;
        fake.seen().len() - before
    };
    assert_eq!(sends().await, 2);
    pull(&gateway, json!({ "lever": "limit", "value": 7 })).await;
    write("3");
    let reply = change(&gateway, "POST", "/reload", json!({ "by": "ann" })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.text().contains("policy.x.attempts is 3, was 2"), "{}", reply.text());
    assert_eq!(sends().await, 3);
    write("\"many\"");
    let reply = change(&gateway, "POST", "/reload", Value::Null).await;
    assert_eq!(reply.status, 422);
    assert!(reply.text().contains("policy.x.attempts"), "{}", reply.text());
    assert_eq!(sends().await, 3);
    for (result, times) in [("success", 1.0), ("failure", 1.0)] {
        let name = format!("quell_config_reloads_total{{result=\"{result}\"}}");
        assert_eq!(metric(&gateway, &name).await, times);
    }
    assert_eq!(metric(&gateway, "quell_in_flight_limit{upstream=\"x\"}").await, 7.0);
    assert_eq!(shown(&gateway, "/levers").await[0]["value"], json!(7));
}

#[tokio::test]
async fn a_drain_is_asked_for_once_and_whoever_runs_the_gateway_hears_of_it() {
    let fake = Fake::start(|_, _| answer(200, "")).await;
    let gateway = with_token(fake.addr);
    let drains = tokio::spawn(gateway.drains());
    assert_eq!(look(gateway.admin_addr(), "/readyz").await.status, 200);
    for _ in 0..2 {
        assert_eq!(change(&gateway, "POST", "/drain", Value::Null).await.status, 200);
    }
    tokio::time::timeout(PATIENCE, drains).await.unwrap().unwrap();
    assert_eq!(look(gateway.admin_addr(), "/readyz").await.status, 503);
    assert_eq!(shown(&gateway, "/state").await["ready"], json!(false));
    tokio::task::spawn_blocking(|| gateway.drain()).await.unwrap();
}

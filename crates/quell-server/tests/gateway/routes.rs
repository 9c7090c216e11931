//! Routes and upstreams: which request goes where, and what happens when an endpoint fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use quell_server::gateway::{self, Config, Running};

use crate::kit::scrape::Scrape;
use crate::kit::*;

/// A gateway of a file, on free ports.
pub(crate) fn by_file(text: &str) -> Running {
    let file =
        quell_server::config::Config::parse("f", &format!("version = 1\n{text}"), &[]).unwrap();
    gateway::start(Config { cores: 2, ..Config::of(file).on_free_ports() }).unwrap()
}

/// An upstream of this name at these addresses.
pub(crate) fn upstream(name: &str, at: &[&Fake], more: &str) -> String {
    let at: Vec<_> = at.iter().map(|fake| format!("\"http://{}\"", fake.addr)).collect();
    format!("[upstream.{name}]\nendpoints = [{}]\n{more}\n", at.join(", "))
}

/// Says its name and the target it was asked for.
async fn named(name: &'static str) -> Fake {
    Fake::start(move |_, seen| answer(200, format!("{name} {}", seen.uri))).await
}

#[tokio::test]
async fn host_path_method_and_field_choose_a_route_and_the_first_match_takes_it() {
    let (a, b, c, d) = (named("a").await, named("b").await, named("c").await, named("d").await);
    let upstreams = upstream("a", &[&a], "")
        + &upstream("b", &[&b], "")
        + &upstream("c", &[&c], "")
        + &upstream("d", &[&d], "");
    let gateway = by_file(&format!(
        "{upstreams}
[[route]]
match = {{ host = \"*.example.com\", path = \"/pay\", methods = [\"POST\"] }}
upstream = \"a\"
[[route]]
match = {{ exact = \"/one\" }}
upstream = \"b\"
rewrite = \"/eins\"
[[route]]
match = {{ path = \"/v1\", headers = {{ \"x-beta\" = \"yes\" }} }}
upstream = \"c\"
strip_prefix = true
[[route]]
name = \"old\"
match = {{ path = \"/v1\" }}
upstream = \"d\"
rewrite = \"/v2\"
"
    ));
    let ask = async |method: &str, host: &str, target: &str, beta: bool| {
        let request = http::Request::builder().method(method).uri(target).header("host", host);
        let request = if beta { request.header("x-beta", "yes") } else { request };
        let reply = send(gateway.addr(), request.body(Full::<Bytes>::default()).unwrap()).await;
        (reply.status.as_u16(), reply.text().to_owned())
    };
    let ok = |text: &str| (200, text.to_owned());
    assert_eq!(ask("POST", "shop.example.com:80", "/pay/7?x=1", false).await, ok("a /pay/7?x=1"));
    assert_eq!(ask("GET", "x", "/one?q", false).await, ok("b /eins?q"));
    assert_eq!(ask("GET", "x", "/v1/a/b?c=d", true).await, ok("c /a/b?c=d"));
    assert_eq!(ask("GET", "x", "/v1", true).await, ok("c /"));
    assert_eq!(ask("GET", "x", "/v1/a", false).await, ok("d /v2/a"));
    assert_eq!(ask("GET", "x", "/v1", false).await, ok("d /v2"));
    // However it is spelt, it is the same route, and what is sent on is what came; but none leads around a rewrite.
    assert_eq!(ask("POST", "shop.example.com", "/%70ay//7", false).await, ok("a /%70ay//7"));
    for walks in
        ["/%761/a", "//one", "/v1/../one", "/v1/%2e%2E/one", "/x/..%2fone", "/v1/.", "/x\\..\\one"]
    {
        let (status, text) = ask("GET", "x", walks, false).await;
        assert!(status == 400, "{walks}: {status} {text}");
    }
    // Nor does one come out as another host's.
    assert_eq!(ask("GET", "x", "/v1//evil.example/x", true).await.0, 400);
    // Nobody's: another method, a longer segment, another host.
    for (method, host, target) in [
        ("GET", "shop.example.com", "/pay"),
        ("POST", "example.com", "/pay"),
        ("POST", "shop.example.com", "/payments"),
        ("GET", "x", "/one/"),
    ] {
        let (status, text) = ask(method, host, target, false).await;
        assert!(status == 404 && text.contains("NO_ROUTE"), "{method} {target}: {status} {text}");
    }
    assert_eq!(
        metric(
            &gateway,
            "quell_refusals_total{route=\"none\",upstream=\"none\",reason=\"no_route\"}"
        )
        .await,
        4.0
    );
}

#[tokio::test]
async fn load_is_spread_and_a_retry_goes_where_its_call_has_not_been() {
    let (good, bad) = (named("good").await, Fake::start(|_, _| answer(503, "bad")).await);
    let gateway = by_file(&(upstream("x", &[&good, &bad], "ejection = { after = 1000 }")));
    for _ in 0..40 {
        let reply = get(gateway.addr(), "/").await;
        let stop = reply.headers.get("quell-stop");
        assert_eq!((reply.status.as_u16(), reply.text()), (200, "good /"), "{stop:?}");
    }
    assert_eq!(good.seen().len(), 40);
    let tried = bad.seen().len();
    assert!((5..=35).contains(&tried), "half of the first attempts, by chance: {tried}");
    assert!(good.seen().iter().filter(|s| s.header("quell-attempt") == Some("2")).count() == tried);
}

#[tokio::test]
async fn an_endpoint_that_fails_in_a_row_is_left_alone_as_long_as_another_lives() {
    let (good, bad) = (named("good").await, Fake::start(|_, _| answer(500, "bad")).await);
    let ejection =
        "ejection = { after = 3, base = \"60s\", most = \"60s\" }\nbreaker = { min_calls = 1000 }";
    let gateway = by_file(&upstream("x", &[&good, &bad], ejection));
    for _ in 0..60 {
        assert_eq!(get(gateway.addr(), "/").await.status, 200);
    }
    assert_eq!(bad.seen().len(), 3, "three in a row, and then never again");
}

/// X12.
#[tokio::test]
async fn a_fallback_stands_in_and_hides_nothing_from_breaker_and_metrics() {
    let upstream_down = Fake::start(|_, _| answer(503, "down")).await;
    let gateway = by_file(&format!(
        "{}[[route]]\nupstream = \"x\"\nname = \"all\"\nfallback = {{ status = 203, body = \"[]\", content_type = \"application/json\" }}",
        upstream("x", &[&upstream_down], "breaker = { min_calls = 4 }")
    ));
    let mut reasons = BTreeMap::new();
    for _ in 0..6 {
        let reply = get(gateway.addr(), "/").await;
        assert_eq!((reply.status.as_u16(), reply.text()), (203, "[]"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        *reasons.entry(reply.header("quell-stop").unwrap().to_owned()).or_insert(0) += 1;
    }
    assert!(
        reasons.contains_key("attempts_spent") && reasons.contains_key("breaker_open"),
        "{reasons:?}"
    );
    let failed = "quell_requests_total{route=\"all\",upstream=\"x\",outcome=\"failed\"}";
    let refused = "quell_requests_total{route=\"all\",upstream=\"x\",outcome=\"refused\"}";
    assert_eq!(metric(&gateway, failed).await + metric(&gateway, refused).await, 6.0);
    assert!(reasoned(&gateway, "quell_refusals_total", "breaker_open").await >= 1.0);
}

#[tokio::test]
async fn refusals_and_denials_name_their_route_and_what_never_came_is_nought() {
    let (good, bad) = (named("good").await, Fake::start(|_, _| answer(503, "bad")).await);
    let gateway = by_file(&format!(
        "{}{}[[route]]\nname = \"good\"\nmatch = {{ path = \"/good\" }}\nupstream = \"a\"\n\
         [[route]]\nname = \"bad\"\nmatch = {{ path = \"/bad\" }}\nupstream = \"b\"",
        upstream("a", &[&good], ""),
        upstream("b", &[&bad], "breaker = { min_calls = 1, open = \"60s\" }")
    ));
    for (path, status) in [("/good", 200), ("/bad", 503), ("/bad", 503), ("/else", 404)] {
        assert_eq!(get(gateway.addr(), path).await.status, status, "{path}");
    }
    let scrape = Scrape::of(gateway.admin_addr()).await;
    for (name, route, upstream, reason, count) in [
        ("quell_refusals_total", "bad", "b", "breaker_open", Some(1.0)),
        ("quell_retries_denied_total", "bad", "b", "breaker_open", Some(1.0)),
        ("quell_refusals_total", "bad", "b", "queue_full", None),
        ("quell_refusals_total", "good", "a", "breaker_open", None),
        ("quell_refusals_total", "none", "none", "no_route", Some(1.0)),
        ("quell_refusals_total", "none", "none", "breaker_open", Some(0.0)),
        ("quell_retries_denied_total", "none", "none", "budget_empty", Some(0.0)),
    ] {
        let full =
            format!("{name}{{route=\"{route}\",upstream=\"{upstream}\",reason=\"{reason}\"}}");
        assert_eq!(scrape.value(&full), count, "{full}");
    }
}

/// X5.
#[tokio::test]
async fn a_slow_attempt_is_hedged_once_and_the_faster_one_wins() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // Quick, until the one that hangs; its hedge is quick again.
    let slow = Fake::start(move |_, seen| {
        let hangs =
            seen.uri.query() == Some("slow") && counted.fetch_add(1, Ordering::Relaxed) == 0;
        if hangs { None } else { answer(200, "ok") }
    })
    .await;
    let gateway = by_file(&format!(
        "{}[policy.x]\nhedge = {{ after = 0.9, at_least = \"20ms\" }}\n",
        upstream("x", &[&slow], "")
    ));
    for _ in 0..40 {
        assert_eq!(get(gateway.addr(), "/x").await.status, 200);
    }
    let reply = get(gateway.addr(), "/x?slow").await; // of the same class
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (200, Some("2")));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let hedges =
        "quell_attempts_total{route=\"default\",upstream=\"x\",kind=\"hedge\",result=\"success\"}";
    assert_eq!(metric(&gateway, hedges).await, 1.0);
    let lost = "quell_attempts_total{route=\"default\",upstream=\"x\",kind=\"first\",result=\"abandoned\"}";
    assert_eq!(metric(&gateway, lost).await, 1.0);
    assert_eq!(metric(&gateway, "quell_in_flight{upstream=\"x\"}").await, 0.0);
}

#[tokio::test]
async fn a_routes_timeouts_go_over_its_policys() {
    let hangs = Fake::start(|_, _| None).await;
    let gateway = by_file(&format!(
        "{}[policy.x]\ntimeout = \"60s\"\nper_try_timeout = \"60s\"\nattempts = 1\n\
         [[route]]\nupstream = \"x\"\ntimeout = \"300ms\"\nper_try_timeout = \"100ms\"",
        upstream("x", &[&hangs], "")
    ));
    let reply = get(gateway.addr(), "/").await;
    assert_eq!((reply.status.as_u16(), reply.header("quell-attempts")), (504, Some("1")));
    let told: u64 = hangs.seen()[0].header("quell-deadline-ms").unwrap().parse().unwrap();
    assert!(told <= 100, "{told}");
}

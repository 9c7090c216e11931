//! gRPC through the gateway: HTTP/2 on both sides, and a status that comes last.

pub(crate) mod peers;

use std::time::{Duration, Instant};

use quell_server::config::{Protocol, RetryOn, RouteProtocol, ServerTls};
use quell_server::gateway::{self, Config, Running};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::{gateway_with, metric, ms, until};
use crate::life::Quell;
use crate::tls::{H2, Site, localhost};
use peers::{Caller, Fields, Line, OK, Origin, told};

const UNAVAILABLE: Fields = &[("grpc-status", "14"), ("grpc-message", "down"), ("aisle", "3")];
const KEYED: Fields = &[("idempotency-key", "order-7")];

fn in_front_of(origin: &Origin, change: impl FnOnce(&mut Config)) -> Running {
    gateway_with(origin.addr, |config| {
        http2(config);
        change(config);
    })
}

fn http2(config: &mut Config) {
    config.file.upstreams.values_mut().for_each(|upstream| upstream.protocol = Protocol::Http2);
}

async fn both(script: &[Line]) -> (Origin, Running, Caller) {
    let origin = Origin::start(script).await;
    let gateway = in_front_of(&origin, |_| {});
    let caller = Caller::connect(gateway.addr()).await;
    (origin, gateway, caller)
}

/// H6.
#[tokio::test]
async fn a_call_that_failed_in_its_head_or_trailers_is_made_again_and_says_how_many_came_before() {
    for line in [Line::TrailersOnly(UNAVAILABLE), Line::Trailers(UNAVAILABLE), Line::Broken] {
        let (origin, _gateway, mut caller) = both(&[line, Line::Then("7", OK)]).await;
        let ended = caller.call(KEYED, &["pens"]).await;
        assert_eq!((ended.code(), &ended.messages[..]), (Some("0"), &["7".to_owned()][..]));
        assert_eq!(ended.headers["quell-attempts"], "2");
        let seen = origin.seen();
        let all = |name| seen.iter().map(|seen| seen.header(name)).collect::<Vec<_>>();
        assert_eq!(all("grpc-previous-rpc-attempts"), [None, Some("1")], "{line:?}");
        assert_eq!(all("quell-attempt"), [Some("1"), Some("2")]);
        assert_eq!(all("te"), [Some("trailers"); 2]);
        assert_eq!(all("content-type"), [Some("application/grpc"); 2]);
        assert_eq!(all("grpc-timeout"), [None; 2], "nobody named a time");
        assert!(seen.iter().all(|seen| seen.messages == ["pens"]));
    }
}

/// H5.
#[tokio::test]
async fn what_may_have_been_acted_on_is_not_repeated_without_a_key_and_its_end_arrives_as_it_is() {
    for line in [Line::TrailersOnly(UNAVAILABLE), Line::Trailers(UNAVAILABLE)] {
        let (origin, _gateway, mut caller) = both(&[line]).await;
        let ended = caller.call(&[], &["pens"]).await;
        assert_eq!(ended.trailers_only, matches!(line, Line::TrailersOnly(_)));
        for (name, value) in UNAVAILABLE {
            assert_eq!(ended.end(name), Some(*value));
        }
        assert_eq!(ended.headers["quell-stop"], "not_safe");
        assert_eq!((&ended.headers["shelf"], ended.status.as_u16()), (&"9".parse().unwrap(), 200));
        assert_eq!(origin.seen().len(), 1);
    }
}

#[tokio::test]
async fn the_command_speaks_http2_without_tls_where_it_is_told_to() {
    let origin = Origin::start(&[Line::Then("7", OK)]).await;
    let quell = Quell::start(&["--to", &format!("h2c://{}", origin.addr)], &[]);
    let ended = Caller::connect(quell.addr).await.call(&[], &["pens"]).await;
    assert_eq!((ended.code(), &ended.messages[..]), (Some("0"), &["7".to_owned()][..]));
}

#[tokio::test]
async fn a_policy_that_does_not_retry_a_503_does_not_retry_what_means_the_same() {
    let origin = Origin::start(&[Line::Trailers(UNAVAILABLE)]).await;
    let gateway = in_front_of(&origin, |config| {
        let policies = config.file.policies.values_mut();
        policies.for_each(|policy| policy.retry_on.retain(|on| *on != RetryOn::Status(503)));
    });
    let ended = Caller::connect(gateway.addr()).await.call(KEYED, &["pens"]).await;
    assert_eq!((ended.code(), origin.seen().len()), (Some("14"), 1));
    assert_eq!(ended.headers["quell-stop"], "not_retryable");
}

/// P5.
#[tokio::test]
async fn the_last_failure_arrives_whole_when_no_attempt_is_left() {
    for line in [Line::TrailersOnly(UNAVAILABLE), Line::Trailers(UNAVAILABLE)] {
        let (origin, _gateway, mut caller) = both(&[line]).await;
        let ended = caller.call(KEYED, &["pens"]).await;
        assert_eq!((ended.code(), ended.end("aisle")), (Some("14"), Some("3")));
        assert_eq!(ended.headers["quell-stop"], "attempts_spent");
        assert_eq!(origin.seen().len(), 2);
    }
}

/// P5.
#[tokio::test]
async fn a_failure_that_was_kept_arrives_with_its_trailers_when_the_next_attempt_hangs() {
    let (origin, _gateway, mut caller) = both(&[Line::Trailers(UNAVAILABLE), Line::Hang]).await;
    let ended = caller.call(&[KEYED[0], ("grpc-timeout", "400m")], &["pens"]).await;
    assert_eq!((ended.code(), ended.end("aisle")), (Some("14"), Some("3")));
    assert_eq!(origin.seen().len(), 2);
}

/// H2.
#[tokio::test]
async fn a_pushback_is_waited_for_and_a_negative_or_unreadable_one_is_a_stop() {
    const LATER: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "200")];
    for line in [Line::TrailersOnly(LATER), Line::Trailers(LATER)] {
        let (_origin, _gateway, mut caller) = both(&[line, Line::Then("7", OK)]).await;
        let started = Instant::now();
        assert_eq!(caller.call(KEYED, &["pens"]).await.code(), Some("0"));
        assert!(started.elapsed() >= ms(200));
    }
    const NEGATIVE: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")];
    const GARBAGE: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "soon")];
    for said in [NEGATIVE, GARBAGE] {
        for line in [Line::TrailersOnly(said), Line::Trailers(said)] {
            let (origin, _gateway, mut caller) = both(&[line]).await;
            let ended = caller.call(KEYED, &["pens"]).await;
            assert_eq!(ended.code(), Some("14"));
            assert_eq!(ended.headers["quell-stop"], "told_not_to");
            assert_eq!(origin.seen().len(), 1);
        }
    }
}

/// H4.
#[tokio::test]
async fn nothing_is_made_again_once_there_is_a_message_and_the_trailers_after_it_pass() {
    let (origin, gateway, mut caller) = both(&[Line::Then("7", UNAVAILABLE)]).await;
    let ended = caller.call(KEYED, &["pens"]).await;
    assert_eq!((&ended.messages[..], ended.code()), (&["7".to_owned()][..], Some("14")));
    assert_eq!(ended.end("aisle"), Some("3"));
    assert_eq!(ended.headers.get("quell-stop"), None, "it was judged a success by then");
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(requests(&gateway, "success").await, 1.0);
}

#[tokio::test]
async fn a_callers_mistake_is_neither_repeated_nor_the_services_failure() {
    const WRONG: Fields = &[("grpc-status", "3"), ("grpc-message", "no such pen")];
    let (origin, gateway, mut caller) = both(&[Line::Trailers(WRONG)]).await;
    let ended = caller.call(KEYED, &["pens"]).await;
    assert_eq!((ended.code(), ended.end("grpc-message")), (Some("3"), Some("no such pen")));
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(requests(&gateway, "rejected").await, 1.0);
}

async fn requests(gateway: &Running, outcome: &str) -> f64 {
    let labels = format!("route=\"default\",upstream=\"default\",outcome=\"{outcome}\"");
    metric(gateway, &format!("quell_requests_total{{{labels}}}")).await
}

#[tokio::test]
async fn what_somebody_in_between_says_in_html_is_repeated_and_then_passed_on_as_it_is() {
    let (origin, _gateway, mut caller) = both(&[Line::Http(503, "<html>")]).await;
    let ended = caller.call(KEYED, &["pens"]).await;
    assert_eq!((ended.status.as_u16(), &ended.rest[..]), (503, &b"<html>"[..]));
    assert_eq!(ended.headers["content-type"], "text/html");
    assert!(!ended.headers.contains_key("grpc-status"));
    assert_eq!(origin.seen().len(), 2);
}

/// H6.
#[tokio::test]
async fn each_attempt_is_told_what_is_left_of_the_callers_own_time_and_never_more() {
    let (origin, _gateway, mut caller) =
        both(&[Line::Trailers(UNAVAILABLE), Line::Then("7", OK)]).await;
    let ended = caller.call(&[KEYED[0], ("grpc-timeout", "9S")], &["pens"]).await;
    assert_eq!(ended.code(), Some("0"));
    let left: Vec<_> =
        origin.seen().iter().map(|s| told(s.header("grpc-timeout").unwrap())).collect();
    assert!(left[0] <= Duration::from_secs(9) && left[0] > left[1], "{left:?}");
    assert!(
        left[1] > Duration::from_secs(1),
        "the caller's time, not that of one attempt: {left:?}"
    );
}

#[tokio::test]
async fn the_callers_time_ends_the_call_with_nothing_but_trailers() {
    let (origin, _gateway, mut caller) = both(&[Line::Hang]).await;
    let started = Instant::now();
    let ended = caller.call(&[("grpc-timeout", "300m")], &["pens"]).await;
    assert!(started.elapsed() >= ms(300));
    assert!(ended.trailers_only, "{ended:?}");
    assert_eq!((ended.status.as_u16(), ended.code()), (200, Some("4")));
    assert_eq!(ended.headers["content-type"], "application/grpc");
    assert_eq!(origin.seen().len(), 1);
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unavailable_in_grpcs_words() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gateway = gateway_with(nobody, http2);
    let ended = Caller::connect(gateway.addr()).await.call(&[], &["pens"]).await;
    assert!(ended.trailers_only, "{ended:?}");
    assert_eq!((ended.code(), ended.end("grpc-message")), (Some("14"), Some("attempts_spent")));
    assert_eq!(ended.end("grpc-retry-pushback-ms"), Some("-1"));
    assert_eq!(ended.headers["quell-attempts"], "0", "nothing was sent");
}

#[tokio::test]
async fn failures_that_are_all_200s_open_the_breaker_and_its_refusals_say_when_to_come_back() {
    for line in [Line::TrailersOnly(UNAVAILABLE), Line::Trailers(UNAVAILABLE)] {
        let (origin, _gateway, mut caller) = both(&[line]).await;
        let refused = loop {
            let ended = caller.call(&[], &["pens"]).await;
            if ended.headers["quell-stop"] != "not_safe" {
                break ended;
            }
            assert!(origin.seen().len() < 100, "the breaker never opened");
        };
        assert!(refused.trailers_only, "{refused:?}");
        assert_eq!(
            (refused.code(), refused.end("grpc-message")),
            (Some("14"), Some("breaker_open"))
        );
        let pushback: u64 = refused.end("grpc-retry-pushback-ms").unwrap().parse().unwrap();
        assert!((1..=1_000).contains(&pushback));
        assert!(refused.headers.contains_key("retry-after"));
    }
}

#[tokio::test]
async fn who_is_turned_away_at_the_door_is_told_so_in_trailers_too() {
    const PENS: Fields = &[("goods", "pens")];
    let origin = Origin::start(&[Line::Then("7", OK)]).await;
    let text = format!(
        "version = 1\n[upstream.stock]\nendpoints = [\"http://{}\"]\nprotocol = \"http2\"\n\
         [[route]]\nupstream = \"stock\"\nmatch = {{ headers = {{ goods = \"pens\" }} }}\n\
         rate_limit = {{ per_second = 0.001, burst = 1 }}\n",
        origin.addr
    );
    let file = quell_server::config::Config::parse("quell.toml", &text, &[]).unwrap();
    let gateway = gateway::start(Config::of(file).on_free_ports()).unwrap();
    let mut caller = Caller::connect(gateway.addr()).await;
    assert_eq!(caller.call(PENS, &["?"]).await.code(), Some("0"));
    for (fields, code, reason, may_return) in
        [(PENS, "8", "rate_limited", true), (&[], "5", "no_route", false)]
    {
        let refused = caller.call(fields, &["?"]).await;
        assert!(refused.trailers_only, "{refused:?}");
        assert_eq!((refused.code(), refused.end("grpc-message")), (Some(code), Some(reason)));
        assert_eq!(refused.end("quell-stop"), Some(reason));
        let pushback: i64 = refused.end("grpc-retry-pushback-ms").unwrap().parse().unwrap();
        assert_eq!(pushback > 0, may_return, "{pushback}");
    }
    assert_eq!(origin.seen().len(), 1);
}

#[tokio::test]
async fn a_route_can_say_that_it_speaks_grpc_whatever_the_content_type() {
    let origin = Origin::start(&[Line::Trailers(UNAVAILABLE), Line::Then("7", OK)]).await;
    let gateway = in_front_of(&origin, |config| {
        config.file.routes.iter_mut().for_each(|route| route.protocol = RouteProtocol::Grpc);
    });
    let mut caller = Caller::connect(gateway.addr()).await;
    let ended = caller.call(&[KEYED[0], ("content-type", "application/x-grpc")], &["pens"]).await;
    assert_eq!((ended.code(), origin.seen().len()), (Some("0"), 2));
}

#[tokio::test]
async fn streams_of_either_side_pass_and_both_sides_talk_at_once() {
    let (_origin, _gateway, mut caller) = both(&[Line::Count, Line::Echo]).await;
    let counted = caller.call(&[], &["a", "b", "c"]).await;
    assert_eq!((&counted.messages[..], counted.code()), (&["3".to_owned()][..], Some("0")));

    let (speaker, mut reply) = caller.begin().await;
    for text in ["one", "two", "three"] {
        speaker.say(text);
        assert_eq!(reply.listener.next().await.unwrap().as_deref(), Some(text));
    }
    drop(speaker);
    assert_eq!(reply.listener.next().await.unwrap(), None);
    assert_eq!(reply.listener.trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn calls_pass_over_tls_on_both_sides_and_nobody_says_which_protocol() {
    let site = Site::new("grpc");
    let script = [Line::Trailers(UNAVAILABLE), Line::Then("7", OK), Line::Echo];
    let origin = Origin::over(&script, Some(site.acceptor(None))).await;
    let mut config = Config::local(format!("https://{}", origin.addr).parse().unwrap());
    for upstream in config.file.upstreams.values_mut() {
        upstream.tls.ca = Some(site.ca.file.clone());
        upstream.tls.server_name = Some("localhost".into());
    }
    let (cert, key) = (site.cert.clone(), site.key.clone());
    config.file.gateway.tls = Some(ServerTls { cert, key, client_ca: None });
    let gateway = gateway::start(config).unwrap();
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let stream = site.caller(H2, None).connect(localhost(), stream).await.unwrap();
    let mut caller = Caller::over(stream).await;

    let ended = caller.call(KEYED, &["pens"]).await;
    assert_eq!((&ended.messages[..], ended.code()), (&["7".to_owned()][..], Some("0")));
    assert_eq!(origin.seen().len(), 2);
    let (speaker, mut reply) = caller.begin().await;
    speaker.say("one");
    assert_eq!(reply.listener.next().await.unwrap().as_deref(), Some("one"));
}

#[tokio::test]
async fn a_stream_that_has_nothing_to_say_yet_is_passed_on() {
    let (origin, _gateway, mut caller) = both(&[Line::Quiet("7")]).await;
    let mut reply = caller.watch().await;
    assert_eq!(reply.headers["shelf"], "9");
    origin.speak();
    assert_eq!(reply.listener.rest().await.unwrap(), ["7"]);
    assert_eq!(reply.listener.trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_caller_who_leaves_a_stream_ends_it_for_the_service_too() {
    let (origin, _gateway, mut caller) = both(&[Line::Quiet("7")]).await;
    drop(caller.watch().await);
    until("the stream is reset", || async { origin.left() == 1 }).await;
}

/// H11.
#[tokio::test]
async fn replies_that_were_only_looked_at_cost_no_connection() {
    const NONE: Fields = &[("grpc-status", "5")];
    let origin = Origin::start(&[Line::Trailers(NONE)]).await;
    let gateway = in_front_of(&origin, |config| config.cores = 1);
    let mut caller = Caller::connect(gateway.addr()).await;
    for _ in 0..700 {
        assert_eq!(caller.call(&[], &["pens"]).await.code(), Some("5"));
    }
    assert_eq!(origin.connections(), 1);
}

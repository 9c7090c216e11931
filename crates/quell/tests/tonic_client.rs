//! The layer for gRPC clients between a real client and a real server of tonic's.
#![cfg(feature = "tonic")]
#![allow(clippy::unwrap_used)]

mod grpc_kit;
mod wire;

use std::time::Duration;

use grpc_kit::{Fields, Reply, Server, ask, asking, client, client_of, watch};
use quell::{Builder, Limit, Quell, tower::Ended};
use tokio::time::Instant;
use tonic::{Code, Request, Status};
use wire::{SOON, in_time, nobody, until};

const UNAVAILABLE: Fields = &[("grpc-status", "14")];

fn stock() -> Builder {
    Quell::upstream("stock")
}

fn error(result: Result<String, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), status.message().to_owned())
}

/// H6.
#[tokio::test]
async fn unavailable_is_retried_wherever_it_stands_and_each_retry_says_how_many_came_before() {
    let script = [Reply::TrailersOnly(UNAVAILABLE), Reply::Trailers(UNAVAILABLE), Reply::Text("7")];
    let server = Server::start(&script).await;
    let mut client = client(&server, stock().idempotent());
    assert_eq!(ask(&mut client, Request::new("pens".into())).await.unwrap(), "7");
    let seen = server.requests();
    let header = |name| seen.iter().map(|seen| seen.header(name)).collect::<Vec<_>>();
    assert_eq!(header("grpc-previous-rpc-attempts"), [None, Some("1"), Some("2")]);
    assert_eq!(header("quell-attempt"), [Some("1"), Some("2"), Some("3")]);
    assert_eq!(header("grpc-timeout"), [None; 3], "nobody named a time");
    assert!(seen.iter().all(|seen| seen.message == "pens"));
}

#[tokio::test]
async fn a_count_of_attempts_that_the_caller_was_sent_is_not_passed_on() {
    let server = Server::start(&[Reply::TrailersOnly(UNAVAILABLE), Reply::Text("7")]).await;
    let mut client = client(&server, stock().idempotent());
    let mut request = Request::new("pens".to_owned());
    request.metadata_mut().insert("grpc-previous-rpc-attempts", "5".parse().unwrap());
    assert_eq!(ask(&mut client, request).await.unwrap(), "7");
    let seen = server.requests();
    let told: Vec<_> = seen.iter().map(|seen| seen.header("grpc-previous-rpc-attempts")).collect();
    assert_eq!(told, [None, Some("1")]);
}

#[tokio::test]
async fn a_reply_says_what_it_took_unless_the_first_attempt_succeeded() {
    let server = Server::start(&[Reply::TrailersOnly(UNAVAILABLE), Reply::Text("7")]).await;
    let mut client = client(&server, stock().idempotent());
    let took = |reply: tonic::Response<String>| reply.extensions().get::<Ended>().copied();
    let reply = grpc_kit::ask_whole(&mut client, Request::new("pens".into())).await.unwrap();
    let ended = took(reply).unwrap();
    assert_eq!((ended.attempts, ended.reason), (2, None));
    let reply = grpc_kit::ask_whole(&mut client, Request::new("pens".into())).await.unwrap();
    assert_eq!(took(reply), None);
}

#[tokio::test]
async fn an_exhausted_resource_and_a_proxys_503_are_retried_and_a_wrong_argument_is_not() {
    let script = [Reply::TrailersOnly(&[("grpc-status", "8")]), Reply::Http(503), Reply::Text("7")];
    let server = Server::start(&script).await;
    let mut client = client(&server, stock().idempotent());
    assert_eq!(ask(&mut client, Request::new("pens".into())).await.unwrap(), "7");
    assert_eq!(server.requests().len(), 3);

    let wrong: Fields = &[("grpc-status", "3"), ("grpc-message", "no such pen"), ("shelf", "9")];
    let server = Server::start(&[Reply::TrailersOnly(wrong)]).await;
    let mut client = client_of(server.address, stock().idempotent());
    let status = ask(&mut client, Request::new("pens".into())).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "no such pen"));
    assert_eq!(status.metadata().get("shelf").unwrap(), "9");
    assert_eq!(server.requests().len(), 1);
}

/// H5.
#[tokio::test]
async fn what_may_have_been_acted_on_is_repeated_only_with_a_key() {
    let server = Server::start(&[Reply::TrailersOnly(UNAVAILABLE)]).await;
    let mut client = client(&server, stock());
    assert_eq!(error(ask(&mut client, Request::new("pens".into())).await).0, Code::Unavailable);
    assert_eq!(server.requests().len(), 1);
    let mut keyed = Request::new("pens".to_owned());
    keyed.metadata_mut().insert("idempotency-key", "order-7".parse().unwrap());
    assert_eq!(error(ask(&mut client, keyed).await).0, Code::Unavailable);
    let seen = server.requests();
    assert_eq!(seen.len(), 4);
    assert!(seen[1..].iter().all(|seen| seen.header("idempotency-key") == Some("order-7")));
}

/// H10.
#[tokio::test]
async fn a_refused_connection_is_always_tried_again_and_the_status_says_how_often() {
    let mut client = client_of(nobody().await, stock().attempts(2));
    let status = ask(&mut client, Request::new("pens".into())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("stock failed after 2 attempts in "), "{status}");
    assert_eq!(status.metadata().get("quell-stop").unwrap(), "attempts_spent");
}

/// H2.
#[tokio::test]
async fn a_servers_pushback_is_waited_for_and_a_negative_or_unreadable_one_is_a_stop() {
    let later: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "200")];
    for later in [Reply::TrailersOnly(later), Reply::Trailers(later)] {
        let server = Server::start(&[later, Reply::Text("7")]).await;
        let mut client = client(&server, stock().idempotent());
        let started = Instant::now();
        assert_eq!(ask(&mut client, Request::new("pens".into())).await.unwrap(), "7");
        assert!(started.elapsed() >= Duration::from_millis(200));
    }
    const NEGATIVE: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")];
    const GARBAGE: Fields = &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "soon")];
    for said in [NEGATIVE, GARBAGE] {
        for reply in [Reply::TrailersOnly(said), Reply::Trailers(said)] {
            let server = Server::start(&[reply]).await;
            let mut client = client(&server, stock().idempotent());
            let status = ask(&mut client, Request::new("pens".into())).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

/// H4.
#[tokio::test]
async fn nothing_is_retried_once_there_is_a_message() {
    let server = Server::start(&[Reply::TextThen("7", UNAVAILABLE)]).await;
    let mut client = client(&server, stock().idempotent());
    assert_eq!(error(ask(&mut client, Request::new("pens".into())).await).0, Code::Unavailable);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_that_has_nothing_to_say_yet_is_passed_on() {
    let server = Server::start(&[Reply::Quiet("7")]).await;
    let mut client = client(&server, stock().per_try_timeout(Duration::from_secs(2)));
    let mut stream = in_time(watch(&mut client)).await.unwrap();
    server.speak.notify_one();
    assert_eq!(in_time(stream.message()).await.unwrap().unwrap(), "7");
    assert_eq!(in_time(stream.message()).await.unwrap(), None);
}

/// H3.
#[tokio::test]
async fn a_long_request_is_sent_once_and_in_full() {
    let server = Server::start(&[Reply::TrailersOnly(UNAVAILABLE)]).await;
    let mut client = client(&server, stock().idempotent());
    let long = "x".repeat(100_000);
    assert_eq!(error(ask(&mut client, Request::new(long.clone())).await).0, Code::Unavailable);
    let [seen] = &server.requests()[..] else { panic!("sent once") };
    assert!(seen.message == long);
}

#[tokio::test]
async fn each_attempt_is_told_what_is_left_of_the_callers_time_and_never_more() {
    let script = [Reply::TrailersOnly(UNAVAILABLE), Reply::Trailers(UNAVAILABLE), Reply::Text("7")];
    let server = Server::start(&script).await;
    let mut client = client(&server, stock().idempotent());
    let mut request = Request::new("pens".to_owned());
    request.set_timeout(Duration::from_secs(20));
    assert_eq!(ask(&mut client, request).await.unwrap(), "7");
    let left: Vec<u64> = server
        .requests()
        .iter()
        .map(|seen| {
            seen.header("grpc-timeout").unwrap().strip_suffix('u').unwrap().parse().unwrap()
        })
        .collect();
    assert!(left[0] <= 20_000_000 && left[0] > left[1] && left[1] > left[2], "{left:?}");
}

#[tokio::test]
async fn the_callers_time_ends_the_whole_call() {
    let server = Server::start(&[Reply::Hang]).await;
    let mut client = client(&server, stock().idempotent().attempts(5));
    let mut request = Request::new("pens".to_owned());
    request.set_timeout(Duration::from_millis(300));
    let started = Instant::now();
    assert_eq!(error(ask(&mut client, request).await).0, Code::DeadlineExceeded);
    assert!(started.elapsed() >= Duration::from_millis(290) && started.elapsed() < SOON);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_hung_server_is_cut_off_and_leaves_a_ghost() {
    let server = Server::start(&[Reply::Hang]).await;
    let upstream = stock().per_try_timeout(Duration::from_millis(200)).in_flight(Limit::Fixed(4));
    let upstream = upstream.build().unwrap();
    let mut client = grpc_kit::client_by(server.address, upstream.clone());
    let status = error(ask(&mut client, Request::new("pens".into())).await);
    assert_eq!(status, (Code::DeadlineExceeded, "not_safe".to_owned()));
    assert_eq!(upstream.snapshot().ghosts, 1);
    until(|| server.left() == 1).await;
}

#[tokio::test]
async fn a_refusal_of_ours_is_a_status_with_its_code_its_word_and_when_to_come_back() {
    let server = Server::start(&[Reply::Hang]).await;
    let upstream = stock().in_flight(Limit::Fixed(1)).queue(0).build().unwrap();
    let client = grpc_kit::client_by(server.address, upstream);
    let hanging = tokio::spawn(asking(client.clone(), "pens"));
    until(|| server.requests().len() == 1).await;
    let status = ask(&mut client.clone(), Request::new("pens".into())).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "in_flight_full"));
    assert_eq!(status.metadata().get("quell-stop").unwrap(), "in_flight_full");
    assert!(status.metadata().contains_key("retry-after"));
    assert_eq!(server.requests().len(), 1);
    hanging.abort();
    until(|| server.left() == 1).await;
}

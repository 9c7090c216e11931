//! Replies and errors of a real client over real sockets.
#![cfg(feature = "reqwest")]
#![allow(clippy::unwrap_used)]

mod wire;

use std::time::Duration;

use quell::{Cause, Clock, Fault, Outcome, Quell, Reason, classify};
use wire::{BUSY, CLOSE, FINE, Server, nobody};

fn client() -> reqwest::Client {
    reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build().unwrap()
}

/// What a call makes of it, and whether that may be repeated.
fn failed(result: &Result<reqwest::Response, reqwest::Error>) -> (Fault, bool) {
    match classify::usual(result, &Clock::system(), &Default::default()) {
        Outcome::Failed(failure) => (failure.fault, failure.retryable),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_keyed_post_is_repeated_with_the_same_key_until_it_works() {
    let server = Server::start(&[BUSY, CLOSE, FINE]).await;
    let (client, url) = (client(), server.url());
    let payments = Quell::upstream("payments").timeout(Duration::from_secs(10)).build().unwrap();
    let mut causes = Vec::new();
    let reply = payments
        .call(|attempt| client.post(&url).header("idempotency-key", attempt.key()).send())
        .on_retry(|retry| causes.push(retry.error.to_string()))
        .await
        .unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(causes[0], "status 503");
    assert_eq!(causes.len(), 2);
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn a_post_without_a_key_is_sent_once_and_its_reply_kept() {
    let server = Server::start(&[BUSY]).await;
    let (client, url) = (client(), server.url());
    let payments = Quell::upstream("payments").build().unwrap();
    let error = payments.call(|_| client.post(&url).send()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::NotSafe));
    assert_eq!(error.into_reply().unwrap().text().await.unwrap(), "busy");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_was_never_sent_and_an_unreadable_url_is_fatal() {
    let (client, url) = (client(), format!("http://{}/pay", nobody().await));
    let payments = Quell::upstream("payments").attempts(2).build().unwrap();
    let error = payments.call(|_| client.post(&url).send()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
    assert!(matches!(error.cause(), Cause::Error(cause) if cause.is_connect()));

    let error = client.get("no url").send().await;
    assert_eq!(failed(&error), (Fault::Fatal, false));
}

/// It leads round in circles today, and would do so at every retry.
#[tokio::test]
async fn redirects_without_end_are_fatal() {
    let round =
        "HTTP/1.1 302 Found\r\nlocation: /pens\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let server = Server::start(&[round]).await;
    let (client, url) = (client(), server.url());
    let error = client.get(&url).send().await;
    assert!(error.as_ref().unwrap_err().is_redirect());
    assert_eq!(failed(&error), (Fault::Fatal, false));

    let sent_once = server.requests().len();
    let stock = Quell::upstream("stock").idempotent().build().unwrap();
    let error = stock.call(|_| client.get(&url).send()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::NotRetryable));
    assert_eq!(server.requests().len(), 2 * sent_once);
}

//! Replies and errors of a real client over real sockets.
#![cfg(feature = "reqwest")]
#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, time::Duration};

use quell::{Cause, Clock, Fault, Outcome, Quell, Reason, classify};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const CLOSE: &str = "";

/// Answers one request per connection, from a script, and gives back what it read.
async fn serve(
    replies: &'static [&'static str],
) -> (SocketAddr, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut heads = Vec::new();
        for reply in replies {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            heads.push(String::from_utf8(head).unwrap());
            socket.write_all(reply.as_bytes()).await.unwrap();
        }
        heads
    });
    (address, server)
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build().unwrap()
}

const UNAVAILABLE: &str =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";
const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_keyed_post_is_repeated_with_the_same_key_until_it_works() {
    let (address, server) = serve(&[UNAVAILABLE, CLOSE, CREATED]).await;
    let (client, url) = (client(), format!("http://{address}/pay"));
    let payments = Quell::upstream("payments").timeout(Duration::from_secs(10)).build().unwrap();
    let mut causes = Vec::new();
    let reply = payments
        .call(|attempt| client.post(&url).header("idempotency-key", attempt.key()).send())
        .on_retry(|retry| causes.push(retry.error.to_string()))
        .await
        .unwrap();
    assert_eq!(reply.status(), 201);
    assert_eq!(causes[0], "status 503");
    assert_eq!(causes.len(), 2);
    let keys: Vec<_> = server.await.unwrap().iter().map(|head| key(head)).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

fn key(head: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
    line.unwrap().to_owned()
}

#[tokio::test]
async fn a_post_without_a_key_is_sent_once_and_its_reply_kept() {
    let (address, server) = serve(&[UNAVAILABLE]).await;
    let (client, url) = (client(), format!("http://{address}/pay"));
    let payments = Quell::upstream("payments").build().unwrap();
    let error = payments.call(|_| client.post(&url).send()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (1, Reason::NotSafe));
    assert_eq!(error.into_reply().unwrap().text().await.unwrap(), "busy");
    assert_eq!(server.await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_was_never_sent_and_an_unreadable_url_is_fatal() {
    let (address, server) = serve(&[]).await;
    server.await.unwrap(); // nobody listens there any more
    let (client, url) = (client(), format!("http://{address}/pay"));
    let payments = Quell::upstream("payments").attempts(2).build().unwrap();
    let error = payments.call(|_| client.post(&url).send()).await.unwrap_err();
    assert_eq!((error.attempts(), error.reason()), (2, Reason::AttemptsSpent));
    assert!(matches!(error.cause(), Cause::Error(cause) if cause.is_connect()));

    let error = client.get("no url").send().await;
    let Outcome::Failed(failure) = classify::usual(&error, &Clock::system(), &Default::default())
    else {
        panic!()
    };
    assert_eq!((failure.fault, failure.retryable), (Fault::Fatal, false));
}

//! What errors of a real client prove.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use quell::{Delivery, http::delivery};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SOON: Duration = Duration::from_secs(10);

/// H8.
#[tokio::test]
async fn a_connection_that_dies_after_the_write_proves_nothing_and_a_refused_one_does() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = [0; 1_024];
        assert!(socket.read(&mut read).await.unwrap() > 0);
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // The second request is read, perhaps acted on, and never answered.
        assert!(socket.read(&mut read).await.unwrap() > 0);
    });

    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut send, connection) = hyper::client::conn::http1::handshake(socket).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = || Request::get("/").header("host", "up").body(Empty::<Bytes>::new()).unwrap();
    let reply = timeout(SOON, send.send_request(request())).await.unwrap().unwrap();
    reply.into_body().collect().await.unwrap();
    timeout(SOON, send.ready()).await.unwrap().unwrap();
    let died = timeout(SOON, send.send_request(request())).await.unwrap().unwrap_err();
    assert_eq!(delivery(&died), Delivery::Unknown, "{died:?}");

    timeout(SOON, server).await.unwrap().unwrap(); // and with it goes the listener
    let _ = timeout(SOON, connection).await.unwrap().unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let url = format!("http://{address}/").parse().unwrap();
    let refused = timeout(SOON, client.get(url)).await.unwrap().unwrap_err();
    assert_eq!(delivery(&refused), Delivery::NeverSent, "{refused:?}");
}

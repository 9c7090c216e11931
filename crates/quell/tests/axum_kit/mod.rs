//! A real server and a client for it.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Bytes};
use http_body::Frame;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Longer than anything takes that is not stuck.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Serves until the test is over.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

pub(crate) fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy();
    builder.timeout(SOON).build().unwrap()
}

/// Sends these very bytes and gives back all that comes until the server closes the connection, which it may do while
/// there is more to be sent.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let _ = socket.write_all(request.as_bytes()).await;
    let mut reply = Vec::new();
    let _ = in_time(socket.read_to_end(&mut reply)).await;
    String::from_utf8(reply).unwrap()
}

pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.expect("it is stuck")
}

/// Waits until it is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// A header's value, if it stands there once.
pub(crate) fn header<'a>(response: &'a reqwest::Response, name: &str) -> Option<&'a str> {
    let mut values = response.headers().get_all(name).iter();
    let value = values.next()?.to_str().ok();
    assert_eq!(values.next(), None, "{name} stands there twice");
    value
}

/// A body of unknown length, piece by piece.
pub(crate) struct Streamed(pub(crate) mpsc::Receiver<Bytes>);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

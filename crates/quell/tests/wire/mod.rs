//! A server that follows a script, and remembers what it was sent.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Longer than anything takes that is not stuck.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Reads the request and closes the connection.
pub(crate) const CLOSE: &str = "";
/// Ends a reply that goes no further: the connection stays open until the client closes it.
pub(crate) const HANG: &str = "…";
pub(crate) const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";
pub(crate) const FINE: &str =
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine";

/// Answers one request per connection, from a script whose last line is repeated.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    left: Arc<Mutex<usize>>,
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Request {
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// All values of a header.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| *field == name).map(|(_, value)| value).collect()
    }
}

impl Server {
    pub(crate) async fn start(script: &[&str]) -> Self {
        let script: Vec<_> = script.iter().map(|line| line.to_string()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, left) = (Arc::default(), Arc::default());
        let server = Self { address, requests, left };
        let (requests, left) = (Arc::clone(&server.requests), Arc::clone(&server.left));
        tokio::spawn(async move {
            for n in 0.. {
                let (mut socket, _) = listener.accept().await.unwrap();
                let request = read(&mut socket).await;
                requests.lock().push(request);
                let line = &script[n.min(script.len() - 1)];
                let reply = line.strip_suffix(HANG).unwrap_or(line);
                socket.write_all(reply.as_bytes()).await.unwrap();
                if reply.len() < line.len() {
                    let left = Arc::clone(&left);
                    tokio::spawn(async move {
                        let _ = socket.read_u8().await; // until the client closes it
                        *left.lock() += 1;
                    });
                }
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/pens", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    /// Clients that closed a connection on which nothing came.
    pub(crate) fn left(&self) -> usize {
        *self.left.lock()
    }
}

/// An address at which nobody listens any more.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Speaks HTTP/2 and refuses every request, as a server does that has too much to do; counts them.
pub(crate) async fn refuse_streams() -> (SocketAddr, Arc<AtomicUsize>) {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, refused) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut preface = [0; 24];
            socket.read_exact(&mut preface).await.unwrap();
            socket.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
            let mut head = [0; 9];
            while socket.read_exact(&mut head).await.is_ok() {
                let [a, b, c, kind, flags, stream @ ..] = head;
                let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
                socket.read_exact(&mut payload).await.unwrap();
                let mut answer = Vec::new();
                if kind == SETTINGS && flags == 0 {
                    answer.extend([0, 0, 0, SETTINGS, 1, 0, 0, 0, 0]);
                } else if kind == HEADERS {
                    count.fetch_add(1, Ordering::Relaxed);
                    answer.extend([0, 0, 4, 3, 0]); // RST_STREAM
                    answer.extend(stream);
                    answer.extend([0, 0, 0, 7]); // REFUSED_STREAM
                }
                socket.write_all(&answer).await.unwrap();
            }
        }
    });
    (address, refused)
}

async fn read(socket: &mut TcpStream) -> Request {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    let mut request = Request { head: String::from_utf8(head).unwrap(), body: Vec::new() };
    if request.header("transfer-encoding") == ["chunked"] {
        while !request.body.ends_with(b"0\r\n\r\n") {
            request.body.push(socket.read_u8().await.unwrap());
        }
    } else if let [length] = request.header("content-length")[..] {
        let mut body = vec![0; length.parse().unwrap()];
        socket.read_exact(&mut body).await.unwrap();
        request.body = body;
    }
    request
}

pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap()
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

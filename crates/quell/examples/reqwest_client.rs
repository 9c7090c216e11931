//! `cargo run -p quell --features reqwest --example reqwest_client`: reqwest with another import.
//!
//! The server is busy at first. Reading is repeated by itself; an order is repeated because it has a key, by which the
//! server would know it again; an order without one is sent once, and its caller gets the 503.

use std::{io, time::Duration};

use quell::{Quell, reqwest::Client};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after-ms: 50\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nseven pens";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = &format!("http://{}/pens", listener.local_addr()?);
    let server = tokio::spawn(serve(listener));

    let upstream = Quell::upstream("stock").attempts(3).timeout(Duration::from_secs(2)).build()?;
    let stock = Client::with(reqwest::Client::builder().no_proxy(), upstream)?;

    let reply = stock.get(url).send().await?;
    println!("GET: {}", reply.status());
    assert_eq!(reply.text().await?, "seven pens");

    let reply = stock.post(url).keyed().body("pens=7").send().await?;
    println!("POST with a key: {}", reply.status());
    assert_eq!(reply.status(), 200);

    let reply = stock.post(url).body("pens=7").send().await?;
    println!("POST without: {}", reply.status());
    assert_eq!(reply.status(), 503);

    let seen = server.await??;
    println!("the server saw {}", seen.join(", "));
    assert_eq!(seen, ["GET 1", "GET 2", "POST 1", "POST 2", "POST 1"]);
    Ok(())
}

/// Is busy at every first attempt; gives back the methods and the numbers of the attempts that it saw.
async fn serve(listener: TcpListener) -> io::Result<Vec<String>> {
    let mut seen = Vec::new();
    for reply in [BUSY, FINE, BUSY, FINE, BUSY] {
        let (mut socket, _) = listener.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head);
        let method = head.split(' ').next().unwrap_or_default();
        let number = head.lines().find_map(|line| line.strip_prefix("quell-attempt: "));
        seen.push(format!("{method} {}", number.unwrap_or_default()));
        socket.write_all(reply.as_bytes()).await?;
    }
    Ok(seen)
}

//! The README's call, to a service that is busy at first: `cargo run -p quell --features reqwest --example readme`.

use std::{error::Error, io, time::Duration};

use quell::Quell;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const PAID: &str = "HTTP/1.1 201 Created\r\ncontent-length: 4\r\nconnection: close\r\n\r\npaid";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = &format!("http://{}/pay", listener.local_addr()?);
    let service = tokio::spawn(serve(listener));
    // Nobody but Quell retries, or there would be two who do.
    let client = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build()?;

    let payments =
        Quell::upstream("payments").attempts(3).timeout(Duration::from_secs(4)).build()?;
    let receipt = payments
        .call(|attempt| client.post(url).header("idempotency-key", attempt.key()).send())
        .on_retry(|r| tracing::warn!(attempt = r.attempt, delay = ?r.delay, "retrying"))
        .await?;
    // Err keeps operation, attempts, elapsed, the last cause and the reason it stopped

    let receipt = receipt.text().await?;
    let keys = service.await??;
    println!("{receipt} at attempt {}, with one key: {}", keys.len(), keys[0]);
    assert_eq!(receipt, "paid");
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    Ok(())
}

/// Is busy, then takes the payment; gives back the keys it was sent.
async fn serve(listener: TcpListener) -> io::Result<Vec<String>> {
    let mut keys = Vec::new();
    for reply in [BUSY, PAID] {
        let (mut socket, _) = listener.accept().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head);
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        keys.extend(fields.find(|(name, _)| *name == "idempotency-key").map(|(_, key)| key.into()));
        socket.write_all(reply.as_bytes()).await?;
    }
    Ok(keys)
}

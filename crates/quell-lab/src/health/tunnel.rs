//! Upgraded connections: a handshake, then small messages that come back.
//!
//! The handshake and each message count as a call, so a connection that breaks is seen however long it lasted.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::call::{PATIENCE, lost};
use super::link::Broken;
use super::load::Callers;
use super::tally::End;

const MESSAGE: [u8; 32] = [b'm'; 32];
/// Who could not get a connection waits before it tries again, as everybody does.
const AGAIN: Duration = Duration::from_millis(100);

/// One connection, from its handshake to its end.
pub(crate) async fn talk(callers: &Callers, messages: u32, pause: Duration, end: Instant) {
    let mut tunnel = None;
    let open = async {
        let mut stream = callers.links.connect().await?;
        upgrade(&mut stream, callers.flow.path).await?;
        tunnel = Some(stream);
        Ok(())
    };
    counted(callers, open).await;
    let Some(mut stream) = tunnel else {
        sleep(AGAIN).await;
        return;
    };
    for _ in 0..messages {
        sleep(pause).await;
        if Instant::now() >= end || !counted(callers, round(&mut stream)).await {
            break;
        }
    }
}

/// Whether it went well.
async fn counted(callers: &Callers, does: impl Future<Output = Result<(), Broken>>) -> bool {
    callers.tally.lock().sent();
    let begin = Instant::now();
    let end = match timeout(PATIENCE, does).await {
        Ok(Ok(())) => End::Well,
        Ok(Err(why)) => lost(why),
        Err(_) => lost("unanswered"),
    };
    let well = end == End::Well;
    callers.tally.lock().ended(end, begin.elapsed());
    well
}

async fn upgrade(stream: &mut TcpStream, path: &str) -> Result<(), Broken> {
    let ask = format!(
        "GET {path} HTTP/1.1\r\nhost: lab.test\r\nconnection: upgrade\r\nupgrade: lab-echo\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.map_err(|_| "connection broke")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.map_err(|_| "connection broke")?);
    }
    if head.starts_with(b"HTTP/1.1 101") { Ok(()) } else { Err("no upgrade") }
}

async fn round(stream: &mut TcpStream) -> Result<(), Broken> {
    stream.write_all(&MESSAGE).await.map_err(|_| "tunnel broke")?;
    let mut back = [0; MESSAGE.len()];
    stream.read_exact(&mut back).await.map_err(|_| "tunnel broke")?;
    if back == MESSAGE { Ok(()) } else { Err("other words came back") }
}

//! Readers: callers who pause in the middle of a reply.

use std::io;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::kit::*;

/// More than all buffers between a service and a caller hold.
const LENGTH: usize = 64 << 20;

/// A service that sends one reply of that length; ends with what became of it.
async fn service() -> (std::net::SocketAddr, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let _ = stream.read(&mut [0; 4096]).await?; // the head of a request
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let part = [b'x'; 1 << 16];
        for _ in 0..LENGTH / part.len() {
            stream.write_all(&part).await?;
        }
        Ok(())
    });
    (addr, served)
}

/// A caller who has read the beginning of its reply.
async fn caller(gateway: &quell_server::gateway::Running) -> (TcpStream, usize) {
    let mut caller = TcpStream::connect(gateway.addr()).await.unwrap();
    caller.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut first = vec![0; 4096];
    let length = timeout(PATIENCE, caller.read(&mut first)).await.unwrap().unwrap();
    let body = first[..length].windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    (caller, length - body)
}

/// `gateway.caller_pause`, of 2 s in place of a minute.
#[tokio::test]
async fn a_reader_who_pauses_gets_all_of_its_reply_and_one_who_stays_away_is_cut() {
    for (pause, is_cut) in [(ms(1_200), false), (ms(60_000), true)] {
        let (addr, mut served) = service().await;
        let gateway = gateway_with(addr, |config| {
            config.file.gateway.caller_pause = ms(2_000);
        });
        let (mut caller, mut seen) = caller(&gateway).await;
        let since = Instant::now();
        let cut = tokio::select! {
            ended = timeout(PATIENCE, &mut served) => Some(ended),
            () = sleep(pause) => None,
        };
        assert_eq!(cut.is_some(), is_cut, "after {:?}", since.elapsed());
        if let Some(ended) = cut {
            assert!(ended.expect("not cut").unwrap().is_err(), "the service could send it all");
            assert!(since.elapsed() >= ms(1_900), "cut after {:?}", since.elapsed());
            continue;
        }
        let mut part = vec![0; 1 << 16];
        loop {
            match timeout(PATIENCE, caller.read(&mut part)).await.expect("it stands still") {
                Ok(0) | Err(_) => break,
                Ok(length) => seen += length,
            }
        }
        assert_eq!(seen, LENGTH);
        served.await.unwrap().unwrap();
    }
}

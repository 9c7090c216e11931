//! A call over a real socket to a service that fails twice and then works: `cargo run -p quell --example minimal`.

use std::{io, time::Duration};

use quell::Quell;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(flaky(listener));

    let greeter = Quell::upstream("greeter").attempts(3).timeout(Duration::from_secs(4)).build()?;
    let greeting = greeter
        .call(async |_| -> io::Result<String> {
            let mut greeting = String::new();
            TcpStream::connect(address).await?.read_to_string(&mut greeting).await?;
            if greeting.is_empty() {
                Err(io::ErrorKind::UnexpectedEof.into())
            } else {
                Ok(greeting)
            }
        })
        .idempotent() // asking for a greeting twice does no harm
        .on_retry(|retry| {
            println!("attempt {}: {}, again in {:?}", retry.attempt, retry.error, retry.delay)
        })
        .await?;
    println!("{greeting}");
    Ok(())
}

/// Closes two connections without a word.
async fn flaky(listener: TcpListener) -> io::Result<()> {
    for greeting in ["", "", "hello"] {
        let (mut socket, _) = listener.accept().await?;
        socket.write_all(greeting.as_bytes()).await?;
    }
    Ok(())
}

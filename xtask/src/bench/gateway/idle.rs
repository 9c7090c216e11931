//! Memory that a connection holds while it waits for its next request.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::proxy::{Kind, Proxy, Stand};
use crate::{process::local, program};

/// Files that we and those we start may open.
const FILES: u32 = 16_384;
const PATIENCE: Duration = Duration::from_secs(5);

/// KiB that each of so many idle connections takes, after one request each.
pub(super) fn kib_per_connection(stand: Stand<'_>, kind: Kind, connections: u32) -> Result<f64> {
    eprintln!("gateway: {connections} idle connections to {}", kind.name());
    let proxy = Proxy::start(kind, stand)?; // a fresh one: what another left free would be used again
    let first = ask(proxy.port)?;
    let before = proxy.process.resident_kib()?;
    let idle = (0..connections).map(|_| ask(proxy.port)).collect::<Result<Vec<_>>>()?;
    let after = proxy.process.resident_kib()?;
    drop((first, idle));
    Ok(after.saturating_sub(before) as f64 / f64::from(connections))
}

/// Raises how many files we may open, for ourselves and all that we start.
pub(super) fn raise_files() -> Result<()> {
    let status = Command::new(program::find("prlimit", "util-linux")?)
        .args(["--pid", &std::process::id().to_string(), &format!("--nofile={FILES}:")])
        .status()
        .context("cannot start prlimit")?;
    ensure!(
        status.success(),
        "cannot raise the number of open files to {FILES}: `ulimit -Hn` is below"
    );
    Ok(())
}

/// A connection after one request.
fn ask(port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(local(port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n")?;
    let (mut reply, mut at) = ([0; 4096], 0);
    while !reply[..at].ends_with(b"ok\n") {
        let read = stream.read(&mut reply[at..]).context("no reply on an idle connection")?;
        ensure!(read > 0, "unexpected reply: {}", String::from_utf8_lossy(&reply[..at]));
        at += read;
    }
    Ok(stream)
}

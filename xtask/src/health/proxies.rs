//! The two proxies of a world: Quell with nothing set, and nginx as it comes.
//!
//! nginx has its defaults but for what every guide tells to write: kept connections to the service, and upgrades passed
//! on. Its HTTP/2 without TLS wants a port of its own.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result, ensure};

use crate::{
    nginx,
    process::{Process, local},
};

/// Ports of one side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) http1: u16,
    pub(super) http2: u16,
    admin: u16,
    services: [u16; 3],
}

/// What a world wants of its proxies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    pub(super) endpoints: usize,
    /// The service speaks HTTP/2 without TLS.
    pub(super) h2c: bool,
}

impl Ports {
    /// For Quell, which tells HTTP/1.1 and HTTP/2 apart by itself, and for nginx.
    pub(super) fn two() -> Result<[Self; 2]> {
        let [a, b, c, d, e, f, g, h, i, j, k] = ports()?;
        Ok([
            Self { http1: a, http2: a, admin: b, services: [c, d, e] },
            Self { http1: f, http2: g, admin: h, services: [i, j, k] },
        ])
    }

    /// As the lab wants to be told of them.
    pub(super) fn side(self, name: &str) -> String {
        let [a, b, c] = self.services;
        format!("{name}={},{},{a},{b},{c}", self.http1, self.http2)
    }
}

/// Ports that nobody listens at. They are below those that the kernel gives to connections: thousands of these come and go
/// while a world waits for its service, and one could have its port. Each is drawn once.
fn ports<const N: usize>() -> Result<[u16; N]> {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(641);
    let mut found = [0; N];
    for port in &mut found {
        *port = loop {
            let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
            ensure!(drawn < COUNT, "no free port on loopback");
            let candidate = FIRST + start.wrapping_add(drawn) % COUNT;
            let candidate = u16::try_from(candidate).context("no such port")?;
            if TcpListener::bind(local(candidate)).is_ok() {
                break candidate;
            }
        };
    }
    Ok(found)
}

/// Quell: `gateway --to URL` and nothing else; several endpoints can only be written in a file.
pub(super) fn quell(quell: &Path, folder: &Path, ports: Ports, wants: Wants) -> Result<Process> {
    let scheme = if wants.h2c { "h2c" } else { "http" };
    let mut command = Command::new(quell);
    if wants.endpoints == 1 {
        command.args(["gateway", "--to", &format!("{scheme}://{}", local(ports.services[0]))]);
    } else {
        let endpoints = ports.services.iter().take(wants.endpoints);
        let endpoints: Vec<_> =
            endpoints.map(|port| format!("\"http://{}\"", local(*port))).collect();
        let text = format!(
            "version = 1\n[upstream.service]\nendpoints = [{}]\n[[route]]\nupstream = \"service\"\n",
            endpoints.join(", ")
        );
        let file = folder.join("quell.toml");
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        command.args(["gateway", "--config"]).arg(file);
    }
    command.args(["--listen", &local(ports.http1).to_string()]);
    command.args(["--admin", &local(ports.admin).to_string()]);
    Process::start_quietly("quell", &command, ports.http1, Stdio::null())
}

/// nginx, before the same.
pub(super) fn nginx(folder: &Path, ports: Ports, wants: Wants) -> Result<Process> {
    let servers = ports.services.iter().take(wants.endpoints);
    let servers: String = servers.map(|port| format!("server {};", local(*port))).collect();
    let pass = if wants.h2c {
        "grpc_pass grpc://service;"
    } else {
        "proxy_pass http://service; proxy_http_version 1.1;
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $kept;"
    };
    let text = format!(
        "map $http_upgrade $kept {{ default upgrade; '' ''; }}
         upstream service {{ {servers} keepalive 512; keepalive_requests 1000000000; }}
         server {{
             listen {}; listen {} http2;
             location / {{ {pass} }}
         }}",
        local(ports.http1),
        local(ports.http2)
    );
    let command = nginx::command(&folder.join("nginx"), &text)?;
    Process::start_quietly("nginx", &command, ports.http1, Stdio::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_drawn_twice_or_is_one_that_connections_get() {
        let drawn: [u16; 20] = ports().unwrap();
        let more: [u16; 20] = ports().unwrap();
        let mut all = [drawn, more].concat();
        assert!(all.iter().all(|port| *port < 32_768), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40);
    }

    #[test]
    fn the_lab_is_told_where_the_proxy_listens_and_where_services_are_to() {
        let ports = Ports { http1: 1, http2: 2, admin: 3, services: [4, 5, 6] };
        assert_eq!(ports.side("nginx"), "nginx=1,2,4,5,6");
    }
}

//! HAProxy, from Debian.
//!
//! Its policy is the nearest to ours: one retry, a limit on what is under way with a bounded queue behind it, a server that keeps
//! failing marked down, timeouts. Its counters are always on; without a `log` line it logs nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::proxy::Ports;
use crate::{process::local, program};

pub(super) fn proxy(folder: &Path, ports: Ports) -> Result<Command> {
    let config = folder.join("haproxy.cfg");
    fs::write(&config, cfg(ports)).with_context(|| format!("cannot write {}", config.display()))?;
    let mut haproxy = Command::new(program::find("haproxy", "haproxy")?);
    haproxy.args(["-db", "-q", "-f"]).arg(config);
    Ok(haproxy)
}

fn cfg(Ports { listen, service, .. }: Ports) -> String {
    let (listen, service) = (local(listen), local(service));
    format!(
        "global
    nbthread 1
    maxconn 8192

defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 5s
    timeout http-keep-alive 60s
    timeout queue 500ms
    retries 1
    option redispatch
    retry-on conn-failure empty-response response-timeout 502 503 504
    http-reuse always
    option forwardfor

listen bench
    bind {listen}
    server service {service} maxconn 4096 maxqueue 64 check observe layer7 error-limit 20 on-error mark-down
"
    )
}

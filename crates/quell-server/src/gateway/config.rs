//! What a gateway is told: a file, or the same as a file, and what the command line adds to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::available_parallelism;

use crate::config::{self, Listen, Override, Problems, Protocol};
use quell::core::spec::{PolicySpec, UpstreamSpec};
use thiserror::Error;

pub use crate::config::{HostField, InvalidTarget, Target};

use super::plan::everything;
use super::resolve::Names;

/// The only upstream, policy and route of a gateway that was told no more than where to send.
const DEFAULT: &str = "default";
/// More than one upstream should ever have to carry.
const MOST_STREAMS: u32 = 10_000;

/// Where the command is told to send: a [`Target`], or the same by HTTP/2 without TLS, `h2c://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct To {
    /// Where.
    pub target: Target,
    /// What is spoken there.
    pub protocol: Protocol,
}

/// Why a text is no [`To`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}, or h2c://host:port for HTTP/2 without TLS")]
pub struct NotTo(InvalidTarget);

impl FromStr for To {
    type Err = NotTo;

    fn from_str(url: &str) -> Result<Self, NotTo> {
        let (url, protocol) = match url.strip_prefix("h2c://") {
            Some(rest) => (format!("http://{rest}"), Protocol::Http2),
            None => (url.to_owned(), Protocol::Auto),
        };
        Ok(Self { target: url.parse().map_err(NotTo)?, protocol })
    }
}

/// What a gateway is told. [`Config::new`] has the defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// What its file says, or would say.
    pub file: config::Config,
    /// The file itself, if there is one, to be read again.
    pub path: Option<PathBuf>,
    /// What goes over the file whenever it is read again; it is in `file` already.
    pub set: Vec<Override>,
    /// Threads that serve callers, each with its own listener and upstream connections.
    pub cores: usize,
    /// Replies on their way and tunnels that are held at most, per upstream; beyond it, requests are refused.
    pub streams: u32,
    /// Whether changes of state and refusals are written to standard error.
    pub log: bool,
    /// Who says where names are, if not the system.
    pub names: Option<Names>,
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

    /// The same, with settings over the defaults: those of a file in which upstream and policy are called `default`.
    pub fn told(to: &To, set: &[Override]) -> Result<Self, Problems> {
        let To { target, protocol } = to;
        let text = format!(
            "version = 1\n[policy.default]\n[upstream.default]\nendpoints = [\"{target}\"]\n"
        );
        let mut file = config::Config::parse("--to", &text, set)?;
        if let (Some(upstream), Protocol::Http2) = (file.upstreams.get_mut(DEFAULT), protocol) {
            upstream.protocol = Protocol::Http2;
        }
        Ok(Self::of(file))
    }

    /// What a file says.
    pub fn of(file: config::Config) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            file,
            path: None,
            set: Vec::new(),
            cores,
            streams: MOST_STREAMS,
            log: true,
            names: None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_on_the_command_line_is_what_the_defaults_are_but_for_what_is_set() {
        let to: To = "http://127.0.0.1:9000".parse().unwrap();
        let (told, usual) = (Config::told(&to, &[]).unwrap(), Config::new(to.target.clone()));
        assert_eq!(told.file.upstreams, usual.file.upstreams);
        assert_eq!(told.file.policies, usual.file.policies);
        let set = |text| Override::flag("--set", text).unwrap();
        let set = [set("upstream.default.budget.max=50"), set("gateway.drain=\"1s\"")];
        let told = Config::told(&to, &set).unwrap().file;
        assert_eq!(told.upstreams[DEFAULT].spec.budget.bucket().unwrap().max, 50);
        assert_eq!(told.gateway.drain.as_secs(), 1);
        let wrong = [Override::flag("--set", "upstream.default.bugdet.max=50").unwrap()];
        let wrong = Config::told(&to, &wrong).unwrap_err().to_string();
        assert!(wrong.contains("did you mean `budget`"), "{wrong}");
    }

    #[test]
    fn an_address_of_h2c_is_http2_from_the_first_byte() {
        let to: To = "h2c://127.0.0.1:9000".parse().unwrap();
        assert_eq!(
            (to.target.to_string().as_str(), to.protocol),
            ("http://127.0.0.1:9000", Protocol::Http2)
        );
        assert_eq!(
            Config::told(&to, &[]).unwrap().file.upstreams[DEFAULT].protocol,
            Protocol::Http2
        );
        for wrong in ["h2c://", "h2c:/x", "ftp://x", "h2c://a/b"] {
            let error = wrong.parse::<To>().unwrap_err().to_string();
            assert!(error.ends_with("or h2c://host:port for HTTP/2 without TLS"), "{error}");
        }
    }
}

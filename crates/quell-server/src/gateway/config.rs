//! What a gateway is told: where to listen, where to send, and under which policies.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::available_parallelism;
use std::time::Duration;

use http::{HeaderValue, Uri};
use quell::core::spec::{PolicySpec, UpstreamSpec};
use thiserror::Error;

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

/// An upstream's address: `http://host:port` or `https://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether to speak TLS.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// As it stands in a `Host` field.
    pub authority: HeaderValue,
}

/// Why a text is not a [`Target`]. The message names the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{url:?} is no upstream: {why}; write http://host:port or https://host:port")]
pub struct InvalidTarget {
    url: String,
    why: &'static str,
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(url: &str) -> Result<Self, InvalidTarget> {
        let invalid = |why| InvalidTarget { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| invalid("it is not a URL"))?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            Some(_) => return Err(invalid("its scheme is neither http nor https")),
            None => return Err(invalid("it has no scheme")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("credentials do not belong into it"));
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(invalid("it has a path, and callers' paths are passed on as they are"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(invalid("it has no host"));
        }
        let value = HeaderValue::from_str(authority.as_str()).map_err(|_| invalid("bad host"))?;
        let port = authority.port_u16().unwrap_or(port);
        Ok(Self { tls, host: host.to_owned(), port, authority: value })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority.to_str().unwrap_or(&self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_scheme_a_host_and_a_port() {
        let target: Target = "http://10.0.0.5:9000".parse().unwrap();
        assert_eq!((target.tls, target.host.as_str(), target.port), (false, "10.0.0.5", 9000));
        let target: Target = "https://[::1]/".parse().unwrap();
        assert_eq!((target.tls, target.host.as_str(), target.port), (true, "::1", 443));
        assert_eq!(target.authority, "[::1]");
        assert_eq!(target.to_string(), "https://[::1]");
    }

    #[test]
    fn nonsense_is_refused_with_the_value_and_the_fix() {
        for url in ["", "localhost:80", "ftp://a", "http://u:p@a", "http://a/b", "http://a/?b"] {
            let message = url.parse::<Target>().unwrap_err().to_string();
            assert!(message.contains("write http://"), "{message}");
            assert!(message.starts_with(&format!("{url:?}")), "{message}");
        }
    }
}

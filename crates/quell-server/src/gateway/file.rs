//! From a config file: what of it a gateway in front of one upstream can do, and what it refuses to overlook.

use quell::config;
use thiserror::Error;

use super::Config;

/// Why a file is right and still not for this gateway. The message names the setting and the fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unable {
    /// It stands in front of one.
    #[error(
        "the file has {0} upstreams, and the gateway stands in front of one: write one [upstream.…]"
    )]
    Upstreams(usize),
    /// It sends to one.
    #[error(
        "upstream.{upstream}.endpoints has {count}, and the gateway sends to one: write one, such as \"http://127.0.0.1:9000\""
    )]
    Endpoints {
        /// Which upstream.
        upstream: String,
        /// As written.
        count: usize,
    },
    /// It cannot tell requests apart.
    #[error(
        "the gateway sends all requests the same way: write one [[route]] at most, without match"
    )]
    Routes,
    /// It listens at an address.
    #[error("gateway.listen is a socket: write an address and a port, such as \"127.0.0.1:8080\"")]
    Socket,
}

impl Config {
    /// The gateway that a file describes.
    pub fn from_file(file: &config::Config) -> Result<Self, Unable> {
        let mut upstreams = file.upstreams.iter();
        let (Some((name, upstream)), None) = (upstreams.next(), upstreams.next()) else {
            return Err(Unable::Upstreams(file.upstreams.len()));
        };
        let [to] = upstream.endpoints.as_slice() else {
            let (upstream, count) = (name.clone(), upstream.endpoints.len());
            return Err(Unable::Endpoints { upstream, count });
        };
        let policy = match file.routes.as_slice() {
            [] => file.policy_for(name),
            [route] if route.matches == config::Match::default() => file.policy_of(route),
            _ => return Err(Unable::Routes),
        };
        let config::Listen::Tcp(listen) = file.gateway.listen else { return Err(Unable::Socket) };
        Ok(Self {
            listen,
            admin: file.gateway.admin,
            drain: file.gateway.drain,
            policy: policy.spec,
            upstream: upstream.spec,
            statuses: policy.statuses(),
            unsafe_methods: policy.unsafe_methods,
            ..Self::new(to.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quell::config::UnsafeMethods;

    use super::*;

    fn config(lines: &str) -> Result<Config, Unable> {
        let text = format!("version = 1\n{lines}");
        Config::from_file(&config::Config::parse("f", &text, &[]).unwrap())
    }

    const ONE: &str = "[upstream.x]\nendpoints = [\"http://a:1\"]\n";

    #[test]
    fn a_file_with_one_upstream_is_a_gateway() {
        let policy = "[policy.p]\nattempts = 4\nretry_on = [\"connect\", \"timeout\", 503]\nunsafe_methods = \"never\"\n";
        let gateway = "[gateway]\nlisten = \"127.0.0.1:1234\"\ndrain = \"5s\"\n";
        let route = "[[route]]\nupstream = \"x\"\npolicy = \"p\"";
        let config = config(&format!("{ONE}{policy}{gateway}{route}")).unwrap();
        assert_eq!((config.listen.port(), config.drain), (1234, Duration::from_secs(5)));
        assert_eq!((config.policy.attempts, config.unsafe_methods), (4, UnsafeMethods::Never));
        assert!(config.statuses.contains(503) && !config.statuses.contains(502));
        assert_eq!(config.to.to_string(), "http://a:1");
    }

    #[test]
    fn what_it_cannot_do_is_refused_with_the_fix() {
        let route = |inside: &str| format!("{ONE}[[route]]\nupstream = \"x\"\n{inside}");
        for (lines, expected) in [
            ("".to_owned(), Unable::Upstreams(0)),
            (format!("{ONE}[upstream.y]"), Unable::Upstreams(2)),
            ("[upstream.x]".to_owned(), Unable::Endpoints { upstream: "x".into(), count: 0 }),
            (route("match = { path = \"/pay\" }"), Unable::Routes),
            (route("match = { methods = [\"GET\"] }"), Unable::Routes),
        ] {
            let error = config(&lines).unwrap_err();
            assert_eq!(error, expected, "{lines}");
            assert!(error.to_string().contains("write one"), "{error}");
        }
    }
}

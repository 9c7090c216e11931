//! Which: the route that a request takes, as the gateway finds it.

use crate::config::Config;
use anyhow::{Context, anyhow, bail};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::gateway::plan::{self, Terms};
use crate::gateway::route::{Matcher, Seen};

/// Which request, or which route.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// The route's name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "host", "header"])]
    route: Option<String>,
    /// The path of a request, to find its route
    #[arg(long, value_name = "PATH", value_parser = path)]
    path: Option<String>,
    /// The host that the request is for
    #[arg(long, value_name = "HOST", requires = "path")]
    host: Option<String>,
    /// A field of the request; may be given more than once
    #[arg(long, value_name = "NAME:VALUE", requires = "path", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
}

fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err("write a path that begins with /".to_owned())
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let found = text
        .split_once(':')
        .and_then(|(name, value)| Some((name.trim().parse().ok()?, value.trim().parse().ok()?)));
    found.ok_or_else(|| "write a field such as x-version:2".to_owned())
}

impl Which {
    /// The request, in words.
    pub(super) fn request(&self, method: &Method, key: bool, body: Option<u64>) -> String {
        let mut words = match (&self.host, &self.path) {
            (Some(host), Some(path)) => format!("{method} {host}{path}"),
            (None, Some(path)) => format!("{method} {path}"),
            (_, None) => method.to_string(),
        };
        if key {
            words += " with an Idempotency-Key";
        }
        if let Some(bytes) = body {
            words += &format!(" and {bytes} bytes");
        }
        words
    }

    /// The fields of the request.
    pub(super) fn headers(&self) -> HeaderMap {
        self.header.iter().cloned().collect()
    }

    /// The route that is named, or that the request takes, or the only one there is.
    pub(super) fn find(
        &self,
        config: &Config,
        method: &Method,
        headers: &HeaderMap,
    ) -> anyhow::Result<Terms> {
        let mut routes = plan::routes(config)?;
        let names: Vec<_> = routes.iter().map(|terms| terms.route.name.as_str()).collect();
        let there_are = format!("there are {}", names.join(", "));
        let place = match (&self.route, &self.path) {
            (Some(name), _) => names
                .iter()
                .position(|known| known == name)
                .with_context(|| format!("no route is called {name}: {there_are}"))?,
            (None, Some(path)) => {
                let matchers: Vec<_> =
                    routes.iter().map(|terms| Matcher::new(&terms.route.matches)).collect();
                let (path, _) = path.split_once('?').unwrap_or((path, ""));
                let (seen, host) = (Seen { method, path, headers }, self.host.as_deref());
                plan::choose(matchers.iter(), host, &seen)
                    .map_err(|walks| anyhow!("{method} {path} is answered with a {walks}"))?
                    .with_context(|| {
                        format!("no_route: nothing takes {method} {path}: {there_are}")
                    })?
            }
            (None, None) if routes.len() == 1 => 0,
            (None, None) => bail!("name one with --route, or a request with --path: {there_are}"),
        };
        Ok(routes.swap_remove(place))
    }
}

//! Target: an upstream's address as people write it.

use std::{fmt, str::FromStr};

use http::{HeaderValue, Uri};

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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is no upstream: {why}; write http://host:port or https://host:port")]
pub struct InvalidTarget {
    url: String,
    why: &'static str,
}

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(url: &str) -> Result<Self, InvalidTarget> {
        let invalid = |why| InvalidTarget { url: shown(url), why };
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

/// The text, without credentials.
fn shown(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
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
            assert!(message.starts_with(&format!("{:?}", shown(url))), "{message}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        let error = "http://admin:hunter2@10.0.0.5".parse::<Target>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(error.to_string().starts_with("\"…@10.0.0.5\""), "{error}");
    }
}

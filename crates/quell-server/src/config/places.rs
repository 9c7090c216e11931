//! Places that `[gateway]` names: where callers come in, where lines and traces go, and whom it trusts.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use http::Uri;
use ipnet::IpNet;
use quell_config::setting::{Value, Write};

use super::{
    read::{Raw, Read},
    shape::Shape,
};

/// Longest path of a socket that systems take.
const LONGEST_SOCKET: usize = 107;

/// Where callers come in.
///
/// ```
/// use quell_server::config::Listen;
///
/// let socket: Listen = "unix:/run/quell.sock".parse().unwrap();
/// assert_eq!(socket, Listen::Unix("/run/quell.sock".into()));
/// assert_eq!(socket.to_string(), "unix:/run/quell.sock");
/// assert!("8080".parse::<Listen>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

/// Why a text is no place to [listen](Listen) at: the message says what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write an address and a port, such as \"127.0.0.1:8080\", or a socket, such as \"unix:/run/quell.sock\""
)]
pub struct NotListen;

impl FromStr for Listen {
    type Err = NotListen;

    fn from_str(text: &str) -> Result<Self, NotListen> {
        match text.strip_prefix("unix:") {
            Some(path) => {
                let fits = (1..=LONGEST_SOCKET).contains(&path.len()) && !path.contains('\0');
                fits.then(|| Self::Unix(path.into())).ok_or(NotListen)
            }
            None => text.parse().map(Self::Tcp).map_err(|_| NotListen),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Write for Listen {
    fn write(&self) -> Option<Value> {
        Some(Value::text(self))
    }
}

impl Read for Listen {
    fn expected() -> String {
        NotListen.to_string().trim_start_matches("write ").to_owned()
    }

    fn shape() -> Shape {
        Shape::Text
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        value.text()?.parse().ok()
    }
}

/// Where a line for each request goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// To standard output.
    Stdout,
    /// To standard error.
    Stderr,
    /// To the end of this file.
    File(PathBuf),
}

impl fmt::Display for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl Write for AccessLog {
    fn write(&self) -> Option<Value> {
        Some(Value::text(self))
    }
}

impl Read for AccessLog {
    fn expected() -> String {
        "\"off\", \"stdout\", \"stderr\" or a path, such as \"/var/log/quell.log\"".to_owned()
    }

    fn shape() -> Shape {
        Shape::Text
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        match value.text()? {
            "off" => Some(Self::Off),
            "stdout" => Some(Self::Stdout),
            "stderr" => Some(Self::Stderr),
            // A word that is none of these is a slip, not a file.
            path if path.contains(['/', '.']) => Some(Self::File(path.into())),
            _ => None,
        }
    }
}

/// A network, or an address alone.
pub(super) struct Network(pub(super) IpNet);

impl Read for Network {
    fn expected() -> String {
        "a network or an address, such as \"10.0.0.0/8\" or \"127.0.0.1\"".to_owned()
    }

    fn shape() -> Shape {
        Shape::Text
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let text = value.text()?;
        let alone = || text.parse().map(<IpNet as From<IpAddr>>::from).ok();
        text.parse().ok().or_else(alone).map(|net: IpNet| Self(net.trunc()))
    }
}

/// Where traces go.
pub(super) struct Collector(pub(super) String);

#[derive(Debug, thiserror::Error)]
#[error("this is no collector of traces: write such as \"http://127.0.0.1:4318\"")]
pub(super) struct NotCollector;

impl FromStr for Collector {
    type Err = NotCollector;

    fn from_str(text: &str) -> Result<Self, NotCollector> {
        let url: Uri = text.parse().map_err(|_| NotCollector)?;
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        let has_host = url.host().is_some_and(|host| !host.is_empty());
        let is_plain = is_http && has_host && !text.contains('@');
        is_plain.then(|| Self(text.to_owned())).ok_or(NotCollector)
    }
}

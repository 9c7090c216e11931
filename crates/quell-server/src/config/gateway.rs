//! `[gateway]`: where callers come in, and what the process keeps to itself.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use http::Uri;
use ipnet::IpNet;
use quell::core::credit::Role;

use super::{
    Secret,
    fields::Fields,
    read::{OrOff, Raw, Read},
    shape::Shape,
};

/// Longest path of a socket that systems take.
const LONGEST_SOCKET: usize = 107;
/// How short and how long a caller's pause can be.
const PAUSES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
/// Most bytes of an error's body that can be logged: no more are kept.
const MOST_LOGGED: usize = 64 * 1024;

/// Where a gateway listens, and what it tells about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Where callers come in.
    pub listen: Listen,
    /// Where health, metrics and levers are: loopback only.
    pub admin: SocketAddr,
    /// What whoever changes something there must show; without it nothing can be changed.
    pub admin_token: Option<Secret>,
    /// Where in a chain of calls it stands.
    pub role: Role,
    /// Whose word on deadlines, credit and origins counts.
    pub trusted_hops: Vec<IpNet>,
    /// How long a caller may pause in the middle of a body that it sends, or of a reply that it takes.
    pub caller_pause: Duration,
    /// How long a drain goes on taking callers, for balancers that have to notice first.
    pub drain_delay: Duration,
    /// The longest that a drain then waits for what is under way.
    pub drain: Duration,
    /// Callers speak TLS.
    pub tls: Option<ServerTls>,
    /// Where a line for each request goes.
    pub access_log: AccessLog,
    /// How many bytes of an error's body stand in the log; 0 for none.
    pub log_error_body: usize,
    /// Where traces go, as an `http` URL.
    pub otlp: Option<String>,
    /// How often the file is looked at; `None` for never.
    pub watch: Option<Duration>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080))),
            admin: SocketAddr::from(([127, 0, 0, 1], 9901)),
            admin_token: None,
            role: Role::Auto,
            trusted_hops: Vec::new(),
            caller_pause: Duration::from_secs(60),
            drain_delay: Duration::ZERO,
            drain: Duration::from_secs(30),
            tls: None,
            access_log: AccessLog::Off,
            log_error_body: 0,
            otlp: None,
            watch: Some(Duration::from_secs(2)),
        }
    }
}

/// The roles, by the words for them.
pub(super) const ROLES: [(&str, Role); 3] =
    [("auto", Role::Auto), ("edge", Role::Edge), ("interior", Role::Interior)];

impl Gateway {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let mut gateway = Self::default();
        fields.set("listen", &mut gateway.listen);
        fields.set("admin", &mut gateway.admin);
        if !gateway.admin.ip().is_loopback() {
            let admin = gateway.admin;
            fields.wrong(
                "admin",
                format_args!(
                    "is {admin}: write an address on loopback, such as \"127.0.0.1:9901\""
                ),
            );
        }
        gateway.admin_token = fields.secret("admin_token");
        if let Some(role) = fields.word("role", &ROLES) {
            gateway.role = role;
        }
        let hops: Option<Vec<Network>> = fields.list("trusted_hops");
        gateway.trusted_hops = hops.into_iter().flatten().map(|Network(net)| net).collect();
        fields.set("caller_pause", &mut gateway.caller_pause);
        if !PAUSES.contains(&gateway.caller_pause) {
            let pause = humantime::format_duration(gateway.caller_pause);
            fields.wrong("caller_pause", format_args!("is {pause}: write from \"1s\" to \"1h\""));
        }
        fields.set("drain_delay", &mut gateway.drain_delay);
        fields.set("drain", &mut gateway.drain);
        gateway.tls = fields.table("tls").and_then(|inside| ServerTls::read(&inside));
        fields.set("access_log", &mut gateway.access_log);
        gateway.log(fields);
        gateway
    }

    fn log(&mut self, fields: &Fields<'_>) {
        fields.set("log_error_body", &mut self.log_error_body);
        if self.log_error_body > MOST_LOGGED {
            let written = self.log_error_body;
            fields.wrong(
                "log_error_body",
                format_args!("is {written}: write at most {MOST_LOGGED} bytes, or 0 for none"),
            );
        }
        self.otlp = fields.parsed_one("otlp").map(|Collector(url)| url);
        if let Some(OrOff(every)) = fields.get("watch") {
            self.watch = every;
            if every == Some(Duration::ZERO) {
                fields.wrong("watch", "is 0s: write a duration such as \"2s\", or \"off\"");
            }
        }
    }
}

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

/// What callers who speak TLS are shown, and what they must show. All are PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The certificates, the gateway's own first.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whose certificates callers must present; `None` if they need none.
    pub client_ca: Option<PathBuf>,
}

impl ServerTls {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let (cert, key) = (fields.file("cert"), fields.file("key"));
        let client_ca = fields.file("client_ca");
        fields.needs("cert", "the path of a PEM file");
        fields.needs("key", "the path of a PEM file");
        Some(Self { cert: cert?, key: key?, client_ca })
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
struct Network(IpNet);

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
struct Collector(String);

#[derive(Debug, thiserror::Error)]
#[error("this is no collector of traces: write such as \"http://127.0.0.1:4318\"")]
struct NotCollector;

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

//! `[gateway]`: where callers come in, and what the process keeps to itself.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use ipnet::IpNet;
use quell::core::credit::Role;
use quell_config::{
    setting::{Settings, Value, Write},
    table::{self, Table},
};

use super::{
    Secret,
    places::{AccessLog, Collector, Listen, Network},
    read::OrOff,
};

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
const ROLES: [(&str, Role); 3] =
    [("auto", Role::Auto), ("edge", Role::Edge), ("interior", Role::Interior)];

impl Gateway {
    pub(super) fn settings(&mut self, table: &Table<'_>) {
        let means =
            "where callers come in: an address and a port, or a socket, \"unix:/run/quell.sock\"";
        table.set("listen", &mut self.listen, means);
        self.admin(table);
        let means =
            "where in a chain of calls it stands; auto: interior for requests that carry credit";
        table.word("role", &mut self.role, &ROLES, means);
        let hops = table.setting(
            "trusted_hops",
            "networks or addresses whose word on deadline, credit and origin counts",
            |fields| fields.list("trusted_hops"),
            || Some(Value::texts(&self.trusted_hops)),
        );
        if let Some(hops) = hops.flatten() {
            self.trusted_hops = hops.into_iter().map(|Network(net)| net).collect();
        }
        self.pauses(table);
        let means = "callers speak TLS, with HTTP/2 if they like";
        table.maybe("tls", &mut self.tls, means, ServerTls::settings);
        self.log(table);
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| self.clone().settings(table))
    }

    fn admin(&mut self, table: &Table<'_>) {
        let means = "where health, metrics, state and levers are; loopback only";
        table.set("admin", &mut self.admin, means);
        if !self.admin.ip().is_loopback() {
            let admin = self.admin;
            table.wrong(
                "admin",
                format_args!(
                    "is {admin}: write an address on loopback, such as \"127.0.0.1:9901\""
                ),
            );
        }
        let means = "the place of a secret that whoever changes something on the admin side must show; without it nothing can be changed there";
        table.secret("admin_token", &mut self.admin_token, means);
    }

    fn pauses(&mut self, table: &Table<'_>) {
        let means = "how long a caller may pause in the middle of a body that it sends, or of a reply that it takes";
        table.set("caller_pause", &mut self.caller_pause, means);
        if !PAUSES.contains(&self.caller_pause) {
            let pause = humantime::format_duration(self.caller_pause);
            table.wrong("caller_pause", format_args!("is {pause}: write from \"1s\" to \"1h\""));
        }
        let means =
            "how long a drain goes on taking callers, for balancers that have to notice first";
        table.set("drain_delay", &mut self.drain_delay, means);
        table.set("drain", &mut self.drain, "the longest that a drain waits for what is under way");
    }

    fn log(&mut self, table: &Table<'_>) {
        let means = "where one line of JSON for each request goes: \"stdout\", \"stderr\", a path, or \"off\"";
        table.set("access_log", &mut self.access_log, means);
        let means = "how many bytes of an error's body stand in the access log; 0 for none";
        table.set("log_error_body", &mut self.log_error_body, means);
        if self.log_error_body > MOST_LOGGED {
            let written = self.log_error_body;
            table.wrong(
                "log_error_body",
                format_args!("is {written}: write at most {MOST_LOGGED} bytes, or 0 for none"),
            );
        }
        let otlp = table.setting(
            "otlp",
            "where traces go, such as \"http://127.0.0.1:4318\"; needs the otlp build",
            |fields| fields.parsed_one("otlp").map(|Collector(url)| url),
            || self.otlp.write(),
        );
        self.otlp = otlp.unwrap_or_default();
        let mut watch = OrOff(self.watch);
        let means = "how often this file is looked at for changes; \"off\" for never";
        if table.set("watch", &mut watch, means) && watch == OrOff(Some(Duration::ZERO)) {
            table.wrong("watch", "is 0s: write a duration such as \"2s\", or \"off\"");
        }
        self.watch = watch.0;
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
    fn settings(table: &Table<'_>, written: Option<Self>) -> Option<Self> {
        let (mut cert, mut key, mut client_ca) = match written {
            Some(tls) => (Some(tls.cert), Some(tls.key), tls.client_ca),
            None => (None, None, None),
        };
        let means = "PEM file of the certificate to present, with its chain";
        table.file("cert", &mut cert, means);
        table.file("key", &mut key, "PEM file of its key");
        let means = "PEM file of an authority: callers must present a certificate of it";
        table.file("client_ca", &mut client_ca, means);
        table.needs("cert", "the path of a PEM file");
        table.needs("key", "the path of a PEM file");
        Some(Self { cert: cert?, key: key?, client_ca })
    }
}

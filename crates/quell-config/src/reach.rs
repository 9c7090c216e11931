//! How an upstream is reached: what it speaks, where its names lead, and what is shown to it.

use std::{path::PathBuf, time::Duration};

use super::{Upstream, fields::Fields};

/// The shortest time between two lookups of a name.
const OFTEN: Duration = Duration::from_millis(100);

/// What an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What it offers where it speaks TLS, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without asking first.
    Http2,
}

/// Which `Host` an upstream sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostField {
    /// The caller's.
    #[default]
    Keep,
    /// Its own.
    Rewrite,
}

/// What an upstream that speaks TLS is shown, and what it must show. Files are PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// Whom to trust in place of whom the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificates to present, our own first; there is a key as well then.
    pub cert: Option<PathBuf>,
    /// Our key; there is a certificate as well then.
    pub key: Option<PathBuf>,
    /// The name that its certificate must have, in place of the endpoint's.
    pub server_name: Option<String>,
}

/// What upstreams speak, by the words for it.
pub(super) const PROTOCOLS: [(&str, Protocol); 3] =
    [("auto", Protocol::Auto), ("http1", Protocol::Http1), ("http2", Protocol::Http2)];
/// Which `Host` they see, by the words for it.
pub(super) const HOSTS: [(&str, HostField); 2] =
    [("keep", HostField::Keep), ("rewrite", HostField::Rewrite)];

impl Upstream {
    pub(super) fn reach(&mut self, fields: &Fields<'_>) {
        self.protocol = fields.word("protocol", &PROTOCOLS).unwrap_or_default();
        self.host = fields.word("host", &HOSTS).unwrap_or_default();
        fields.set("resolve", &mut self.resolve);
        if self.resolve < OFTEN {
            fields.wrong("resolve", "is too short: write at least \"100ms\", such as \"30s\"");
        }
        fields.set("connect_timeout", &mut self.connect_timeout);
        if self.connect_timeout.is_zero() {
            fields.wrong("connect_timeout", "is 0s: write a duration such as \"2s\"");
        }
        let Some(inside) = fields.table("tls") else { return };
        self.tls = ClientTls::read(&inside);
        if !self.endpoints.is_empty() && !self.endpoints.iter().any(|target| target.tls) {
            fields.wrong(
                "tls",
                "is for endpoints that speak it, and none does: write https://, or leave it out",
            );
        }
    }
}

impl ClientTls {
    fn read(fields: &Fields<'_>) -> Self {
        let tls = Self {
            ca: fields.file("ca"),
            cert: fields.file("cert"),
            key: fields.file("key"),
            server_name: fields.get("server_name"),
        };
        for (name, other) in [("cert", "key"), ("key", "cert")] {
            if fields.has(name) && !fields.has(other) {
                fields.wrong(name, format_args!("needs {other} beside it: write both or neither"));
            }
        }
        if tls
            .server_name
            .as_ref()
            .is_some_and(|name| name.is_empty() || name.contains([':', '/', ' ']))
        {
            fields.wrong("server_name", "is no name: write such as \"payments.internal\"");
        }
        tls
    }
}

//! How an upstream is reached: what it speaks, where its names lead, and what is shown to it.

use std::{path::PathBuf, time::Duration};

use super::{Upstream, table::Table};

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
const PROTOCOLS: [(&str, Protocol); 3] =
    [("auto", Protocol::Auto), ("http1", Protocol::Http1), ("http2", Protocol::Http2)];
/// Which `Host` they see, by the words for it.
const HOSTS: [(&str, HostField); 2] = [("keep", HostField::Keep), ("rewrite", HostField::Rewrite)];

impl Upstream {
    pub(super) fn reach(&mut self, table: &Table<'_>) {
        let means = "what it speaks; auto: what it offers by TLS, else HTTP/1.1; http2 without TLS: right from the start";
        table.word("protocol", &mut self.protocol, &PROTOCOLS, means);
        let means = "which Host it sees: the caller's, or its own";
        table.word("host", &mut self.host, &HOSTS, means);
        table.set("resolve", &mut self.resolve, "how often names are looked up again");
        if self.resolve < OFTEN {
            table.wrong("resolve", "is too short: write at least \"100ms\", such as \"30s\"");
        }
        let means = "the longest that a connection may take, TLS included";
        table.set("connect_timeout", &mut self.connect_timeout, means);
        if self.connect_timeout.is_zero() {
            table.wrong("connect_timeout", "is 0s: write a duration such as \"2s\"");
        }
        let mut tls = (self.tls != ClientTls::default()).then(|| self.tls.clone());
        let means = "what it must show, and what it is shown, where it speaks TLS";
        table.maybe("tls", &mut tls, means, |inside, written| {
            let mut tls = written.unwrap_or_default();
            tls.settings(inside);
            if !self.endpoints.is_empty() && !self.endpoints.iter().any(|target| target.tls) {
                table.wrong(
                    "tls",
                    "is for endpoints that speak it, and none does: write https://, or leave it out",
                );
            }
            Some(tls)
        });
        self.tls = tls.unwrap_or_default();
    }
}

impl ClientTls {
    fn settings(&mut self, table: &Table<'_>) {
        table.file(
            "ca",
            &mut self.ca,
            "PEM file of the authorities to trust in place of the system's",
        );
        table.file("cert", &mut self.cert, "PEM file of the certificate to present");
        table.file("key", &mut self.key, "PEM file of its key");
        let means = "the name that its certificate must have; the endpoint's host if not written";
        table.set("server_name", &mut self.server_name, means);
        for (name, other) in [("cert", "key"), ("key", "cert")] {
            if table.has(name) && !table.has(other) {
                table.wrong(name, format_args!("needs {other} beside it: write both or neither"));
            }
        }
        let legal = |name: &String| !name.is_empty() && !name.contains([':', '/', ' ']);
        if !self.server_name.as_ref().is_none_or(legal) {
            table.wrong("server_name", "is no name: write such as \"payments.internal\"");
        }
    }
}

//! TLS towards upstreams.

use std::io;
use std::path::Path;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::files::{Contents, Files};
use super::{H2, HTTP1, Live, Pem, TlsError, Version, agreed, named, provider, system_roots};

/// Names of servers whose sessions can be resumed.
const MOST_SESSIONS: usize = 64;

/// Which HTTP an upstream is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// HTTP/2, or HTTP/1.1 where the upstream prefers it.
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
}

/// An upstream's TLS as written in a file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trust<'a> {
    /// Where that is written, such as `upstream.payments.tls`.
    pub(crate) table: &'a str,
    /// Whose certificates to trust in place of the system's.
    pub(crate) ca: Option<&'a Path>,
    /// What we show.
    pub(crate) cert: Option<&'a Path>,
    /// The key of `cert`.
    pub(crate) key: Option<&'a Path>,
    /// The name to ask for in place of the endpoint's.
    pub(crate) server_name: Option<&'a str>,
}

/// See the [module](super). One for all endpoints of an upstream; `live` reads the files anew.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) live: Live<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    offer: Offer,
}

impl Client {
    /// From the settings of an upstream.
    pub(crate) fn new(trust: Trust<'_>, offer: Offer) -> Result<Self, TlsError> {
        let file = |setting, path: Option<&Path>| path.map(|p| Pem::new(trust.table, setting, p));
        let files = Files {
            cert: file("cert", trust.cert),
            key: file("key", trust.key),
            ca: file("ca", trust.ca),
        };
        let server_name = trust.server_name.map(named).transpose()?;
        let live = Live::new(files, move |contents| build(contents, offer))?;
        Ok(Self { live, server_name, offer })
    }

    /// The name that the certificate of this endpoint has to be for.
    pub(crate) fn name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => named(host),
        }
    }

    /// Agrees with an endpoint on TLS and on which HTTP to speak. An upstream that is told to speak HTTP/2 does so
    /// without ALPN, too. The time limit is the caller's: that of the whole connect.
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &ServerName<'static>,
        stream: S,
    ) -> io::Result<(TlsStream<S>, Version)> {
        let connector = TlsConnector::from(self.live.load());
        let stream = connector.connect(name.clone(), stream).await?;
        let version = match self.offer {
            Offer::Http2 => Version::Http2,
            Offer::Auto | Offer::Http1 => agreed(stream.get_ref().1.alpn_protocol()),
        };
        Ok((stream, version))
    }
}

fn build(contents: &Contents, offer: Offer) -> Result<ClientConfig, TlsError> {
    let roots = match contents.roots()? {
        Some(roots) => roots.into(),
        None => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match contents.identity()? {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            builder.with_client_auth_cert(chain, key).map_err(|error| contents.refused(error))?
        }
    };
    config.alpn_protocols = match offer {
        Offer::Auto => vec![H2.to_vec(), HTTP1.to_vec()],
        Offer::Http1 => vec![HTTP1.to_vec()],
        Offer::Http2 => vec![H2.to_vec()],
    };
    config.resumption = Resumption::in_memory_sessions(MOST_SESSIONS);
    config.enable_early_data = false; // early data can be replayed
    Ok(config)
}

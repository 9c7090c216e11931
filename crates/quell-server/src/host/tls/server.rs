//! TLS towards callers.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::files::{Contents, Files};
use super::{H2, HTTP1, Live, Pem, TlsError, Version, agreed, provider};

/// The longest that a caller may take to agree.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Sessions that can be resumed; the oldest are forgotten.
const MOST_SESSIONS: usize = 4096;

/// See the [module](super). `live` reads the files anew.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) live: Live<ServerConfig>,
}

impl Server {
    /// From the settings of a table, such as `gateway.tls`; with `client_ca`, callers must show a certificate.
    pub(crate) fn new(
        table: &str,
        cert: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let files = Files {
            cert: Some(Pem::new(table, "cert", cert)),
            key: Some(Pem::new(table, "key", key)),
            ca: client_ca.map(|ca| Pem::new(table, "client_ca", ca)),
        };
        let table = table.to_owned();
        Ok(Self { live: Live::new(files, move |contents| build(contents, &table))? })
    }

    /// Agrees with a caller on TLS and on which HTTP to speak, within five seconds.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<(TlsStream<S>, Version)> {
        let accept = TlsAcceptor::from(self.live.load()).accept(stream);
        let stream = timeout(HANDSHAKE, accept).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let version = agreed(stream.get_ref().1.alpn_protocol());
        Ok((stream, version))
    }
}

fn build(contents: &Contents, table: &str) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let verifier = match contents.roots()? {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(roots) => WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?,
    };
    let (chain, key) = contents.identity()?.ok_or_else(|| TlsError::Half(table.to_owned()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| contents.refused(error))?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(MOST_SESSIONS);
    config.max_early_data_size = 0; // early data can be replayed
    Ok(config)
}

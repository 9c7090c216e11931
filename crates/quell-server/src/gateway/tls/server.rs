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

const TABLE: &str = "gateway.tls";
/// The longest that a caller may take to agree.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Sessions that can be resumed; the oldest are forgotten.
const MOST_SESSIONS: usize = 4096;

/// See the [module](super). `live` reads the files anew.
#[derive(Debug)]
pub(in crate::gateway) struct Server {
    pub(in crate::gateway) live: Live<ServerConfig>,
}

impl Server {
    /// From the settings of `[gateway]`; with `client_ca`, callers must show a certificate.
    pub(in crate::gateway) fn new(
        cert: &Path,
        key: &Path,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let files = Files {
            cert: Some(Pem::new(TABLE, "cert", cert)),
            key: Some(Pem::new(TABLE, "key", key)),
            ca: client_ca.map(|ca| Pem::new(TABLE, "client_ca", ca)),
        };
        Ok(Self { live: Live::new(files, build)? })
    }

    /// Agrees with a caller on TLS and on which HTTP to speak, within five seconds.
    pub(in crate::gateway) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<(TlsStream<S>, Version)> {
        let accept = TlsAcceptor::from(self.live.load()).accept(stream);
        let stream = timeout(HANDSHAKE, accept).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let version = agreed(stream.get_ref().1.alpn_protocol());
        Ok((stream, version))
    }
}

fn build(contents: &Contents) -> Result<ServerConfig, TlsError> {
    let provider = provider();
    let verifier = match contents.roots()? {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(roots) => WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?,
    };
    let (chain, key) = contents.identity()?.ok_or_else(|| TlsError::Half(TABLE.to_owned()))?;
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

//! TLS towards the upstream: the system's roots, or those of one file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::config::Target;

/// What every TLS connection to the upstream shares.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The name cannot stand in a certificate.
    #[error("{0:?} is no name that a certificate can be for: use a host name or an IP address")]
    Name(String),
    /// A file of roots that cannot be used.
    #[error("the certificates in {file} cannot be used: {why}")]
    Roots {
        /// Which file.
        file: String,
        /// Why not.
        why: String,
    },
    /// No root at all.
    #[error(
        "no trusted certificates found on this machine: install them (ca-certificates), or set SSL_CERT_FILE to a PEM file"
    )]
    NoRoots,
    /// The library refused.
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

impl Tls {
    pub(super) fn new(to: &Target, roots: Option<&Path>) -> Result<Self, TlsError> {
        let name =
            ServerName::try_from(to.host.clone()).map_err(|_| TlsError::Name(to.host.clone()))?;
        let roots = match roots {
            Some(file) => from_file(file)?,
            None => from_system()?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }
}

fn from_file(file: &Path) -> Result<RootCertStore, TlsError> {
    let invalid = |why: String| TlsError::Roots { file: file.display().to_string(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| invalid(e.to_string()))? {
        let certificate = certificate.map_err(|e| invalid(e.to_string()))?;
        roots.add(certificate).map_err(|e| invalid(e.to_string()))?;
    }
    if roots.is_empty() { Err(invalid("it holds none".into())) } else { Ok(roots) }
}

/// The system's store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name. Single broken entries are left out.
fn from_system() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoRoots) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_named_in_the_error() {
        let to = "https://localhost".parse().unwrap();
        for file in ["/nonexistent.pem", "/dev/null"] {
            let error = Tls::new(&to, Some(Path::new(file))).unwrap_err().to_string();
            assert!(error.contains(file), "{error}");
        }
    }
}

//! TLS: towards callers ([`Server`]) and towards upstreams ([`Client`]), with certificates that are read anew when they change.
//!
//! **Why.** Certificates live shorter every year, and a restart for each new one is a storm of its own. A file that cannot
//! be used must not end what works: the old one stays, and somebody is told.
//!
//! **How.** Both sides are a whole rustls configuration, made of PEM files and swapped in one step ([`Live`]), so
//! sessions that were agreed on under another authority cannot be resumed. Callers are offered HTTP/2 and HTTP/1.1 by
//! ALPN. Early data is off: it can be replayed. With `client_ca`, callers must show a certificate of that authority;
//! with `cert` and `key`, an upstream is shown ours.

mod client;
mod files;
mod live;
mod server;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use thiserror::Error;

pub(crate) use client::{Client, Offer, Trust};
use live::Live;
pub(crate) use server::Server;

use super::log::{Log, line};
use files::Pem;

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Which HTTP is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The name cannot stand in a certificate.
    #[error("{0:?} is no name that a certificate can be for: use a host name or an IP address")]
    Name(String),
    /// A file that cannot be used.
    #[error("{setting} is {file}, which cannot be used: {why}")]
    File {
        /// Which setting names it.
        setting: String,
        /// Which file.
        file: String,
        /// Why not.
        why: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{0} stands alone: write both cert and key")]
    Half(String),
    /// No root at all.
    #[error(
        "no trusted certificates found on this machine: install them (ca-certificates), or set SSL_CERT_FILE to a PEM file"
    )]
    NoRoots,
    /// The library refused.
    #[error(transparent)]
    Config(#[from] rustls::Error),
}

/// Tells what a look at the certificates of a table came to.
pub(crate) fn tell(log: &Log, table: &str, looked: Result<bool, TlsError>) {
    match looked {
        Ok(false) => {}
        Ok(true) => log.say(format_args!("{table}: new certificates")),
        Err(error) => line(format_args!("{table}: the old certificates stay: {error}")),
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// What ALPN agreed on; who does not know ALPN speaks HTTP/1.1.
fn agreed(alpn: Option<&[u8]>) -> Version {
    if alpn == Some(H2) { Version::Http2 } else { Version::Http1 }
}

/// A name as it stands in a certificate.
fn named(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))
}

/// The system's store, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name, read once. Single broken entries are left out.
fn system_roots() -> Result<Arc<RootCertStore>, TlsError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoRoots); // not remembered: somebody may install them now
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}
